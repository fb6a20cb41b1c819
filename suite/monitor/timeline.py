"""Samples cut to the measured windows: what each metric was while a phase was timed, and a thinned line for plots.

Parent and worker read one monotonic clock, so that no sample needs to be guessed into a window. Pure functions; knows
neither NVML nor psutil.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from suite.record.line import POINTS, stored

#: An energy counter is refreshed every 100 ms or so: over less time than this, its steps are a part of what it says.
ENERGY_LEAST_S = 5.0
#: Between two points of a line, at least: a little less than the host is sampled at, of which every sample is kept.
LINE_EVERY_S = 0.4
#: The share of a span that samples must cover, so that the rest may be taken to be like it.
COVERED_LEAST = 0.8


@dataclass(frozen=True)
class Sample:
    """All readings of one moment: seconds on the monotonic clock, and value by name."""

    at_s: float
    values: Mapping[str, float]


@dataclass(frozen=True)
class Span:
    """From the begin of a phase's first window that counts to the end of its last, on the same clock."""

    begin_s: float
    end_s: float

    @property
    def seconds(self) -> float:
        return self.end_s - self.begin_s


def cut(samples: Iterable[Sample], span: Span) -> list[Sample]:
    """The samples within the span."""
    return [sample for sample in samples if span.begin_s <= sample.at_s <= span.end_s]


def rates(samples: Sequence[Sample], counters: Mapping[str, str]) -> list[Sample]:
    """Counters as rates per second between neighbouring samples, under their new names; all else as it is.

    A counter that went back, because it wrapped or its driver was reset, has no rate at that sample.
    """
    found = [Sample(x.at_s, {k: v for k, v in x.values.items() if k not in counters}) for x in samples[:1]]
    for before, now in pairwise(samples):
        values: dict[str, float] = {}
        for name, value in now.values.items():
            if name not in counters:
                values[name] = value
            elif name in before.values and value >= before.values[name] and now.at_s > before.at_s:
                values[counters[name]] = (value - before.values[name]) / (now.at_s - before.at_s)
        found.append(Sample(now.at_s, values))
    return found


def grown(samples: Sequence[Sample], name: str) -> float | None:
    """By how much a counter grew from the first to the last sample; None where it was not read or went back."""
    seen = [sample.values[name] for sample in samples if name in sample.values]
    rising = all(a <= b for a, b in pairwise(seen))
    return seen[-1] - seen[0] if len(seen) > 1 and rising else None


def energy_j(samples: Sequence[Sample], span: Span) -> tuple[float, str] | None:
    """Joules over the span, scaled from the samples that cover it, and how they were found.

    From the counter where there is one, and then only over `ENERGY_LEAST_S` or more; polled power takes its place where
    there is none, and is so labelled: on some GPUs the sensor sees a quarter of the time (Yang et al., arXiv
    2312.02741). None where neither says enough.
    """
    within = cut(samples, span)
    if counted := [sample for sample in within if "energy_j" in sample.values]:
        used, covered = grown(counted, "energy_j"), counted[-1].at_s - counted[0].at_s
        enough = span.seconds >= ENERGY_LEAST_S and covered >= COVERED_LEAST * span.seconds
        return (used * span.seconds / covered, "counter") if used and enough else None
    polled = [sample for sample in within if "power_w" in sample.values]
    if not polled or polled[-1].at_s - polled[0].at_s < COVERED_LEAST * span.seconds:
        return None
    return float(np.mean([sample.values["power_w"] for sample in polled])) * span.seconds, "polled power"


def summary(samples: Sequence[Sample]) -> dict[str, dict[str, float]]:
    """Median, 5th and 95th percentile and maximum of every metric; one that was never read is absent."""
    figures = {}
    for name in _names(samples):
        values = [sample.values[name] for sample in samples if name in sample.values]
        low, middle, high = np.percentile(values, [5, 50, 95]).tolist()
        known = {"median": middle, "p5": low, "p95": high, "max": max(values)}
        figures[name] = {**{figure: short(value) for figure, value in known.items()}, "n": len(values)}
    return figures


def line(samples: Sequence[Sample], begin_s: float, points: int = POINTS) -> dict[str, Any]:
    """At most so many of the samples, evenly taken, over the seconds since ``begin_s``; see `suite.record.line`.

    Of short launches they are fewer: a GPU is sampled more often than a line needs.
    """
    seconds = samples[-1].at_s - samples[0].at_s if samples else 0.0
    points = min(points, max(2, round(seconds / LINE_EVERY_S)))
    step = max(1, -(-len(samples) // points))
    taken = samples[::step]
    values = {name: [sample.values.get(name) for sample in taken] for name in _names(samples)}
    return stored([sample.at_s - begin_s for sample in taken], values)


def _names(samples: Iterable[Sample]) -> list[str]:
    return list(dict.fromkeys(name for sample in samples for name in sample.values))


def short(value: float) -> float:
    """Six digits, which is more than any sensor or counter over a phase resolves."""
    return float(f"{value:.6g}")
