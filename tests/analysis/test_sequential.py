"""Boundaries are those of the literature; a run that is looked at often decides no more wrongly than its level."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from suite.analysis.statistics import inference
from suite.analysis.statistics.inference import LEVEL, Paired, run_t_test
from suite.analysis.statistics.noise import LEAST_CUT, PairNoise, TableNoise, cut_outliers, fit, measure_noise
from suite.analysis.statistics.sequential import (
    Design,
    Look,
    boundaries,
    last_look,
    look_at,
    looks,
    sequential_p,
    spent,
)
from suite.plan.measuring import FIRST_LOOK as FIRST
from suite.plan.measuring import LAST_LOOK as MOST
from suite.plan.measuring import MARGIN
from tests.studies import stopping
from tests.studies.significance import residuals
from tests.studies.stopping_worlds import World, cells, worlds


@pytest.mark.parametrize(
    ("looks", "bounds"),
    [
        # Lan-DeMets, Pocock's form, two-sided .05: R's ldbounds 2.0.2, ldBounds(t = (1:5) / 5, iuse = 2, alpha = .05).
        (5, (2.4380, 2.4268, 2.4101, 2.3966, 2.3859)),
        (2, (2.1570, 2.2010)),
    ],
)
def test_boundaries_are_those_of_other_programs(looks: int, bounds: tuple[float, ...]) -> None:
    chances = boundaries(Design(1, looks), 0.05)
    expected = [math.erfc(bound / math.sqrt(2)) for bound in bounds]
    assert chances == pytest.approx(expected, rel=5e-3)


def test_the_level_is_spent_by_the_last_look() -> None:
    assert spent(0.05, 0) == 0
    assert spent(0.05, 1) == pytest.approx(0.05)
    assert spent(0.05, 1.5) == pytest.approx(0.05)


@pytest.mark.parametrize("level", [0.05, 0.05 / 12, 1e-4])
def test_a_boundary_is_crossed_at_its_own_level(level: float) -> None:
    design = Design()
    for look, chance in zip(design.looks, boundaries(design, level), strict=True):
        assert sequential_p(chance, look, design) == pytest.approx(level, rel=0.02)
    assert sequential_p(0.9, FIRST, design) == 1
    assert sequential_p(0.0, FIRST, design) == 0


def test_normal_scores_cross_as_often_as_the_level_says() -> None:
    """40,000 runs without any difference and with a known variance."""
    design, level = Design(), 0.05
    steps = np.random.default_rng(1).standard_normal((40_000, MOST))
    blocks = np.arange(FIRST, MOST + 1)
    scores = np.abs(steps.cumsum(axis=1)[:, FIRST - 1 :] / np.sqrt(blocks))
    limits = np.array([_score(chance) for chance in boundaries(design, level)])
    assert (scores > limits).any(axis=1).mean() == pytest.approx(level, abs=0.004)


def _score(chance: float) -> float:
    from scipy import special

    return -float(special.ndtri(chance / 2))


def after(*logs: float, common: float = 0.02**2) -> Paired | None:
    return last_look(dict(enumerate(logs)), dict.fromkeys(range(100), PairNoise(common)))


def test_three_blocks_are_not_looked_at() -> None:
    assert after(0.3, 0.3, 0.3) is None


def test_a_large_difference_is_sure_at_the_first_look() -> None:
    found = after(0.30, 0.31, 0.29, 0.30)
    assert found
    assert found.low > 1 + MARGIN
    assert found.p < 0.001
    assert found.blocks == FIRST


def test_nothing_is_sure_among_noise() -> None:
    found = after(0.3, -0.2, 0.1, -0.3, 0.2, -0.1)
    assert found
    assert found.low < 1 < found.high
    assert found.p == 1


def test_the_blocks_that_would_decide_do_if_they_scatter_as_before() -> None:
    logs = (0.12, 0.0, 0.1, 0.02)
    held = after(*logs, common=0.06**2)
    assert held is not None
    assert held.blocks_ahead is not None
    needed = held.blocks_ahead(LEVEL, MARGIN)
    assert needed is not None
    assert FIRST < needed <= MOST
    more = after(*(logs * 5)[: 4 * math.ceil(needed / 4)], common=0.06**2)
    assert more is not None
    assert inference.verdict(more, MARGIN) == "faster"
    few = after(*(logs * 5)[: needed // 2], common=0.06**2)
    assert few is not None
    assert inference.verdict(few, MARGIN) == inference.INCONCLUSIVE
    far = after(0.5, -0.5, 0.4, -0.35, common=0.3**2)
    assert far is not None
    assert far.blocks_ahead is not None
    assert far.blocks_ahead(LEVEL, MARGIN) is None, "not within the blocks of a run"


def test_two_that_are_equal_end_within_the_margin() -> None:
    found = after(*(0.004 * (-1) ** block for block in range(MOST)), common=0.004**2)
    assert found
    assert 1 / (1 + MARGIN) < found.low < found.high < 1 + MARGIN


def test_what_was_sure_stays_sure() -> None:
    """Later blocks make a p-value no higher and an interval no wider, as long as they do not exclude each other."""
    logs = dict(enumerate(np.random.default_rng(3).normal(0.1, 0.05, MOST)))
    found = looks(logs, dict.fromkeys(logs, PairNoise(0.05**2)))
    assert len(found) == MOST - FIRST + 1
    assert all(one.p >= other.p and one.low <= other.low and one.high >= other.high for one, other in pairwise(found))
    assert all(each.low <= each.value <= each.high for each in found)


def test_blocks_after_the_last_look_are_no_part_of_it() -> None:
    logs = dict(enumerate([0.1, -0.1, 0.1, -0.1, 0.1, *[0.5] * 10]))
    noise = dict.fromkeys(logs, PairNoise(0.01))
    assert last_look(logs, noise, Design(most=5)) == last_look(dict(list(logs.items())[:5]), noise, Design(most=5))


def test_pairs_share_their_variance() -> None:
    """A pair whose few blocks agree by chance is not surer than the table's noise lets it be."""
    logs = np.array([0.05, 0.05, 0.05, 0.0500001])
    assert look_at(logs, 0.0).interval(LEVEL)[0] > 1 + MARGIN
    assert look_at(logs, 0.05**2).interval(LEVEL)[0] < 1


def test_pairs_may_miss_blocks() -> None:
    logs = {block: 0.3 + 0.01 * (block % 2) for block in (0, 2, 3, 7)}
    found = last_look(logs, {7: PairNoise(0.01**2)})
    assert found
    assert found.blocks == 4


DESIGN = Design()


def logarithms(answers: int = 2) -> np.ndarray:
    """Logarithms of throughputs (answers, cells, blocks)."""
    return np.random.default_rng(7).normal(0.0, 0.05, (answers, len(cells()), DESIGN.most))


def noise_of(logs: np.ndarray, first: int) -> TableNoise:
    """What the program says of the table of one answer (cells, blocks) that this cell is in."""
    (places,) = (part for part in stopping.OF_WORKLOAD if first in part)
    return measure_noise(logs[places], places.tolist(), range(DESIGN.most))


def test_many_answers_are_tested_as_one_is() -> None:
    logs = logarithms()
    logs[:, :3] += np.array([0.0, 0.1, 0.4])[:, None]
    logs -= np.where(np.random.default_rng(8).random(logs.shape) < 0.1, 0.6, 0.0)  # so that some are cut
    word, blocks, _ = stopping.sequential(logs, DESIGN)
    names = {0: "inconclusive", 1: "faster", -1: "slower", 2: "equal"}
    for answer, each in enumerate(logs):
        tests: list[list[Paired]] = []
        for first, second in stopping.pairs():
            noise = noise_of(each, first).of_pair(first, second)
            tests.append(looks(dict(enumerate(each[first] - each[second])), noise, DESIGN))
        said = ["inconclusive"] * len(tests)
        ended = [DESIGN.most] * len(tests)
        for at, count in enumerate(DESIGN.looks):
            for pair, test in enumerate(inference.correct([each[at] for each in tests])):
                if said[pair] == "inconclusive" and test.verdict != "inconclusive":
                    said[pair], ended[pair] = test.verdict, count
        assert [names[int(each)] for each in word[answer]] == said
        assert blocks[answer].tolist() == ended


def test_the_shared_variance_is_that_of_a_fit() -> None:
    """With launches that are missing, too."""
    logs = logarithms()
    logs[np.random.default_rng(9).random(logs.shape) < 0.2] = np.nan
    shared = stopping.cut(logs)[2]
    for answer, found in zip(logs, shared, strict=True):
        for first, variance in zip(stopping.FIRST, found, strict=True):
            assert variance == pytest.approx(noise_of(answer, first).variance[DESIGN.most - 1])


def test_holm_is_that_of_tables() -> None:
    p = np.random.default_rng(1).random((5, 12)) ** 3
    assert [row.tolist() for row in stopping.holm(p)] == [pytest.approx(inference.holm(row.tolist())) for row in p]


def test_six_launches_are_tested_as_a_table_does() -> None:
    logs = logarithms(1)
    logs[0, 1, 2] -= 0.6
    word, _, value = stopping.fixed(logs)
    ratios = [np.exp(logs[0, first] - logs[0, second])[: stopping.FIXED].tolist() for first, second in stopping.pairs()]
    tests = [test for each in ratios if (test := inference.run_t_test(each))]
    assert value[0] == pytest.approx([test.value for test in tests])
    said = {"faster": 1, "slower": -1, "equal": 2, "inconclusive": 0}
    assert word[0].tolist() == [said[each.verdict] for each in inference.correct(tests)]


def test_what_is_wrong_is_counted() -> None:
    true = stopping.truths()["one framework by 5 %"]
    shape = (1, len(stopping.FIRST))
    word = np.zeros(shape)
    word[0, 0] = stopping.FASTER  # PyTorch and TensorFlow do not differ
    word[0, 1] = stopping.FASTER  # and JAX is faster than PyTorch
    tally = stopping.judge((word, np.full(shape, 4.0), np.ones(shape)), true, 10.0)
    assert (tally.answers, tally.wrong, tally.wrong_side, tally.decided) == (1, 1, 1, 2.0)
    assert tally.seconds == 4 * len(cells()) * 10.0


def test_few_answers_are_wrong() -> None:
    """Five hundred answers with the noise of a published run: at most 5 %, and three standard errors."""
    cnn, lstm = (residuals("0005", workload) for workload in ("cifar100_cnn", "imdb_lstm"))
    world: World = worlds((cnn, lstm))["normal"]
    tally = stopping.run(world, stopping.truths()["one framework by 5 %"], DESIGN, 500)["sequential"]
    assert tally.wrong / tally.answers < 0.05 + 3 * (0.05 * 0.95 / 500) ** 0.5
    assert isinstance(stopping.look_at(logarithms()[0], 0.0, 0.0, Design(first=4)), Look)


#: Samples per second by block on a busy machine: the first launch of the first row started from a cold disk.
BUSY = np.log([[15.7, 36.6, 36.0, 35.2], [29.6, 25.1, 31.2, 29.8], [11.6, 11.1, 9.4, 10.3]])


def test_clean_launches_stay_as_they_are() -> None:
    logs = np.random.default_rng(1).normal(0.0, 0.05, (100, 6, 6)) + np.arange(6.0)[:, None]
    beyond, _ = cut_outliers(logs)
    assert not beyond.any()
    ratios = np.exp(logs[0, 0])
    test = run_t_test(ratios.tolist())
    assert test
    assert test.p == pytest.approx(stats.ttest_1samp(logs[0, 0], 0).pvalue)


def test_a_bad_launch_is_found_and_cut() -> None:
    beyond, rest = cut_outliers(BUSY)
    assert np.argwhere(beyond).tolist() == [[0, 0]]
    assert rest[0, 0] - beyond[0, 0] == pytest.approx(-LEAST_CUT, rel=0.2)


def test_a_bad_launch_does_not_hide_a_difference_of_a_factor_of_three() -> None:
    ratios = dict(enumerate(BUSY[2] - BUSY[0]))
    cut = last_look(ratios, measure_noise(BUSY, "abc", range(4)).of_pair("c", "a"))
    plain = last_look(ratios, dict.fromkeys(range(4), PairNoise(2 * fit(BUSY.T).deviation ** 2)))
    assert cut
    assert plain
    assert plain.high > 1 > cut.high
    assert cut.p < 0.05 < plain.p
    clean = BUSY.copy()
    clean[0, 0] = math.log(36)
    known = last_look(dict(enumerate(clean[2] - clean[0])), measure_noise(clean, "abc", range(4)).of_pair("c", "a"))
    assert known
    assert abs(math.log(cut.value / known.value)) < LEAST_CUT / 4 + 0.02, "the bias of one launch is bounded"


def test_of_two_launches_either_may_be_the_bad_one() -> None:
    logs = np.zeros((2, 6)) + np.random.default_rng(2).normal(0.0, 0.01, (2, 6))
    logs[0, 3] -= 1.0
    beyond, _ = cut_outliers(logs)
    ratios = np.diff(logs - beyond, axis=0)[0]
    assert ratios[3] == pytest.approx(LEAST_CUT, abs=0.05)
    assert not np.delete(beyond, 3, axis=1).any()


def test_two_speeds_are_no_outliers() -> None:
    speeds = np.array([0.0, 0.0, -0.2, 0.0, -0.2, 0.0])
    beyond, _ = cut_outliers(np.stack([speeds, np.roll(speeds, 1), np.roll(speeds, 3)]))
    assert not beyond.any()


def test_a_slow_block_is_nobody_s_outlier() -> None:
    logs = np.random.default_rng(3).normal(0.0, 0.02, (4, 6))
    logs[:, 2] -= 0.7
    assert not cut_outliers(logs)[0].any()


def test_missing_launches_stay_missing() -> None:
    logs = BUSY.copy()
    logs[1, 2] = np.nan
    beyond, _ = cut_outliers(logs)
    assert beyond[1, 2] == 0
    assert beyond[0, 0] < 0
