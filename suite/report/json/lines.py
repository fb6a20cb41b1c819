"""Cells that stand in a line, as JSON: by number of devices, and by release of their framework."""

from __future__ import annotations

from dataclasses import dataclass

from suite.analysis.statistics import scaling as efficiency
from suite.analysis.statistics.changes import Step
from suite.analysis.statistics.inference import Estimate


@dataclass(frozen=True, kw_only=True)
class ScalingPoint:
    """A cell of a scaling. ``efficiency`` is the speed-up per device; both are tested against 1.

    An efficiency that is equal is linear within the margin.
    """

    cell: str
    devices: int
    global_batch: int
    speed_up: Estimate
    efficiency: Estimate


@dataclass(frozen=True, kw_only=True)
class Scaling:
    """Cells that differ in the number of devices alone, the base first.

    ``kind`` is ``weak``, with the same batch on each device, or ``strong``, with the same global batch.
    """

    kind: str
    framework: str
    strategy: str
    points: list[ScalingPoint]


@dataclass(frozen=True, kw_only=True)
class ReleaseStep:
    """A release of a line, with its ratios to the one before and to the oldest, which itself has none."""

    cell: str
    release: str
    to_before: Estimate | None
    to_oldest: Estimate | None


def scaling(found: efficiency.Scaling) -> Scaling:
    """Returns a scaling with the figures of its cells."""
    names = ("devices", "global_batch", "speed_up", "efficiency")
    points = [
        ScalingPoint(cell=point.row.cell.id, **{name: getattr(point, name) for name in names}) for point in found.points
    ]
    return Scaling(kind=found.kind, framework=found.framework, strategy=found.strategy, points=points)


def release_step(step: Step) -> ReleaseStep:
    """Returns a release with its ratios."""
    cell = step.row.cell.id
    return ReleaseStep(cell=cell, release=step.release, to_before=step.to_before, to_oldest=step.to_oldest)
