"""A folder of reports as a static site, with an index of all runs.

The index is made from the folders alone, so a site can be copied, merged or pruned with any tool and indexed again.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

from suite.analysis.records.load import REPORT, SUMMARY, LoadError
from suite.analysis.rows.wording import DASH, NONE
from suite.record.text import clean
from suite.report.format.names import count
from suite.report.format.view import LEFT, Grid
from suite.report.html import leaderboards, releases, standings
from suite.report.html.cards import cards
from suite.report.html.document import GENERATOR, PageTable, render
from suite.report.html.folder import INDEX, MARK, stage_files
from suite.report.html.stored import scan as stored
from suite.report.html.summary import Summary, SummaryError, name_machines, read

COLUMNS = ("run", "date", "workloads", "launches", "cells", "data", "machine", "versions")


def check(site: Path, folder: Path) -> None:
    """Raises `LoadError` unless a report in ``folder`` would lie directly in the site, links followed."""
    if folder.resolve().parent != site.resolve():
        raise LoadError(f"{folder} does not lie directly in {site}: a site holds its runs, and leads nowhere else")
    for page in (site / name for name in (INDEX, leaderboards.PAGE, releases.PAGE)):
        if page.is_dir():
            raise LoadError(f"{page} is a folder, where a page goes: rename it, its report stays readable")
        if page.is_file() and MARK not in page.read_text(encoding="utf-8", errors="replace")[:2000]:
            raise LoadError(f"{page} was not made by suite.compare and is left alone: publish into another folder")


def publish(site: Path) -> list[str]:
    """Write the index of all runs in the folder. Returns notes on those that could not be listed; raises `OSError`."""
    with _lock(site):
        runs, notes = scan(site)
        submitted, left_out = stored(site, standings.FILE, standings.Standings, "leaderboards")
        released, also_out = stored(site, releases.FILE, releases.Lines, "page of releases")
        with stage_files(site, ours=True) as place:  # `check` has verified that the index is ours
            (place / INDEX).write_text(page(runs, bool(submitted), bool(released)), encoding="utf-8")
            if submitted:
                (place / leaderboards.PAGE).write_text(leaderboards.page(submitted), encoding="utf-8")
            if released:
                (place / releases.PAGE).write_text(releases.page(released), encoding="utf-8")
    return [*notes, *left_out, *also_out]


def scan(site: Path) -> tuple[list[tuple[str, Summary]], list[str]]:
    """Returns the runs of the site, the newest first, and why other folders with a report are left out."""
    runs, notes = [], []
    for folder in sorted(site.iterdir(), key=lambda each: each.name):
        if folder.name.startswith(".") or not _has_report(folder):
            continue
        if folder.resolve().parent != site.resolve():
            notes.append(f"{folder.name} is left out of the index: it leads out of the site")
            continue
        try:
            runs.append((folder.name, read(folder)))
        except SummaryError as error:
            notes.append(f"{folder.name} is left out of the index: its {SUMMARY} {error}")
        except OSError:
            notes.append(f"{folder.name} is left out of the index: it has no {SUMMARY}; compare its run again")
    runs.sort(key=lambda each: (each[1].dates[-1:], each[1].started), reverse=True)
    return runs, notes


def _has_report(folder: Path) -> bool:
    """Whether a report is there to be read, in a folder that a page can name."""
    try:
        return (folder / REPORT).is_file() and bool(folder.name.encode())
    except (OSError, UnicodeEncodeError):
        return False


def page(runs: Sequence[tuple[str, Summary]], boards: bool = False, released: bool = False) -> str:
    """Returns the index page: a card for each workload and machine, and a row per run.

    With ``boards`` it leads to the leaderboards of submitted runs, and with ``released`` to the page of releases.
    """
    runs = name_machines(runs)
    rows = [[clean(folder, 100), *_texts(run)] for folder, run in runs]
    machines = len({name for _, run in runs for name in run.machines})
    return render(
        "index.html.jinja",
        title="Training benchmarks: all runs",
        generator=GENERATOR,
        counted=f"{count(len(runs), 'run')} on {count(machines, 'machine')}",
        leaderboards=leaderboards.PAGE if boards else "",
        releases=releases.PAGE if released else "",
        cards=cards(runs),
        runs=PageTable("runs", "One row per run, the newest first.", Grid(COLUMNS, rows, [LEFT] * len(COLUMNS))),
        links=[f"{quote(folder, safe='')}/{REPORT}" for folder, _ in runs],
    )


def _texts(run: Summary) -> list[str]:
    launches = str(run.launches) if run.ok == run.launches else f"{run.launches}, {run.launches - run.ok} failed"
    texts = [
        DASH.join(run.dates),
        ", ".join(run.workloads),
        launches,
        str(run.cells),
        ", ".join(run.data),
        "; ".join([*run.machines, *run.devices]),
        ", ".join(run.versions),
    ]
    return [text or NONE for text in texts]


@contextlib.contextmanager
def _lock(site: Path) -> Iterator[None]:
    """Lock the folder: if two runs are published at once, the last index must list both."""
    descriptor = os.open(site, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
