"""The statistics against known answers, and against simulated tables whose truth is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from suite.analysis.groups import group
from suite.analysis.identity import Verdict
from suite.analysis.load import Launch
from suite.analysis.ratios import control, margin, ratios
from suite.analysis.statistics import MARGIN, Paired, blocks_to_decide, holm, paired, verdict
from suite.analysis.statistics import margin as margin_of
from suite.plan.cell import FRAMEWORKS
from suite.plan.matrix import blocks, matrix
from suite.plan.measuring import CONTROL
from suite.record.record import Record
from suite.report.tables import table
from suite.report.tidy import launches as as_rows
from tests import records
from tests.records import replace
from tests.shown import terminal
from tests.studies import significance


def test_the_test_is_the_paired_one_on_logarithms() -> None:
    ours, theirs = [1.3, 1.2, 1.25, 1.4, 1.28, 1.31], [1.0, 1.02, 0.97, 1.1, 1.0, 1.05]
    found = paired([a / b for a, b in zip(ours, theirs, strict=True)])
    assert found is not None
    assert found.p == pytest.approx(stats.ttest_rel(np.log(ours), np.log(theirs)).pvalue)
    assert found.low < found.value < found.high
    assert found.value == pytest.approx(stats.gmean(np.array(ours) / theirs))
    assert paired([1.1] * 5) is None


def test_ratios_without_any_scatter_are_what_they_are() -> None:
    assert paired([1.0] * 6) == Paired(1.0, 1.0, 1.0, 1.0, 6)
    same = paired([1.5] * 6)
    assert same is not None
    assert (same.p, round(same.low, 9), round(same.high, 9)) == (0.0, 1.5, 1.5)


def test_holm_is_holm_s() -> None:
    # Worked by hand: .01 * 4, .02 * 3, .03 * 2 (not below the one before), .04 * 1 (likewise).
    assert holm([0.03, 0.01, 0.04, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert holm([]) == []


@pytest.mark.parametrize(
    ("low", "high", "p", "word"),
    [
        (1.03, 1.10, 0.01, "faster"),
        (1.03, 1.10, 0.20, "inconclusive"),  # not significant after Holm
        (1.01, 1.10, 0.01, "inconclusive"),  # significant, and perhaps within the margin
        (0.99, 1.015, 0.30, "equal"),
        (1.005, 1.015, 0.001, "equal"),  # significant, and too small to matter
        (0.90, 1.10, 0.90, "inconclusive"),
        (0.80, 0.90, 0.01, "slower"),
    ],
)
def test_a_verdict_needs_significance_and_the_margin(low: float, high: float, p: float, word: str) -> None:
    assert verdict(Paired(math.sqrt(low * high), low, high, p, 6), p, MARGIN) == word


def test_the_margin_is_two_percent_or_what_a_cell_differs_from_itself() -> None:
    assert margin_of([]) == margin_of([1.001, 0.999]) == MARGIN
    assert margin_of([1.0, 1.0, 1.0, 1.0, 1.0, 0.9]) > 0.05


def test_how_many_launches_would_decide_is_said_where_any_would() -> None:
    draws = np.random.default_rng(3)
    noisy = paired(np.exp(0.06 + 0.05 * draws.standard_normal(6)).tolist())
    assert noisy is not None
    needed = blocks_to_decide(noisy, MARGIN)
    assert needed is not None
    assert 6 < needed < 60
    assert blocks_to_decide(Paired(1.01, 0.9, 1.13, 0.8, 6), MARGIN) is None


@pytest.mark.parametrize("world", significance.WORLDS)
@pytest.mark.parametrize("launches", [6, 10])
def test_nothing_is_called_faster_where_nothing_is(world: str, launches: int) -> None:
    assert significance.rates(significance.WORLDS[world], 1.0, launches, tables=200)["any"] <= 0.05


def test_five_percent_are_found_with_ten_launches_and_one_percent_of_noise() -> None:
    assert significance.rates(significance.World(), 1.05, 10, tables=200)["faster"] > 0.9


def simulated(ratio: float, launches: int = 6, copies: float = 1.0) -> list[Record]:
    """Launches of three frameworks, TensorFlow ``ratio`` times as fast, with a second copy of the first."""
    found = []
    for block in range(launches):
        for framework in FRAMEWORKS:
            speed = ratio if framework == "tensorflow" else 1.0
            found.append(timed(framework, block, speed))
        found.append(timed(FRAMEWORKS[0], block, copies ** (1 if block % 2 else -1), CONTROL))
    return found


def timed(framework: str, block: int, speed: float, offset: int = 0) -> Record:
    made = records.record(framework, block)
    noise = 1 + 0.002 * np.random.default_rng([block, offset, FRAMEWORKS.index(framework)]).standard_normal()
    draw = (0.5).__float__
    phases = {name: records.phase(1e-3 * noise / speed, draw) for name in ("train", "compute", "input")}
    return replace(made, launch=block + offset, phases=phases)


def test_tables_show_the_verdict_the_margin_and_where_it_comes_from() -> None:
    (one,) = group([Launch(record, "run", "file") for record in simulated(1.2)])
    made = table(one, "pytorch")
    verdicts = dict(zip(made.frame["framework"], made.frame["ratio_verdict"], strict=True))
    assert verdicts == {"pytorch": "", "tensorflow": "faster", "jax": "equal"}
    text = terminal(made)
    assert "margin 2.0% (from 6 A/A ratios)" in " ".join(text.split())
    assert "Holm over the 2 tests of this table" in " ".join(text.split())
    assert made.frame["ratio_p"].notna().sum() == 2


def test_a_control_that_differs_from_itself_widens_the_margin_and_is_no_row() -> None:
    (one,) = group([Launch(record, "run", "file") for record in simulated(1.05, copies=1.08)])
    assert [len(row.launches) for row in one.rows] == [6, 6, 6]
    assert len(control(one)) == 6
    assert 0.07 < margin(one) < 0.1
    found = ratios(one, "pytorch", {row.key: Verdict("same") for row in one.rows})
    assert found[next(row.key for row in one.rows if row.cell.framework == "tensorflow")].verdict == "equal", (
        "5 % are nothing where a cell differs from itself by 8 %"
    )


def test_the_control_s_launches_are_in_the_file_of_launches() -> None:
    rows = as_rows([Launch(record, "run", "file") for record in simulated(1.0)])
    assert rows["control"].sum() == 6
    assert rows["launch"].max() == 5


def test_every_block_holds_the_control_s_launches_too() -> None:
    cells = matrix("smoke").cells
    order = blocks(cells, 6, 0, control=True)
    assert len(order) == 6 * (len(cells) + 2)
    for block in range(6):
        held = order[block * (len(cells) + 2) : (block + 1) * (len(cells) + 2)]
        assert {number % CONTROL for _, number in held} == {block}
        assert {cell.framework for cell, number in held if number >= CONTROL} == {FRAMEWORKS[0]}
