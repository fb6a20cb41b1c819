"""Marks in a plane: energy against throughput, and rates of the parts of a step against their arithmetic intensity."""

from __future__ import annotations

from collections.abc import Sequence

from suite.analysis.bottlenecks.roofline import STEP, Roof, RooflineRow
from suite.analysis.bottlenecks.roofline import roofline as place_rows
from suite.analysis.rows.groups import SETTINGS
from suite.analysis.rows.metrics import first_gpu
from suite.analysis.rows.wording import figure
from suite.plan.cell import FRAMEWORKS, USUAL_COMPILE
from suite.report.format.names import framework
from suite.report.plots import charts, naming
from suite.report.plots.kinds import kind
from suite.report.plots.pens import FACE, HOLLOW
from suite.report.plots.traces import PALE, Axis, Chart, Panel, Traces
from suite.report.tables.curves import Consumption, consumptions
from suite.report.tables.frame import Table

#: With more cells than this only those on the front are numbered. Marks closer than `NEAR` of both axes share a label.
NUMBERED, NEAR = 40, 0.04
FRONT = {"color": PALE, "linestyle": "--", "linewidth": 1, "zorder": 1}

#: The letter beside a mark, and what it stands for.
LETTERS_OF = {
    "convolution forward": ("f", "convolutions forward"),
    "convolution input gradient": ("x", "their input gradients"),
    "convolution weight gradient": ("w", "their weight gradients"),
    "matrix products": ("m", "matrix products and recurrent kernels"),
    STEP: ("s", "the whole step (hollow)"),
}


@kind(8)
def energy(table: Table) -> Chart | None:
    """Energy per sample against throughput, with the Pareto front."""
    cells = sorted(consumptions(table), key=lambda each: -each.samples_per_s)
    if not cells:
        return None
    numbered = [each for each in cells if each.on_front or len(cells) <= NUMBERED]
    traces = []
    for machine in dict.fromkeys(each.row.machine for each in cells):
        front = [each for each in cells if each.on_front and each.row.machine == machine]
        at = [each.samples_per_s for each in front], [each.joules for each in front]
        traces.append(Traces("lines", *at, name="Pareto front", look=FRONT))
    rows = [each.row for each in cells]
    for each, label in zip(cells, naming.labels_of(table, rows), strict=True):
        rate, joules, who = each.samples_per_s, each.joules, each.row.cell.framework
        text = f"{label}: {figure(rate)} samples/s, {figure(joules)} J each"
        name = f"{numbered.index(each) + 1}  {label}" if each in numbered else ""
        look = {"markeredgewidth": 1.2} | ({} if each.on_front else HOLLOW | {"markeredgecolor": FACE[who]})
        traces.append(charts.points([(rate, joules, text)], look, name, who))
    group = naming.among(table, rows)
    x, y = Axis("samples per second (higher is better)"), Axis("joules per sample (lower is better)")
    sources = {first_gpu(record).get("energy_source") for row in rows for record in row.ok}
    polled = ", in part from polled power, which is less exact" if "polled power" in sources else ""
    return charts.chart(
        group,
        naming.title_of(group, "Energy and throughput"),
        [[Panel([*traces, _number(numbered)], x, y, height=4.2)]],
        "Medians over launches. Better is to the right and down.",
        f"Energy of the first GPU over the training windows{polled}. Filled: no other cell is better in both.",
    )


def _number(cells: Sequence[Consumption]) -> Traces:
    """Returns the numbers of these cells at their marks; those of neighbours stand together."""
    right, top = max(each.samples_per_s for each in cells), max(each.joules for each in cells)
    sets: list[list[int]] = []
    for at, (each, last) in enumerate(zip(cells, [cells[0], *cells], strict=False)):
        away = max(abs(each.samples_per_s - last.samples_per_s) / right, abs(each.joules - last.joules) / top)
        if at and away <= NEAR:
            sets[-1].append(at)
        else:
            sets.append([at])
    words = ["\u2013".join(str(at + 1) for at in dict.fromkeys((each[0], each[-1]))) for each in sets]
    first = [cells[each[0]] for each in sets]
    x, y = [each.samples_per_s for each in first], [each.joules for each in first]
    return Traces("words", x, y, text=words, look={"xytext": (5, 4)})


@kind(14)
def roofline(table: Table) -> Chart | None:
    """Roofline: rate of each part of a training step against its FLOPs per byte, below the peaks."""
    placed = _choose_rows(place_rows(table.group))
    marks = [trace for each in placed for trace in _marks(each)]
    if not marks:
        return None
    roofs = list(dict.fromkeys(each.roof for each in placed))
    at = [*(x for each in marks for x in each.x), *(each.ridge for each in roofs)]
    low, high = min(at) / 3, max(at) * 3
    lowest = min(*(y for each in marks for y in each.y), *(each.at(low) / 1e9 for each in roofs))
    top = 1.8 * max(each.flops_per_s for each in roofs) / 1e9
    lines = [trace for each in roofs for trace in _roof(each, low, high)]
    x = Axis("arithmetic intensity in FLOP per byte", low, high, log=True)
    y = Axis("GFLOP/s (higher is better)", lowest / 1.6, top, log=True)
    drawn = {part.name for each in placed for part in each.parts if part.intensity}
    letters = " ".join(f"{letter}: {words}." for name, (letter, words) in LETTERS_OF.items() if name in drawn)
    group = naming.among(table, (each.row for each in placed))
    return charts.chart(
        group,
        naming.title_of(group, "Roofline"),
        [[Panel([*lines, *marks], x, y, height=4.2)]],
        "Line: the most that the device can do, from measured peaks of compute and of memory bandwidth. Mark: a part "
        f"of the step; the nearer to the line, the better the device is used. {letters}",
        "FLOPs are the spec's, bytes those of the shapes in the profile.",
        naming.note_left_out(table, group.rows, "with other settings, or without a profile, bytes or peaks"),
    )


def _marks(each: RooflineRow) -> list[Traces]:
    """Returns marks of the parts and, hollow and behind, as it lies among them, of the step; a letter beside each."""
    who = each.row.cell.framework
    parts: list[tuple[float, float, str]] = []
    step: list[tuple[float, float, str]] = []
    letters = []
    for part in each.parts:
        if part.intensity:
            x, y = part.intensity, part.flops_per_s / 1e9
            text = f"{framework(who)}, {part.name}: {figure(y)} GFLOP/s at {figure(x)} FLOP per byte"
            (step if part.name == STEP else parts).append((x, y, text))
            look = {"xytext": (6, -3), "zorder": 5}
            letters.append(Traces("words", [x], [y], text=[LETTERS_OF[part.name][0]], look=look))
    hollow = HOLLOW | {"markeredgecolor": FACE[who], "markeredgewidth": 1.8, "markersize": 9, "zorder": 2}
    traces = [charts.points(parts, {"markersize": 6.5}, framework(who), who), charts.points(step, hollow, "", who)]
    return [*traces, *letters] if letters else []


def _roof(roof: Roof, low: float, high: float) -> list[Traces]:
    """Returns a roof with both peaks beside its corner, on the side with more room: parts lie near its right end."""
    corner = min(max(roof.ridge, low), high)
    x = [low, corner, high]
    line = Traces("lines", x, [roof.at(at) / 1e9 for at in x], name="roof", look={"color": PALE, "zorder": 1})
    words = f"{figure(roof.flops_per_s / 1e9)} GFLOP/s, {figure(roof.bytes_per_s / 1e9)} GB/s"
    side, gap = ("left", 4) if corner * corner < low * high else ("right", -4)
    look = {"xytext": (gap, 5), "ha": side, "color": PALE}
    return [line, Traces("words", [corner], [roof.flops_per_s / 1e9], text=[words], look=look)]


def _choose_rows(placed: Sequence[RooflineRow]) -> list[RooflineRow]:
    """Returns a row of each framework, in the setting that most of them have; each in its usual compile mode."""
    sets: dict[tuple[str, ...], dict[str, RooflineRow]] = {}
    for each in sorted(placed, key=lambda each: each.row.cell.compile != USUAL_COMPILE[each.row.cell.framework]):
        values = tuple(SETTINGS[name](each.row) for name in SETTINGS if name != "compile")
        sets.setdefault(values, {}).setdefault(each.row.cell.framework, each)
    fullest = max(sets.values(), key=len, default={})
    return [fullest[name] for name in FRAMEWORKS if name in fullest]
