"""Boundaries are those of the literature; a run that is looked at often decides no more wrongly than its level."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from suite.analysis.statistics.inference import LEVEL, Paired
from suite.analysis.statistics.sequential import (
    Design,
    PairNoise,
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
