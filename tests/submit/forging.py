"""What somebody does to a bundle who knows the rules, and makes anew what else would show it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

from suite.plan.cell import AUTO, Cell
from suite.session.resume import cells_digest
from tests.submit import tampering
from tests.submit.tampering import Line, of_cell, ok

#: The lines of a journal, and what the bundle says of the run besides.
Forge = Callable[[list[Line], dict[str, Any]], Any]
READINGS = {"others_share": 0.01, "steal_share": 0.0, "io_full_share": 0.0, "memory_full_share": 0.0}


def of_framework(lines: Iterable[Line], name: str = "jax") -> list[Line]:
    return [line for line in lines if line.get("cell", {}).get("framework") == name]


def both(lines: list[Line], run: dict[str, Any], **changes: Any) -> None:
    """Change what the run says of itself, in its journal and beside it; a value of ... is left out."""
    for place in (lines[0]["run"], run):
        place.update(changes)
        for name in [name for name, value in changes.items() if value is ...]:
            del place[name]


def each(line: Line, path: str, value: Any) -> None:
    """Set what a launch says at a path; a value of ... is left out."""
    *way, last = path.split(".")
    place: Any = line
    for step in way:
        place[step] = copy.copy(place[step])
        place = place[step]
    if value is ...:
        del place[last]
    else:
        place[last] = value


def run_says(**changes: Any) -> Forge:
    return lambda lines, run: both(lines, run, **changes)


def launches_say(path: str, value: Any, which: Callable[[list[Line]], list[Line]] = ok) -> Forge:
    return lambda lines, _: [each(line, path, value) for line in which(lines)]


def scaled(factor: float, which: Callable[[list[Line]], list[Line]], *parts: str) -> Forge:
    """Times of the windows of some launches, and of their bursts and what the parent saw of them."""

    def forge(lines: list[Line], _: dict[str, Any]) -> None:
        tampering.scale(which(lines), factor)
        for line in which(lines):
            for name, phase in line["phases"].items():
                if "bursts" in parts:
                    phase["spans"] = [[begin, begin + factor * (end - begin)] for begin, end in phase["spans"]]
                if "seen" in parts:
                    seen = line["ledger"]["seen_s"]
                    seen[name] = [factor * seconds for seconds in seen[name]]

    return forge


def failed(line: Line, **changes: Any) -> Line:
    """The line of a try that crashed."""
    crash = {"status": "crashed", "reason": "exit status -9"}
    empty = {"phases": {}, "identity": None, "memory": {}, "ledger": None, "data": {}, "workload": {}}
    return copy.deepcopy(line) | {"outcome": crash, "flags": [], **empty} | changes


def made_up(lines: list[Line], _: dict[str, Any]) -> None:
    """JAX's LSTM gets a figure of three times its speed, and a crash follows with the same start."""
    at, line = next(
        (at, x) for at, x in enumerate(lines) if x in of_framework(lines) and "lstm" in x["cell"]["workload"]
    )
    fast = copy.deepcopy(line)
    tampering.scale([fast], 1 / 3)
    lines[at : at + 1] = [fast, failed(line)]


def again(count: int, resumed: bool = True, before: Callable[[Line], Line] = failed) -> Forge:
    """The first launches were tried before, and the run went on after that."""

    def forge(lines: list[Line], _: dict[str, Any]) -> None:
        tries = [before(line) for line in lines[1 : 1 + count]]
        for line in lines[1:]:
            if resumed:
                each(line, "run.resumed", 1)
        for at, line in enumerate(tries):
            line["started"] = f"2026-11-24T20:18:4{at}+00:00" if resumed else line["started"]
            each(line, "run.took_s", 0.5)
        lines[1:1] = tries

    return forge


def another_order(lines: list[Line], run: dict[str, Any]) -> None:
    both(lines, run, typed=...)
    tampering.exchange(lines)


def slow_dropped(lines: list[Line], run: dict[str, Any]) -> None:
    """A search chooses its launches, so that nobody misses the slow one, as it seems."""
    both(lines, run, search={"objectives": ["samples/s"]})
    lines.remove(of_cell(lines)[1])


def every_host(lines: list[Line], _: dict[str, Any]) -> None:
    """Each launch names a host, so that none follows another one; all began at once."""
    for at, line in enumerate(lines[1:]):
        each(line, "run.host", f"node{at}")
        line["started"] = lines[1]["started"]


def other_host(lines: list[Line], _: dict[str, Any]) -> None:
    line = ok(lines)[3]
    each(line, "run.host", "node1")
    each(line, "environment.machine.cpu", "AMD EPYC 9754")


def moved(lines: list[Line], run: dict[str, Any], year: str) -> None:
    for line in lines[1:]:
        line["started"] = year + line["started"][4:]
    both(lines, run, started=year + run["started"][4:])


def first_alone(path: str, value: Any) -> Forge:
    return lambda lines, _: each(ok(lines)[0], path, value)


def busy_without_a_word(lines: list[Line], _: dict[str, Any]) -> None:
    """Half of the cores were busy, as its line shows, and its readings do not say whose they were."""
    line = ok(lines)[3]
    host = line["metrics"]["host"] = copy.deepcopy(line["metrics"]["host"])
    del host["disturbance"]["others_share"]
    begin_s, end_s = (line["phases"]["train"]["spans"][at][at] for at in (0, -1))
    at_ms = [round(1000 * begin_s), *[round(10 * (end_s - begin_s))] * 99]
    counted = {"e": -2, "n": [round(50 * host["cores"])] * len(at_ms)}
    host["timeline"] = {"at_ms": at_ms, "lines": {"other_cpu_cores": counted}}


def busy_before_there_were_readings(lines: list[Line], _: dict[str, Any]) -> None:
    for line in ok(lines):
        host = line["metrics"]["host"] = copy.deepcopy(line["metrics"]["host"])
        del host["disturbance"]
        host["phases"]["train"]["other_cpu_cores"] = {"n": 9, "median": 0.5 * host["cores"]}
        line["flags"] = [flag for flag in line["flags"] if flag == "unsteady"]


def released(lines: list[Line], run: dict[str, Any]) -> None:
    """JAX is said to be another release than that of its packages."""
    for line in of_framework(lines):
        line["cell"] = Cell.from_json(line["cell"]).but(release="0.12.0.1").to_json()
    both(lines, run, cells=cells_digest(Cell.from_json(line["cell"]) for line in lines[1:]))


def weak_gpu(lines: list[Line], _: dict[str, Any]) -> None:
    """The processor's own figures, under a GPU's name."""
    peaks = [line["settings"]["peak_flops_per_s"] for line in lines[1:]]
    tampering.gpu(lines)
    for line, peak in zip(lines[1:], peaks, strict=True):
        line["settings"]["peak_flops_per_s"] = peak


def unwatched(lines: list[Line], _: dict[str, Any]) -> None:
    tampering.gpu(lines)
    for line in lines[1:]:
        each(line, "metrics.gpus", [])


def gpu_with_packages_of_a_cpu(lines: list[Line], _: dict[str, Any]) -> None:
    packages = [line["environment"]["packages"] for line in lines[1:]]
    tampering.gpu(lines)
    for line, each_packages in zip(lines[1:], packages, strict=True):
        line["environment"]["packages"] = each_packages


def slower_clock(lines: list[Line], _: dict[str, Any]) -> None:
    for line in lines[1:]:
        each(line, "run.took_s", 1.5 * line["run"]["took_s"])


def jax(lines: list[Line]) -> list[Line]:
    return of_framework(ok(lines))


def one(lines: list[Line]) -> list[Line]:
    return ok(lines)[5:6]


def all_of_them(lines: list[Line]) -> list[Line]:
    return lines[1:]


def applied(**changes: Any) -> Forge:
    """All launches hold their settings as applied, those of JAX with changes; a value of ... is left out."""

    def forge(lines: list[Line], _: dict[str, Any]) -> None:
        for line in ok(lines):
            cell = Cell.from_json(line["cell"])
            values = vars(cell) | {"loader": cell.loader.id} | (changes if cell.framework == "jax" else {})
            said = {name: value for name, value in values.items() if value is not ...}
            line["settings"] = line["settings"] | {"applied": said}

    return forge


def unimportable(lines: list[Line], run: dict[str, Any]) -> None:
    """Tries that took as long as a launch, and are said to have had no framework."""
    again(9)(lines, run)
    for line, after in zip(lines[1:10], lines[10:19], strict=True):
        line["outcome"] = {"status": "unsupported", "reason": "it cannot be imported (ImportError)"}
        each(line, "run.took_s", after["run"]["took_s"])


def unseen(lines: list[Line], _: dict[str, Any]) -> None:
    """The parent saw the start of all launches but those of JAX."""
    for line in ok(lines):
        if line["cell"]["framework"] == "jax":
            each(line, "ledger.seen_s.startup", ...)


def newest(lines: list[Line]) -> list[Line]:
    """The lines of an older version's run as this version would have written them."""
    for line in lines[1:]:
        line["run"]["launches"] = lines[0]["run"]["launches"]
        line["metrics"]["host"]["disturbance"] = dict(READINGS)
        line["flags"] = [flag for flag in line["flags"] if flag == "unsteady"]
        line["identity"]["initial"] = line["identity"]["weights"]
        seen = {"startup": [sum(line["startup"].values())], "first_step": [line["first_step_s"]]}
        line["ledger"]["seen_s"] |= seen | ({"compile": [line["compile_s"]]} if line["compile_s"] is not None else {})
    applied()(lines, {})
    return lines


def energy_alone(lines: list[Line], _: dict[str, Any]) -> None:
    """A GPU that tells energy, and no power beside which it could be held."""
    tampering.gpu(lines)
    for line in lines[1:]:
        line["metrics"]["gpus"][0]["energy_j_per_sample"] = 0.001


def steady(lines: list[Line], _: dict[str, Any]) -> None:
    """Launches whose windows did not agree say that they did."""
    for line in (line for line in ok(lines) if "unsteady" in line["flags"]):
        line["flags"] = []
        line["phases"]["train"]["steady"] = True


def sessions(lines: list[Line], _: dict[str, Any]) -> None:
    """Each launch is of a session of its own, and all began within a minute."""
    for at, line in enumerate(lines[1:]):
        each(line, "run.resumed", at + 1)
        line["started"] = f"{lines[1]['started'][:14]}59:{at:02}+00:00"


def named_twice(line: Line) -> dict[str, str]:
    """Packages in another spelling first, which is what a page shows."""
    packages = line["environment"]["packages"]
    return {next(iter(packages)).upper(): "99.0", **packages}


def searched(lines: list[Line], run: dict[str, Any]) -> None:
    """JAX's batches were searched for, as it seems, and are twice as large."""
    for line in of_framework(lines):
        cell = Cell.from_json(line["cell"])
        line["cell"] = cell.but(batch=AUTO).to_json()
        line["settings"] = line["settings"] | {"effective_batch": 2 * cell.effective_batch}
    both(lines, run, cells=cells_digest(Cell.from_json(line["cell"]) for line in lines[1:]))


def times(path: str, factor: float, which: Callable[[list[Line]], list[Line]] = jax) -> Forge:
    """A number of some launches is so many times as large."""

    def forge(lines: list[Line], _: dict[str, Any]) -> None:
        for line in which(lines):
            value: Any = line
            for step in path.split("."):
                value = value[step]
            each(line, path, factor * value)

    return forge
