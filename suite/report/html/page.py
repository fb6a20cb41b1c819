"""The report of a comparison as one page: the answer, one plot, tables that sort and filter; everything else folded."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from markupsafe import Markup

from suite.analysis.records.load import Loaded
from suite.analysis.rows.groups import Group
from suite.analysis.rows.runs import counts
from suite.analysis.rows.wording import DASH, NONE, figure, listing
from suite.analysis.statistics.accuracy import AccuracyComparison
from suite.catalog.setting import TEXT
from suite.record.record import Record
from suite.record.text import clean
from suite.report.format.names import count, workload
from suite.report.format.text import capital
from suite.report.format.view import LEFT, RIGHT, Grid, View
from suite.report.html.document import render
from suite.report.html.links import Link
from suite.report.plots import Drawing
from suite.report.plots.vectors import embed
from suite.report.tables import accuracy, inference, releases, scaling, timed
from suite.report.tables.breakdowns import breakdowns
from suite.report.tables.columns import FLAG
from suite.report.tables.frame import Table
from suite.report.tables.launches import column
from suite.report.tables.legend import legend
from suite.report.text import missing
from suite.report.text.answer import Answer
from suite.report.text.why import PairExplanation, explain_sides, is_profiled

#: The columns of `launches.csv` that the page shows.
LAUNCH_COLUMNS = (
    "cell", "launch", "control", "status", "flags", "train_samples_per_s", "compute_samples_per_s",
    "input_samples_per_s", "train_step_ms_median", "first_step_s", "compile_s", "memory_rss_peak_bytes", "reason",
)  # fmt: skip


@dataclass(frozen=True)
class Section:
    """A table under its heading; below it scaling, releases and inference; folded, what explains its ratios."""

    title: str
    view: View
    below: Sequence[View] = ()
    why: Sequence[tuple[PairExplanation, Sequence[PairExplanation]]] = ()
    breakdowns: Sequence[View] = ()


def report(
    tables: Sequence[Table],
    learned: Sequence[AccuracyComparison],
    loaded: Loaded,
    *,
    answer: Answer,
    launches: Mapping[str, Sequence[Any]],
    drawings: Sequence[Drawing] = (),
    sources: Sequence[str],
    links: Sequence[Link] = (),
) -> str:
    """Returns the page, which needs no other file.

    ``launches`` are the columns of `launches.csv`, ``sources`` the files read; ``links`` lead to files
    beside the page.
    """
    groups = [*(each.group for each in tables), *(each.group for each in learned)]
    sections = [*map(_timed, tables), *(_section(accuracy.view(each), each.group) for each in learned)]
    name = _name(sources)
    pictures = [(each, embed(each.svg, number, each.words)) for number, each in enumerate(drawings)]
    return render(
        "report.html.jinja",
        title=f"{name}: training benchmarks" if name else "Training benchmarks",
        name=name,
        heading=capital(listing(list(dict.fromkeys(workload(group) for group in groups)))) or "Training benchmarks",
        subtitle=_subtitle(groups, loaded),
        links=links,
        answer=answer,
        missing=missing.sentences(counts(loaded)),
        contents=_contents(sections, bool(drawings)),
        hero=[Markup(svg) for each, svg in pictures if each.leads],  # noqa: S704 - `embed` escapes, here and below
        plots=[Markup(svg) for each, svg in pictures if not each.leads],  # noqa: S704
        sections=sections,
        legend=legend(tables) if tables else "",
        launches=_launches(launches),
        environment=_environment(launch.record for launch in loaded.launches),
        command=f"training-suite reproduce {' '.join(map(clean, sources))}",
        on_files=loaded.notes,
    )


def _section(view: View, group: Group) -> Section:
    kind = "training to the end" if group.rows[0].cell.recipe else "throughput"
    return Section(f"{capital(workload(group))}: {kind}", view)


def _timed(table: Table) -> Section:
    below = [*scaling.views(table), *releases.views(table), *inference.views(table)]
    section = replace(_section(timed.view(table), table.group), below=below)
    if not is_profiled([table]):
        return section
    return replace(section, why=explain_sides(table), breakdowns=breakdowns(table))


def _name(sources: Sequence[str]) -> str:
    """Returns the name of the run, or of the first of several."""
    names = list(dict.fromkeys(clean(Path(source).stem, 60) for source in sources))
    return "".join(names[:1]) + (f" and {len(names) - 1} more" if len(names) > 1 else "")


def _subtitle(groups: Sequence[Group], loaded: Loaded) -> str:
    machines = dict.fromkeys(row.machine for group in groups for row in group.rows if row.machine)
    kinds = dict.fromkeys(group.data_words for group in groups)
    days = sorted({clean(launch.record.started, 40)[:10] for launch in loaded.launches if launch.record.started})
    dates = DASH.join(dict.fromkeys([*days[:1], *days[-1:]]))
    return " \u00b7 ".join(filter(None, [*machines, *kinds, dates, count(len(loaded.launches), "launch")]))


def _contents(made: Sequence[Section], drawn: bool) -> list[Link]:
    entries = [("The answer", "answer"), *((each.title, f"table{at}-section") for at, each in enumerate(made))]
    entries += [("All plots", "plots")] if drawn else []
    entries += [("Every launch", "every-launch"), ("Environment", "environment"), ("Run it again", "again")]
    return [Link(text, address) for text, address in entries]


def _launches(columns: Mapping[str, Sequence[Any]]) -> Grid:
    names = [name for name in LAUNCH_COLUMNS if name in columns]
    # One row at a time: all rows at once take more memory than the launches themselves.
    rows = ([_cell(value) for value in row] for row in zip(*(columns[name] for name in names), strict=True))
    align = [LEFT if column(name).form in (TEXT, FLAG) else RIGHT for name in names]
    return Grid([name.replace("_", " ") for name in names], cast(Sequence[Sequence[str]], rows), align)


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
