"""Sixty-seven more forged bundles: a rule that is there for it answers each of them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from suite.submit.contents import Contents
from suite.verify.rule import FAILED, WARNING
from tests.submit import tampering
from tests.submit.forging import newest
from tests.submit.further import FURTHER, TIMED
from tests.submit.tampering import chained, honest, ok
from tests.submit.test_tampered import RUN, _disturbed, said


@cache
def original(name: str) -> Contents:
    return honest(name, Path("nowhere"))


@cache
def whys(name: str, folder: Path) -> dict[str, str]:
    """What each rule says of the run as it is."""
    made = original(name)
    lines = json.loads(json.dumps(made.lines))
    bundle = tampering.bundle(folder / f"{name}.bundle", made, chained(newest(lines) if name == TIMED else lines))
    return {rule: answer.why for rule, answer in said(bundle).items()}


@pytest.mark.parametrize("what", FURTHER)
def test_a_forgery_meets_one_of_its_rules(what: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    name, forge, rules, kind = FURTHER[what]
    made, folder = original(name), tmp_path_factory.getbasetemp()
    lines, run = json.loads(json.dumps([made.lines, made.about.run]))
    forge(newest(lines) if name == TIMED else lines, run)
    answers = said(tampering.bundle(tmp_path_factory.mktemp("forged") / "a.bundle", made, chained(lines), run=run))
    before = whys(name, folder)
    new = {rule: answer.kind for rule, answer in answers.items() if answer.why != before[rule]}
    found = {new.get(rule.replace("_", " ")) for rule in rules.split()}
    assert kind in found, new


@pytest.mark.parametrize(("share", "late_s", "kind"), [(0.5, 0.07, WARNING), (0.5, 0.7, FAILED), (0.0, 0.07, FAILED)])
def test_a_parent_may_be_late_on_a_busy_machine(share: float, late_s: float, kind: str, tmp_path: Path) -> None:
    """It hears so much later that a burst began, beside others that keep the cores busy."""
    made = original(RUN)
    lines = json.loads(json.dumps(made.lines))
    _disturbed(lines, share, *(("contaminated", "disturbed") if share else ()))
    line = ok(lines)[3]
    seconds = sum(window[1] for window in line["phases"]["train"]["windows"])
    line["ledger"]["seen_s"]["train"] = [seconds - late_s]
    assert said(tampering.bundle(tmp_path / "a.bundle", made, chained(lines)))["clock"].kind == kind


@pytest.mark.parametrize(
    ("late_s", "one", "kind"), [(0.012, True, WARNING), (0.012, False, FAILED), (0.1, True, FAILED)]
)
def test_a_parent_may_be_late_once_in_a_while(late_s: float, one: bool, kind: str, tmp_path: Path) -> None:
    """What one launch may be late by is refused of the middle launch of its cell."""
    made = original(RUN)
    lines = json.loads(json.dumps(made.lines))
    before = said(tampering.bundle(tmp_path / "a.bundle", made, chained(lines)))["clock"]
    for line in tampering.of_cell(lines)[: 1 if one else None]:
        train = line["phases"]["train"]
        bursts, seconds = len(train["spans"]), sum(window[1] for window in train["windows"])
        line["ledger"]["seen_s"]["train"] = [seconds / bursts - late_s] * bursts
    after = said(tampering.bundle(tmp_path / "b.bundle", made, chained(lines)))["clock"]
    assert after.kind == (before.kind if kind == WARNING else kind)
