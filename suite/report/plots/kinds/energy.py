"""Energy per sample against throughput, with the Pareto front."""

from __future__ import annotations

from collections.abc import Sequence

from suite.analysis.rows.metrics import first_gpu
from suite.analysis.rows.wording import figure
from suite.report.plots import charts, naming
from suite.report.plots.kinds import kind
from suite.report.plots.style.look import FACE, HOLLOW, PALE
from suite.report.plots.traces import Axis, Chart, Panel, Traces
from suite.report.tables.curves import Consumption, consumptions
from suite.report.tables.frame import Table

#: With more cells than this only those on the front are numbered.
NUMBERED = 40
#: Marks closer than this share of both axes have one label.
NEAR = 0.04


@kind("energy", "Energy per sample against throughput, with the Pareto front", place=8)
def energy(table: Table) -> Chart | None:
    """A mark per cell, numbered by throughput; marks on the Pareto front are filled and joined by a line."""
    cells = sorted(consumptions(table), key=lambda each: -each.samples_per_s)
    if not cells:
        return None
    rows = [each.row for each in cells]
    numbered = [each for each in cells if each.on_front or len(cells) <= NUMBERED]
    traces = _fronts(cells)
    for each, label in zip(cells, naming.labels_of(table, rows), strict=True):
        rate, joules, who = each.samples_per_s, each.joules, each.row.cell.framework
        text = f"{label}: {figure(rate)} samples/s, {figure(joules)} J each"
        name = f"{numbered.index(each) + 1}  {label}" if each in numbered else ""
        look = {"markeredgewidth": 1.2} | ({} if each.on_front else HOLLOW | {"markeredgecolor": FACE[who]})
        traces.append(charts.points([(rate, joules, text)], look, name, who))
    group = naming.among(table, rows)
    x, y = Axis("samples per second (higher is better)"), Axis("joules per sample (lower is better)")
    panel = Panel([*traces, _number(numbered)], x, y, height=4.2)
    sources = {first_gpu(record).get("energy_source") for row in rows for record in row.ok}
    polled = ", in part from polled power, which is less exact" if "polled power" in sources else ""
    caption = [
        "Medians over launches. Better is to the right and down.",
        f"Energy of the first GPU over the training windows{polled}. Filled: no other cell is better in both.",
    ]
    return charts.chart(group, naming.title_of(group, "Energy and throughput"), [[panel]], caption)


def _number(cells: Sequence[Consumption]) -> Traces:
    """Returns the numbers of these cells at their marks; those of neighbours stand together."""
    right, top = max(each.samples_per_s for each in cells), max(each.joules for each in cells)
    sets: list[list[int]] = []
    for at, each in enumerate(cells):
        last = cells[at - 1]
        away = max(abs(each.samples_per_s - last.samples_per_s) / right, abs(each.joules - last.joules) / top)
        if at and away <= NEAR:
            sets[-1].append(at)
        else:
            sets.append([at])
    words = ["\u2013".join(str(at + 1) for at in dict.fromkeys((each[0], each[-1]))) for each in sets]
    first = [cells[each[0]] for each in sets]
    x, y = [each.samples_per_s for each in first], [each.joules for each in first]
    return Traces("words", x, y, text=words, look={"xytext": (5, 4)})


def _fronts(cells: Sequence[Consumption]) -> list[Traces]:
    """Returns a line through the Pareto front of each machine."""
    look = {"color": PALE, "linestyle": "--", "linewidth": 1, "zorder": 1}
    lines = []
    for machine in dict.fromkeys(each.row.machine for each in cells):
        front = [(each.samples_per_s, each.joules) for each in cells if each.on_front and each.row.machine == machine]
        x, y = zip(*front, strict=True) if front else ((), ())
        lines.append(Traces("lines", x, y, name="Pareto front", look=look))
    return lines
