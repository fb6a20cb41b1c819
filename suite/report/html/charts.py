"""The figures behind the interactive charts of a report, as plain values for JSON. `templates/charts.js` draws them."""

from __future__ import annotations

from typing import Any

from suite.analysis.accuracy.comparison import Learned, target_of
from suite.analysis.records.load import Launch
from suite.analysis.rows.groups import SETTINGS, WORDS, Group, Row, flags_of
from suite.plan.cell import USUAL_COMPILE
from suite.record.text import clean
from suite.report.format.names import workload
from suite.report.format.text import capital
from suite.report.tables.excerpt import excerpt
from suite.report.tables.frame import Table

#: Digits of a figure in a chart: more than a screen can show.
DIGITS = 6

#: Two charts stand side by side if neither has more cells than this.
BESIDE_MOST = 12
#: The name of cells that differ from others in having the usual compile mode of their framework.
USUAL_MODE = "usual mode"


def throughput(table: Table) -> dict[str, Any]:
    """Returns the throughput of every launch, by cell: a bar at the median, a dot per launch.

    Cells with the same settings are a group, in which frameworks stand side by side. Of a large table it has the rows
    that the plots show.
    """
    shown = excerpt(table)
    groups: list[str] = []
    cells = []
    for row, cell in zip(shown.group.rows, shown.frame.to_dict("records"), strict=True):
        rates = [(launch, rate) for launch in row.launches if (rate := _rate(launch)) is not None]
        if not rates:
            continue
        name = _setting(row, shown.group)
        if name not in groups:
            groups.append(name)
        cells.append(
            {
                "framework": row.cell.framework,
                "label": shown.group.label(row),
                "group": groups.index(name),
                "median": _short(cell["samples_per_s"]),
                **({} if shown.base.holds(row) else _verdict(cell, shown.baseline)),
                "launches": [[_short(rate), _launch(launch)] for launch, rate in rates],
            }
        )
    return {
        "kind": "cells",
        "title": f"{capital(workload(table.group))}: training throughput",
        "unit": "samples/s",
        "better": "higher is better",
        "groups": _labels(groups),
        "cells": cells,
    }


def accuracy(table: Learned) -> dict[str, Any]:
    """Returns test accuracy by epoch: a line per launch, which is one seed."""
    styles: list[str] = []
    lines = []
    for row in table.group.rows:
        style = _setting(row, table.group)
        if style not in styles:
            styles.append(style)
        for record in row.ok:
            if record.course:
                values = [_short(epoch.test_accuracy) for epoch in record.course.epochs]
                seed = f"seed {clean(record.run.get('seed', record.launch), 20)}"
                words = ", ".join(filter(None, [row.cell.framework, style, seed]))
                lines.append(
                    {
                        "framework": row.cell.framework,
                        "label": words,
                        "style": styles.index(style),
                        "values": values,
                    }
                )
    return {
        "kind": "epochs",
        "title": f"{capital(workload(table.group))}: test accuracy",
        "unit": "test accuracy",
        "better": "higher is better",
        "styles": _labels(styles),
        "target": target_of(table.group),
        "lines": lines,
    }


def _setting(row: Row, group: Group) -> str:
    """Returns the settings in which rows differ, in words: ``bf16, batch 32``.

    The usual compile mode is left out, so that the frameworks stand side by side although each has its own.
    """
    usual = row.cell.compile == USUAL_COMPILE[row.cell.framework]
    names = [name for name in group.varying if not (usual and name == "compile")]
    return ", ".join(WORDS[name].format(SETTINGS[name](row)) for name in names)


def _labels(settings: list[str]) -> list[str]:
    """Returns the names of settings, of which one may be the usual compile mode alone."""
    return [name or USUAL_MODE for name in settings] if len(settings) > 1 else settings


def _rate(launch: Launch) -> float | None:
    return launch.record.samples_per_s if launch.record.outcome.ok else None


def _launch(launch: Launch) -> str:
    """Returns the launch's number and its flags."""
    return ", ".join([f"launch {launch.record.block}", *flags_of(launch.record)])


def _verdict(cell: Any, base: str) -> dict[str, str]:
    """Returns the ratio, the baseline that it is to, and its verdict; nothing without a ratio."""
    if not cell["ratio_blocks"] or cell["ratio"] is None:
        return {}
    verdict = cell["ratio_verdict"] or "not tested"
    return {"ratio": f"{cell['ratio']:.2f}x", "base": clean(base, 40), "verdict": verdict}


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.{DIGITS}g}")
