"""Lines over a swept setting: throughput and memory by batch size, throughput by workers, threads, cores, releases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from math import ceil, floor, log2

from suite.analysis.statistics.changes import Step, place_of
from suite.report.format.names import FRAMEWORKS
from suite.report.plots import charts, naming
from suite.report.plots.charts import Line
from suite.report.plots.kinds import kind
from suite.report.plots.style.look import DOTTED, PALE
from suite.report.plots.traces import Axis, Chart, Panel, Traces
from suite.report.tables.curves import Series, batches, cores, memory_kind, threads, workers
from suite.report.tables.frame import Table

MEMORY = {"allocator_peak_bytes": "allocator peak", "rss_peak_bytes": "peak resident memory"}
GIB = 2**30
MARKS = "Median over launches. Whisker: lowest to highest."
VERDICTS = "Above a mark: faster or slower than the release before, where that is decided."
RATE = Axis("samples per second\n(higher is better)")


@kind("batch", "Throughput and peak memory by batch size", place=3)
def batch(table: Table) -> Chart | None:
    """Throughput above, peak memory below, over one logarithmic axis; a cross if a batch did not fit."""
    series = batches(table)
    if not series:
        return None
    lines = _lines(table, series, "batch")
    memory = MEMORY.get(kind := memory_kind(table), kind.replace("_", " "))
    sizes = [*chain(*(chain(*line.panels) for line in lines)), *(each.edge for each in series if each.edge)]
    powers = [2.0**power for power in range(floor(log2(min(sizes))), ceil(log2(max(sizes))) + 1)]
    x = Axis("batch size (samples per step)", log=True, ticks=powers)
    panels = [Panel([], y=RATE), Panel([], y=Axis(f"{memory} in GiB\n(lower is better)"))]
    panels = panels[: 1 + any(each.memory for each in series)]
    drawn = charts.sweep(lines, x, panels, ["samples/s", "GiB"][: len(panels)])
    grid = [
        [replace(panel, traces=[*panel.traces, *_edges(series, panel, "does not fit\nin memory" * (not at))])]
        for at, panel in enumerate(drawn)
    ]
    searched = any(each.memory.keys() - each.rates.keys() for each in series)
    tries = "Memory without a throughput is that of a search's short tries." if searched else ""
    group = naming.among(table, chain(*(each.rows for each in series)))
    title = naming.title_of(group, "Throughput and memory")
    return charts.chart(
        group, title, grid, [MARKS, "Memory: highest of all launches.", tries, *charts.note_lines(lines)]
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


@kind("scaling", "Throughput by number of loader workers", place=10)
def scaling(table: Table) -> Chart | None:
    """Throughput against the loader's workers; a thin line for the same steps without loading."""
    axis = "loader workers (processes or threads, depending on the framework)"
    return _counts(table, workers(table), "loader", "loader workers", axis)


@kind("threads", "Throughput by number of threads", place=10.5)
def by_threads(table: Table) -> Chart | None:
    """Throughput against the threads that cells ask for."""
    return _counts(table, threads(table), "threads", "threads", "threads that compute")


@kind("cores", "Throughput by number of cores", place=10.6)
def by_cores(table: Table) -> Chart | None:
    """Throughput against the cores that cells ask for."""
    return _counts(table, cores(table), "cores", "cores", "cores of each device")


def _counts(table: Table, series: Sequence[Series], setting: str, title: str, axis: str) -> Chart | None:
    """Returns throughput against a count, one line per series; a thin line for its ceiling."""
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
    panel = replace(panel, traces=[*panel.traces, *ceilings, *thin])
    return charts.chart(group, words, [[panel]], [MARKS, *charts.note_lines(lines)])


def _lines(table: Table, series: Sequence[Series], setting: str) -> list[Line]:
    """Returns a line of throughput and of memory in GiB for each series."""
    names = naming.names_of_sets(table, [each.rows for each in series], (setting,))
    peaks = [{size: (peak / GIB,) * 3 for size, peak in each.memory.items()} for each in series]
    return [
        Line(name, each.rows[0].cell.framework, [each.rates, memory])
        for name, each, memory in zip(names, series, peaks, strict=True)
    ]


@kind("releases", "Throughput by release of each framework", place=9)
def releases(table: Table) -> Chart | None:
    """Throughput against releases in their order, which a framework's axes name below; None without several."""
    steps = table.findings.releases
    if not steps:
        return None
    group = naming.among(table, (step.row for line in steps for step in line))
    own = [name for name in group.varying if name != "release"]
    frameworks = dict.fromkeys(line[0].row.cell.framework for line in steps)
    grid = [[_releases([line for line in steps if line[0].row.cell.framework == name], own)] for name in frameworks]
    caption = [MARKS, VERDICTS, charts.SIDE_BY_SIDE if len(steps) > len(grid) else ""]
    return charts.chart(group, naming.title_of(group, "Training throughput"), grid, caption)


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
    traces = list(panel.traces)
    for line, drawn in zip(steps, panel.traces, strict=True):
        ratios = (step.to_before for step in line)
        before = [(ratio, x, y) for ratio, x, y in zip(ratios, drawn.x, drawn.high, strict=True) if ratio]
        decided = [(f"{ratio.value:.2f}x", x, y) for ratio, x, y in before if ratio.verdict in ("faster", "slower")]
        if decided:
            words, across, up = zip(*decided, strict=True)
            traces.append(Traces("words", across, up, text=words, look={"xytext": (0, 4), "ha": "center"}))
    top = 1.14 * max(chain(*(each.high for each in panel.traces)))  # with room for the changes
    return replace(panel, traces=traces, y=replace(RATE, high=top))
