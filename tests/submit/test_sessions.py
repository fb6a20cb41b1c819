"""Journals of real sessions, whose workers are stand-ins: no rule raises a false alarm, and no reason names a host."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from suite import __version__
from suite.plan.measuring import FIRST_LOOK, SEQUENTIAL
from suite.record.bundle import FORMAT, Manifest, write
from suite.submit.contents import contents
from suite.verify.rule import FAILED, PASSED, WARNING, Answer
from suite.verify.rules import verify
from tests import records
from tests.session.test_stopping import launched
from tests.sessions import Done, Suite
from tests.submit.forging import Forge, both, each, run_says
from tests.submit.tampering import Line, chained

OF_JOURNALS = ("container", "schema", "chain", "complete", "order", "stopping", "one run")
SMALL = ("--workload=imdb_lstm", "--size=small", "--benchmark-save=a")


def judged(done: Done, tmp_path: Path) -> dict[str, Answer]:
    """What the rules on journals say of a session's last run."""
    path = max(done.folder.rglob("*_a.json"))
    made = contents(path, done.folder / "journals", look=False)
    assert made.about.journal
    bundle = tmp_path / "a.bundle"
    write(bundle, made.about, made.lines)
    return {answer.rule.name: answer for answer in verify(bundle) if answer.rule.name in OF_JOURNALS}


def alarms(done: Done, tmp_path: Path) -> dict[str, str]:
    return {name: answer.why for name, answer in judged(done, tmp_path).items() if answer.kind != PASSED}


@pytest.mark.parametrize(
    "arguments", [("--launches=2",), ("--launches=6",), ("--launches=2", "--seed=7", "--batch=32,64")]
)
def test_a_session_raises_no_alarm(arguments: tuple[str, ...], suite: Suite, tmp_path: Path) -> None:
    done = suite("suite", *SMALL, *arguments)
    assert done.status == 0, done.output
    assert alarms(done, tmp_path) == {}


@pytest.mark.parametrize("numbers", [(2, 3), (2, 6), (1, 2, 6), (6, 7)])
def test_a_session_that_went_on_with_more_launches_raises_no_alarm(
    numbers: tuple[int, ...], suite: Suite, tmp_path: Path
) -> None:
    suite("suite", *SMALL, f"--launches={numbers[0]}")
    for number in numbers[1:]:
        done = suite("suite", *SMALL, f"--launches={number}", "--resume")
        assert ("Its test is that of 6 launches" in done.output) == (number > 6)
    assert alarms(done, tmp_path) == {}


def test_a_session_with_a_budget_raises_no_alarm(suite: Suite, tmp_path: Path) -> None:
    done = suite("suite", *SMALL, "--budget=1h")
    assert alarms(done, tmp_path) == {}


def test_cells_chosen_by_k_are_a_warning(suite: Suite, tmp_path: Path) -> None:
    done = suite("suite", *SMALL, "--launches=2", "-k", "jax or pytorch")
    assert {name: answer.kind for name, answer in judged(done, tmp_path).items() if answer.kind != PASSED} == {
        "order": WARNING
    }


def of_budget(
    tmp_path: Path, blocks: int, budget_s: float | None = 3600.0, forge: Forge = lambda _, __: None, **steps: float
) -> Answer:
    """What the rule says of a run with a budget that has so many blocks of all three frameworks."""
    held = launched(blocks, {"pytorch": 1.0, "tensorflow": 1.5, "jax": 2.0} | steps)
    run = {"id": "run-a", "design": SEQUENTIAL, "launches": 20, "seed": 1, "typed": {}}
    run |= {"budget_s": budget_s} if budget_s else {}
    lines: list[Line] = [{"run": run}, *(replace(each, run=each.run | {"position": at}).to_json()
                                         for at, each in enumerate(held))]  # fmt: skip
    forge(lines, run := dict(run))
    path = tmp_path / "a.bundle"
    path.unlink(missing_ok=True)
    write(path, Manifest(FORMAT, __version__, 1, run), chained(lines))
    return {answer.rule.name: answer for answer in verify(path)}["stopping"]


def test_a_run_that_stopped_when_its_rule_says_passes(tmp_path: Path) -> None:
    assert of_budget(tmp_path, FIRST_LOOK).kind == PASSED
    assert of_budget(tmp_path, FIRST_LOOK, 600.0, tensorflow=1.03).kind == PASSED, "its budget was used up"


def test_a_run_that_went_on_after_all_was_decided_is_refused(tmp_path: Path) -> None:
    answer = of_budget(tmp_path, FIRST_LOOK + 1)
    assert answer.kind == FAILED
    assert answer.why == "block 4 has 3 cells, and 0 were undecided before it"


def test_a_run_that_ended_at_a_good_moment_is_refused(tmp_path: Path) -> None:
    assert of_budget(tmp_path, FIRST_LOOK, tensorflow=1.03).why == "it ended with 2 cells that need more launches"
    assert of_budget(tmp_path, FIRST_LOOK, None, tensorflow=1.03).why == "it does not say its budget"


def called_fixed(lines: list[Line], run: dict[str, Any]) -> None:
    """Nothing says any more that it had a budget: as many launches were asked for as there are, it seems."""
    both(lines, run, design=..., budget_s=..., launches=6)
    for line in lines[1:]:
        each(line, "run.design", ...)
        each(line, "run.launches", 6)


#: What is forged in a run that would have gone on, and how many blocks it has.
FORGED: dict[str, tuple[Forge, int]] = {
    "no design, but in its launches": (run_says(design=...), FIRST_LOOK),
    "another design": (run_says(design="fixed"), FIRST_LOOK),
    "no design and no budget": (run_says(design=..., budget_s=...), FIRST_LOOK),
    "a budget in words": (run_says(budget_s="60"), FIRST_LOOK),
    "no budget": (run_says(budget_s=...), FIRST_LOOK),
    "nothing of a budget anywhere": (called_fixed, 6),
    "a budget that its last launch used up": (lambda lines, _: each(lines[-1], "run.took_s", 3600.0), FIRST_LOOK),
    "launches whose seconds are words": (lambda lines, _: each(lines[1], "run.took_s", "3600"), FIRST_LOOK),
}


@pytest.mark.parametrize("what", FORGED)
def test_a_budget_that_is_forged_is_refused(what: str, tmp_path: Path) -> None:
    forge, blocks = FORGED[what]
    assert of_budget(tmp_path, blocks, forge=forge, tensorflow=1.03).kind == FAILED


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        ("batch", "no answer from batch: timed out"),
        ("window.example.org", "no answer from window: timed out"),
        ("GPU7", "no answer from GPU7 timed out"),
        ("batch+window.example.org", "no answer from window timed out"),  # a group of hosts
        ("", "no answer from DESKTOP-7H3K2QP timed out"),
        ("", "no answer from LAPTOP-QP7H3K2 timed out"),
    ],
)
def test_no_reason_names_a_host_of_the_run(host: str, reason: str, tmp_path: Path) -> None:
    """Also one whose name is a word of the suite's own, or has the form of a device's; of any launch."""
    failing = records.failed(records.record())
    failing = records.replace(failing, outcome=replace(failing.outcome, reason=reason), launch=7)
    ran = [records.replace(each, run=each.run | ({"host": host} if host else {})) for each in records.launches(n=2)]
    saved = records.save(tmp_path / "0001_smoke.json", [*ran, failing])
    lines = contents(saved, tmp_path, look=False).lines
    (said,) = (line["outcome"]["reason"] for line in lines[1:] if line["outcome"].get("reason"))
    assert said == "no answer from <name> timed out"
