"""Lines over a swept setting: batch size, workers, threads, cores, releases; and over steps, by compile mode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from math import ceil, floor, log2

from suite.analysis.statistics.changes import Step, place_of
from suite.report.format.names import FRAMEWORKS
from suite.report.plots import charts, naming
from suite.report.plots.charts import RATE, Line
from suite.report.plots.kinds import kind
from suite.report.plots.pens import DOTTED
from suite.report.plots.traces import PALE, Axis, Chart, Panel, Traces
from suite.report.tables import curves
from suite.report.tables.curves import AT_ONCE, NEVER, UNSETTLED, CompileCost, Series, pays
from suite.report.tables.frame import Table

MEMORY = {"allocator_peak_bytes": "peak memory (allocator)", "rss_peak_bytes": "peak memory (RSS)"}
GIB = 2**30
MARKS = "Median over launches. Whisker: lowest to highest."
DASHES = {"eager": ":", "graph": "--", "compile": "-", "max": "-.", "nographs": (0, (5, 1, 1, 1, 1, 1)),
          "trace": (0, (1, 1, 1, 1, 5, 1))}  # fmt: skip
#: Panels of compile modes that are drawn, at most.
PANELS_MOST = 12


@kind(3)
def batch(table: Table) -> Chart | None:
    """Throughput and peak memory by batch size."""
    series = curves.batches(table)
    if not series:
        return None
    lines = _lines(table, series, "batch")
    memory = MEMORY.get(name := curves.memory_kind(table), name.replace("_", " "))
    sizes = [*chain(*(chain(*line.panels) for line in lines)), *(each.edge for each in series if each.edge)]
    powers = [2.0**power for power in range(floor(log2(min(sizes))), ceil(log2(max(sizes))) + 1)]
    x = Axis("batch size (samples per step)", log=True, ticks=powers)
    panels = [Panel([], y=RATE), Panel([], y=Axis(f"{memory} in GiB\n(lower is better)"))]
    panels = panels[: 1 + any(each.memory for each in series)]
    drawn = charts.sweep(lines, x, panels, ["samples/s", "GiB"][: len(panels)])
    edges = [_edges(series, panel, "does not fit\nin memory" * (not at)) for at, panel in enumerate(drawn)]
    searched = any(each.memory.keys() - each.rates.keys() for each in series)
    group = naming.among(table, chain(*(each.rows for each in series)))
    return charts.chart(
        group,
        naming.title_of(group, "Throughput and memory"),
        [[replace(panel, traces=[*panel.traces, *more])] for panel, more in zip(drawn, edges, strict=True)],
        f"{MARKS} Memory: highest of all launches.",
        "Memory without a throughput is that of a search's short tries." * searched,
    )


def _edges(series: Sequence[Series], panel: Panel, name: str) -> list[Traces]:
    """Returns a cross at each batch that did not fit, as high as the last one that did, and a line to it."""
    ends = [(each.edge, line) for each, line in zip(series, panel.traces, strict=True) if each.edge and line.x]
    lines = [
        Traces("lines", (line.x[-1], edge), (line.y[-1],) * 2, group=line.group, look=DOTTED) for edge, line in ends
    ]
    crosses = [(float(edge), line.y[-1], "") for edge, line in ends]
    cross = {"marker": "X", "markeredgecolor": "white", "markersize": 8}
    return [*lines, charts.points(crosses, cross, name)] if crosses else []


@kind(10)
def scaling(table: Table) -> Chart | None:
    """Throughput by number of loader workers."""
    axis = "loader workers (processes or threads, depending on the framework)"
    return _counts(table, curves.workers(table), "loader", "loader workers", axis)


@kind(10.5)
def threads(table: Table) -> Chart | None:
    """Throughput by number of threads."""
    return _counts(table, curves.threads(table), "threads", "threads", "threads that compute")


@kind(10.6)
def cores(table: Table) -> Chart | None:
    """Throughput by number of cores."""
    return _counts(table, curves.cores(table), "cores", "cores", "cores of each device")


def _counts(table: Table, series: Sequence[Series], setting: str, title: str, axis: str) -> Chart | None:
    if not series:
        return None
    lines = _lines(table, series, setting)
    (panel,) = charts.sweep(lines, Axis(axis), [Panel([], y=RATE, height=3.5)], ["samples/s"])
    ends = panel.x.low or 0.0, panel.x.high or 1.0
    ceilings = [
        Traces("lines", ends, (each.ceiling,) * 2, group=line.framework, look=DOTTED)
        for each, line in zip(series, lines, strict=True)
        if each.ceiling
    ]
    thin = [Traces("lines", name="same steps,\nno loading", look=DOTTED | {"color": PALE})] if ceilings else []
    group = naming.among(table, chain(*(each.rows for each in series)))
    words = f"{naming.title_of(group, 'Training throughput', without=(setting,))} and number of {title}"
    return charts.chart(group, words, [[replace(panel, traces=[*panel.traces, *ceilings, *thin])]], MARKS)


def _lines(table: Table, series: Sequence[Series], setting: str) -> list[Line]:
    names = naming.names_of_sets(table, [each.rows for each in series], (setting,))
    peaks = [{size: (peak / GIB,) * 3 for size, peak in each.memory.items()} for each in series]
    return [
        Line(name, each.rows[0].cell.framework, [each.rates, memory])
        for name, each, memory in zip(names, series, peaks, strict=True)
    ]


@kind(9)
def releases(table: Table) -> Chart | None:
    """Throughput by release of each framework."""
    steps = table.findings.releases
    if not steps:
        return None
    group = naming.among(table, (step.row for line in steps for step in line))
    own = [name for name in group.varying if name != "release"]
    frameworks = dict.fromkeys(line[0].row.cell.framework for line in steps)
    return charts.chart(
        group,
        naming.title_of(group, "Training throughput"),
        [[_releases([line for line in steps if line[0].row.cell.framework == name], own)] for name in frameworks],
        f"{MARKS} Above a mark: faster or slower than the release before, where that is decided.",
    )


def _releases(steps: Sequence[Sequence[Step]], own: Sequence[str]) -> Panel:
    """Returns the lines of a framework, with each decided change above the mark of the later release."""
    framework = steps[0][0].row.cell.framework
    names = list(dict.fromkeys(step.release for step in sorted(chain(*steps), key=lambda step: place_of(step.row))))
    lines = []
    for line in steps:
        rates = [charts.spread_of(record.samples_per_s or 0.0 for record in step.row.ok) for step in line]
        places = [float(names.index(step.release)) for step in line]
        name = "\n".join(filter(None, [FRAMEWORKS[framework], naming.values_of(line[0].row, own)]))
        lines.append(Line(name, framework, [dict(zip(places, rates, strict=True))]))
    x = Axis(f"release of {FRAMEWORKS[framework]}", ticks=range(len(names)), names=names)
    (panel,) = charts.sweep(lines, x, [Panel([], y=RATE)], ["samples/s"])
    decided = [
        (f"{step.to_before.value:.2f}x", x, y)
        for line, drawn in zip(steps, panel.traces, strict=True)
        for step, x, y in zip(line, drawn.x, drawn.high, strict=True)
        if step.to_before and step.to_before.verdict in ("faster", "slower")
    ]
    words, across, up = zip(*decided, strict=True) if decided else ((), (), ())
    changes = Traces("words", across, up, text=words, look={"xytext": (0, 4), "ha": "center"})
    top = 1.14 * max(chain(*(each.high for each in panel.traces)))  # with room for the changes
    return replace(panel, traces=[*panel.traces, changes], y=replace(RATE, high=top))


#: What is said of a mode for which no number of steps is told.
PAYS = {
    NEVER: "never pays off", AT_ONCE: "pays off at once",
    **{words: f"{words} whether it pays off" for words in UNSETTLED.values()},
}  # fmt: skip
NO_CROSSING = (NEVER, *UNSETTLED.values())


@kind(9)
def break_even(table: Table) -> Chart | None:
    """Training time by steps for each compile mode, with the points where one pays off."""
    sets = curves.courses(table)
    if not sets:
        return None
    titles = naming.names_of_sets(table, [[mode.row for mode in modes] for modes in sets[:PANELS_MOST]], ("compile",))
    group = naming.among(table, (mode.row for modes in sets[:PANELS_MOST] for mode in modes))
    more = len(sets) - PANELS_MOST
    return charts.chart(
        group,
        f"{naming.title_of(group, 'When compiling pays off: training time', by=False)}, by compile mode",
        [[_modes(table, modes, title)] for modes, title in zip(sets, titles, strict=False)],
        "Lines: time of the first step, which includes compiling, and of so many median steps after it; medians over "
        "launches. Circle: a mode has made up for its longer start.",
        f"Not drawn: {more} more cells with several modes." if more > 0 else "",
    )


def _modes(table: Table, modes: Sequence[CompileCost], title: str) -> Panel:
    """Returns a line for each mode up to 1.5 times the last crossing, else until steps took twice the longest start."""
    told = [pays(table, mode.row) for mode in modes]
    paid = [mode for mode, words in zip(modes, told, strict=True) if mode.pays_after and words not in NO_CROSSING]
    crossings = [mode.pays_after or 0.0 for mode in paid]
    steps = 2 * max(mode.first_s for mode in modes) / min(mode.step_s for mode in modes)
    end = max(2.0, 1.5 * max(crossings) if crossings else steps)
    traces = []
    for mode, after in zip(modes, told, strict=True):
        name = " ".join(filter(None, [mode.row.cell.compile, mode.row.cell.cache]))
        words = f"{name}: {PAYS.get(after, f'pays off after {after} steps')}"
        words = f"{mode.row.cell.compile} (usual)" if mode is modes[0] else words
        look = {"linestyle": DASHES.get(mode.row.cell.compile, "-"), "marker": ""}
        times = mode.first_s, mode.at(end)
        traces.append(Traces("lines", (0, end), times, (), (), [words], mode.row.cell.framework, words, look=look))
    points = [(steps, mode.at(steps), "") for mode, steps in zip(paid, crossings, strict=True)]
    traces.append(charts.points(points, {"marker": "o", "color": "white", "markersize": 6}))
    return Panel(
        traces, Axis("steps after the first", high=end), Axis("seconds (lower is better)"), title=title, height=2.3
    )
