"""The figures of a launch that a search judges by: the values of its objectives and limits."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from suite.analysis.rows.metrics import Prices, joules_per_sample
from suite.analysis.rows.wording import NONE, figure
from suite.plan.objective import KINDS, Question
from suite.record.record import Record

#: Where the peak memory of a launch stands: of the GPU's allocator if there is one, else of the process.
MEMORY = ("allocator_peak_bytes", "rss_peak_bytes")


def value(record: Record, name: str, question: Question) -> float | None:
    """The quantity of this name, in its own unit; None if the launch did not measure it, or reached no target."""
    if name == "samples/s":
        found = record.samples_per_s
    elif name == "step-latency":
        phase = record.phases.get("train")
        found = phase.step_s if phase else None
    elif name == "joules/sample":
        found = joules_per_sample(record)
    elif name == "cost":
        joules = joules_per_sample(record)
        found = Prices(question.price_hour, question.price_kwh).of_a_million(record.samples_per_s, joules)
    elif name == "memory":
        found = next((float(record.memory[kind]) for kind in MEMORY if kind in record.memory), None)
    else:
        found = record.course.seconds_to_target if record.course else None
    return found if found and found > 0 and math.isfinite(found) else None


def score(quantity: float | None, name: str) -> float:
    """The logarithm of a quantity with the sign with which more is better; NaN for None."""
    if quantity is None:
        return math.nan
    return math.log(quantity) if KINDS[name].more else -math.log(quantity)


def why_none(record: Record, question: Question) -> str:
    """Why a launch that ended well has no figure for an objective; empty if it has all."""
    for objective in question.objectives:
        if value(record, objective.name, question) is None:
            if objective.target is not None and record.course:
                epochs, last = len(record.course.epochs), record.course.final_accuracy
                return f"did not reach {objective.target:g} in {epochs} epochs (it ended at {last:.3f})"
            return f"its launch measured no {objective.name}"
    return ""


def figure_of(score: float, name: str) -> float:
    """The quantity of a score."""
    return math.exp(score if KINDS[name].more else -score)


def mean(scores: NDArray[np.float64]) -> float:
    """The mean of the scores that are known: the logarithm of a geometric mean."""
    return float(np.nanmean(scores))


def format_value(value: float | None, name: str) -> str:
    """A quantity with its unit, such as ``1,234 samples/s``, ``12.3 ms`` or ``2.11 GiB``."""
    if value is None:
        return NONE
    if name == "memory":
        return f"{figure(value / 2**30)} GiB" if value >= 2**30 else f"{figure(value / 2**20)} MiB"
    if name == "step-latency":
        return f"{figure(1e3 * value)} ms"
    return f"{figure(value)} {KINDS[name].unit}".rstrip()
