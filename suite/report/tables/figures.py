"""What all tables of timed cells write alike: ratios with their notes, counts, shares, and what several devices add."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite

from suite.analysis.rows.groups import SETTINGS, Group
from suite.analysis.rows.wording import DASH, NONE, figure
from suite.analysis.scaling.communication import Communication
from suite.analysis.statistics.ratios import Ratio
from suite.catalog.metrics import Metric
from suite.report.format.text import spread
from suite.report.format.view import LEFT, RIGHT
from suite.report.tables.cells import TimedCell

Read = Callable[[TimedCell], str]


class Notes:
    """Numbered notes; the same text gets the same number."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def mark(self, text: str) -> str:
        return f"[{self._numbers.setdefault(text, len(self._numbers) + 1)}]"

    @property
    def lines(self) -> list[str]:
        return [f"[{number}] {text}" for text, number in self._numbers.items()]


def ratio(found: Ratio, notes: Notes | None = None) -> str:
    """Returns ``1.52 (1.49-1.55)``; with ``notes``, marks why there is none, and what to beware of."""
    if not found.blocks or found.value is None or found.low is None or found.high is None:
        return f"{NONE} {notes.mark(found.reason)}" if notes and found.reason else NONE
    caveat = f" {notes.mark(found.caveat)}" if notes and found.caveat else ""
    return f"{found.value:.2f}{_bounds(f'{found.low:.2f}', f'{found.high:.2f}')}{caveat}"


def metric_text(metric: Metric) -> Read:
    """Returns what writes this metric of a cell, with its bounds if it has any."""

    def scaled(cell: TimedCell, name: str) -> float | None:
        value = cell.figures[name]
        # The rounding hides the last digits of counters.
        return value if metric.per == 1 or value is None else round(value / metric.per, 6)

    def read(cell: TimedCell) -> str:
        value, *ends = (scaled(cell, name) for name in (metric.name, *metric.ends))
        if metric.form and value is not None and isfinite(value):
            return f"{value:{metric.form}}"
        return spread(value, ends[0], ends[-1]) if ends else figure(value)

    return read


def launch_count(ok: int, started: int) -> str:
    """Returns ``6``, or ``4/6`` if not all that started ended well."""
    return str(started) if ok == started else f"{ok}/{started}"


def outcome(cell: TimedCell, notes: Notes | None = None) -> str:
    """Returns how the launches of a cell ended, and their flags."""
    reason = f" {notes.mark(cell.reason)}" if notes and cell.reason else ""
    return "; ".join(filter(None, [f"{cell.outcome}{reason}", cell.flags]))


def varied_settings(group: Group) -> list[str]:
    """Returns the settings that have more than one value within a framework."""
    values: dict[tuple[str, str], set[str]] = {}
    for row in group.rows:
        for name in group.varying:
            values.setdefault((name, row.cell.framework), set()).add(SETTINGS[name](row))
    return list(dict.fromkeys(name for (name, _), each in values.items() if len(each) > 1))


def has_several(group: Group) -> bool:
    """Returns whether any row has several devices."""
    return any(row.cell.devices > 1 for row in group.rows)


def of_devices(group: Group) -> tuple[dict[str, Read], dict[str, str]]:
    """Returns the columns that a table shows of several devices, and their alignment; none without such rows."""
    if not has_several(group):
        return {}, {}
    shown: dict[str, Read] = {
        "global batch": lambda cell: str(cell.devices.global_batch or NONE),
        "communication": lambda cell: communication(cell.devices.communication),
    }
    if group.by == "devices":
        shown["efficiency"] = lambda cell: shares(cell.devices.efficiency)
    return shown, {"strategy": LEFT, **dict.fromkeys(("devices", *shown), RIGHT)}


def shares(found: Ratio | None) -> str:
    """Returns ``92 % (90-94)`` for a ratio of 0.92 with its bounds."""
    if found is None or found.value is None:
        return NONE
    low, high = (f"{100 * (end or 0.0):.0f}" for end in (found.low, found.high))
    return f"{100 * found.value:.0f} %{_bounds(low, high)}"


def communication(cost: Communication | None) -> str:
    """Returns what communication costs; an interval that begins below zero begins at zero."""
    if cost is None:
        return NONE
    ends = [f"{100 * max(0.0, end):.0f}" for end in (cost.low, cost.high) if end is not None]
    return f"{100 * cost.share:.0f} %{_bounds(*ends) if ends else ''}"


def _bounds(low: str, high: str) -> str:
    return f" ({low}{DASH}{high})" if low != high else ""
