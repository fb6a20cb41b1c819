"""The statistics against known answers, and against simulated tables whose truth is known."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from suite.analysis.records.load import Launch
from suite.analysis.rows.groups import group
from suite.analysis.statistics import power
from suite.analysis.statistics.inference import (
    LEVEL,
    MARGIN,
    Paired,
    blocks_to_decide,
    correct,
    holm,
    interval,
    run_t_test,
    verdict,
)
from suite.analysis.statistics.noise import PairNoise
from suite.analysis.statistics.sequential import last_look
from suite.plan.blocks import blocks
from suite.plan.cell import FRAMEWORKS
from suite.plan.matrix import matrix
from suite.plan.measuring import CONTROL
from suite.record.record import Phase, Record, Window
from suite.report.tables.frame import Table, table
from suite.report.tables.launches import launch_table
from tests import records
from tests.records import replace
from tests.shown import terminal
from tests.studies import significance


def test_the_test_is_the_paired_one_on_logarithms() -> None:
    ours, theirs = [1.3, 1.2, 1.25, 1.4, 1.28, 1.31], [1.0, 1.02, 0.97, 1.1, 1.0, 1.05]
    found = run_t_test([a / b for a, b in zip(ours, theirs, strict=True)])
    assert found is not None
    assert found.p == pytest.approx(stats.ttest_rel(np.log(ours), np.log(theirs)).pvalue)
    assert found.low < found.value < found.high
    assert found.value == pytest.approx(stats.gmean(np.array(ours) / theirs))
    assert run_t_test([1.1] * 5) is None


def test_ratios_without_any_scatter_are_what_they_are() -> None:
    assert run_t_test([1.0] * 6) == Paired(1.0, 1.0, 1.0, 6)
    same = run_t_test([1.5] * 6)
    assert same is not None
    assert (same.p, round(same.low, 9), round(same.high, 9)) == (0.0, 1.5, 1.5)


def test_holm_is_holm_s() -> None:
    # Worked by hand: .01 * 4, .02 * 3, .03 * 2 (not below the one before), .04 * 1 (likewise).
    assert holm([0.03, 0.01, 0.04, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert holm([]) == []


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [
        (1.03, 1.10, "faster"),
        (1.01, 1.10, "inconclusive"),  # perhaps within the margin
        (0.99, 1.015, "equal"),
        (1.005, 1.015, "equal"),  # significant, and too small to matter
        (0.90, 1.10, "inconclusive"),
        (0.80, 0.90, "slower"),
    ],
)
def test_a_verdict_follows_from_the_interval(low: float, high: float, word: str) -> None:
    assert verdict(Paired(math.sqrt(low * high), low, high, 6), MARGIN) == word


def fixed_tests(draws: np.random.Generator, count: int) -> list[Paired]:
    logs = draws.normal(draws.choice([0.0, 0.02, 0.1], count)[:, None], 0.03, (count, 6))
    return [test for each in logs if (test := run_t_test(np.exp(each).tolist()))]


def looked_at(draws: np.random.Generator, count: int) -> list[Paired]:
    logs = draws.normal(draws.choice([0.0, 0.02, 0.1], count)[:, None], 0.03, (count, 6))
    return [
        test for each in logs if (test := last_look(dict(enumerate(each)), dict.fromkeys(range(6), PairNoise(0.03**2))))
    ]


@pytest.mark.parametrize("tests", [fixed_tests, looked_at])
@pytest.mark.parametrize("count", [1, 12])
def test_an_interval_excludes_one_exactly_where_holm_rejects(
    tests: Callable[[np.random.Generator, int], list[Paired]], count: int
) -> None:
    for seed in range(15):
        drawn = tests(np.random.default_rng(seed), count)
        corrected = [*correct(drawn)]
        rejected = sum(test.p < LEVEL for test in corrected)
        for alone, test in zip(drawn, corrected, strict=True):
            assert (test.p < LEVEL) == (test.low > 1 or test.high < 1)
            assert LEVEL / count <= test.level <= LEVEL / max(1, count - rejected)
            assert test.low <= alone.low <= alone.high <= test.high, "never narrower than alone"


def test_how_many_launches_would_decide_is_said_where_any_would() -> None:
    draws = np.random.default_rng(3)
    noisy = run_t_test(np.exp(0.06 + 0.05 * draws.standard_normal(6)).tolist())
    assert noisy is not None
    needed = blocks_to_decide(noisy, MARGIN)
    assert needed is not None
    assert 6 < needed < 60
    assert blocks_to_decide(Paired(1.01, 0.9, 1.13, 6), MARGIN) is None


@pytest.mark.parametrize("world", ["0005 cnn, drift 20 %", "0005 cnn, outliers 5 %"])
def test_nothing_is_called_faster_where_nothing_is(world: str) -> None:
    """With the noise of this project's own launches, in at most one table of twenty."""
    assert significance.rates(significance.real("0005", "cifar100_cnn")[world], 1.0, 6, 100)["any"] <= 0.05


@pytest.mark.parametrize(("run", "workload"), significance.PLANNED[:1])
def test_the_launches_that_a_table_names_find_five_percent(run: str, workload: str) -> None:
    """By the noise of all launches, of which the A/A control is a part."""
    noise, launches = significance.named(run, workload)
    found = significance.detected(significance.World(significance.of_launches(run, workload)), 1.05, launches, 300)
    assert power.POWER - 0.05 <= found <= power.POWER + 0.09, f"noise {noise.deviation:.1%}, n = {launches}"


def test_the_noise_has_the_interval_of_a_deviation() -> None:
    draws, within, scatter = np.random.default_rng(6), 0, 0.05 * math.sqrt(2)
    for _ in range(300):
        base, *rows = 0.05 * draws.standard_normal((6, 6))
        found = power.noise(np.exp([row - base for row in rows]))
        assert found is not None
        low, high = found.interval
        within += low < scatter < high
    assert 0.93 <= within / 300 <= 0.97, "rows share their baseline"


def test_power_is_that_of_the_verdicts() -> None:
    draws = np.random.default_rng(5)
    logs = math.log(1.08) + 0.06 * draws.standard_normal((500, 20))
    tests = [run_t_test(np.exp(each).tolist()) for each in logs]
    others = [Paired(1.0, 0.9, 1.1, 20)] * 3  # of which Holm takes its share
    share = np.mean([next(correct([test, *others])).verdict == "faster" for test in tests if test])
    assert power.power(1.08, 0.06, 20, tests=4) == pytest.approx(share, abs=0.04)


def test_with_one_test_power_is_by_the_noncentral_t_distribution() -> None:
    n, deviation, ratio = 12, 0.04, 1.06
    noncentral = (math.log(ratio) - math.log1p(MARGIN)) / deviation * math.sqrt(n)
    expected = stats.nct.sf(stats.t.ppf(0.975, n - 1), n - 1, noncentral)
    assert power.power(ratio, deviation, n) == pytest.approx(expected, abs=2e-3)


def test_the_smallest_difference_and_the_launches_for_five_percent_are_two_ends_of_one_curve() -> None:
    needed = power.launches_for(0.05)
    assert needed is not None
    smallest, one_less = (power.smallest_difference(0.05, n) for n in (needed, needed - 1))
    assert smallest is not None
    assert one_less is not None
    assert smallest <= power.DIFFERENCE < one_less
    assert power.smallest_difference(0.05, 5) is None, "fewer are not tested"
    assert power.launches_for(0.05, margin=0.05) is None, "no launches show what the margin calls nothing"
    assert power.noise([[1.0, 1.1]]) is None, "the scatter of two ratios is no scatter"


def test_an_interval_of_few_ratios_is_wider_than_their_range() -> None:
    test = interval([0.85, 0.90])
    assert test is not None
    assert test.low < 0.85 < 0.90 < test.high
    assert interval([0.9]) is None


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


def compared(held: list[Record], margin: float = MARGIN) -> Table:
    (one,) = group([Launch(record, "run", "file") for record in held])
    return table(one, "pytorch", margin=margin)


def words(made: Table) -> str:
    return " ".join(terminal(made).split())


def test_tables_show_the_verdict_the_margin_and_what_the_run_could_have_shown() -> None:
    made = compared(simulated(1.2))
    by_framework = dict(zip(made.frame["framework"], made.frame["ratio_verdict"], strict=True))
    assert by_framework == {"pytorch": "", "tensorflow": "faster", "jax": "equal"}
    assert "Holm's correction over the 3 comparisons of its run, margin 2.0%" in words(made)
    assert "Control (a second copy of a cell, compared with the first): pytorch · eager equal, " in words(made)
    assert "Power of 80%: 6 launches detect a difference of 2." in words(made)
    assert "; a difference of 5% needs 6 launches (6 to 6). A block's ratio has a standard deviation of 0." in words(
        made
    )
    assert made.frame["ratio_p"].notna().sum() == 2


def test_a_margin_is_what_was_asked_for_and_nothing_else() -> None:
    for margin, word in ((0.02, "faster"), (0.25, "equal")):
        made = compared(simulated(1.2), margin)
        assert made.frame["ratio_verdict"].tolist() == ["", word, "equal"]
        assert f"margin {margin:.1%}" in words(made)


def test_a_noisy_control_widens_no_margin_and_is_no_row() -> None:
    made = compared(simulated(1.05, copies=1.08))
    assert [len(row.launches) for row in made.group.rows] == [6, 6, 6]
    (control,) = made.controls
    assert len(control.ratios) == 6
    assert (control.test and control.test.verdict, control.sound) == ("inconclusive", True)
    assert made.frame["ratio_verdict"].tolist() == ["", "faster", "equal"], "the rows' own scatter decides"
    assert made.power.smallest is not None
    assert made.power.smallest > 0.09, "the control's noise is part of it"


def test_a_control_that_differs_from_itself_is_said_loudly() -> None:
    copies = [replace(r, phases=slower(r)) if r.launch >= CONTROL else r for r in simulated(1.0)]
    made = compared(copies)
    assert [one.test.verdict for one in made.controls if one.test] == ["slower"]
    assert "A COPY DIFFERS: do not trust the verdicts of this table" in words(made)
    assert made.frame["control_verdict"].tolist() == ["slower", "", ""]


def slower(record: Record) -> dict[str, Phase]:
    windows = {n: tuple(Window(w.steps, 1.1 * w.seconds) for w in p.windows) for n, p in record.phases.items()}
    return {name: replace(phase, windows=windows[name]) for name, phase in record.phases.items()}


def test_the_control_s_launches_are_in_the_file_of_launches() -> None:
    columns = launch_table([Launch(record, "run", "file") for record in simulated(1.0)])
    assert sum(columns["control"]) == 6
    assert max(columns["launch"]) == 5


def test_every_block_holds_the_control_s_launches_too() -> None:
    cells = matrix("smoke").cells
    order = blocks(cells, 6, 0, control=True)
    assert len(order) == 6 * (len(cells) + 2)
    for block in range(6):
        held = order[block * (len(cells) + 2) : (block + 1) * (len(cells) + 2)]
        assert {number % CONTROL for _, number in held} == {block}
        assert {cell.framework for cell, number in held if number >= CONTROL} == {FRAMEWORKS[0]}


def test_one_bad_ratio_of_six_hides_nothing() -> None:
    ratios = [2.0, 2.1, 1.95, 2.05, 0.9, 2.0]
    plain = stats.ttest_1samp(np.log(ratios), 0).pvalue
    found = run_t_test(ratios)
    assert found
    assert found.low > 1 + MARGIN
    assert found.p < plain
