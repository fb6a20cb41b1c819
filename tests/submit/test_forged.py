"""Bundles that somebody forged with care: each is refused or warned of by the rule that is there for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from suite.analysis.records.load import LoadError, load
from suite.plan.measuring import SEQUENTIAL
from suite.record.bundle import read
from suite.submit.contents import Contents
from suite.verify.evidence import check_plan
from suite.verify.known import EVIDENCE, look_up
from suite.verify.rule import FAILED, PASSED, WARNING, Submission
from tests.published import RUNS
from tests.submit import tampering
from tests.submit.forging import (
    Forge,
    again,
    all_of_them,
    another_order,
    applied,
    busy_before_there_were_readings,
    busy_without_a_word,
    each,
    energy_alone,
    every_host,
    first_alone,
    gpu_with_packages_of_a_cpu,
    jax,
    launches_say,
    made_up,
    moved,
    named_twice,
    newest,
    of_framework,
    one,
    other_host,
    released,
    run_says,
    scaled,
    searched,
    sessions,
    slow_dropped,
    slower_clock,
    steady,
    unimportable,
    unseen,
    unwatched,
    weak_gpu,
)  # fmt: skip
from tests.submit.tampering import Line, chained, honest, of_cell, ok
from tests.submit.test_tampered import said

#: Evidence of launches that serve, train to their end, keep less for the backward pass, or have several lengths.
OF_OTHERS = {f"identity.{name}" for name in ("evaluation", "recomputed", "scored", "inference", "answered")}
OF_OTHERS |= {"ledger.shapes"}

#: What is forged, what the rule says, and the rule.
FORGED: dict[str, tuple[Forge, str, str]] = {
    # Two outcomes of one launch.
    "a made-up figure before a crash": (made_up, FAILED, "complete"),
    "a launch measured again, as it was slow": (again(1, before=dict), FAILED, "complete"),
    "a try that failed in the same session": (again(1, resumed=False), FAILED, "complete"),
    "tries that failed until all were fast": (again(9), FAILED, "complete"),
    "a few tries that failed": (again(2), WARNING, "complete"),
    "tries that took as long, and had no framework": (unimportable, FAILED, "complete"),
    # Fields that are left out, or are something else.
    "an eager run as a compiled one": (applied(compile="eager"), FAILED, "evidence"),
    "a loader that nothing read back": (applied(loader=...), FAILED, "evidence"),
    "settings as applied of one framework": (launches_say("settings.applied", {}, jax), FAILED, "evidence"),
    "several lengths that were not counted": (launches_say("cell.lengths", "free"), FAILED, "evidence"),
    "no start of one framework's by the parent's clock": (unseen, FAILED, "clock"),
    "a search that there was not": (slow_dropped, FAILED, "complete"),
    "a search, in the journal alone": (lambda lines, _: lines[0]["run"].update(search={}), FAILED, "complete"),
    "no number of launches": (run_says(launches=...), FAILED, "complete"),
    "a number of launches in words": (run_says(launches="2"), FAILED, "complete"),
    "no number of what was planned": (run_says(planned=...), FAILED, "complete"),
    "no digest of the cells": (run_says(cells=...), FAILED, "complete"),
    "a launch of which more were asked": (first_alone("run.launches", 6), FAILED, "complete"),
    "a disturbed launch that need not be made again": (first_alone("run.repeats", True), FAILED, "complete"),
    "a launch that does not say how many were asked": (first_alone("run.launches", ...), FAILED, "complete"),
    "another order, and nothing typed": (another_order, FAILED, "order"),
    "what was typed as a text": (run_says(typed="--batch 32"), FAILED, "order"),
    "a seed in words": (run_says(seed="0"), FAILED, "order"),
    "a position in words": (first_alone("run.position", "0"), FAILED, "order"),
    "a budget that stops nothing": (run_says(budget_s=600.0), FAILED, "stopping"),
    "an unknown design": (run_says(design="as it comes"), FAILED, "stopping"),
    "launches of another design": (launches_say("run.design", SEQUENTIAL, all_of_them), FAILED, "stopping"),
    "another machine, called a host": (other_host, FAILED, "device"),
    "every launch on a host of its own": (every_host, FAILED, "one run"),
    "a peak in words": (launches_say("settings.peak_flops_per_s", "1e12"), FAILED, "device"),
    "no peak": (launches_say("settings.peak_flops_per_s", ..., jax), FAILED, "device"),
    "no device": (launches_say("settings.device", ..., jax), FAILED, "device"),
    "a machine without a number of cores": (launches_say("environment.machine.cores", None), FAILED, "device"),
    "no counts of one framework": (launches_say("ledger", None, jax), FAILED, "ledger"),
    "no programs of one framework": (launches_say("identity.program", "", jax), FAILED, "evidence"),
    "no check of one framework's optimizer": (launches_say("identity.optimizer", None, jax), WARNING, "evidence"),
    "no times of one framework's bursts": (launches_say("phases.train.spans", [], jax), FAILED, "clock"),
    "no readings of one framework": (launches_say("metrics.host.disturbance", ..., jax), FAILED, "protocol"),
    "readings in words": (launches_say("metrics.host.disturbance.others_share", "0.5"), FAILED, "protocol"),
    "a reading left out that a line shows": (busy_without_a_word, FAILED, "protocol"),
    "no FLOPs of one framework's training": (
        launches_say("workload.training_flops_per_sample", ..., jax), FAILED, "workload"
    ),
    "a package under two names": (
        lambda lines, _: [each(line, "environment.packages", named_twice(line)) for line in jax(lines)],
        FAILED, "versions",
    ),
    "no peak, as if all launches timed training alone": (
        lambda lines, _: [
            launches_say("run.plan", {**lines[0]["run"]["plan"], "phases": ["train"]}, all_of_them)(lines, {}),
            launches_say("settings.peak_flops_per_s", ...)(lines, {}),
        ],
        FAILED, "device",
    ),
    "energy without power": (energy_alone, FAILED, "ledger"),
    "a batch that no search found": (searched, FAILED, "ledger"),
    "no packages": (launches_say("environment.packages", {}), FAILED, "versions"),
    "packages as a list": (launches_say("environment.packages", ["jax==0.10.2"]), FAILED, "versions"),
    "a plan in words": (run_says(plan="3 windows"), FAILED, "one run"),
    "launches without a plan": (launches_say("run.plan", ..., all_of_them), FAILED, "one run"),
    "a launch of another seed": (first_alone("run.seed", 7), FAILED, "one run"),
    "nothing of the load before the run": (run_says(background=...), WARNING, "protocol"),
    "a load in words": (run_says(background={"busy_cores": "0", "cores": 2}), FAILED, "protocol"),
    "a run without a control, as if it was measured to be profiled": (
        run_says(launches=6, typed={}, matrix="profile"), FAILED, "stopping"
    ),
    "shares of more cores than the machine has": (launches_say("metrics.host.cores", 64), FAILED, "protocol"),
    "a load of other cores": (run_says(background={"busy_cores": 1.0, "cores": 64}), FAILED, "protocol"),
    "a load of more cores than there are": (run_says(background={"busy_cores": 9.0, "cores": 2}), FAILED, "protocol"),
    "windows that agreed, as it is said": (steady, FAILED, "protocol"),
    # Times and machines.
    "one framework in 0.905 of its time": (scaled(0.905, jax), FAILED, "clock"),
    "one launch in 0.95 of its time": (scaled(0.95, one), FAILED, "clock"),
    "one cell in 0.99 of its time": (scaled(0.99, lambda lines: of_cell(lines, 4)), FAILED, "clock"),
    "one framework and its bursts in 0.905 of their time": (scaled(0.905, jax, "bursts"), FAILED, "clock"),
    "launches that took longer than passed": (slower_clock, FAILED, "one run"),
    "a launch that took less than its windows": (first_alone("run.took_s", 1.0), FAILED, "one run"),
    "an hour of warming up": (first_alone("run.warming_s", 3600.0), FAILED, "one run"),
    "an hour's search for a batch that was given": (first_alone("run.searching_s", 3600.0), FAILED, "one run"),
    "a run of the year 2099": (lambda lines, run: moved(lines, run, "2099"), FAILED, "one run"),
    "a run of the year 1": (lambda lines, run: moved(lines, run, "0001"), FAILED, "one run"),
    "a run that began after its launches": (run_says(started="2026-11-25T20:18:43+00:00"), FAILED, "one run"),
    "every launch in a session of its own": (sessions, FAILED, "one run"),
    "times of nowhere": (lambda lines, _: lines[3].update(started=lines[3]["started"][:19]), FAILED, "one run"),
    "a processor called H100": (launches_say("environment.machine.cpu", "NVIDIA H100 80GB HBM3"), FAILED, "device"),
    "a name with a letter of another alphabet": (
        launches_say("environment.machine.cpu", "Int\u0435l(R) Xeon(R) Processor"), FAILED, "device"
    ),
    "a processor called RTX": (launches_say("environment.machine.cpu", "NVIDIA RTX 6000 Ada"), FAILED, "device"),
    "a processor that throttled as GPUs do": (
        launches_say("flags", ["throttled", "disturbed"], one), FAILED, "protocol"
    ),
    "a processor's figures as a GPU's": (weak_gpu, FAILED, "device"),
    "a GPU that ran what is built for none": (gpu_with_packages_of_a_cpu, FAILED, "versions"),
    "a GPU that no driver showed": (unwatched, WARNING, "device"),
    "a release that its packages have not": (released, FAILED, "versions"),
    "versions edited to those that are pinned": (
        launches_say("environment.packages.keras", "3.15.1", lambda lines: of_framework(ok(lines), "tensorflow")),
        WARNING, "versions",
    ),
    "busy cores without the flag": (first_alone("metrics.host.disturbance.others_share", 0.2), FAILED, "protocol"),
    "busy cores without the flag, as in an older version": (busy_before_there_were_readings, WARNING, "protocol"),
}  # fmt: skip


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Contents:
    return honest("0025_evidence", tmp_path_factory.mktemp("nowhere"))


@pytest.fixture
def lines(original: Contents) -> list[Line]:
    """A published run as this version would have written it."""
    made: list[Line] = json.loads(json.dumps(original.lines))
    return newest(made)


def forged(what: str, original: Contents, lines: list[Line], path: Path) -> Path:
    run = json.loads(json.dumps(original.about.run))
    FORGED[what][0](lines, run)
    return tampering.bundle(path, original, chained(lines), run=run)


@pytest.mark.parametrize("what", FORGED)
def test_forgeries_meet_their_rule(what: str, original: Contents, lines: list[Line], tmp_path: Path) -> None:
    _, kind, rule = FORGED[what]
    answer = said(forged(what, original, lines, tmp_path / "a.bundle"))[rule]
    assert answer.kind == kind, answer
    assert answer.why
    assert answer.mend


def test_the_run_that_they_are_made_of_passes(original: Contents, lines: list[Line], tmp_path: Path) -> None:
    answers = said(tampering.bundle(tmp_path / "a.bundle", original, chained(lines)))
    # Medians of two launches were high, the list of all packages was not kept then, and two launches are no test.
    kinds = {name: answer.kind for name, answer in answers.items() if answer.kind != PASSED}
    assert kinds == {"versions": WARNING, "protocol": WARNING}


@pytest.mark.parametrize("path", [each.path for each in EVIDENCE if each.path not in OF_OTHERS])
def test_evidence_that_no_launch_of_a_run_has_is_missed(
    path: str, original: Contents, lines: list[Line], tmp_path: Path
) -> None:
    """The newest is warned of where a run is of a day on which versions took it."""
    lines, run = json.loads(json.dumps([lines, original.about.run]).replace("2026-11-24T", "2026-11-28T"))
    for line in ok(lines):
        value = look_up(line, path)
        each(line, path, type(value)() if isinstance(value, (str, list)) or path == "identity.updates" else None)
        if not path.startswith("identity") and path != "ledger":
            each(line, path, ...)
    answers = said(tampering.bundle(tmp_path / "a.bundle", original, chained(lines), run=run))
    is_light = path not in ("settings.applied", *(each.path for each in EVIDENCE if each.heavy))
    assert answers["evidence"].kind == (FAILED if is_light else WARNING)


def test_losses_are_of_one_seed(tmp_path: Path) -> None:
    made = honest("0009_accuracy_cnn_small", tmp_path)
    for copied in ("train_loss", "test_loss"):
        lines = json.loads(json.dumps(made.lines))
        one, two = of_cell(lines)[:2]
        for epoch, other in zip(two["course"]["epochs"], one["course"]["epochs"], strict=True):
            epoch[copied] = other[copied]
        assert said(tampering.bundle(tmp_path / copied, made, chained(lines)))["copies"].kind == FAILED


def test_a_training_to_its_end_says_when_it_trained_and_how_it_was_scored(tmp_path: Path) -> None:
    made = honest("0009_accuracy_cnn_small", tmp_path)
    lines = json.loads(json.dumps(made.lines))
    for line in ok(lines):
        line["ledger"] = {"delivered": 1}
        line["identity"]["initial"] = line["identity"]["weights"]
        line["phases"]["train"].pop("span", None)
        line["phases"]["train"].pop("spans", None)
    answers = said(tampering.bundle(tmp_path / "a.bundle", made, chained(lines)))
    assert (answers["clock"].kind, "both clocks" in answers["clock"].why) == (FAILED, True)
    problems = check_plan(Submission.of(read(tmp_path / "a.bundle")))
    assert WARNING in {each.kind for each in problems if "identity.scored" in each.why}


@pytest.mark.parametrize("what", ["a made-up figure before a crash", "a launch measured again, as it was slow"])
def test_what_the_checker_refuses_is_not_read_otherwise(
    what: str, original: Contents, lines: list[Line], tmp_path: Path
) -> None:
    """A comparison reads a bundle as the checker does: it takes no figure of a launch that has two outcomes."""
    with pytest.raises(LoadError, match="was measured again"):
        load([forged(what, original, lines, tmp_path / "a.bundle")])


def test_of_a_try_that_failed_both_read_the_last(original: Contents, lines: list[Line], tmp_path: Path) -> None:
    loaded = load([forged("a few tries that failed", original, lines, tmp_path / "a.bundle")])
    assert {launch.record.outcome.status for launch in loaded.launches} == {"ok"}
    assert len(loaded.launches) == len(original.records)


def test_a_bundle_changes_nothing_of_a_run_that_another_file_has(original: Contents, tmp_path: Path) -> None:
    """It may hold the same launches, and neither others nor further ones, whichever file comes first."""
    run = RUNS["0025_evidence"]
    same = tampering.bundle(tmp_path / "same.bundle", original, original.lines)
    own = load([run])
    assert load([run, same]) == own
    assert [each.record for each in load([same, run]).launches] == [each.record for each in load([same]).launches]
    faster, further = scaled(0.5, jax), lambda line: line.update(launch=line["launch"] + 70)
    for at, change in enumerate([lambda line: faster([{}, line], {}), further]):
        lines = json.loads(json.dumps(original.lines))
        for line in jax(lines):
            line["started"] = f"2026-12{line['started'][7:]}"
            change(line)
        stranger = tampering.bundle(tmp_path / f"{at}.bundle", original, chained(lines))
        for paths in ([run, stranger], [stranger, run]):
            with pytest.raises(LoadError, match="compare them apart"):
                load(paths)
