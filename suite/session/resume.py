"""Which journal `--resume` continues, and the command that continues a run."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from framework_training_suite import typed
from suite.plan.cell import Cell
from suite.plan.command.common import LATEST, with_older
from suite.plan.command.pytest_arguments import command_words
from suite.plan.measuring import SEQUENTIAL
from suite.record.record import Record
from suite.record.retry import count_tested, may_pass
from suite.session.journal import Journal, JournalError, description, read
from suite.session.launches.settings import Settings
from suite.session.terminal import count_launches
from workloads.registry import files_digest

#: How many runs an error names.
NAMED_MOST = 3


def cells_digest(cells: Iterable[Cell]) -> str:
    """A digest of the cells of a run: `-k` selects them, so runs with the same settings may have different cells."""
    return hashlib.sha256("\n".join(sorted({cell.id for cell in cells})).encode()).hexdigest()[:16]


def open_journal(settings: Settings, cells: Sequence[Cell], known: Mapping[str, Any]) -> Journal:
    """The journal of a run of these cells: a new one, or the one that is to be continued. Raises `JournalError`.

    ``known`` is said of a new run besides its settings.
    """
    digest = cells_digest(cells)
    if settings.resume:
        journal = Journal(journal_of(settings, digest), {})
        sequential = journal.run.get("design") == SEQUENTIAL
        if sequential != bool(settings.budget_s):
            journal.close()
            fixed = "has a fixed number of launches; give --launches N"
            design = "stops when it is decided; give --budget TIME, and no --launches," if sequential else fixed
            raise JournalError(f"{journal.path} {design} to continue it")
        return journal
    now = datetime.now(UTC)
    run_id = f"{now:%Y%m%dT%H%M%S}-{os.getpid():x}"
    if (settings.journals / f"{run_id}.jsonl").exists():  # of another run of this process, in the same second
        run_id += f"-{now.microsecond:06d}"
    info = {"id": run_id, "started": now.isoformat(timespec="seconds"), **settings.signature()}
    info |= {"design": SEQUENTIAL, "budget_s": settings.budget_s} if settings.budget_s else {}
    info |= {"typed": settings.typed, "cells": digest, "planned": len(cells)}
    info |= {name: value for name, value in known.items() if value}
    return Journal(settings.journals / f"{run_id}.jsonl", info)


def journal_of(settings: Settings, cells: str) -> Path:
    """The journal that ``settings.resume`` names, or the one that fits best; ``cells`` is a `cells_digest`.

    Raises `JournalError` if there is none.
    """
    if settings.resume == LATEST:
        return _best(settings, cells)
    name = Path(settings.resume or "").name.removesuffix(".jsonl")
    paths = [folder / f"{name}.jsonl" for folder in with_older(settings.journals)]
    path = next(filter(Path.is_file, paths), None)
    if path is None:
        newest = [journal.stem for journal in _newest_first(settings.journals)[:NAMED_MOST]]
        raise JournalError(f"no run {name} in {settings.journals} (the newest: {', '.join(newest) or 'none'})")
    run, records, _ = read(path)
    if differences := _differences(run, settings):
        raise JournalError(f"run {name} has {'; '.join(differences)}: use the options that it was started with")
    if changed := _find_changed_code(records):
        raise JournalError(
            f"the code of {changed} has changed since the launches of run {name}: run without --resume, "
            "or change it back"
        )
    return path


def say_resumed(run_id: str, last: Collection[Record], settings: Settings) -> str:
    """What a run that goes on finds in its journal: the ``last`` try of each launch."""
    launches, failed = len(last), sum(may_pass(record.outcome) for record in last)
    them = "it" if launches == 1 else f"{failed} of them"
    note = f"; {them} failed and will run again" if failed else ""
    line = f"resuming run {run_id}: {count_launches(launches)} {'is' if launches == 1 else 'are'} in its journal{note}"
    tested = 0 if settings.budget_s else count_tested(last, settings.launches)
    return f"{line}. Its test is that of {tested} launches; of more, only a new run is tested" if tested else line


def command(arguments: Sequence[str], run: str = "", program: str = "") -> str:
    """The command line that continues a run that was started or resumed with these arguments, or starts it anew.

    The arguments are pytest's, unless they are those of a ``program``.
    """
    program, words = (program, [*arguments]) if program else command_words(arguments)
    others: list[str] = []
    for at, argument in enumerate(without(words, "--resume")):
        tracked = argument.startswith("--track") or (at > 0 and others[-1] == "--track")
        # Shown without a user's name and password; the tracker's own variables may hold them.
        others.append(re.sub(r"://.*@", "://", argument) if tracked else argument)
    return typed(f"{program} {shlex.join([*others, *([f'--resume={run}'] if run else [])])}")


def without(arguments: Sequence[str], option: str) -> list[str]:
    """The arguments less an option and its value."""
    return [
        argument
        for at, argument in enumerate(arguments)
        if argument.partition("=")[0] != option
        and not (at > 0 and arguments[at - 1] == option and not argument.startswith("-"))
    ]


def _best(settings: Settings, cells: str) -> Path:
    """The newest journal with the same cells and launches; then with the same cells; then any with these settings.

    It may have been started with fewer launches: blocks are appended, so that more of them may be asked for later.
    Journals that cannot be read are passed over, as are those without a launch where another one has some.
    """
    candidates: list[tuple[tuple[bool, bool], Path]] = []
    empty, newest = None, ""
    for path in _newest_first(settings.journals):
        with suppress(JournalError):
            run = description(path)
            if differences := _differences(run, settings):
                newest = newest or f" (the newest, {path.name}, has {'; '.join(differences)})"
            else:
                candidates.append(((run.get("cells") != cells, run.get("launches") != settings.launches), path))
    for _, path in sorted(candidates, key=lambda candidate: candidate[0]):  # stable: the newest of each kind first
        with suppress(JournalError):
            _, records, _ = read(path)
            if changed := _find_changed_code(records):
                newest = newest or f" (the newest, {path.name}, has launches of other code of {changed})"
            elif records:
                return path
            else:
                empty = empty or path
    if empty:
        return empty
    raise JournalError(f"no journal in {settings.journals} has these settings{newest}: run without --resume")


def _newest_first(journals: Path) -> list[Path]:
    found = (path for folder in with_older(journals) for path in folder.glob("*.jsonl"))
    return sorted(found, key=lambda path: path.name, reverse=True)


def _differences(run: dict[str, Any], settings: Settings) -> list[str]:
    return [
        f"{name} {run.get(name)}, not {value}"
        for name, value in settings.signature().items()
        if run.get(name) != value and not (name == "launches" and _fewer(run.get(name), value))
    ]


def _find_changed_code(records: Iterable[Record]) -> str:
    """A workload from outside whose files are not those of a launch that counts; empty if there is none."""
    counting = (record for record in records if not may_pass(record.outcome))  # the others run again
    recorded = {(record.cell.workload, str(files)) for record in counting if (files := record.workload.get("files"))}
    digests = {workload: files_digest(workload) for workload, _ in recorded}
    return min((workload for workload, files in recorded if files != digests[workload]), default="")


def _fewer(started: Any, wanted: int) -> bool:
    return type(started) is int and started < wanted
