"""The bisection, from nothing but rates: which releases the next block launches, and what is decided.

A block holds one launch of each release that is compared, so that a drift of the machine cancels out. First the bad
release is tested against the good one. Then each middle is tested for whether it lies nearer to the good or to the bad
one, on logarithms of rates, in blocks with both. Last, the two neighbours that are left are tested against each other.

Each of these decisions is looked at after every block from the fourth on (`suite.analysis.statistics.sequential`) and
ends when it is made. The risk of the search is divided evenly among all decisions that it can need, so that all of them
together are wrong with at most that probability (Bonferroni). A decision's variance is its own, moderated by that of
the decisions before it. How often searches are right, with the noise of committed launches:
``python -m tests.studies.bisect``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy import special

from framework_training_suite import CommandError
from suite.analysis.statistics.inference import LEVEL, Paired
from suite.analysis.statistics.sequential import DESIGN, PRIOR, Design, boundaries, sequential_p
from suite.plan.measuring import MARGIN

#: Throughputs of one block's launches by the place of their release; None for a launch that did not end well.
Rates = Mapping[int, float | None]
Measure = Callable[[Sequence[int], int], Rates]

ENDS, MIDDLE, NEIGHBOURS = "ends", "middle", "neighbours"


class SearchError(CommandError, RuntimeError):
    """The search cannot go on; one line that says why."""


@dataclass(frozen=True)
class Decision:
    """One test: of what ``kind``, on which release, by its place, in how many blocks, with the sequential p-value.

    ``test`` is the ratio to the release that it is compared with: the good one, or the one before. ``slow`` says on
    which side it is; None if the last look has not decided it.
    """

    kind: str
    place: int
    blocks: int
    test: Paired
    slow: bool | None


@dataclass
class Bisection:
    """A search over these ``releases``, at least two, the good one first, the bad one last.

    ``measure`` launches the releases at these places in one block, and ``told`` is called with each decision. ``risk``
    is that of the whole search.
    """

    releases: Sequence[str]
    measure: Measure
    risk: float = LEVEL
    margin: float = MARGIN
    design: Design = DESIGN
    told: Callable[[Decision], None] = lambda _: None
    decisions: list[Decision] = field(default_factory=list)
    lacking: set[int] = field(default_factory=set)  # middles that could not be measured
    blocks: int = 0
    good: int = 0
    bad: int = 0
    _squares: float = 0.0  # of deviations of one launch's logarithm, over all decisions so far
    _freedom: int = 0

    def __post_init__(self) -> None:
        self.bad = len(self.releases) - 1

    @property
    def level(self) -> float:
        """The level of each decision: the risk over the most decisions that a search of this length can need."""
        middles = math.ceil(math.log2(len(self.releases) - 1))
        return self.risk / (middles + 2 if middles else 1)

    def go(self) -> Decision | None:
        """Search, and return the decision on the first slow release against the one before; None without one.

        Then ``decisions`` say how far it came. Raises `SearchError` where the good or the bad release cannot be
        measured.
        """
        first = self._decide(ENDS, self.bad)
        if first is None or not first.slow or first.test.value > 1 - self.margin:
            return None
        while place := self._middle():
            found = self._decide(MIDDLE, place)
            if found is None:
                self.lacking.add(place)
            elif found.slow is None:
                return None
            elif found.slow:
                self.bad = place
            else:
                self.good = place
        if (self.good, self.bad) == (0, len(self.releases) - 1):
            return first
        last = self._decide(NEIGHBOURS, self.bad)
        return last if last and last.slow else None

    def _middle(self) -> int:
        centre = (self.good + self.bad) / 2
        left = [place for place in range(self.good + 1, self.bad) if place not in self.lacking]
        return min(left, key=lambda place: abs(place - centre), default=0)

    def _decide(self, kind: str, place: int) -> Decision | None:
        """The decision on one release; None if it could not be measured."""
        ends = (self.good, self.bad) if kind == NEIGHBOURS else (0, len(self.releases) - 1)
        # Variances of what is tested, of the ratio to the release before it, in those of one launch.
        share = 1.5 if kind == MIDDLE else 2.0
        logs: list[float] = []
        ratios: list[float] = []
        lowest = 1.0
        while len(logs) < self.design.most:
            rates = self.measure(sorted({*ends, place}), self.blocks)
            self.blocks += 1
            if not all(rates.get(each) for each in {*ends, place}):
                if kind == MIDDLE and all(rates.get(each) for each in ends):
                    return None
                lost = next(each for each in (*ends, place) if not rates.get(each))
                raise SearchError(f"a launch of release {self.releases[lost]} did not end well; see the line above")
            rate, low, high = (math.log(rates[each] or 1.0) for each in (place, *ends))
            logs.append(rate - (low + high) / 2 if kind == MIDDLE else rate - low)
            ratios.append(rate - low)
            if len(logs) >= self.design.first:
                lowest = min(lowest, self._p(logs, share))
                if lowest <= self.level:
                    break
        slow = float(np.mean(logs)) < 0 if lowest <= self.level else None
        made = Decision(kind, place, len(logs), self._pair(ratios, lowest), slow)
        self._squares += float(np.var(logs)) * len(logs) / share
        self._freedom += len(logs) - 1
        self.decisions.append(made)
        self.told(made)
        return made

    def _p(self, logs: Sequence[float], share: float) -> float:
        error, freedom = self._error(logs, share)
        chance = 2 * float(special.stdtr(freedom, -abs(float(np.mean(logs))) / error)) if error else 0.0
        return sequential_p(chance, len(logs), self.design)

    def _pair(self, logs: Sequence[float], p: float) -> Paired:
        """The ratio with its repeated 95 % interval, which holds at all looks together."""
        error, freedom = self._error(logs, 2.0)
        bound = boundaries(self.design, LEVEL)[len(logs) - self.design.first]
        mean, reach = float(np.mean(logs)), -float(special.stdtrit(freedom, bound / 2)) * error
        return Paired(math.exp(mean), math.exp(mean - reach), math.exp(mean + reach), len(logs), p=p)

    def _error(self, logs: Sequence[float], share: float) -> tuple[float, float]:
        """The standard error of the mean and its degrees of freedom, moderated by the decisions before."""
        weight = min(PRIOR, self._freedom)
        common = share * self._squares / self._freedom if self._freedom else 0.0
        freedom = len(logs) - 1 + weight
        variance = (float(np.var(logs)) * len(logs) + weight * common) / freedom
        return math.sqrt(variance / len(logs)), freedom
