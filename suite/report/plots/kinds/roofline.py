"""The roofline: rates of the parts of a training step against their arithmetic intensity, all frameworks in one."""

from __future__ import annotations

from collections.abc import Sequence

from suite.analysis.bottlenecks.roofline import STEP, Roof, RooflineRow, roofline
from suite.analysis.rows.groups import SETTINGS
from suite.analysis.rows.wording import figure
from suite.plan.cell import FRAMEWORKS, USUAL_COMPILE
from suite.report.format.names import framework
from suite.report.plots import charts, naming
from suite.report.plots.kinds import kind
from suite.report.plots.style.look import FACE, HOLLOW, PALE
from suite.report.plots.traces import Axis, Chart, Panel, Traces
from suite.report.tables.frame import Table

#: The letter beside a mark, and what it stands for.
LETTERS_OF = {
    "convolution forward": ("f", "convolutions forward"),
    "convolution input gradient": ("x", "their input gradients"),
    "convolution weight gradient": ("w", "their weight gradients"),
    "matrix products": ("m", "matrix products and recurrent kernels"),
    STEP: ("s", "the whole step (hollow)"),
}


@kind(
    "roofline", "Roofline: rate of each part of a training step against its FLOPs per byte, below the peaks", place=14
)
def roof(table: Table) -> Chart | None:
    """A mark per part and framework under the roof, of the setting that most frameworks have."""
    placed = _choose_rows(roofline(table.group))
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
    left_out = naming.note_left_out(table, group.rows, "with other settings, or without a profile, bytes or peaks")
    caption = [
        "Line: the most that the device can do, from measured peaks of compute and of memory bandwidth. Mark: a part "
        f"of the step; the nearer to the line, the better the device is used. {letters}",
        "FLOPs are the spec's, bytes those of the shapes in the profile.",
        *left_out,
    ]
    panel = Panel([*lines, *marks], x, y, height=4.2)
    return charts.chart(group, naming.title_of(group, "Roofline"), [[panel]], caption)


def _marks(each: RooflineRow) -> list[Traces]:
    """Returns marks of the parts and, hollow and behind, as it lies among them, of the step; a letter beside each."""
    parts: list[tuple[float, float, str]] = []
    step: list[tuple[float, float, str]] = []
    who, letters = each.row.cell.framework, []
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
