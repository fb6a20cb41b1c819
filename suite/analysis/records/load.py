"""Loads records from files: the pytest-benchmark JSON that the suite saves, the suite's journal, and bundles.

Nothing is repaired: a file that cannot be trusted is refused with one line that names it and the way out. The one
exception is the last line of a journal, which a killed run may leave half written: it is ignored, and a note says so.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from sys import intern
from typing import Any, BinaryIO

from framework_training_suite import CommandError
from suite.analysis.records.glance import choose_newest
from suite.analysis.records.inherited import LEFT_OUT, find_floors
from suite.analysis.records.reader import Place, Reader, read_lines
from suite.analysis.records.saved import EMPTY, decode, find_records, members, without_surrogates
from suite.catalog.suggest import nearest
from suite.plan.command.common import SAVED, with_older
from suite.record.bundle import SUFFIX, BundleError
from suite.record.bundle import read as read_bundle
from suite.record.record import Record, RecordError
from suite.record.retry import find_retries, last_tries, may_pass
from suite.record.saved import COMPRESSED, open_run, plain_name, run_name
from suite.record.text import clean

SAVED_SUFFIXES = (".json", ".json" + COMPRESSED)

#: Files that a comparison writes: a summary beside a report is no run.
SUMMARY, REPORT = "run.json", "report.html"


#: What files say about runs, by the id of the run.
Runs = dict[str, Mapping[str, Any]]


class LoadError(CommandError, ValueError):
    """Input that cannot be compared; one line that names the file, what is wrong, and the way out."""


@dataclass(frozen=True, slots=True)
class Launch:
    """A record, the id of its run, and the name of its file (without the folder)."""

    record: Record
    run: str
    source: str

    @property
    def key(self) -> tuple[str, str]:
        return self.run, self.record.key


@dataclass(frozen=True)
class Loaded:
    """All launches of some files, each once; notes on the files for the reader; what the files say about each run."""

    launches: tuple[Launch, ...]
    notes: tuple[str, ...] = ()
    runs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def find_saved(storage: Path = SAVED) -> list[Path]:
    """The saved runs in ``storage``, the newest last; with a user's own ones also those that are published."""
    return _by_age(
        path for folder in with_older(storage) for suffix in SAVED_SUFFIXES for path in folder.rglob(f"*{suffix}")
    )


def find(runs: Sequence[str], storage: Path = SAVED) -> tuple[list[Path], list[str]]:
    """The files that ``runs`` name, each a path, a folder, or a run's number or name in ``storage``; and notes.

    Of a name that a user's own run and a published one have, the user's own run is meant.
    """
    saved = find_saved(storage)
    folders = (each for folder in with_older(storage) for each in (folder, folder.parent / "journals"))
    journals = _by_age(path for folder in folders for path in folder.rglob("*.jsonl"))
    if not runs:
        if not saved:
            raise LoadError(f"no saved run in {storage}: make one with `training-suite run`, or name a file")
        newer = [journal for journal in journals if journal.stat().st_mtime > saved[-1].stat().st_mtime]
        hint = f"the journal {newer[-1].name} is newer than the run compared here: name it to see it" if newer else ""
        path, told = choose_newest(saved, storage.parent)
        return [path], [*told, *([hint] if hint else [])]
    paths: list[Path] = []
    notes: list[str] = []
    for run in runs:
        path = Path(run)
        if path.is_dir():
            inside = sorted(filter(_is_run, path.rglob("*")))
            if not inside:
                raise LoadError(f"{run}: no run in this folder (no .json, no .jsonl, no bundle)")
            paths += inside
        elif path.exists():
            paths.append(path)
        else:
            named = [each for each in saved if _has_name(each, run)]
            named = named or [each for each in journals if _has_name(each, run)]
            if not named:
                last_saved = ", ".join(map(run_name, saved[-5:])) or f"none{_say_elsewhere(storage)}"
                near = _nearest_name([*journals, *saved], run)
                meant = f"; did you mean {near!r}?" if near else ""
                raise LoadError(f"{run}: no such file, and no run of that name (last saved: {last_saved}){meant}")
            own = [each for each in named if each.is_relative_to(storage.parent)]
            if len(named) > 1:
                which = "the one saved last" if own in ([], named) else "your own"
                notes.append(f"{run} names {len(named)} runs; this is {which}, {(own or named)[-1].name}")
            paths.append((own or named)[-1])
    return list(dict.fromkeys(paths)), notes


def _say_elsewhere(storage: Path) -> str:
    """Where published runs are, which a command finds in a clone of the repository alone."""
    there = [folder for folder in with_older(storage)[1:] if not folder.is_dir()]
    return "".join(
        f"; published runs are in {folder}/ of a clone of the repository: run this there" for folder in there
    )


def load(paths: Iterable[Path], *, whole: bool = False) -> Loaded:
    """The launches of all files, each launch of a run once, with ``whole`` all of it. Raises `LoadError`."""
    launches: dict[tuple[str, str], Launch] = {}
    notes: list[str] = []
    runs: Runs = {}
    reader = Reader(whole)
    first: dict[str, Path] = {}  # the file that had a run first
    for path in paths:
        conflicts: list[str] = []
        with _collector_off():
            for launch in _READERS.get(path.suffix, _read_saved)(path, notes, reader, runs):
                holder = first.setdefault(launch.run, path)
                if holder != path and SUFFIX in (holder.suffix, path.suffix):
                    _refuse_another(path, holder, launch, launches.get(launch.key))
                    continue
                before = launches.setdefault(key := launch.key, launch)
                if tried_again := before.source == launch.source and may_pass(before.record.outcome):
                    launches[key] = launch
                if tried_again or before is launch or before.record == launch.record:
                    continue
                last = launches[key] = max(before, launch, key=lambda each: str(each.record.started))
                conflicts.append(
                    f"{launch.record.key} is held twice and differently ({before.source}, {launch.source}); the one "
                    f"that started last counts (from {last.source}, {last.record.outcome.status})"
                )
        notes += conflicts
    if not whole:
        floors = find_floors((each.run, each.record) for each in launches.values())
        notes += (f"{run}: {LEFT_OUT.format(floor.launches)}" for run, floor in floors.items())
        launches = {
            key: replace(each, record=floors[each.run].leave_out(each.record)) if each.run in floors else each
            for key, each in launches.items()
        }
    return Loaded(tuple(launches.values()), tuple(clean(note) for note in notes), runs)


def _refuse_another(path: Path, holder: Path, launch: Launch, held: Launch | None) -> None:
    both = [each.record for each in (launch, held) if each]
    figures = [(each.started, each.outcome.status, each.phases) for each in both]
    if not may_pass(launch.record.outcome) and (not held or figures[0] != figures[1]):  # of a try, the last counts
        why = f"{launch.record.key} of run {launch.run} is not what {holder.name} has of that run"
        raise LoadError(clean(f"{path}: {why}: compare them apart"))


def _read_saved(path: Path, notes: list[str], reader: Reader, runs: Runs) -> Iterator[Launch]:
    with _reading(path) as file:
        try:
            saved = find_records(without_surrogates(file.read()))
            if saved.foreign:
                notes.append(
                    f"{path.name}: {saved.foreign} benchmarks of other tests are left out, they hold no record"
                )
            run = _read_description(saved.run, path, runs)
            for at, size in saved.places:
                file.seek(at)
                text = file.read(size)
                record = reader.record(text, Place(path, at, size, hash(text)), saved.shared)
                yield _launch(record, path, run)
        except RecordError as error:
            raise LoadError(clean(f"{path}: {error}")) from None
        except UnicodeDecodeError:
            raise
        except ValueError as error:
            raise LoadError(
                f"{path}: cut off or no JSON ({error}); run the suite again, or compare its journal"
            ) from None


def _journal(path: Path, notes: list[str], reader: Reader, runs: Runs) -> Iterator[Launch]:
    run: Any = None
    empty = no_launch = True
    end = 0
    with _reading(path) as file:
        for number, line in enumerate(file, 1):
            at, end = end, end + len(line)
            if not line.strip():
                continue
            empty = False
            try:
                if number == 1 and (first := members(without_surrogates(line))).keys() == {
                    "run"
                }:  # the journal's own first line
                    run = _read_description(decode(first["run"]), path, runs)
                    continue
                record = reader.record(line, Place(path, at, len(line), hash(line)))
            except RecordError as error:
                raise LoadError(clean(f"{path}: line {number}: {error}")) from None
            except UnicodeDecodeError:
                raise
            except ValueError as error:
                if not line.endswith(b"\n"):
                    notes.append(f"{path.name}: line {number}, the last, is half written and was left out")
                    continue
                raise LoadError(f"{path}: line {number} is no JSON ({error}); take it out to use the rest") from None
            no_launch = False
            yield _launch(record, path, run)
    if empty:
        raise LoadError(f"{path}: {EMPTY}")
    if no_launch:
        raise LoadError(f"{path}: holds no finished launch; run the suite again, or go on from it with --resume")


def _bundle(path: Path, _notes: list[str], _reader: Reader, runs: Runs) -> Iterator[Launch]:
    try:
        bundle = read_bundle(path)
        run = _read_description(bundle.about.run, path, runs)
        records = read_lines(bundle.lines)[-1]
        if twice := next((each.key for each, _ in find_retries(records) if not may_pass(each.outcome)), ""):
            raise RecordError(f"{twice} was measured again, though it had not failed")
        yield from (_launch(record, path, run) for record in last_tries(records).values())
    except OSError as error:
        raise LoadError(f"{path}: {error.strerror or error}") from None
    except (BundleError, ValueError) as error:
        raise LoadError(clean(f"{path}: {error}; `training-suite verify` tells more")) from None


def _read_description(description: Any, path: Path, runs: Runs) -> Any:
    if not isinstance(description, dict):
        return None
    runs.setdefault(_run_id(description.get("id"), path), description)
    return description.get("id")


def _run_id(run: Any, path: Path) -> str:
    return clean(run or run_name(path), 80)


def _launch(record: Record, path: Path, run: Any) -> Launch:
    return Launch(record, intern(_run_id(record.run.get("id") or run, path)), intern(clean(plain_name(path))))


_READERS: Mapping[str, Callable[[Path, list[str], Reader, Runs], Iterator[Launch]]] = {
    ".jsonl": _journal, SUFFIX: _bundle,
}  # fmt: skip


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[BinaryIO]:
    try:
        with open_run(path) as file:
            yield file
    except OSError as error:
        raise LoadError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise LoadError(f"{path}: is not UTF-8 text, so no run of this suite") from None


@contextlib.contextmanager
def _collector_off() -> Iterator[None]:
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _by_age(paths: Iterable[Path]) -> list[Path]:
    return sorted((path for path in paths if path.is_file()), key=lambda path: (path.stat().st_mtime, path.name))


def _is_run(path: Path) -> bool:
    beside_report = path.name == SUMMARY and path.with_name(REPORT).exists()
    return path.name.endswith((*SAVED_SUFFIXES, ".jsonl", SUFFIX)) and path.is_file() and not beside_report


def _has_name(path: Path, name: str) -> bool:
    number, _, title = run_name(path).partition("_")
    return name in {run_name(path), plain_name(path), path.name, number, number.lstrip("0"), title} - {""}


def _nearest_name(paths: Sequence[Path], name: str) -> str:
    stems = [run_name(path) for path in reversed(paths)]
    titles = [title for stem in stems if (title := stem.partition("_")[2])]
    word = plain_name(Path(name)).removesuffix(".jsonl").removesuffix(".json")
    return "" if word.isdecimal() else nearest(word, [*titles, *stems])
