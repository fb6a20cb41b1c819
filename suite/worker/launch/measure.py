"""How time is measured: windows of steps between device fences. Knows no framework.

A phase is a function that runs a number of steps and returns when the device has done them. Its windows are chosen
long enough to drown the clock and the fence, and warmed up until they agree; nothing inside a window waits for the
device but the fence at its end.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from statistics import median, median_low, quantiles

from suite.plan.measuring import Plan
from suite.record.record import Phase, Window
from suite.worker.distributed.ranks import ALONE, Ranks

#: Two halves of a series agree when their medians (and quartiles, from eight windows on) differ by no more than this.
STEADY_WITHIN = 0.05

#: With fewer windows their halves say nothing of a trend.
HALVES_LEAST = 4

#: A window has at most so many times the steps of the one before.
GROWTH_MOST = 10

#: So many warm-up windows say how long a step takes, where they do not agree within the limit.
NEIGHBOURS = 3

#: How many turns phases take that are compared with each other, where there are windows for them.
TURNS = 4

Steps = Callable[[int], None]
Say = Callable[[Window], None]
Clock = Callable[[], int]


class Series:
    """The windows of one phase: warmed up once, then taken in bursts when it is the phase's turn.

    ``steps`` runs the given number of steps and returns when they are done; ``say`` gets every window, after its end.
    Several ``ranks`` begin each window together, and it lasts as long as the slowest of them takes: so all have the
    same windows, and decide alike. ``own_step_s`` are the times of this rank's own clock. ``begin`` is called before
    each burst. A window has a multiple of ``whole`` steps.
    """

    def __init__(
        self, steps: Steps, plan: Plan, say: Say = lambda _: None, clock: Clock = time.perf_counter_ns,
        ranks: Ranks = ALONE, *, begin: Callable[[], None] = lambda: None, whole: int = 1,
    ) -> None:  # fmt: skip
        self.steps, self.plan, self.say, self.clock, self.ranks = steps, plan, say, clock, ranks
        self.begin, self.whole = begin, whole
        self.own_step_s: list[float] = []
        self.warmup: list[Window] = []
        self.windows: list[Window] = []
        self.spans: list[tuple[float, float]] = []
        self.warm = False

    @property
    def last(self) -> Window:
        """The newest warm-up window, which has the steps of those that count."""
        return self.warmup[-1]

    def warm_up(self) -> None:
        """Find the number of steps of a window, and run until two windows agree or the limit is reached.

        The limit does not include the first step, whose one-time work may take longer than all later steps.
        """
        plan = self.plan
        if not self.warmup:
            self.warmup.append(self._window(1)[0])
        spent = 0.0
        while not self.warm and (spent < plan.max_warmup_s or self.last.seconds < plan.min_window_s):
            previous = self.last
            window, *_ = self._window(_steps(previous, plan.min_window_s))
            self.warmup.append(window)
            spent += window.seconds
            long_enough = min(previous.seconds, window.seconds) >= plan.min_window_s
            self.warm = previous.steps == window.steps and long_enough and agree([previous.seconds, window.seconds])
        # A window that waited for another program seems long enough with too few steps: its neighbours know better.
        step_s = median_low([window.seconds / window.steps for window in self.warmup[-NEIGHBOURS:]])
        steps = min(round(plan.min_window_s / step_s), GROWTH_MOST * self.last.steps)
        if not self.warm and steps > 2 * self.last.steps:
            self.warmup.append(self._window(steps)[0])

    def burst(self, windows: int) -> None:
        """Measure the given number of windows in a row."""
        self.begin()
        timed = [self._window(self.last.steps) for _ in range(windows)]
        self.own_step_s += [own_s / window.steps for window, _, own_s in timed]
        self.windows += [window for window, _, _ in timed]
        if timed:
            self.spans.append((timed[0][1], timed[-1][1] + timed[-1][0].seconds))

    def phase(self) -> Phase:
        """The measured phase, with spans in seconds of the clock.

        It is `steady` when warming up ended before its limit and, from `HALVES_LEAST` windows on, their halves agree.
        """
        seconds = [window.seconds for window in self.windows]
        steady = self.warm and (len(seconds) < HALVES_LEAST or agree(seconds))
        return Phase(tuple(self.windows), tuple(self.warmup), steady, tuple(self.spans))

    def _window(self, steps: int) -> tuple[Window, float, float]:
        steps = -(-steps // self.whole) * self.whole
        self.ranks.barrier()
        start = self.clock()
        self.steps(steps)
        end = self.clock()
        own_s = max(end - start, 1) / 1e9
        window = Window(steps, self.ranks.slowest(own_s))
        self.say(window)
        return window, start / 1e9, own_s


def measure(steps: Steps, plan: Plan, say: Say = lambda _: None, clock: Clock = time.perf_counter_ns) -> Phase:
    """One phase by itself: warm up, then ``plan.windows`` windows in a row."""
    series = Series(steps, plan, say, clock)
    series.warm_up()
    series.burst(plan.windows)
    return series.phase()


def in_order(train: Series, turns: Sequence[Series], others: Sequence[Series], plan: Plan) -> Iterator[None]:
    """Take all windows of a launch: training's, then those of the other phases; yields after each burst.

    Training comes first, so that its windows are the same whether or not a launch has other phases. Each of these warms
    up just before it is timed; a loader empties its queue by that. Those that take ``turns``, steps without loading,
    and with several devices those without communication too, do so that a machine that drifts slows both alike.
    """
    train.warm_up()
    train.burst(plan.windows)
    yield
    yield from in_turns(turns, plan)
    for series in others:
        series.warm_up()
        series.burst(plan.windows)
        yield


def in_turns(turns: Sequence[Series], plan: Plan) -> Iterator[None]:
    """Warm up all of these, and take their windows in turns; yields after each burst."""
    for series in turns:
        series.warm_up()
    at_once = max(1, math.ceil(plan.windows / TURNS)) if len(turns) > 1 else plan.windows
    for begin in range(0, plan.windows, at_once):
        for series in turns:
            series.burst(min(at_once, plan.windows - begin))
            yield


def _steps(last: Window, seconds: float) -> int:
    """Steps of the next window: as many as in the last one, if it was long enough.

    Else as many as should last a tenth longer than ``seconds``: at least one more, at most ten times as many.
    """
    if last.seconds >= seconds:
        return last.steps
    target = round(1.1 * seconds / last.seconds * last.steps)
    return min(max(target, last.steps + 1), GROWTH_MOST * last.steps)


def agree(series: Sequence[float]) -> bool:
    """Whether the halves of a series are alike, so that it has no trend worth waiting for."""
    if len(series) < 2:
        return False
    half = len(series) // 2
    return all(
        abs(first - second) <= STEADY_WITHIN * min(first, second)
        for first, second in zip(_shape(series[:half]), _shape(series[-half:]), strict=True)
    )


def _shape(series: Sequence[float]) -> list[float]:
    return quantiles(series, n=4) if len(series) >= 4 else [median(series)]
