"""The report of a comparison as one page: the answer, one plot, tables that sort and filter; everything else folded."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd

from suite.analysis.accuracy.comparison import Learned
from suite.analysis.records.load import Loaded
from suite.analysis.rows.groups import Group
from suite.analysis.rows.missing import counts
from suite.analysis.rows.wording import DASH, NONE, figure, listing
from suite.record.record import Record
from suite.record.text import clean
from suite.report.format.names import count, workload
from suite.report.format.text import capital
from suite.report.format.view import LEFT, RIGHT
from suite.report.html import charts
from suite.report.html.document import BESIDE, EMBEDDED, Library, PageTable, render
from suite.report.html.sections import Section, explained, scaled, section
from suite.report.html.sparklines import timelines
from suite.report.plots import alt_text
from suite.report.tables import accuracy, columns
from suite.report.tables.frame import Table
from suite.report.tables.tidy import launches
from suite.report.tables.words import legend
from suite.report.text import missing
from suite.report.text.answer import Answer, answer


@dataclass(frozen=True)
class Link:
    """A link to another file, or to a part of the page."""

    text: str
    address: str


@dataclass(frozen=True)
class Place:
    """What lies around a page: ``links`` to files beside it, and the address of the chart library.

    Without a library the page has the pictures alone.
    """

    links: tuple[Link, ...] = ()
    library: str = ""


@dataclass(frozen=True)
class Plot:
    """A picture: a text that describes it, and its relative address or its content as a data URL.

    With its ``size`` in pixels, where it is known, a page keeps room for it before it is loaded.
    """

    alt: str
    source: str
    size: tuple[int, int] | None = None


#: Kinds of plots that stand above the tables; all others are folded.
HEROES = ("hero",)
FIRST = ("throughput", "accuracy-epochs")  # in place of a hero


def report(
    tables: Sequence[Table],
    loaded: Loaded,
    plots: Iterable[Path],
    sources: Sequence[str],
    *,
    frame: pd.DataFrame | None = None,
    learned: Sequence[Learned] = (),
    one_file: bool = False,
    place: Place = Place(),
    told: Answer | None = None,
) -> str:
    """Returns the page. ``plots`` are PNG files beside it, embedded with ``one_file``; ``sources`` are the files read.

    ``frame`` has the launches if `launches` was called already; ``learned`` are the accuracy tables; ``told`` is the
    answer if it is known already.
    """
    groups = [each.group for each in tables] + [each.group for each in learned]
    views = [("table", columns.view(each)) for each in tables] + [("learned", accuracy.view(each)) for each in learned]
    made = [
        section(f"{kind}{number}", view, group)
        for number, ((kind, view), group) in enumerate(zip(views, groups, strict=True))
    ]
    sections = [*map(explained, map(scaled, made, tables), tables), *made[len(tables) :]]
    pictures = list(plots)
    heroes = _heroes(pictures)
    library = Library("" if one_file else place.library) if one_file or place.library else None
    drawn = [*map(charts.throughput, tables), *map(charts.accuracy, learned)] if library else []
    drawn = [each for each in drawn if each.get("cells") or each.get("lines")]
    name = _name(sources)
    return render(
        "report.html.jinja",
        images=EMBEDDED if one_file else BESIDE,
        library=library,
        title=f"{name}: training benchmarks" if name else "Training benchmarks",
        name=name,
        heading=capital(listing(list(dict.fromkeys(workload(group) for group in groups)))) or "Training benchmarks",
        subtitle=_subtitle(groups, loaded),
        links=place.links,
        answer=(told or answer(tables, learned)).sentences,
        missing=missing.sentences(counts(loaded)),
        contents=_contents(sections, bool(pictures)),
        hero=[_plot(path, one_file) for path in heroes],
        charts=drawn,
        crowded=any(len(each.get("cells", ())) > charts.BESIDE_MOST for each in drawn),
        sections=sections,
        legend=legend(tables) if tables else "",
        plots=[_plot(path, one_file) for path in pictures if path not in heroes],
        timelines=timelines(launch.record for launch in loaded.launches),
        launches=_launches(launches(loaded.launches) if frame is None else frame),
        environment=_environment(launch.record for launch in loaded.launches),
        command=f"python -m suite.reproduce {' '.join(map(clean, sources))}",
        on_files=loaded.notes,
    )


def _name(sources: Sequence[str]) -> str:
    """Returns the name of the run, or of the first of several."""
    names = list(dict.fromkeys(clean(Path(source).stem, 60) for source in sources))
    return "".join(names[:1]) + (f" and {len(names) - 1} more" if len(names) > 1 else "")


def _subtitle(groups: Sequence[Group], loaded: Loaded) -> str:
    machines = dict.fromkeys(row.machine for group in groups for row in group.rows if row.machine)
    kinds = dict.fromkeys(group.data_words for group in groups)
    days = sorted({clean(launch.record.started, 40)[:10] for launch in loaded.launches if launch.record.started})
    launched = count(len(loaded.launches), "launch")
    dates = DASH.join(dict.fromkeys([*days[:1], *days[-1:]]))
    return " \u00b7 ".join(filter(None, [*machines, *kinds, dates, launched]))


def _heroes(pictures: Sequence[Path]) -> list[Path]:
    """Returns the pictures that stand above the tables."""
    for kinds in (HEROES, FIRST):
        if chosen := [path for path in pictures if path.stem.startswith(kinds)]:
            return chosen
    return []


def _plot(path: Path, embedded: bool) -> Plot:
    return Plot(alt_text(path), _embedded(path) if embedded else quote(path.name), _size(path))


def _size(path: Path) -> tuple[int, int] | None:
    """Returns width and height, which are in the first bytes of a PNG file; None for another file."""
    try:
        with path.open("rb") as file:
            head = file.read(24)
    except OSError:
        return None
    if len(head) < 24 or not head.startswith(b"\x89PNG"):
        return None
    width, height = struct.unpack(">II", head[16:])
    return width, height


def _contents(sections: Sequence[Section], plots: bool) -> list[Link]:
    """Returns the table of contents."""
    entries = [("The answer", "answer"), *((each.title, f"{each.table.id}-section") for each in sections)]
    entries += [("All plots", "plots")] if plots else []
    entries += [("Every launch", "every-launch"), ("Environment", "environment"), ("Run it again", "again")]
    return [Link(text, address) for text, address in entries]


def _launches(frame: pd.DataFrame) -> PageTable:
    shown = [name for name in SHOWN if name in frame.columns]
    # One row at a time: all rows at once take more memory than the launches themselves.
    rows = ([_cell(value) for value in row] for row in zip(*(frame[name] for name in shown), strict=True))
    align = [LEFT if name in ("cell", "control", "status", "flags", "reason") else RIGHT for name in shown]
    caption = "One row per launch, failed launches included."
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
