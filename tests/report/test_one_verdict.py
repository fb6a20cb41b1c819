"""A ratio has one verdict: in every table, along every axis, in CSV, JSON, page, leaderboards and marks."""

from __future__ import annotations

import csv
import html
import json
import re
from collections.abc import Hashable, Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from suite.analysis.records.load import Loaded, load
from suite.analysis.rows.axes import AXES
from suite.analysis.rows.groups import group
from suite.analysis.rows.wording import DASH
from suite.analysis.statistics.accuracy import compare_accuracies, trains_to_the_end
from suite.analysis.statistics.inference import CLOSE, OPPOSITE, Estimate, Paired, verdict
from suite.analysis.statistics.multiple_testing import AXES_OF_GAINS
from suite.compare.__main__ import main
from suite.plan.measuring import MARGIN
from suite.report.screen.comparison import to_json
from suite.report.tables.frame import Table, table
from suite.report.text.answer import answer
from tests.expected import GOLDEN
from tests.published import RUNS

NOISY = GOLDEN / "runs" / "noisy.jsonl"

#: A pair of cells in the order of their names, and the verdict of the first.
Verdict = tuple[tuple[str, str], str]


def of(cell: str, other: str, word: str) -> Verdict:
    return ((cell, other), word) if cell < other else ((other, cell), OPPOSITE.get(word, word))


def tables_of(loaded: Loaded) -> Iterator[Table]:
    """All tables of a run along every axis that it varied, to their natural base."""
    for by in ("framework", *AXES_OF_GAINS, "devices"):
        if by in AXES:
            groups = [each for each in group(loaded.launches, by) if by == "framework" or by in each.varying]
            yield from (table(each) for each in groups if not trains_to_the_end(each))


def in_findings(made: Table) -> Iterator[Verdict]:
    """The verdicts of contests, gains, explanations, scalings, releases, and marks."""
    found = made.findings
    for contest in found.contests:
        cells = {row.cell.framework: row.cell.id for row in contest.rows}
        for first, second in combinations(cells, 2):
            yield of(cells[first], cells[second], contest.gap(first, second).verdict)
    yield from (of(gain.row.cell.id, gain.before.cell.id, gain.ratio.verdict) for gain in found.gains)
    yield from (of(pair.row.cell.id, pair.other.cell.id, pair.ratio.verdict) for pair in found.pairs)
    best = {cell.id for _, cell in made.leaders.get("samples_per_s", ())}
    for row in made.group.rows:
        ratio = made.ratios[row.key]
        if row.cell.id in best and ratio.baseline.split("-b")[-1] == row.cell.id.split("-b")[-1]:
            yield of(row.cell.id, ratio.baseline, "faster" if ratio.verdict == "slower" else ratio.verdict)


def in_csv(rows: Sequence[dict[Hashable, Any]]) -> Iterator[Verdict]:
    yield from (of(row["cell"], row["ratio_baseline"], row["ratio_verdict"]) for row in rows if row["ratio_verdict"])


def in_json(text: str) -> Iterator[Verdict]:
    for made in json.loads(text)["tables"]:
        for cell in made["cells"]:
            yield of(cell["cell"], cell["ratio"]["baseline"], cell["ratio"]["verdict"])
        for scaling in made["scalings"]:
            base, *points = scaling["points"]
            yield from (of(each["cell"], base["cell"], each["speed_up"]["verdict"]) for each in points)
        for line in made["releases"]:
            for at, step in enumerate(line):
                for ratio, other in ((step["to_before"], line[at - 1]), (step["to_oldest"], line[0])):
                    yield from [of(step["cell"], other["cell"], ratio["verdict"])] if ratio else []


def judged(found: Iterator[Verdict]) -> dict[tuple[str, str], set[str]]:
    by_pair: dict[tuple[str, str], set[str]] = {}
    for pair, word in found:
        if word and pair[0] != pair[1] and all(pair):
            by_pair.setdefault(pair, set()).add(word)
    return by_pair


def every_ratio(made: Table) -> Iterator[Estimate]:
    yield from made.ratios.values()
    yield from (gap for contest in made.findings.contests for gap in contest.gaps.values())
    yield from (gain.ratio for gain in made.findings.gains)

    steps = [step for line in made.findings.releases for step in line]
    yield from (ratio for step in steps for ratio in (step.to_before, step.to_oldest) if ratio)


#: Of those that vary compile modes, interfaces and releases, and that train to their end.
SOME = ("0009_accuracy_cnn_small", "0017_interfaces", "0023_compiled", "0027_releases")


@pytest.mark.parametrize("name", [*SOME, "noisy"])
def test_all_outputs_of_a_run_agree_on_every_ratio(name: str) -> None:
    loaded = load([RUNS.get(name, NOISY)])
    tables = [*tables_of(loaded)]
    learned = [compare_accuracies(each, "pytorch") for each in group(loaded.launches) if trains_to_the_end(each)]

    def collect() -> Iterator[Verdict]:
        for made in tables:
            yield from in_findings(made)
            yield from in_json(to_json([made], [], loaded, [], []))
            yield from in_csv(made.frame.to_dict("records"))
        for trained in learned:
            for contest in trained.findings.contests:
                for (first, second), gap in contest.gaps.items():
                    cells = {row.cell.framework: row.cell.id for row in contest.rows}
                    yield of(cells[first], cells[second], gap.verdict)
            yield from (
                of(each.row.cell.id, each.before.cell.id, each.ratio.verdict) for each in trained.findings.gains
            )

    assert {pair: words for pair, words in judged(collect()).items() if len(words) > 1} == {}
    for ratio in (ratio for made in tables for ratio in every_ratio(made) if ratio.verdict):
        assert ratio.value is not None
        assert ratio.low is not None
        assert ratio.high is not None
        shown = Paired(ratio.value, ratio.low, ratio.high, ratio.blocks)
        assert verdict(shown, MARGIN) == ratio.verdict, "the verdict follows from the interval that is shown"
        assert bool(ratio.probably) <= (ratio.verdict == "inconclusive")


def test_a_noisy_run_calls_nothing_alike_whose_interval_is_wide() -> None:
    (cnn, lstm) = [table(each) for each in group(load([NOISY]).launches)]
    (contest,) = cnn.findings.contests
    gap = contest.gap("jax", "pytorch")
    assert (gap.value or 1) < 0.4
    assert contest.tie == "undecided"
    assert all(each.doubt != CLOSE for made in (cnn, lstm) for each in every_ratio(made))
    assert "told apart" not in json.dumps([*answer([cnn, lstm]).sentences, *(c.verdict for c in answer([cnn]).cards)])


@pytest.mark.usefixtures("undrawn")
def test_a_noisy_run_has_one_verdict_on_screen_on_paper_and_on_its_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The verdicts as they are written: each row's word beside its ratio, which names the row."""
    site = tmp_path / "site"
    assert main([str(NOISY), "--publish", str(site)]) == 0
    screen = capsys.readouterr().out
    folder = site / "noisy"
    page = re.sub(r"<[^>]+>", " ", (folder / "report.html").read_text(encoding="utf-8"))
    texts = {
        "screen": screen, "markdown": (folder / "table.md").read_text("utf-8"), "page": html.unescape(page),
        "index": html.unescape(re.sub(r"<[^>]+>", " ", (site / "index.html").read_text("utf-8"))),
    }  # fmt: skip
    with (folder / "cells.csv").open(encoding="utf-8", newline="") as file:
        tested = [row for row in csv.DictReader(file) if row["ratio_verdict"]]
    assert len(tested) == 4
    for row in tested:
        low, high = float(row["ratio_min"]), float(row["ratio_max"])
        shown = f"{float(row['ratio']):.2f} ({low:.2f}{DASH}{high:.2f})"
        for place in ("screen", "markdown", "page"):
            after = texts[place].split(shown)[1:]
            assert after, (place, shown)
            words = {re.search(r"inconclusive|faster|slower|equal", each[:60]) for each in after}
            assert {word.group() for word in words if word} == {row["ratio_verdict"]}, (place, shown)
    assert all("told apart" not in text for text in texts.values())
    assert "is fastest: " not in texts["index"]
