"""Writes a comparison into its folder. After an error nothing of it is there."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from errno import EEXIST
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from suite.analysis.options import EXTRAS
from suite.analysis.records.load import REPORT, SUMMARY, Loaded, LoadError
from suite.analysis.statistics.accuracy import AccuracyComparison, epochs
from suite.record import bundle as bundles
from suite.record.saved import run_name
from suite.record.scratch import OWNED, scratch
from suite.record.text import clean
from suite.report.format.text import no_formula
from suite.report.format.view import View
from suite.report.html.links import GENERATOR, Link
from suite.report.html.stored import Standings, SummaryError, read
from suite.report.html.summary import standings, summary
from suite.report.screen import markdown
from suite.report.tables import accuracy, inference, releases, scaling, timed
from suite.report.tables.breakdowns import breakdowns
from suite.report.tables.frame import Table
from suite.report.tables.launches import launch_table, write_parquet
from suite.report.tables.legend import legend
from suite.report.text.answer import Answer, answer
from suite.report.text.why import explain_sides, is_profiled
from workloads.data.files import read_regular, regular

LAUNCHES = "launches.csv"
INDEX = "index.html"  # of a site, in the folder above
OLDER_STANDINGS = "leaderboard.json"  # beside the report of a bundle, in sites of older versions

#: An index with this mark was generated and may be overwritten.
MARK = f'name="generator" content="{GENERATOR}"'


@dataclass(frozen=True)
class Compared:
    """Throughput tables, accuracy tables, and the launches and names of the files they come from.

    With ``one_file`` the report has no links to files beside it. With ``published`` the folder is one of a site, which
    has an index. ``paths`` are the files, for links to those in the site. ``checked`` is what the rules say of a bundle
    that is published.
    """

    loaded: Loaded
    tables: Sequence[Table]
    learned: Sequence[AccuracyComparison]
    sources: Sequence[str]
    one_file: bool = False
    published: bool = False
    paths: Sequence[Path] = ()
    checked: str = ""

    @cached_property
    def answer(self) -> Answer:
        return answer(self.tables, self.learned)


def write(folder: Path, compared: Compared, extras: Collection[str] = EXTRAS, style: Path | None = None) -> list[str]:
    """Write report, tables, launches, plots and summary. Returns notes on what was left out; raises `OSError`.

    ``extras`` are those of `EXTRAS` to write. Without them the folder is small enough for git.
    """
    from suite.report import plots  # here, since they and the page take a second to load
    from suite.report.html.page import report

    notes = []
    loaded, tables, learned = compared.loaded, compared.tables, compared.learned
    with stage_files(folder) as staging:
        remarks = "".join(f"\n- {markdown.escape(note)}" for note in loaded.notes)
        text = text_of(compared) + (f"\nOn the files:\n{remarks}\n" if remarks else "")
        (staging / "table.md").write_text(text, encoding="utf-8")
        launches = launch_table(loaded.launches)
        files = {
            "cells.csv": _columns(row for each in tables for row in each.rows),
            "inference.csv": _columns(inference.rows(tables)),
            "checkpoints.csv": _columns(inference.saved_rows(tables)),
            "accuracy.csv": _columns(row for each in learned for row in each.rows),
            "epochs.csv": epochs(loaded.launches) if learned else {},
            LAUNCHES: launches,
        }
        for name, columns in files.items():
            if columns:
                write_csv(staging / name, columns)
        if "parquet" in extras:
            try:
                write_parquet(launches, staging / "launches.parquet")
            except ImportError:
                notes.append("launches.parquet was left out, since pyarrow is not installed: pip install pyarrow")
        written = sorted(path.name for path in staging.iterdir() if path.suffix in (".csv", ".md", ".parquet"))
        links = () if compared.one_file else _links(folder, written, compared)
        drawings = plots.draw(tables, learned, staging, [each for each in extras if each in plots.FORMATS], style)
        page = report(
            tables,
            learned,
            loaded,
            answer=compared.answer,
            launches=launches,
            drawings=drawings,
            sources=compared.sources,
            links=links,
        )
        (staging / REPORT).write_text(page, encoding="utf-8")
        place = _rank(folder, staging, compared) if compared.checked else None
        made = summary(loaded, tables, learned, compared.answer, place)
        (staging / SUMMARY).write_text(made.to_json(), encoding="utf-8")
    return notes


def _rank(folder: Path, staging: Path, compared: Compared) -> Standings:
    """Returns the place of a bundle on the leaderboards; what was read of it is added if it lies outside of the site.

    Raises `OSError`, and `LoadError` for a bundle without a row to show.
    """
    (path,) = compared.paths
    bundle, site, source = bundles.read(path), folder.resolve().parent, path.resolve()
    inside = source.is_relative_to(site)
    address = f"../{source.relative_to(site).as_posix()}" if inside else clean(path.name, 200)
    made = standings(compared.tables, compared.checked, quote(address), bundle.about.price_hour)
    if made is None:
        raise LoadError(f"{path}: has no throughput that could be ranked, so no place on a leaderboard")
    if not inside:
        (staging / address).write_bytes(bundle.content)
    return made


def is_made_from(folder: Path, content: bytes | None) -> bool:
    """Returns whether the report in a folder was made from a bundle with this content; for None, from no bundle."""
    if (folder / OLDER_STANDINGS).exists():  # of a site that an older version published
        return False
    try:
        place = read(folder).standings
        if place is None or content is None:
            return place is None and content is None
        return read_regular(folder / unquote(place.bundle), bundles.LARGEST) == content
    except (OSError, ValueError):
        return False


def _remove_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()


def is_site(folder: Path) -> bool:
    """Returns whether the folder has an index of reports."""
    try:
        with open(str(folder / INDEX), encoding="utf-8", errors="replace", opener=regular) as file:
            return MARK in file.read(2000)
    except OSError:
        return False


def _links(folder: Path, files: Sequence[str], compared: Compared) -> list[Link]:
    """Returns links to the index, to the files of the report, and to the raw runs that lie in the same site."""
    in_site = compared.published or is_site(folder.parent)
    links = [Link("All runs", f"../{INDEX}")] if in_site else []
    links += [Link(name, quote(name)) for name in files]
    site = folder.resolve().parent
    paths = [path.resolve() for path in compared.paths if in_site]
    inside = [path.relative_to(site) for path in paths if path.is_relative_to(site)]
    return links + [Link(f"raw run {clean(run_name(path), 60)}", quote(f"../{path.as_posix()}")) for path in inside]


def _columns(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Returns the rows by columns, also those that only some rows have."""
    held = list(rows)
    return {name: [row.get(name) for row in held] for name in dict.fromkeys(name for row in held for name in row)}


def write_csv(path: Path, columns: Mapping[str, Sequence[Any]]) -> None:
    """Write the columns as CSV in which a spreadsheet takes no text for a formula, and a missing figure is empty."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(map(no_formula, columns))
        writer.writerows(map(_csv_value, row) for row in zip(*columns.values(), strict=True))


def _csv_value(value: Any) -> Any:
    if isinstance(value, str):
        return no_formula(value)
    return "" if value is None or value != value else value  # noqa: PLR0124 - not a number


def views_of(compared: Compared) -> list[View]:
    """Returns all tables, each with what it has of devices, inference and releases below it."""
    views = [
        view
        for each in compared.tables
        for view in (timed.view(each), *scaling.views(each), *inference.views(each), *releases.views(each))
    ]
    return [*views, *map(accuracy.view, compared.learned)]


def text_of(compared: Compared) -> str:
    """Returns all tables in Markdown, with the legend below those that it explains, and what explains the ratios."""
    parts = [markdown.document(view) for view in views_of(compared)]
    if compared.tables:
        parts.append(f"{markdown.escape(legend(compared.tables))}\n")
    reasons = []
    for table in compared.tables:
        if is_profiled([table]):
            reasons += [markdown.explanation(*each) for each in explain_sides(table)]
            reasons += map(markdown.document, breakdowns(table))
    return "\n".join([*parts, *reasons])


@contextlib.contextmanager
def stage_files(folder: Path, ours: bool = False) -> Iterator[Path]:
    """Yields a folder to write into; at the end its files move to ``folder``, the summary last, or none after an error.

    Files of the same names are replaced if ``ours`` or if an earlier comparison wrote them; all others stay. Raises
    `OSError`, and `FileExistsError` for a file of another origin.
    """
    new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    ours = ours or is_written(folder)
    with contextlib.ExitStack() as half, scratch(folder, ".partial-") as staging:
        if new:
            half.callback(_remove_empty, folder)
        yield staging
        files = [path for path in staging.iterdir() if path.name != OWNED]
        existing = sorted(path.name for path in files if (folder / path.name).exists())
        if existing and not ours:
            raise FileExistsError(EEXIST, f"{folder / existing[0]} was not written by the suite and is left alone")
        for path in sorted(files, key=lambda each: (each.name == SUMMARY, each.name)):
            path.replace(folder / path.name)


def place_for(
    parent: Path, name: str, runs: Iterable[str], is_own: Callable[[Path], bool] = Path.exists, source: str = ""
) -> Path:
    """Returns the folder in ``parent`` for a comparison of these runs.

    If a folder of that name has another run, or is not the ``is_own`` one, the digest of the ``source`` is added to the
    name; without one the run's id, or a digest of several. So neither a run of another machine with the same number is
    overwritten, nor one by a stranger's file that says it holds the same run.
    """
    ids = set(runs)
    folder_name = name.lstrip(".") or "run"
    folder_name = f"run-{folder_name}" if folder_name.lower().endswith(".html") else folder_name  # as a site's pages
    suffix = min(ids, default="") if len(ids) < 2 else hashlib.sha256("\n".join(sorted(ids)).encode()).hexdigest()[:12]
    suffix = source[:12] or re.sub(r"[^\w.-]", "_", suffix)[:80]
    for folder in (parent / folder_name, parent / f"{folder_name}-{suffix}"):
        if (held := _runs_in(folder)) is None or (held == ids and is_own(folder)):
            return folder
    raise FileExistsError(f"{parent / folder_name} holds another run")


def is_written(folder: Path) -> bool:
    """Returns whether an earlier comparison wrote into the folder."""
    return bool(_runs_in(folder))


def _runs_in(folder: Path) -> set[str] | None:
    """Returns the ids of the runs compared in a folder; an empty set if it has other content, None if it is free."""
    try:
        return set(read(folder).runs)
    except SummaryError:
        return set()
    except OSError:
        pass
    try:
        with open(str(folder / LAUNCHES), encoding="utf-8", newline="", opener=regular) as file:
            return {row.get("run", "") for row in csv.DictReader(file)}
    except (OSError, ValueError, csv.Error):
        return set() if folder.is_dir() and any(folder.iterdir()) else None
