"""How time is measured: windows of steps between device fences. Knows no framework.

A phase is a function that runs a number of steps and returns when the device has done them. Its windows are chosen
long enough to drown the clock and the fence, and warmed up until they agree; nothing inside a window waits for the
device but the fence at its end. The phases of a cell take turns, so that a machine that drifts slows all of them alike.
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

#: Windows that are shorter are taken in bursts of about so long, in which a monitor sees what its phase does; but there
#: are so many turns, where there are windows for them.
BURST_S = 1.0
TURNS = 4

#: A window has at most so many times the steps of the one before.
GROWTH_MOST = 10

#: So many warm-up windows say how long a step takes, where they do not agree within the limit.
NEIGHBOURS = 3

#: A loader that is so many times as fast as training keeps its queue full all the while.
FAR_AHEAD = 4

Steps = Callable[[int], None]
Say = Callable[[Window], None]
Clock = Callable[[], int]


class Series:
    """The windows of one phase: warmed up once, then taken in bursts when it is the phase's turn.

    ``steps`` runs the given number of steps and returns when they are done; ``say`` gets every window, after its end.
    Several ``ranks`` begin each window together, and it lasts as long as the slowest of them takes: so all have the
    same windows, and decide alike. ``own_step_s`` are the times of this rank's own clock. ``begin`` is called before
    each burst, and ``untimed_steps`` counts the steps that are in no window.
    """

    def __init__(
        self, steps: Steps, plan: Plan, say: Say = lambda _: None, clock: Clock = time.perf_counter_ns,
        ranks: Ranks = ALONE, *, begin: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        self.steps, self.plan, self.say, self.clock, self.ranks = steps, plan, say, clock, ranks
        self.begin, self.untimed_steps = begin, 0
        self.own_step_s: list[float] = []
        self.warmup: list[Window] = []
        self.windows: list[Window] = []
        self.spans: list[tuple[float, float]] = []
        self.warm = False

    @property
    def last(self) -> Window:
        """The newest warm-up window, which has the steps of those that count."""
        return self.warmup[-1]

    @property
    def step_s(self) -> float:
        """Seconds of a step, as warming up ended."""
        return self.last.seconds / self.last.steps

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
            self.warm = previous.steps == window.steps and long_enough and _agree([previous.seconds, window.seconds])
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

    def untimed(self, steps: int) -> None:
        """Run the given number of steps without timing them."""
        if steps:
            self.steps(steps)
            self.untimed_steps += steps

    def phase(self) -> Phase:
        """The measured phase, with spans in seconds of the clock.

        It is `steady` when warming up ended before its limit and the halves of the windows that count agree.
        """
        steady = self.warm and _agree([window.seconds for window in self.windows])
        return Phase(tuple(self.windows), tuple(self.warmup), steady, tuple(self.spans))

    def _window(self, steps: int) -> tuple[Window, float, float]:
        """A window, its start in seconds of the clock, and the seconds that it took on this rank."""
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


def take_turns(
    train: Series,
    compute: Series,
    loading: Series,
    plan: Plan,
    prefetch: int | None = 0,
    *,
    local: Series | None = None,
) -> Iterator[None]:
    """Take all windows of the phases of a cell; yields after each burst, so that results can be sent meanwhile.

    Training and its steps alone take turns, and with several devices the steps without communication, ``local``. The
    loader's own windows go half before and half after: on average they lie where the others do, and a queue that tunes
    its own length, which it doubles whenever it was full and runs empty, is not made to grow in every turn.

    While the steps run alone, the loader fills its queue: it holds ``prefetch`` batches, or None where it tunes that.
    So the steps are timed when it had the time to fill it, and the batches made meanwhile are dropped before training
    is timed again, and before the loader is. Then training runs untimed until the queue is as long as training keeps
    it, at least for one step, which also warms up what the loader left cold.
    """
    for series in (train, compute, loading, *([local] if local else [])):
        series.warm_up()
    windows_per_burst = round(BURST_S / max(plan.min_window_s, 1e-3))
    burst = max(1, min(windows_per_burst, math.ceil(plan.windows / TURNS)))
    burst_s = burst * compute.last.seconds
    fill_s = min((prefetch or 0) * loading.step_s, burst_s)
    loaded = math.ceil((fill_s + burst_s) / loading.step_s)
    queued = loaded if prefetch is None else min(prefetch, loaded)
    # In training this queue is always full, so that no batch of a window was made outside of one.
    always_full = prefetch is None and FAR_AHEAD * loading.step_s < train.step_s
    dropped = 0 if always_full else queued
    settling_steps = max(1, round(min(dropped * loading.step_s, burst_s) / train.step_s))

    loading.burst(plan.windows // 2)
    yield
    for begin in range(0, plan.windows, burst):
        windows = min(burst, plan.windows - begin)
        loading.untimed(dropped if begin else 0)  # its own windows leave the queue as empty as it ever is
        train.untimed(settling_steps)
        train.burst(windows)
        yield
        compute.untimed(round(fill_s / compute.step_s))
        compute.burst(windows)
        yield
        if local:
            local.burst(windows)
            yield
    loading.untimed(queued)
    loading.burst(plan.windows - plan.windows // 2)
    yield


def _steps(last: Window, seconds: float) -> int:
    """Steps of the next window: as many as in the last one, if it was long enough.

    Else as many as should last a tenth longer than ``seconds``: at least one more, at most ten times as many.
    """
    if last.seconds >= seconds:
        return last.steps
    target = round(1.1 * seconds / last.seconds * last.steps)
    return min(max(target, last.steps + 1), GROWTH_MOST * last.steps)


def _agree(series: Sequence[float]) -> bool:
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
