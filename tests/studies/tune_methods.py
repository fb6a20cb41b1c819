"""The methods that `tests.studies.tune` compares. Each takes a `Search` and a budget in launches.

It returns the cells that it recommends (a mask), and the one that it would choose.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy import stats

from suite.analysis.search import significance
from suite.analysis.statistics.inference import LEVEL, holm
from suite.plan.measuring import MARGIN
from tests.studies.tune_worlds import BLOCKS, CELLS, Search, Values

Answer = tuple[Values, int]
Method = Callable[[Search, int], Answer]


def ours(search: Search, budget: int) -> Answer:
    """Sequential elimination with pooled Student bounds and alpha spending, as `suite.tune` does it."""
    scores, alive = np.empty((0, CELLS)), np.ones(CELLS, dtype=bool)
    while _more(search, alive, len(scores), budget):
        scores = np.vstack([scores, search.block(len(scores), alive)])
        alive &= ~significance.find_eliminated(scores, alive, MARGIN)
        if significance.all_tie(scores, alive, MARGIN):
            break
    return alive, significance.fit(scores).best(alive)


def every(search: Search, budget: int) -> Answer:
    """All cells, six launches each; recommended are the best and those that its paired tests do not call slower."""
    alive = np.ones(CELLS, dtype=bool)
    scores = np.array([search.block(block, alive) for block in range(6)])
    top = int(scores.mean(axis=0).argmax())
    return alive & ~_paired_worse(scores, alive, top, LEVEL), top


def friedman(search: Search, budget: int) -> Answer:
    """F-race as irace runs it: Friedman's test from the fifth block on, then Conover's comparisons with the best."""
    return _raced(search, budget, first=5, rule=_friedman_worse)


def paired(search: Search, budget: int) -> Answer:
    """The t-race of irace: paired t-tests against the best from the third block on, with Holm's correction."""

    def rule(scores: Values, alive: Values) -> Values:
        top = int(np.where(alive, scores.mean(axis=0), -np.inf).argmax())
        return _paired_worse(scores, alive, top, LEVEL)

    return _raced(search, budget, first=3, rule=rule)


def halving(search: Search, budget: int) -> Answer:
    """Successive halving (Jamieson and Talwalkar, 2016): equal parts of the budget, the worse half goes each time."""
    rounds = math.ceil(math.log2(CELLS))
    return _halved(search, np.arange(CELLS), lambda left: max(1, budget // (rounds * left)), 2)


def hyperband(search: Search, budget: int) -> Answer:
    """Hyperband's brackets (Li et al., 2018), which start with few launches of all cells or more launches of few.

    With three launches as the most that a bracket gives a cell in its first round, and a third kept in each.
    """
    order = search.draws.permutation(CELLS)
    chosen, parts = [], ((CELLS, 1), (CELLS // 3, 2))
    for count, launches in parts:
        part = order[:count] if count == CELLS else order[-count:]
        _, top = _halved(
            search, part, lambda left, count=count, launches=launches: launches * count // left // 2 or 1, 3
        )
        chosen.append(top)
    means = [np.nanmean(search.seen[:, cell]) for cell in chosen]
    alive = np.zeros(CELLS, dtype=bool)
    top = chosen[int(np.argmax(means))]
    alive[top] = True
    return alive, top


def bernstein(search: Search, budget: int) -> Answer:
    """A Hoeffding race with empirical Bernstein bounds (Maron and Moore, 1994; Mnih et al., 2008), anytime-valid.

    The range of a launch's logarithm is taken as known, 30 %; the bounds assume nothing else of the noise.
    """

    def rule(scores: Values, alive: Values) -> Values:
        count = len(scores)
        logarithm = math.log(3 * CELLS * count * (count + 1) / LEVEL)
        spread = np.std(scores, axis=0)
        radius = spread * math.sqrt(2 * logarithm / count) + 3 * 0.36 * logarithm / count
        means = np.where(alive, scores.mean(axis=0), -np.inf)
        top = int(means.argmax())
        return alive & (means + radius < means[top] - radius[top])

    return _raced(search, budget, first=1, rule=rule)


def unlimited(method: Method) -> Method:
    """The same race with the launches of the full matrix, for methods that test too late to save any."""
    return lambda search, budget: method(search, 6 * CELLS)


METHODS: dict[str, Method] = {
    "sequential elimination, pooled Student bounds": ours,
    "F-race (Friedman's test, from block 5)": friedman,
    "F-race, budget of the full matrix": unlimited(friedman),
    "t-race (paired t, Holm, from block 3)": paired,
    "t-race, budget of the full matrix": unlimited(paired),
    "successive halving": halving,
    "Hyperband, two brackets": hyperband,
    "empirical Bernstein race": bernstein,
    "empirical Bernstein race, budget of the full matrix": unlimited(bernstein),
    "all cells, six launches each": every,
}


def _more(search: Search, alive: Values, blocks: int, budget: int) -> bool:
    return bool(alive.sum() > 1 and search.launched + alive.sum() <= budget and blocks < BLOCKS)


def _raced(search: Search, budget: int, first: int, rule: Callable[[Values, Values], Values]) -> Answer:
    scores, alive = np.empty((0, CELLS)), np.ones(CELLS, dtype=bool)
    while _more(search, alive, len(scores), budget):
        scores = np.vstack([scores, search.block(len(scores), alive)])
        if len(scores) >= first:
            alive &= ~rule(scores, alive)
    return alive, int(np.where(alive, np.nan_to_num(scores, nan=-9.0).mean(axis=0), -np.inf).argmax())


def _paired_worse(scores: Values, alive: Values, top: int, level: float) -> Values:
    cells = np.flatnonzero(alive & (np.arange(CELLS) != top))
    differences = scores[:, cells] - scores[:, [top]]
    errors = differences.std(axis=0, ddof=1) / math.sqrt(len(scores))
    p = stats.t.cdf(differences.mean(axis=0) / np.maximum(errors, 1e-12), len(scores) - 1)
    worse = np.zeros(CELLS, dtype=bool)
    worse[cells[np.array(holm(p.tolist())) < level]] = True
    return worse


def _friedman_worse(scores: Values, alive: Values) -> Values:
    """Conover, Practical Nonparametric Statistics, 1999, section 5.8, as in Birattari et al., 2002."""
    cells = np.flatnonzero(alive)
    blocks, count = len(scores), len(cells)
    worse = np.zeros(CELLS, dtype=bool)
    if count < 3:
        return _paired_worse(scores, alive, int(cells[scores[:, cells].mean(axis=0).argmax()]), LEVEL)
    ranks = stats.rankdata(-scores[:, cells], axis=1)
    sums, squares = ranks.sum(axis=0), (ranks**2).sum()
    constant = blocks * count * (count + 1) ** 2 / 4
    statistic = (count - 1) * ((sums**2).sum() - blocks * constant) / (squares - constant)
    if statistic <= stats.chi2.ppf(1 - LEVEL, count - 1):
        return worse
    error = math.sqrt(max(2 * (blocks * squares - (sums**2).sum()) / ((blocks - 1) * (count - 1)), 0.0))
    reach = stats.t.ppf(1 - LEVEL / 2, (blocks - 1) * (count - 1)) * error
    worse[cells[sums - sums.min() > reach]] = True
    return worse


def _halved(search: Search, cells: Values, launches: Callable[[int], int], eta: int) -> Answer:
    alive = np.zeros(CELLS, dtype=bool)
    alive[cells] = True
    block = len(search.seen)
    while alive.sum() > 1:
        for _ in range(launches(int(alive.sum()))):
            search.block(block, alive)
            block += 1
        means = np.where(alive, np.nanmean(np.where(alive, search.seen, 0.0), axis=0), -np.inf)
        keep = np.argsort(means)[-max(1, int(alive.sum()) // eta) :]
        alive = np.isin(np.arange(CELLS), keep)
    return alive, int(np.flatnonzero(alive)[0])
