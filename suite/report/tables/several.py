"""Figures in the cells of a table: launches, ratios, percentages, and the columns of several devices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any

from suite.analysis.rows.groups import Group
from suite.analysis.rows.wording import DASH, NONE, figure
from suite.report.format.view import LEFT, RIGHT

Read = Callable[[Any], str]


def has_several(group: Group) -> bool:
    """Returns whether any row has several devices."""
    return any(row.cell.devices > 1 for row in group.rows)


def launch_count(ok: int, started: int) -> str:
    """Returns ``6``, or ``4/6`` if not all that started ended well."""
    return str(started) if ok == started else f"{ok}/{started}"


def ratio(row: Mapping[Any, Any]) -> str:
    """Returns ``1.52 (1.49-1.55)`` from a row of a table."""
    if not row["ratio_blocks"]:
        return NONE
    low, high = (f"{row[name]:.2f}" for name in ("ratio_min", "ratio_max"))
    return f"{row['ratio']:.2f}" + (f" ({low}{DASH}{high})" if low != high else "")


def columns(group: Group) -> tuple[dict[str, Read], dict[str, str]]:
    """Returns the columns that a table shows of several devices, and their alignment; none without such rows."""
    if not has_several(group):
        return {}, {}
    shown: dict[str, Read] = {
        "global batch": lambda row: figure(row["global_batch"], 1).replace(",", ""),
        "communication": _percents,
    }
    if group.by == "devices":
        shown["efficiency"] = lambda row: shares(row["efficiency"], row["efficiency_min"], row["efficiency_max"])
    return shown, {"strategy": LEFT, **dict.fromkeys(("devices", *shown), RIGHT)}


def shares(value: float | None, low: float | None, high: float | None) -> str:
    """Returns ``92 % (90-94)`` for a share of 0.92 with its bounds."""
    if value is None or not isfinite(value):
        return NONE
    bounds = [f"{100 * end:.0f}" for end in (low, high) if end is not None and isfinite(end)]
    return f"{100 * value:.0f} %" + (f" ({DASH.join(bounds)})" if len(set(bounds)) > 1 else "")


def _percents(row: Any) -> str:
    """Returns what communication costs; an interval that begins below zero begins at zero."""
    value, low, high = (row[f"communication_percent{end}"] for end in ("", "_min", "_max"))
    ends = (None if end is None else max(0.0, end / 100) if isfinite(end) else end for end in (low, high))
    return shares(None if value is None else value / 100, *ends)
