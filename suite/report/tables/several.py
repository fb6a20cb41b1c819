"""The columns of a table that cells with several devices have besides the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from suite.analysis.rows.groups import Group, Row
from suite.analysis.rows.wording import DASH, NONE
from suite.analysis.scaling.communication import communication, exchange, threads_per_device
from suite.analysis.scaling.efficiency import WEAK, Point, Scaling
from suite.report.format.view import LEFT, RIGHT

Read = Callable[[Any], str]


def has_several(group: Group) -> bool:
    """Returns whether any row has several devices."""
    return any(row.cell.devices > 1 for row in group.rows)


def figures(row: Row, scalings: Sequence[Scaling]) -> dict[str, Any]:
    """Returns the columns of a row in `cells.csv`; those of one device are its batch and threads, and empty."""
    batches = {record.effective_batch for record in row.ok}
    cost, together, weak = communication(row), exchange(row), _weak(row, scalings)
    efficiency = weak.efficiency if weak else None
    return {
        "global_batch": row.cell.effective_batch or max(batches, default=None),
        "threads_per_device": threads_per_device(row),
        "efficiency": efficiency.value if efficiency else None,
        "efficiency_min": efficiency.low if efficiency else None,
        "efficiency_max": efficiency.high if efficiency else None,
        "efficiency_verdict": efficiency.verdict if efficiency else "",
        "communication_percent": 100 * cost.share if cost else None,
        "communication_percent_min": 100 * cost.low if cost and cost.low is not None else None,
        "communication_percent_max": 100 * cost.high if cost and cost.high is not None else None,
        "skew": together.skew,
        "allreduce_bytes_per_s": together.bytes_per_s,
        "allreduce_of_peak": together.of_peak,
    }


def columns(group: Group) -> tuple[dict[str, Read], dict[str, str]]:
    """Returns the columns that a table shows of several devices, and their alignment; none without such rows."""
    if not has_several(group):
        return {}, {}
    shown: dict[str, Read] = {
        "global batch": lambda row: _whole(row["global_batch"]),
        "communication": lambda row: percents(row, "communication_percent"),
    }
    if group.by == "devices":
        shown["efficiency"] = lambda row: shares(row["efficiency"], row["efficiency_min"], row["efficiency_max"])
    return shown, {"strategy": LEFT, **dict.fromkeys(("devices", *shown), RIGHT)}


def percents(row: Any, name: str) -> str:
    """Returns ``6 % (4-8)`` from the columns of a percentage and its interval."""
    value, low, high = (row[name + end] for end in ("", "_min", "_max"))
    if not _known(value):
        return NONE
    bounds = [f"{max(0.0, end):.0f}" for end in (low, high) if _known(end)]
    return f"{value:.0f} %" + (f" ({DASH.join(bounds)})" if len(set(bounds)) > 1 else "")


def shares(value: float | None, low: float | None, high: float | None) -> str:
    """Returns ``92 % (90-94)`` for a share of 0.92 with its bounds."""
    if value is None or not _known(value):
        return NONE
    bounds = [f"{100 * end:.0f}" for end in (low, high) if end is not None and _known(end)]
    return f"{100 * value:.0f} %" + (f" ({DASH.join(bounds)})" if len(set(bounds)) > 1 else "")


def _weak(row: Row, scalings: Sequence[Scaling]) -> Point | None:
    points = (point for scaling in scalings if scaling.kind == WEAK for point in scaling.points[1:])
    return next((point for point in points if point.row.key == row.key), None)


def _known(value: float | None) -> bool:
    return value is not None and value == value  # noqa: PLR0124 - not a number, which frames hold for None


def _whole(value: float | None) -> str:
    return f"{value:.0f}" if value is not None and _known(value) else NONE
