"""One bad launch does not ruin a comparison, and clean ones are tested as ever."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from suite.analysis.statistics.inference import run_t_test
from suite.analysis.statistics.noise import LEAST_CUT, PairNoise, cut_outliers, fit, measure_noise
from suite.analysis.statistics.sequential import last_look
from suite.plan.measuring import MARGIN

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


def test_one_bad_ratio_of_six_hides_nothing() -> None:
    ratios = [2.0, 2.1, 1.95, 2.05, 0.9, 2.0]
    plain = stats.ttest_1samp(np.log(ratios), 0).pvalue
    found = run_t_test(ratios)
    assert found
    assert found.low > 1 + MARGIN
    assert found.p < plain
