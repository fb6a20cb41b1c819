"""Throughput by release of a framework, the oldest first, with the verdict on each against the one before."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from matplotlib.figure import Figure

from suite.analysis.statistics.releases import Step, place_of, release_of
from suite.report.format.names import FRAMEWORKS
from suite.report.plots.kinds import kind
from suite.report.plots.kinds.lines import DASHES, MARKS, SIDE_BY_SIDE, Look, marked
from suite.report.plots.style.canvas import keyed_sheet
from suite.report.plots.style.look import INK, SMALL, apart, framed, from_zero
from suite.report.plots.style.naming import among, title_of, values_of
from suite.report.tables.frame import Table

#: The height of a framework's axes in inches, and how far the marks of one release stand apart, all of them together.
UP_IN, DODGE_MOST = 2.5, 0.3
VERDICTS = "Above a mark: faster or slower than the release before, where that is decided."

Line = tuple[Step, ...]


@kind("releases", "Throughput by release of each framework", place=9)
def releases(table: Table) -> Figure | None:
    """Throughput against releases in their order, which a framework's axes name below; None without several."""
    lines = table.findings.releases
    if not lines:
        return None
    by_framework: dict[str, list[Line]] = {}
    for line in lines:
        by_framework.setdefault(line[0].row.cell.framework, []).append(line)
    rows = [step.row for line in lines for step in line]
    group = among(table, rows)
    own = [name for name in group.varying if name != "release"]
    looks = {name: _looks(name, each, own) for name, each in by_framework.items()}
    plot, panels = keyed_sheet(
        group,
        title_of(group, "Training throughput"),
        MARKS,
        [UP_IN] * len(by_framework),
        [look.handle() for each in looks.values() for look in each],
        notes=[VERDICTS, SIDE_BY_SIDE if len(lines) > len(by_framework) else ""],
    )
    for axes, (name, of_framework) in zip(panels, by_framework.items(), strict=True):
        _panel(axes, of_framework, looks[name])
    panels[-1].set_xlabel("release")
    return plot


def _panel(axes: Any, lines: Sequence[Line], looks: Sequence[Look]) -> None:
    rows = sorted((step.row for line in lines for step in line), key=place_of)
    names = list(dict.fromkeys(map(release_of, rows)))
    framed(axes, f"{FRAMEWORKS[rows[0].cell.framework]}, samples per second\n(higher is better)")
    for line, look, aside in zip(lines, looks, apart(len(lines), DODGE_MOST / 2 * (len(lines) > 1)), strict=True):
        places = [names.index(step.release) + aside for step in line]
        rates = [[record.samples_per_s or 0.0 for record in step.row.ok] for step in line]
        marked(axes, places, [(median(each), min(each), max(each)) for each in rates], look, "samples/s")
        for place, each, step in zip(places, rates, line, strict=True):
            found = step.to_before
            if found and found.value and found.verdict in ("faster", "slower"):
                axes.annotate(
                    f"{found.value:.2f}x", (place, max(each)), (0, 4), textcoords="offset points", ha="center",
                    size=SMALL, color=INK,
                )  # fmt: skip
    from_zero(axes)
    axes.set_xlim(-0.5, len(names) - 0.5)
    axes.set_xticks(range(len(names)), names)
    axes.set_ylim(top=axes.get_ylim()[1] * 1.06)  # for the verdicts


def _looks(framework: str, lines: Sequence[Line], own: Sequence[str]) -> list[Look]:
    looks = []
    for at, line in enumerate(lines):
        name = [FRAMEWORKS[framework], *([values_of(line[0].row, own)] if own else [])]
        hollow = at // len(DASHES) % 2 == 1
        looks.append(Look("\n".join(name), framework, DASHES[at % len(DASHES)], hollow, len(line)))
    return looks
