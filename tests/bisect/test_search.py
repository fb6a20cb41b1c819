"""The bisection by itself: what it launches, and what it decides."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from suite.bisect.search import ENDS, MIDDLE, NEIGHBOURS, Bisection, Decision, SearchError
from tests.studies import bisect as study

NAMES = [f"0.{place}.0" for place in range(8)]


def speeds(first_slow: int, slower: float = 0.8, lacking: Sequence[int] = ()) -> Callable[..., dict[int, float | None]]:
    draws = random.Random(1)

    def measure(places: Sequence[int], _: int) -> dict[int, float | None]:
        rates = {place: 1e3 * draws.gauss(1, 0.02) * (slower if place >= first_slow else 1.0) for place in places}
        return {place: None if place in lacking else rate for place, rate in rates.items()}

    return measure


@pytest.mark.parametrize("first_slow", range(1, 8))
def test_the_first_slow_release_is_found_wherever_it_is(first_slow: int) -> None:
    told: list[Decision] = []
    search = Bisection(NAMES, speeds(first_slow), told=told.append)
    found = search.go()
    assert found is not None
    assert (search.good, search.bad) == (first_slow - 1, first_slow)
    assert found.test.low < 0.8 < found.test.high
    assert [made.kind for made in told] == [ENDS, *[MIDDLE] * (len(told) - 2), NEIGHBOURS]
    assert search.blocks == sum(made.blocks for made in told)
    assert min(made.blocks for made in told) >= 4


def test_the_risk_of_the_search_is_divided_among_its_decisions() -> None:
    assert Bisection(NAMES, speeds(1), risk=0.05).level == pytest.approx(0.05 / 5)
    assert Bisection(NAMES[:2], speeds(1), risk=0.05).level == pytest.approx(0.05)


def test_two_releases_need_one_decision() -> None:
    search = Bisection(NAMES[:2], speeds(1))
    assert search.go() is search.decisions[0]


@pytest.mark.parametrize("slower", [1.0, 1.3, 0.99])
def test_nothing_is_found_where_the_bad_one_is_not_slower_beyond_the_margin(slower: float) -> None:
    search = Bisection(NAMES, speeds(3, slower))
    assert search.go() is None
    assert [made.kind for made in search.decisions] == [ENDS]


def test_a_middle_that_cannot_be_measured_is_passed_over() -> None:
    search = Bisection(NAMES, speeds(6, lacking=[3, 4]))
    assert search.go()
    assert (search.good, search.bad, search.lacking) == (5, 6, {3, 4})
    search = Bisection(NAMES[:3], speeds(2, lacking=[1]))
    assert search.go()
    assert (search.good, search.bad) == (0, 2), "one of two changed it, and nobody can say which"


def test_a_search_without_its_ends_cannot_go_on() -> None:
    with pytest.raises(SearchError, match=r"a launch of release 0\.7\.0 did not end well"):
        Bisection(NAMES, speeds(3, lacking=[7])).go()


@pytest.mark.parametrize(("run", "workload"), study.NOISE[:2])
def test_twenty_of_twenty_searches_are_right_with_the_noise_of_committed_launches(run: str, workload: str) -> None:
    world, draws = study.World(study.residuals(run, workload), 0.8), np.random.default_rng(1)
    assert [study.outcome(world, draws)[0] for _ in range(20)] == [study.RIGHT] * 20


def test_the_study_prints_a_line_for_each_world(capsys: pytest.CaptureFixture[str]) -> None:
    assert study.main(["--searches", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + len(study.NOISE) * len(study.SLOWER)
    assert not sum(int(line.split()[4]) for line in lines[1:]), "none is wrong"
