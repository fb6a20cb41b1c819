"""The types of ratios in a comparison as JSON: those of a table, and those of several devices to one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """Samples per second relative to the cell ``baseline``, over ``blocks`` blocks.

    With a ``verdict`` (faster, slower, equal, inconclusive), ``value`` is the geometric mean, ``low`` and ``high`` are
    its 95 % interval, and ``p`` is corrected after Holm. Without one nothing was tested, and they are the median, the
    lowest and the highest. Without a ratio, ``value`` is null and ``reason`` says why. ``caveat`` names conditions in
    which the rows differ. ``blocks_to_decide`` is an estimate, for inconclusive rows.
    """

    value: float | None
    low: float | None
    high: float | None
    blocks: int
    baseline: str
    p: float | None
    verdict: str
    blocks_to_decide: int | None
    reason: str
    caveat: str


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A value with its 95 % interval; null bounds where a single launch has none."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, kw_only=True)
class ScalingPoint:
    """A cell of a scaling. ``efficiency`` is the speed-up per device; both are tested against 1.

    An efficiency that is equal is linear within the margin.
    """

    cell: str
    devices: int
    global_batch: int
    speed_up: Ratio
    efficiency: Ratio


@dataclass(frozen=True, kw_only=True)
class Scaling:
    """Cells that differ in the number of devices alone, the base first.

    ``kind`` is ``weak``, with the same batch on each device, or ``strong``, with the same global batch.
    """

    kind: str
    framework: str
    strategy: str
    points: list[ScalingPoint]
