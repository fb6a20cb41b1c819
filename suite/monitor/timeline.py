"""Samples within the measured windows: the metrics while a phase was timed, and a thinned line for plots.

Parent and worker read one monotonic clock, so every sample has its exact place. Pure functions, without NVML or
psutil.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from suite.record.saved import POINTS, encode_lines

#: An energy counter is refreshed every 100 ms or so: over less time than this, its steps are a part of what it says.
ENERGY_LEAST_S = 5.0
#: Between two points of a line, at least: a little less than the host is sampled at, of which every sample is kept.
LINE_EVERY_S = 0.4
#: The share of a phase that samples must cover before the rest is extrapolated.
COVERED_LEAST = 0.8
#: The share of the time between two readings of a counter that must lie within a span, for the rate to belong to it.
INSIDE_LEAST = 0.8


@dataclass(frozen=True)
class Sample:
    """All readings of one moment: seconds on the monotonic clock, and value by name."""

    at_s: float
    values: Mapping[str, float]


@dataclass(frozen=True)
class Span:
    """From the begin of a burst's first window to the end of its last, on the same clock."""

    begin_s: float
    end_s: float

    @property
    def seconds(self) -> float:
        return self.end_s - self.begin_s

    def holds(self, sample: Sample) -> bool:
        return self.begin_s <= sample.at_s <= self.end_s

    def share(self, begin_s: float, end_s: float) -> float:
        """The share of this time that lies within the span."""
        inside = min(end_s, self.end_s) - max(begin_s, self.begin_s)
        return max(0.0, inside) / (end_s - begin_s) if end_s > begin_s else 0.0


Spans = Sequence[Span]


def seconds(spans: Spans) -> float:
    """The time of all bursts of a phase."""
    return math.fsum(span.seconds for span in spans)


def cut(samples: Iterable[Sample], spans: Spans) -> list[Sample]:
    """The samples within any of the spans."""
    return [sample for sample in samples if any(span.holds(sample) for span in spans)]


def rates(samples: Sequence[Sample], counters: Mapping[str, str], spans: Spans | None = None) -> list[Sample]:
    """Counters as rates per second between neighbouring samples, under their new names; all else as it is.

    A counter that went back, because it wrapped or its driver was reset, has no rate at that sample. With ``spans``
    only what was read within them is left: a rate belongs to a span that holds `INSIDE_LEAST` of the time between its
    two samples, since phases take turns and what lies before a sample may be another's.
    """
    converted = [_gauges(sample, counters) for sample in samples[:1] if _within(sample, spans)]
    for before, now in pairwise(samples):
        values = _gauges(now, counters).values if _within(now, spans) else {}
        if spans is None or any(span.share(before.at_s, now.at_s) >= INSIDE_LEAST for span in spans):
            values = {**values, **_rates(before, now, counters)}
        if values or spans is None:
            converted.append(Sample(now.at_s, values))
    return converted


def _within(sample: Sample, spans: Spans | None) -> bool:
    return spans is None or any(span.holds(sample) for span in spans)


def _gauges(sample: Sample, counters: Mapping[str, str]) -> Sample:
    return Sample(sample.at_s, {name: value for name, value in sample.values.items() if name not in counters})


def _rates(before: Sample, now: Sample, counters: Mapping[str, str]) -> dict[str, float]:
    passed_s = now.at_s - before.at_s
    grew = {
        name: now.values[name] - before.values[name] for name in counters if name in {*now.values} & {*before.values}
    }
    return {counters[name]: by / passed_s for name, by in grew.items() if by >= 0 and passed_s > 0}


def grown(samples: Sequence[Sample], name: str, spans: Spans) -> tuple[float, float] | None:
    """The growth of a counter within the spans, and how many seconds of them the samples cover.

    From the first to the last sample of each span. None where it was not read twice in any, or went back.
    """
    total, covered_s = 0.0, 0.0
    for span in spans:
        within = [sample for sample in samples if name in sample.values and span.holds(sample)]
        if any(a.values[name] > b.values[name] for a, b in pairwise(within)):
            return None
        if within:
            total += within[-1].values[name] - within[0].values[name]
            covered_s += within[-1].at_s - within[0].at_s
    return (total, covered_s) if covered_s else None


def energy_j(samples: Sequence[Sample], spans: Spans) -> tuple[float, str] | None:
    """Joules over the spans, scaled from the samples that cover them, and how they were measured.

    From the counter where there is one, and then only over `ENERGY_LEAST_S` or more; polled power takes its place where
    there is none, and is so labelled: on some GPUs the sensor sees a quarter of the time (Yang et al., arXiv
    2312.02741). None where neither says enough.
    """
    within, whole_s = cut(samples, spans), seconds(spans)
    if any("energy_j" in sample.values for sample in within):
        counted = grown(within, "energy_j", spans)
        enough = counted and whole_s >= ENERGY_LEAST_S and counted[1] >= COVERED_LEAST * whole_s
        return (counted[0] * whole_s / counted[1], "counter") if counted and counted[0] and enough else None
    polled = [sample for sample in within if "power_w" in sample.values]
    moments = [[sample.at_s for sample in polled if span.holds(sample)] for span in spans]
    if not polled or sum(at[-1] - at[0] for at in moments if at) < COVERED_LEAST * whole_s:
        return None
    import numpy as np  # here, as below: what is mistyped is answered without it

    return float(np.mean([sample.values["power_w"] for sample in polled])) * whole_s, "polled power"


def summary(samples: Sequence[Sample]) -> dict[str, dict[str, float]]:
    """Median, 5th and 95th percentile and maximum of every metric; one that was never read is absent."""
    figures = {}
    for name in _names(samples):
        values = [sample.values[name] for sample in samples if name in sample.values]
        import numpy as np

        low, middle, high = np.percentile(values, [5, 50, 95]).tolist()
        quantiles = {"median": middle, "p5": low, "p95": high, "max": max(values)}
        figures[name] = {**{figure: short(value) for figure, value in quantiles.items()}, "n": len(values)}
    return figures


def line(samples: Sequence[Sample], begin_s: float, points: int = POINTS) -> dict[str, Any]:
    """At most so many of the samples, evenly taken, over the seconds since ``begin_s``; see `suite.record.saved`.

    Short launches get fewer points: a GPU is sampled more often than a line needs.
    """
    seconds = samples[-1].at_s - samples[0].at_s if samples else 0.0
    points = min(points, max(2, round(seconds / LINE_EVERY_S)))
    step = max(1, -(-len(samples) // points))
    thinned = samples[::step]
    values = {name: [sample.values.get(name) for sample in thinned] for name in _names(samples)}
    return encode_lines([sample.at_s - begin_s for sample in thinned], values)


def _names(samples: Iterable[Sample]) -> list[str]:
    return list(dict.fromkeys(name for sample in samples for name in sample.values))


def short(value: float) -> float:
    """Six digits, which is more than any sensor or counter over a phase resolves."""
    return float(f"{value:.6g}")
