"""How time is measured: windows of steps between device fences. Knows no framework.

A phase is a function that runs a number of steps and returns when the device has done them. Its windows are chosen
long enough to drown the clock and the fence, warmed up until they agree, and then taken in a row; nothing inside a
window waits for the device but the fence at its end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median, quantiles

from suite.plan.measuring import Plan
from suite.record.record import Phase, Window

#: Two halves of a series agree when their medians (and quartiles, from eight windows on) differ by no more than this.
STEADY_WITHIN = 0.05

Steps = Callable[[int], None]
Say = Callable[[Window], None]


def measure(
    steps: Steps, plan: Plan, say: Say = lambda _: None, clock: Callable[[], int] = time.perf_counter_ns
) -> Phase:
    """Run one phase: find the number of steps of a window, warm up, take ``plan.windows`` windows.

    ``steps`` runs the given number of steps and returns when they are done; ``say`` is told of every window, outside of
    it. The span is in seconds of ``clock``. The phase is `steady` when warming up ended before its limit and the halves
    of the windows that count agree. The first step is no part of the limit: what it does once may take longer than all
    that follows.
    """
    moments: list[tuple[float, float]] = []

    def window(count: int) -> Window:
        start = clock()
        steps(count)
        end = clock()
        taken = Window(count, max(end - start, 1) / 1e9)
        moments.append((start / 1e9, end / 1e9))
        say(taken)
        return taken

    warmup = [window(1)]
    spent, warm = 0.0, False
    while not warm and (spent < plan.max_warmup_s or warmup[-1].seconds < plan.min_window_s):
        before = warmup[-1]
        last = window(_steps(before, plan.min_window_s))
        warmup.append(last)
        spent += last.seconds
        long_enough = min(before.seconds, last.seconds) >= plan.min_window_s
        warm = before.steps == last.steps and long_enough and _agree([before.seconds, last.seconds])
    del moments[:]
    windows = [window(warmup[-1].steps) for _ in range(plan.windows)]
    steady = warm and _agree([w.seconds for w in windows])
    return Phase(tuple(windows), tuple(warmup), steady, span=(moments[0][0], moments[-1][1]))


def _steps(last: Window, seconds: float) -> int:
    """Steps of the next window: as many as in the last one, if it was long enough.

    Else as many as should last a tenth longer than ``seconds``: at least one more, at most ten times as many.
    """
    if last.seconds >= seconds:
        return last.steps
    wanted = round(1.1 * seconds / last.seconds * last.steps)
    return min(max(wanted, last.steps + 1), 10 * last.steps)


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
