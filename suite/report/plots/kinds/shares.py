"""Stacked bars: the parts of a step, of the time to the first step, and of a step by category of operations."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median
from typing import Any

from suite.analysis.bottlenecks.bottleneck import share, step_s
from suite.analysis.bottlenecks.causes import costs
from suite.analysis.rows.groups import Row
from suite.analysis.rows.wording import figure
from suite.record.parts.profile import CATEGORIES
from suite.report.plots import charts
from suite.report.plots.kinds import kind
from suite.report.plots.traces import INK, Axis, Chart, Panel, Traces
from suite.report.tables.frame import Table

#: What loading adds to a step, the loader alone, and the timed step; the most percent on an axis.
ADDED: dict[str, Any] = {"facecolor": "#CC79A7", "hatch": "xxxx"}
ALONE: dict[str, Any] = {"marker": "D", "color": "white", "markersize": 5}
TIMED: dict[str, Any] = {"marker": "|", "markersize": 20, "markeredgewidth": 1.6, "color": INK}
PERCENT_MOST = 160.0

#: Parts of the time to the end of the first step: key of the record, label, colour, hatch.
PARTS = (
    ("interpreter_s", "start Python", "#FFFFFF", ""),
    ("import_s", "import", "#8DA0CB", ""),
    ("data_s", "open data", "#F0E442", "...."),
    ("build_s", "build model", "#C49C6B", "////"),
    ("first_batch_s", "first batch", "#CC79A7", "xxxx"),
    ("compile_s", "compile", "#D55E00", "\\\\\\\\"),
    ("first_step_s", "first step", "#555555", ""),
)

#: A category that takes less than `SMALLEST` of every step is drawn with the others of its size.
SMALLEST, REST = 0.02, "the rest"
#: Colour and hatch of every category, of one colour those that one kind of layer causes; no framework's colour is among
#: them.
LOOKS = {
    "convolution forward": ("#8DA0CB", ""),
    "convolution input gradient": ("#8DA0CB", "////"),
    "convolution weight gradient": ("#D55E00", ""),
    "matrix product": ("#C49C6B", ""),
    "recurrent kernel": ("#C49C6B", "...."),
    "normalisation": ("#CC79A7", "////"),
    "element-wise": ("#F0E442", ""),
    "reduction and pooling": ("#F0E442", "////"),
    "random numbers and dropout": ("#F0E442", "xxxx"),
    "embedding and gather": ("#CC79A7", "...."),
    "optimizer": ("#CC79A7", ""),
    "copy and layout change": ("#B8B8B8", ""),
    "input pipeline": ("#B8B8B8", "////"),
    "communication": ("#B8B8B8", "xxxx"),
    "host and launch overhead": ("#555555", ""),
    "idle": ("#FFFFFF", ""),
    "other": ("#FFFFFF", "xxxx"),
}


@kind(4)
def phases(table: Table) -> Chart | None:
    """Bar chart of the share of a training step that compute takes, and that loading adds.

    In percent of the training step, whose time is written beside it: in milliseconds the batch sizes would set the
    scale.
    """
    shown = [row for row in table.group.rows if share(row, "compute") is not None]
    if not shown:
        return None
    rows = charts.stack_rows(table, shown)
    compute = {y: 100 * (share(row, "compute") or 0.0) for y, row in rows.places.items()}
    added = {y: max(0.0, 100 - each) for y, each in compute.items()}
    alone = {y: 100 * each for y, row in rows.places.items() if (each := share(row, "input")) is not None}
    top = min(PERCENT_MOST, max(102.0, *(compute[y] + added[y] for y in compute), *alone.values()))
    traces = [
        *charts.bars(rows, {y: (each,) * 3 for y, each in compute.items()}, "% compute"),
        charts.stack(dict(compute), added, "added by loading", "%", ADDED),
        charts.points([(min(each, top), y, "") for y, each in alone.items()], ALONE, "loading alone"),
        Traces("rules", [100.0], look={"zorder": 3}),
    ]
    beside = {
        y: f"{figure(1e3 * (step_s(row, 'train') or 0.0))} ms"
        + (f", loading {added[y]:.0f} %" if added[y] >= 0.5 else "")
        + (f", loading alone {alone[y]:,.0f} %" if alone.get(y, 0.0) > top else "")
        for y, row in rows.places.items()
    }
    more = "Above 100 %: the steps alone took longer than training, so loading added nothing that could be measured."
    axis = Axis("share of a training step in % (less added by loading is better)", high=1.02 * top)
    return charts.rows_chart(
        table,
        Panel(traces, axis, rows=rows, beside=beside, key="above"),
        "Compute and loading in a training step",
        "Medians over launches. Framework's colour: the same steps on batches that are already on the device. Diamond: "
        "loading and transfer alone, without steps; where it is short although loading adds time, the two overlap "
        "poorly.",
        more * (max(compute.values()) > 100.5),
        left_out="without a successful launch",
    )


@kind(6)
def first_step(table: Table) -> Chart:
    """Bar chart of the seconds from the start of the process to the end of the first step."""
    rows = charts.stack_rows(table)
    parts = {y: _parts(row) for y, row in rows.places.items() if row.ok}
    ends = dict.fromkeys(parts, 0.0)
    traces = [
        charts.stack(ends, {y: each[key] for y, each in parts.items()}, name, "s", {"facecolor": face, "hatch": hatch})
        for key, name, face, hatch in PARTS
        if any(each[key] for each in parts.values())
    ]
    axis = Axis("seconds from the start of the process (lower is better)")
    beside = {y: f"{figure(end)} s" for y, end in ends.items()}
    return charts.rows_chart(
        table,
        Panel(traces, axis, rows=rows, beside=beside, key="above"),
        "Time to the first training step",
        "Each part: median over launches. Number: sum of the parts.",
        "Modes that compile during the first step, such as torch.compile, show that time as first step.",
    )


def _parts(row: Row) -> dict[str, float]:
    """Returns seconds by key of `PARTS`; the first step excludes compiling."""

    def middle(values: Iterable[float | None]) -> float:
        return median([value for value in values if value is not None] or [0.0])

    seconds = {key: middle(r.startup.get(key) for r in row.ok) for key, *_ in PARTS}
    rest = (max(0.0, r.first_step_s - (r.compile_s or 0)) for r in row.ok if r.first_step_s is not None)
    return seconds | {"compile_s": middle(r.compile_s for r in row.ok), "first_step_s": middle(rest)}


@kind(13)
def categories(table: Table) -> Chart | None:
    """Stacked bars of where the time of a training step goes, by category of operations."""
    profiled = {row.key: each for row in table.group.rows if (each := costs(row))}
    if not profiled:
        return None
    rows = charts.stack_rows(table, [row for row in table.group.rows if row.key in profiled])
    known = {y: profiled[row.key] for y, row in rows.places.items()}
    batches = {y: median(record.effective_batch for record in row.ok) for y, row in rows.places.items()}
    unit = "sample" if len(set(batches.values())) > 1 else "step"
    ms = {y: 1e3 / batch if unit == "sample" else 1e3 for y, batch in batches.items()}
    drawn = [c for c in CATEGORIES if any(each.seconds[c] >= SMALLEST * each.step_s for each in known.values())]
    parts = {name: {y: ms[y] * each.seconds[name] for y, each in known.items()} for name in drawn}
    rest = {y: ms[y] * sum(s for name, s in each.seconds.items() if name not in drawn) for y, each in known.items()}
    parts |= {REST: rest} if any(rest.values()) else {}
    ends = dict.fromkeys(known, 0.0)
    traces = []
    for name, widths in parts.items():
        colour, hatch = LOOKS.get(name, ("#FFFFFF", "...."))
        traces.append(charts.stack(ends, widths, name, "ms", {"facecolor": colour, "hatch": hatch}))
    steps = {y: ms[y] * each.step_s for y, each in known.items()}
    traces.append(charts.points([(step, y, "") for y, step in steps.items()], TIMED))
    axis = Axis(f"milliseconds per {unit} (lower is better)")
    return charts.rows_chart(
        table,
        Panel(traces, axis, rows=rows, beside={y: f"{figure(step)} ms" for y, step in steps.items()}),
        "Where the time of a training step goes",
        "Bar: parts as profiled, scaled to the timed step; medians over the launches with a profile. Number and line: "
        "the timed step.",
        left_out="without a profile",
        of="for",
    )
