"""The report of a comparison as one page: a summary in sentences, tables that sort and filter, plots, every launch."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd

from suite.analysis.accuracy import Learned
from suite.analysis.groups import WORDS, Group, Row
from suite.analysis.load import Loaded
from suite.analysis.wording import DASH, NONE, figure
from suite.record.record import Record
from suite.record.text import clean
from suite.report import accuracy, columns
from suite.report.breakdowns import breakdowns
from suite.report.document import BESIDE, EMBEDDED, PageTable, render
from suite.report.plots import alt_text
from suite.report.sparklines import timelines
from suite.report.tables import Table
from suite.report.tidy import launches
from suite.report.view import LEFT, RIGHT, View
from suite.report.why import Told, is_profiled, why
from suite.report.words import legend


@dataclass(frozen=True)
class Section:
    """A table under its heading, with its notes; folded below it, what explains its ratios, and tables of that."""

    title: str
    table: PageTable
    notes: Sequence[str]
    why: Sequence[Told] = ()
    breakdowns: Sequence[Section] = ()


@dataclass(frozen=True)
class Plot:
    """A picture: a text that describes it, and its relative address or its content as a data URL."""

    alt: str
    source: str


def report(
    tables: Sequence[Table],
    loaded: Loaded,
    plots: Iterable[Path],
    sources: Sequence[str],
    *,
    frame: pd.DataFrame | None = None,
    learned: Sequence[Learned] = (),
    one_file: bool = False,
) -> str:
    """Returns the page. ``plots`` are PNG files beside it, embedded with ``one_file``; ``sources`` are the files read.

    ``frame`` has the launches if `launches` was called already; ``learned`` are the accuracy tables.
    """
    groups = [each.group for each in tables] + [each.group for each in learned]
    return render(
        "report.html.jinja",
        images=EMBEDDED if one_file else BESIDE,
        title=_headline(groups),
        subtitle=_subtitle(groups, loaded),
        sentences=[
            *(sentence for each in tables for sentence in sentences(each)),
            *(sentence for each in learned for sentence in accuracy.sentences(each)),
        ],
        sections=[
            *(_explained(f"table{number}", each) for number, each in enumerate(tables)),
            *(_section(f"learned{number}", accuracy.view(each)) for number, each in enumerate(learned, len(tables))),
        ],
        legend=legend(tables) if tables else "",
        plots=[Plot(alt_text(path), _embedded(path) if one_file else quote(path.name)) for path in plots],
        timelines=timelines(launch.record for launch in loaded.launches),
        launches=_launches(launches(loaded.launches) if frame is None else frame),
        environment=_environment(launch.record for launch in loaded.launches),
        command=f"python -m suite.reproduce {' '.join(map(clean, sources))}",
        on_files=loaded.notes,
    )


def sentences(table: Table) -> list[str]:
    """Returns a sentence per row that compares it with the baseline, with interval and n."""
    lines = []
    for row, cell in zip(table.group.rows, table.frame.to_dict("records"), strict=True):
        if not cell["ratio_blocks"] or table.base.holds(row) or cell["ratio"] is None:
            continue
        subject, base = _sides(table, row)
        name = f"For {table.group.workload} ({table.group.label(row, ', ')})"
        bounds = f"{cell['ratio_min']:.2f} to {cell['ratio_max']:.2f}"
        unit = "launches of each" if " of run " in cell["ratio_baseline"] else "blocks"
        n = f"n = {cell['ratio_blocks']} {unit}"
        verdict = cell["ratio_verdict"]
        if verdict in ("faster", "slower"):
            factor = cell["ratio"] if verdict == "faster" else 1 / cell["ratio"]
            lines.append(
                f"{name} {subject} is {factor:.2f}x {verdict} than {base} "
                f"(ratio {cell['ratio']:.2f}, 95 % interval {bounds}, {n})."
            )
        elif verdict == "equal":
            lines.append(
                f"{name} {subject} and {base} are equal within {table.margin:.1%} "
                f"(ratio {cell['ratio']:.2f}, 95 % interval {bounds}, {n})."
            )
        elif verdict:
            lines.append(f"{name} nothing can be said of {subject} against {base} yet ({n}).")
        else:
            lines.append(
                f"{name} {subject} ran at {cell['ratio']:.2f} times {base}'s throughput ({bounds}, {n}; not tested)."
            )
    return lines


def _sides(table: Table, row: Row) -> tuple[str, str]:
    """Returns the names of the row and of its baseline."""
    if table.group.by == "framework":
        return row.cell.framework, table.baseline
    words, axis = WORDS[table.group.by], table.base.axis
    return words.format(axis.value(row)), words.format(table.base.values[row.cell.framework])


def _headline(groups: Sequence[Group]) -> str:
    return "Training benchmarks: " + ", ".join(dict.fromkeys(group.workload for group in groups))


def _subtitle(groups: Sequence[Group], loaded: Loaded) -> str:
    machines = dict.fromkeys(row.machine for group in groups for row in group.rows if row.machine)
    kinds = dict.fromkeys(group.data_words for group in groups)
    days = sorted({clean(launch.record.started, 40)[:10] for launch in loaded.launches if launch.record.started})
    return "; ".join(
        [*machines, *kinds, DASH.join(dict.fromkeys([*days[:1], *days[-1:]])), f"{len(loaded.launches)} launches"]
    )


def _explained(identity: str, table: Table) -> Section:
    """Returns the section of a table of timed cells; without any profile nothing explains it."""
    section = _section(identity, columns.view(table))
    if not is_profiled([table]):
        return section
    views = enumerate(breakdowns(table))
    parts = [_section(f"{identity}-part{number}", view, view.title) for number, view in views]
    return replace(section, why=why(table), breakdowns=parts)


def _section(identity: str, view: View, caption: str = "") -> Section:
    grid = view.whole
    caption = caption or "One row per cell" + ("; the best value of a column is marked." if grid.best else ".")
    table = PageTable(identity, caption, grid.headers, grid.rows, grid.align, grid.names, grid.best)
    return Section(view.title, table, view.notes)


def _launches(frame: pd.DataFrame) -> PageTable:
    shown = [name for name in SHOWN if name in frame.columns]
    # One row at a time: all rows at once take more memory than the launches themselves.
    rows = ([_cell(value) for value in row] for row in zip(*(frame[name] for name in shown), strict=True))
    align = [LEFT if name in ("cell", "control", "status", "flags", "reason") else RIGHT for name in shown]
    caption = "One row per launch, failed ones included."
    return PageTable("launches", caption, [name.replace("_", " ") for name in shown], rows, align)


#: The columns of `launches.csv` that the page shows.
SHOWN = (
    "cell", "launch", "control", "status", "flags", "train_samples_per_s", "compute_samples_per_s",
    "input_samples_per_s", "train_step_ms_median", "first_step_s", "compile_s", "memory_rss_peak_bytes", "reason",
)  # fmt: skip


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and value != value):  # noqa: PLR0124 - not a number
        return NONE
    return figure(value) if isinstance(value, float) else clean(value)


def _environment(records: Iterable[Record]) -> str:
    """Returns versions and variables by framework, as recorded by the first launch of each."""
    recorded: dict[str, Mapping[str, Any]] = {}
    for record in records:
        if record.environment.get("packages"):
            recorded.setdefault(record.cell.framework, record.environment)
    shown = {
        framework: {name: environment.get(name) for name in ("system", "python", "packages", "variables", "digest")}
        for framework, environment in recorded.items()
    }
    return json.dumps(shown, indent=2, ensure_ascii=True)


def _embedded(path: Path) -> str:
    return f"data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}"
