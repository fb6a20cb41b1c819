"""A folder of reports as a static site, with an index of all runs.

The index is made from the folders alone, so a site can be copied, merged or pruned with any tool and indexed again.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from suite.analysis.records.load import REPORT, SUMMARY, LoadError
from suite.analysis.records.machines import Machine, distinguish
from suite.analysis.rows.wording import DASH
from suite.catalog.setting import TEXT
from suite.record.text import clean
from suite.report.format.names import count
from suite.report.html import leaderboards, releases
from suite.report.html.cards import badges, cards
from suite.report.html.document import render
from suite.report.html.folder import INDEX, MARK, stage_files
from suite.report.html.stored import UNNAMED, Summary, SummaryError, read
from suite.report.tables.columns import NAME, Column, grid


def _column(name: str, read: Callable[[Summary], str]) -> Column:
    return Column(name, lambda row: read(row[1]), TEXT)


def _count_launches(run: Summary) -> str:
    return str(run.launches) if run.ok == run.launches else f"{run.launches}, {run.launches - run.ok} failed"


COLUMNS = (
    Column("run", lambda row: clean(row[0], 100), TEXT, where=(NAME,),
           link=lambda row: f"{quote(row[0], safe='')}/{REPORT}"),
    _column("date", lambda run: DASH.join(run.dates)),
    _column("workloads", lambda run: ", ".join(run.workloads)),
    _column("launches", _count_launches),
    _column("cells", lambda run: str(run.cells)),
    _column("data", lambda run: ", ".join(run.data)),
    _column("machine", lambda run: "; ".join([*run.machines, *run.devices])),
    _column("versions", lambda run: ", ".join(run.versions)),
)  # fmt: skip


def check(site: Path, folder: Path) -> None:
    """Raises `LoadError` unless a report in ``folder`` would lie directly in the site, links followed."""
    if folder.resolve().parent != site.resolve():
        raise LoadError(f"{folder} does not lie directly in {site}: a site holds its runs, and leads nowhere else")
    for page in (site / name for name in (INDEX, leaderboards.PAGE, releases.PAGE)):
        if page.is_dir():
            raise LoadError(f"{page} is a folder, where a page goes: rename it, its report stays readable")
        if page.is_file() and MARK not in page.read_text(encoding="utf-8", errors="replace")[:2000]:
            raise LoadError(f"{page} was not made by the suite and is left alone: publish into another folder")


def publish(site: Path) -> list[str]:
    """Write the index of all runs in the folder. Returns notes on those that could not be listed; raises `OSError`."""
    with _lock(site):
        runs, notes = scan(site)
        submitted = [(folder, run.standings) for folder, run in runs if run.standings]
        released = [(folder, run.releases) for folder, run in runs if run.releases]
        with stage_files(site, ours=True) as place:  # `check` has verified that the index is ours
            (place / INDEX).write_text(page(runs, bool(submitted), bool(released)), encoding="utf-8")
            if submitted:
                (place / leaderboards.PAGE).write_text(leaderboards.page(submitted), encoding="utf-8")
            if released:
                (place / releases.PAGE).write_text(releases.page(released), encoding="utf-8")
    return notes


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
    made = cards(runs)
    machines = len({name for _, run in runs for name in run.machines})
    return render(
        "index.html.jinja",
        title="Training benchmarks: all runs",
        counted=f"{count(len(runs), 'run')} on {count(machines, 'machine')}",
        leaderboards=leaderboards.PAGE if boards else "",
        releases=releases.PAGE if released else "",
        cards=made,
        badges=badges(made),
        runs=grid(COLUMNS, runs),
    )


def name_machines(runs: Iterable[tuple[str, Summary]]) -> list[tuple[str, Summary]]:
    """Returns the runs, each after its folder, with names of machines that tell all of them apart."""
    held = [(folder, run, [_machine(run, each.machine, folder) for each in run.entries]) for folder, run in runs]
    labels = distinguish(machine for _, _, machines in held for machine in machines)
    named = []
    for folder, run, machines in held:
        pairs = zip(run.entries, machines, strict=True)
        entries = tuple(replace(entry, machine=each.name(labels[each])) for entry, each in pairs)
        processors = tuple(dict.fromkeys(each.processor(labels[each]) for each in machines if each.cpu != UNNAMED))
        named.append((folder, replace(run, entries=entries, machines=processors or run.machines)))
    return named


def _machine(run: Summary, name: str, folder: str) -> Machine:
    """Returns what is known of a machine; in an older summary, that is its name."""
    processor, _, cards = name.partition("; ")
    return dict(run.hardware).get(name) or Machine(processor or UNNAMED, gpus=cards, run=folder)


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
