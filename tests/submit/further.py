"""What else somebody does to a bundle: of each class of what a rule is there for, members that no rule was made by."""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from suite.plan.cell import Cell
from suite.session.resume import cells_digest
from suite.verify.rule import FAILED, WARNING
from tests.submit import tampering
from tests.submit.forging import (
    Forge,
    both,
    each,
    failed,
    first_alone,
    jax,
    launches_say,
    of_framework,
    run_says,
    scaled,
    times,
)  # fmt: skip
from tests.submit.tampering import Line, of_cell, ok

TIMED, SERVED, TRAINED = "0025_evidence", "0030_inference", "0009_accuracy_cnn_small"


def epochs(change: Callable[[dict[str, Any]], Any]) -> Forge:
    """JAX's epochs, without their windows."""
    return lambda lines, _: [change(epoch) for line in jax(lines) for epoch in line["course"]["epochs"]]


def swift_epochs(lines: list[Line], _: dict[str, Any]) -> None:
    """Epochs and the windows that are made of them."""
    epochs(lambda epoch: epoch.update(train_s=0.9 * epoch["train_s"]))(lines, {})
    tampering.scale(jax(lines), 0.9)


def copied_losses(factor: float, jitter: float) -> Forge:
    """The curve of one seed, a little higher, in place of another's."""

    def forge(lines: list[Line], _: dict[str, Any]) -> None:
        good, bad = of_cell(lines)[:2]
        for at, (epoch, other) in enumerate(zip(bad["course"]["epochs"], good["course"]["epochs"], strict=True)):
            for name in ("train_loss", "test_loss"):
                epoch[name] = other[name] * factor * (1 + jitter * (-1) ** at)
            epoch["test_accuracy"] = other["test_accuracy"]
        bad["course"]["curve"] = [factor * (1 + jitter) * loss for loss in good["course"]["curve"]]

    return forge


def exchanged(path: str) -> Forge:
    """Two frameworks under each other's numbers, cell by cell and launch by launch."""

    def forge(lines: list[Line], _: dict[str, Any]) -> None:
        ours, others = jax(lines), of_framework(ok(lines), "tensorflow")
        for line, other in zip(ours, others, strict=True):
            line[path], other[path] = other[path], line[path]

    return forge


def renamed(lines: list[Line], _: dict[str, Any]) -> None:
    """JAX's launches as PyTorch's, and the other way round."""
    names = {"jax": "pytorch", "pytorch": "jax"}
    for line in lines[1:]:
        name = line["cell"]["framework"]
        line["cell"] = line["cell"] | {"framework": names.get(name, name)}


def averaged(lines: list[Line], _: dict[str, Any]) -> None:
    for line in jax(lines):
        for phase in line["phases"].values():
            mean = sum(seconds for _, seconds in phase["windows"]) / len(phase["windows"])
            phase["windows"] = [[steps, mean] for steps, _ in phase["windows"]]


def window_left_out(lines: list[Line], _: dict[str, Any]) -> None:
    for line in jax(lines):
        windows = line["phases"]["train"]["windows"]
        windows.remove(max(windows, key=lambda window: window[1]))


def shortened(lines: list[Line], run: dict[str, Any]) -> None:
    """Windows in 0.3 of their time by all clocks, and a warm-up of its usual length."""
    warmups = [[copy.deepcopy(phase["warmup"]) for phase in line["phases"].values()] for line in jax(lines)]
    scaled(0.3, jax, "bursts", "seen")(lines, run)
    for line, held in zip(jax(lines), warmups, strict=True):
        for phase, warmup in zip(line["phases"].values(), held, strict=True):
            phase["warmup"] = warmup


def merged(lines: list[Line], _: dict[str, Any]) -> None:
    for line in jax(lines):
        (a, s), (b, t), *others = line["phases"]["train"]["windows"]
        line["phases"]["train"]["windows"] = [[a + b, s + t], *others]


def shifted(seconds: float) -> Forge:
    """Time moves from a slow window to a fast one, so that sums stay."""

    def forge(lines: list[Line], _: dict[str, Any]) -> None:
        for line in jax(lines):
            windows = line["phases"]["train"]["windows"]
            windows[0][1] += seconds
            windows[-1][1] -= seconds

    return forge


def reused_start(lines: list[Line], _: dict[str, Any]) -> None:
    """A launch has the startup of another one, in another order."""
    first, second = jax(lines)[:2]
    second["startup"] = dict(reversed(first["startup"].items()))


def turned_windows(lines: list[Line], _: dict[str, Any]) -> None:
    """A launch has the windows of another one, in the other order."""
    first, second = of_cell(lines)[:2]
    for name, phase in second["phases"].items():
        source = first["phases"][name]
        phase["windows"] = copy.deepcopy(source["windows"][::-1])
        phase["warmup"] = copy.deepcopy(source["warmup"])
        phase["spans"] = copy.deepcopy(source["spans"])
    second["ledger"] = copy.deepcopy(first["ledger"])


def later(seconds: int) -> Forge:
    """The launches of the last block say that they started so much earlier."""

    def forge(lines: list[Line], _: dict[str, Any]) -> None:
        for line in lines[-3:]:
            line["started"] = (datetime.fromisoformat(line["started"]) - timedelta(seconds=seconds)).isoformat()

    return forge


def crashed(lines: list[Line], _: dict[str, Any]) -> None:
    """The slow launches of PyTorch became crashes, and no line is missing."""
    for at, line in enumerate(lines):
        if line.get("cell", {}).get("framework") == "pytorch":
            lines[at] = failed(line)


def unsupported(lines: list[Line], _: dict[str, Any]) -> None:
    for at, line in enumerate(lines):
        if line.get("cell", {}).get("framework") == "pytorch" and line["launch"]:
            lines[at] = failed(line, outcome={"status": "unsupported", "reason": "PyTorch has no such batch"})


def more_cores(lines: list[Line], _: dict[str, Any]) -> None:
    for line in lines[1:]:
        each(line, "environment.machine.cores", 64)
        each(line, "metrics.host.cores", 64)


def other_precision(lines: list[Line], run: dict[str, Any]) -> None:
    """Launches in fp32 under the name of bf16."""
    for line in lines[1:]:
        line["cell"] = line["cell"] | {"precision": "bf16"}
    both(lines, run, cells=cells_digest(Cell.from_json(line["cell"]) for line in lines[1:]))


def compiled(lines: list[Line]) -> list[Line]:
    return [line for line in jax(lines) if line["compile_s"]]


def with_tail(lines: list[Line]) -> list[Line]:
    return [line for line in jax(lines) if line["inference"]["p99_s"]]


def started_sooner(lines: list[Line], _: dict[str, Any]) -> None:
    for line in jax(lines):
        line["startup"] = {name: seconds / 2 for name, seconds in line["startup"].items()}


def start_left_out(lines: list[Line], _: dict[str, Any]) -> None:
    for line in jax(lines):
        line["startup"].pop(max(line["startup"], key=line["startup"].__getitem__))


def served_sooner(lines: list[Line], _: dict[str, Any]) -> None:
    for line in jax(lines):
        for window in line["phases"]["infer"]["windows"]:
            window[1] *= 0.9


def first_sooner(lines: list[Line], _: dict[str, Any]) -> None:
    for line in ok(lines):
        line["ledger"]["seen_s"]["first_request"] = [line["inference"]["first_s"]]
    times("inference.first_s", 1e-3)(lines, {})


def excused(lines: list[Line], _: dict[str, Any]) -> None:
    """Compiling in half of the time, in launches whose parent is said to have had no core."""
    for line in ok(lines):
        line["metrics"]["host"]["disturbance"]["others_share"] = 0.9
        line["ledger"]["late_s"] = {name: [1e3] * len(each) for name, each in line["ledger"]["seen_s"].items()}
    times("compile_s", 0.5, compiled)(lines, {})


#: The run that is forged, what is done, the rules of which one must answer, and how.
FURTHER: dict[str, tuple[str, Forge, str, str]] = {
    "compiling in no time": (TIMED, times("compile_s", 1e-3, compiled), "ledger", FAILED),
    "compiling in half of the time": (TIMED, times("compile_s", 0.5, compiled), "ledger", FAILED),
    "the same with an excuse": (TIMED, excused, "ledger", FAILED),
    "a first step in half of the time": (TIMED, times("first_step_s", 0.5), "ledger", FAILED),
    "a first step of an hour": (TIMED, launches_say("first_step_s", 3600.0, jax), "ledger", FAILED),
    "a startup in half of the time": (TIMED, started_sooner, "ledger", FAILED),
    "a startup without its longest part": (TIMED, start_left_out, "ledger schema evidence", FAILED),
    "a tenth of the memory": (TIMED, launches_say("memory.rss_peak_bytes", 150_000_000, jax), "ledger", FAILED),
    "more memory than there is": (TIMED, launches_say("memory.rss_peak_bytes", 2**50, jax), "ledger", FAILED),
    "no memory at all": (TIMED, launches_say("memory.rss_peak_bytes", 1, jax), "ledger", FAILED),
    "cores that no counter gave": (
        TIMED, launches_say("metrics.host.phases.train.cpu_cores.median", 900.0, jax), "schema", FAILED
    ),
    "a median beside its percentiles": (
        TIMED, times("metrics.host.phases.train.rss_bytes.median", 0.5), "ledger", FAILED
    ),
    # Of serving.
    "requests in half of the time": (SERVED, times("inference.median_s", 0.5), "ledger", FAILED),
    "a tail in a tenth of the time": (SERVED, times("inference.p99_s", 0.1, with_tail), "schema", FAILED),
    "all requests in half of the time": (SERVED, times("inference.seconds", 0.5), "ledger", FAILED),
    "serving with more memory than there is": (
        SERVED, launches_say("inference.memory_bytes", 2**50, jax), "schema", FAILED
    ),
    "a first request in no time": (SERVED, first_sooner, "ledger", FAILED),
    "windows of serving in 0.9 of their time": (SERVED, served_sooner, "clock", FAILED),
    "answers that nobody checked": (SERVED, launches_say("identity.answered", None, jax), "evidence same", FAILED),
    # Of training to the end.
    "epochs in 0.9 of their time": (
        TRAINED, epochs(lambda epoch: epoch.update(train_s=0.9 * epoch["train_s"])), "ledger", FAILED
    ),
    "epochs and windows in 0.9 of their time": (TRAINED, swift_epochs, "ledger clock", FAILED),
    "evaluations of an hour": (TRAINED, epochs(lambda epoch: epoch.update(evaluation_s=3600.0)), "ledger", FAILED),
    "a loss below its wrong answers": (TRAINED, epochs(lambda epoch: epoch.update(test_loss=0.1)), "ledger", FAILED),
    "another target": (TRAINED, launches_say("course.target", 0.01, jax), "ledger workload", FAILED),
    "a loss of one seed in another, a little higher": (TRAINED, copied_losses(1 + 1e-9, 0.0), "copies", FAILED),
    "a curve of one seed in another, scaled": (TRAINED, copied_losses(1.001, 0.0), "copies", FAILED),
    "a curve of one seed in another, with noise in the last digits": (
        TRAINED, copied_losses(1.0, 1e-8), "copies", FAILED
    ),
    # Point 5: outcomes.
    "slow launches that crashed": (TIMED, crashed, "complete protocol evidence same", WARNING),
    "launches that are unsupported but the first": (TIMED, unsupported, "protocol", WARNING),
    # Point 6: fields that switch rules off.
    "no plan": (TIMED, run_says(plan=...), "one_run", FAILED),
    "no id": (TIMED, run_says(id=...), "one_run", FAILED),
    "no moment": (TIMED, run_says(started=...), "one_run evidence", FAILED),
    "windows of a text": (TIMED, run_says(plan={"windows": "6", "min_window_s": 0.5}), "one_run protocol", FAILED),
    "a least window of nothing": (TIMED, run_says(plan={"windows": 6, "min_window_s": 0}), "one_run protocol", FAILED),
    "a negative number of launches": (TIMED, run_says(launches=-2), "complete", FAILED),
    "a number of launches as a fraction": (TIMED, run_says(launches=2.5), "complete", FAILED),
    "true for a number of launches": (TIMED, run_says(launches=True), "complete", FAILED),
    "true for a seed": (TIMED, run_says(seed=True), "order one_run", FAILED),
    "an empty list for what was typed": (TIMED, run_says(typed=[]), "order", FAILED),
    "an option of another type": (TIMED, run_says(typed={"k": ["x"]}), "order", FAILED),
    "a control that was refused, in one place": (
        TIMED, lambda lines, _: lines[0]["run"].update(typed={"no-control": True}), "one_run stopping", FAILED
    ),
    "seconds of a launch as a text": (TIMED, first_alone("run.took_s", "40"), "complete one_run", FAILED),
    "a launch that took nothing": (TIMED, first_alone("run.took_s", 0.0), "one_run", FAILED),
    "a negative time": (TIMED, first_alone("run.took_s", -40.0), "complete one_run", FAILED),
    "repeats in words": (TIMED, run_says(repeats="yes"), "complete", FAILED),
    # Point 7: clocks, machines, versions.
    "one framework and all its clocks in 0.905 of their time": (
        TIMED, scaled(0.905, jax, "bursts", "seen"), "protocol", FAILED
    ),
    "windows in 0.3 of their time by all clocks": (TIMED, shortened, "protocol", FAILED),
    "windows that all are the mean": (TIMED, averaged, "protocol copies", FAILED),
    "the slowest window left out": (TIMED, window_left_out, "ledger", FAILED),
    "two windows as one": (TIMED, merged, "ledger", FAILED),
    "a launch with another's windows turned around": (TIMED, turned_windows, "copies", FAILED),
    "a startup of another launch in another order": (TIMED, reused_start, "copies", FAILED),
    "frameworks under each other's windows": (TIMED, exchanged("phases"), "ledger clock", FAILED),
    "frameworks under each other's counts": (TIMED, exchanged("ledger"), "ledger clock", FAILED),
    "frameworks under each other's packages": (TIMED, exchanged("environment"), "versions", FAILED),
    "frameworks under each other's evidence": (TIMED, exchanged("identity"), "evidence", FAILED),
    "frameworks under each other's names": (TIMED, renamed, "order complete versions", FAILED),
    "launches that started a minute early": (TIMED, later(60), "one_run", FAILED),
    "64 cores": (TIMED, more_cores, "protocol device", FAILED),
    "a batch of twice the size": (TIMED, launches_say("settings.effective_batch", 64, jax), "ledger", FAILED),
    "the least peak": (TIMED, launches_say("settings.peak_flops_per_s", 1e-300, jax), "ledger device", FAILED),
    "fp32 under the name of bf16": (TIMED, other_precision, "evidence same workload device", FAILED),
    "no FLOPs": (TIMED, launches_say("workload.training_flops_per_sample", 0, jax), "workload", FAILED),
    "parameters of another model": (TIMED, launches_say("workload.parameters", 1000, jax), "workload", FAILED),
    "steps without updates": (TIMED, launches_say("ledger.updates", 0, jax), "ledger", FAILED),
    "a flag that was taken off": (TIMED, launches_say("flags", []), "protocol", FAILED),
    "other processors in each framework": (
        TIMED, launches_say("environment.machine.cpu", "AMD EPYC 9754", jax), "device", FAILED
    ),
    "twice the memory in one framework": (
        TIMED, launches_say("environment.machine.memory_bytes", 2**36, jax), "device", FAILED
    ),
}  # fmt: skip
