"""What a comparison writes into its folder: all of it or nothing."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from errno import EEXIST
from pathlib import Path

import pandas as pd

from suite.analysis.accuracy import Learned, epochs
from suite.analysis.load import REPORT, SUMMARY, Loaded
from suite.record.scratch import OWNED, scratch
from suite.report import accuracy, columns, markdown, plots
from suite.report.excerpt import excerpt
from suite.report.page import report
from suite.report.summary import SummaryError, read, summary
from suite.report.tables import Table, cells
from suite.report.text import no_formula
from suite.report.tidy import launches, write_parquet
from suite.report.words import legend

LAUNCHES = "launches.csv"
INDEX = "index.html"  # of a site, in the folder above

#: Files that can be written besides: they hold what the CSV tables and PNG plots hold, for other tools.
EXTRAS = ("svg", "parquet")


@dataclass(frozen=True)
class Compared:
    """Tables of what was timed, tables of what was learnt, and the launches and names of the files behind them.

    With ``one_file`` the report holds its plots; otherwise it shows those beside it.
    """

    loaded: Loaded
    tables: Sequence[Table]
    learned: Sequence[Learned]
    sources: Sequence[str]
    one_file: bool = False


def write(folder: Path, compared: Compared, extras: Collection[str] = EXTRAS) -> list[str]:
    """Write report, tables, launches, plots and summary; notes say what was left out. Raises `OSError`.

    ``extras`` are those of `EXTRAS` to write. Without them the folder is light enough for git.
    """
    notes = []
    loaded, tables, learned = compared.loaded, compared.tables, compared.learned
    with staged(folder) as place:
        remarks = "".join(f"\n- {markdown.escape(note)}" for note in loaded.notes)
        text = text_of(compared) + (f"\nOn the files:\n{remarks}\n" if remarks else "")
        (place / "table.md").write_text(text, encoding="utf-8")
        if tables:
            _write_csv(cells(tables), place / "cells.csv")
        if learned:
            frame = pd.concat([each.frame for each in learned])
            _write_csv(frame, place / "accuracy.csv")
            _write_csv(epochs(loaded.launches), place / "epochs.csv")
        frame = launches(loaded.launches)
        _write_csv(frame, place / LAUNCHES)
        if "parquet" in extras:
            try:
                write_parquet(frame, place / "launches.parquet")
            except ImportError:
                notes.append("launches.parquet was left out, since pyarrow is not installed: pip install pyarrow")
        suffixes = [suffix for suffix in plots.WRITERS if suffix == "png" or suffix in extras]
        drawn = plots.draw([excerpt(each) for each in tables], place, suffixes)
        drawn += plots.draw_learned(learned, place, suffixes)
        images = [path for path in drawn if path.suffix == ".png"]
        page = report(
            tables, loaded, images, compared.sources, frame=frame, learned=learned, one_file=compared.one_file
        )
        (place / REPORT).write_text(page, encoding="utf-8")
        (place / SUMMARY).write_text(summary(loaded.launches).to_json(), encoding="utf-8")
    return notes


def _write_csv(frame: pd.DataFrame, path: Path) -> None:
    """The frame as CSV in which no text is a formula."""
    safe = frame.rename(columns=no_formula)
    for name in safe.columns:
        if any(isinstance(value, str) and value != no_formula(value) for value in safe[name]):
            values = [no_formula(value) if isinstance(value, str) else value for value in safe[name]]
            safe[name] = pd.Series(values, index=safe.index, dtype=object)
    safe.to_csv(path, index=False, lineterminator="\n")


def text_of(compared: Compared) -> str:
    """All tables in Markdown, with the legend under those that it explains."""
    views = [*map(columns.view, compared.tables), *map(accuracy.view, compared.learned)]
    legends = [f"{markdown.escape(legend(compared.tables))}\n"] if compared.tables else []
    return "\n".join([*map(markdown.document, views), *legends])


@contextlib.contextmanager
def staged(folder: Path, ours: bool = False) -> Iterator[Path]:
    """A folder to write into; what it holds at the end moves to ``folder``, the summary last, and nothing if it failed.

    What was there under the same names is replaced, if ``ours`` or if an earlier comparison wrote it; all else stays.
    Raises `OSError`, `FileExistsError` for a file of somebody else's.
    """
    folder.mkdir(parents=True, exist_ok=True)
    ours = ours or _held(folder) not in (None, set())
    with scratch(folder, ".partial-") as place:
        yield place
        made = [path for path in place.iterdir() if path.name != OWNED]
        taken = sorted(path.name for path in made if (folder / path.name).exists())
        if taken and not ours:
            raise FileExistsError(EEXIST, f"{folder / taken[0]} was not written by suite.compare and is left alone")
        for path in sorted(made, key=lambda each: (each.name == SUMMARY, each.name)):
            path.replace(folder / path.name)


def place_for(parent: Path, name: str, runs: Iterable[str]) -> Path:
    """The folder in ``parent`` for a comparison of these runs: of that name, unless another run's is there.

    Then the run's id (of several, a digest) goes with the name: a run of another machine with this number is not lost.
    """
    ids = set(runs)
    plain = name.lstrip(".") or "run"
    plain = f"run-{plain}" if plain.lower() == INDEX else plain  # a site's index is a file
    own = min(ids, default="") if len(ids) < 2 else hashlib.sha256("\n".join(sorted(ids)).encode()).hexdigest()[:12]
    own = re.sub(r"[^\w.-]", "_", own)[:80]
    for folder in (parent / plain, parent / f"{plain}-{own}"):
        if _held(folder) in (None, ids):
            return folder
    raise FileExistsError(f"{parent / plain} holds another run")


def _held(folder: Path) -> set[str] | None:
    """The ids of the runs that a folder holds a comparison of; none if it holds other things, None if it is free."""
    try:
        return set(read(folder).runs)
    except SummaryError:
        return set()
    except OSError:
        pass
    try:
        with (folder / LAUNCHES).open(encoding="utf-8", newline="") as file:
            return {row.get("run", "") for row in csv.DictReader(file)}
    except (OSError, ValueError, csv.Error):
        return set() if folder.is_dir() and any(folder.iterdir()) else None
