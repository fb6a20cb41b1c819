"""Loads records from files: the pytest-benchmark JSON that the suite saves, and the suite's journal.

Nothing is repaired: a file that cannot be trusted is refused with one line that names it and the way out. The one
exception is the last line of a journal, which a killed run may leave half written: it is ignored, and a note says so.

Files are read launch by launch, and only what a comparison needs of each launch is kept
(`suite.analysis.records.kept`), so that many large files can be compared at once.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from sys import intern
from typing import Any, TextIO

from suite.analysis.records.kept import RecordPool, WholeRecords
from suite.analysis.records.named import has_name, nearest_name
from suite.analysis.records.stream import Text, parse
from suite.record.line import thin
from suite.record.record import Record, RecordError
from suite.record.retry import may_pass
from suite.record.saved import SCHEMA, whole
from suite.record.text import clean
from workloads.data.files import regular

STORAGE = Path("results/runs")
SUFFIXES = (".json", ".jsonl")

#: Files that a comparison writes: a summary beside a report is no run.
SUMMARY, REPORT = "run.json", "report.html"


#: What files say about runs, by the id of the run.
Runs = dict[str, Mapping[str, Any]]
Pool = RecordPool | WholeRecords


class LoadError(ValueError):
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


def find(runs: Sequence[str], storage: Path = STORAGE) -> tuple[list[Path], list[str]]:
    """The files that ``runs`` name, each a path, a folder, or a run's number or name in ``storage``; and notes.

    Without names it is the run saved last. If several runs have a name, it is the one saved last, and a note says so.
    Raises `LoadError` if there is none.
    """
    saved = _by_age(storage.rglob("*.json"))
    folders = (storage, storage.parent / "journals")
    journals = _by_age(path for folder in folders for path in folder.rglob("*.jsonl"))
    if not runs:
        if not saved:
            raise LoadError(f"no saved run in {storage}: make one with `pytest suite --benchmark-save`, or name a file")
        newer = [journal for journal in journals if journal.stat().st_mtime > saved[-1].stat().st_mtime]
        hint = f"the journal {newer[-1].name} is newer than the run compared here: name it to see it" if newer else ""
        return saved[-1:], [hint] if hint else []
    paths: list[Path] = []
    notes: list[str] = []
    for run in runs:
        path = Path(run)
        if path.is_dir():
            inside = sorted(filter(_is_run, path.rglob("*")))
            if not inside:
                raise LoadError(f"{run}: no run in this folder (no .json, no .jsonl)")
            paths += inside
        elif path.exists():
            paths.append(path)
        else:
            named = [each for each in saved if has_name(each, run)]
            named = named or [each for each in journals if has_name(each, run)]
            if not named:
                last_saved = ", ".join(each.stem for each in saved[-5:]) or "none"
                near = nearest_name([*journals, *saved], run)
                meant = f"; did you mean {near!r}?" if near else ""
                raise LoadError(
                    f"{run}: no such file, and no run of that name in {storage} (last saved: {last_saved}){meant}"
                )
            if len(named) > 1:
                notes.append(f"{run} names {len(named)} runs; this is the one saved last, {named[-1].name}")
            paths.append(named[-1])
    return list(dict.fromkeys(paths)), notes


def load(paths: Iterable[Path], *, whole: bool = False) -> Loaded:
    """The launches of all files, each launch of a run once, with ``whole`` all of it. Raises `LoadError`."""
    launches: dict[tuple[str, str], Launch] = {}
    notes: list[str] = []
    runs: Runs = {}
    pool: Pool = WholeRecords() if whole else RecordPool()
    for path in paths:
        conflicts: list[str] = []
        with _collector_off():
            of_file = (_journal if path.suffix == ".jsonl" else _saved)(path, notes, pool, runs)
            for launch in of_file:
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
    return Loaded(tuple(launches.values()), tuple(clean(note) for note in notes), runs)


def _saved(path: Path, notes: list[str], pool: Pool, runs: Runs) -> list[Launch]:
    records: list[Record] = []
    foreign = 0
    parts: dict[str, Any] = {}  # what the file has besides its benchmarks
    try:
        for name, value in _parts(path):
            extra_info = value.get("extra_info") if name == "benchmarks" and isinstance(value, dict) else None
            if isinstance(extra_info, dict) and "record" in extra_info:
                records.append(_record(_whole(extra_info["record"], parts, path), str(path), pool))
            elif name == "benchmarks":
                foreign += 1
            else:
                parts[name] = value
    except LoadError:
        raise
    except ValueError as error:
        raise LoadError(f"{path}: cut off or no JSON ({error}); run the suite again, or compare its journal") from None
    suite = parts.get("suite")
    if not isinstance(suite, dict):
        version = clean(parts.get("version", "unknown version"), limit=20)
        raise LoadError(
            f"{path}: holds no records of this suite; it was made by pytest-benchmark {version} from other tests. "
            f"Make one with {_MAKE}"
        )
    schema = suite.get("schema")
    if type(schema) is not int or schema < 1:
        raise LoadError(f"{path}: its schema is {clean(repr(schema), 40)}; this is not the suite's")
    if schema > SCHEMA:
        raise LoadError(f"{path}: schema {schema} is newer than the {SCHEMA} known here: update the suite")
    if foreign:
        notes.append(f"{path.name}: {foreign} benchmarks of other tests are left out, they hold no record")
    failed = suite.get("failed", [])
    if not isinstance(failed, list):
        raise LoadError(f"{path}: its failed launches are not a list")
    records += [_record(_whole(data, parts, path), str(path), pool) for data in failed]
    if not records:
        raise LoadError(f"{path}: holds no launch; make a run with {_MAKE}")
    description = suite.get("run")
    run = _described(description, path, runs)
    return [_launch(record, path, run) for record in records]


def _whole(data: Any, parts: dict[str, Any], path: Path) -> Any:
    try:
        return whole(data, parts.get("shared"))
    except ValueError as error:
        raise LoadError(clean(f"{path}: {error}")) from None


def _parts(path: Path) -> Iterator[tuple[str, Any]]:
    """The parts of a saved file by name, its benchmarks one by one. Raises `LoadError`; `ValueError` for bad JSON."""
    has_benchmarks = False
    with _reading(path) as file:
        text = Text(file)
        if not text.next():
            raise LoadError(_EMPTY.format(path))
        if text.next() == "{":
            for name in text.names():
                if name == "benchmarks" and text.next() == "[":
                    has_benchmarks = True
                    for entry in text.items():
                        yield name, entry
                else:
                    value = text.value()
                    if name in ("shared", "suite", "version"):
                        yield name, value
        else:
            text.value()
        text.end()
    if not has_benchmarks:
        raise LoadError(f"{path}: no run of this suite and no pytest-benchmark file; make one with {_MAKE}")


def _journal(path: Path, notes: list[str], pool: Pool, runs: Runs) -> Iterator[Launch]:
    run: Any = None
    empty = no_launch = True
    with _reading(path) as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            empty = False
            try:
                data = parse(line)
            except ValueError as error:
                if not line.endswith("\n"):
                    notes.append(f"{path.name}: line {number}, the last, is half written and was left out")
                    continue
                raise LoadError(f"{path}: line {number} is no JSON ({error}); take it out to use the rest") from None
            if number == 1 and isinstance(data, dict) and data.keys() == {"run"}:  # the journal's own first line
                run = _described(data["run"], path, runs)
                continue
            no_launch = False
            yield _launch(_record(data, f"{path}: line {number}", pool), path, run)
    if empty:
        raise LoadError(_EMPTY.format(path))
    if no_launch:
        raise LoadError(f"{path}: holds no finished launch; run the suite again, or go on from it with --resume")


def _described(description: Any, path: Path, runs: Runs) -> Any:
    """The id of the run that the file describes, if it does; its description is added to ``runs``."""
    if not isinstance(description, dict):
        return None
    runs.setdefault(_run_id(description.get("id"), path), description)
    return description.get("id")


def _run_id(run: Any, path: Path) -> str:
    return clean(run or path.stem, 80)


def _record(data: Any, where: str, pool: Pool) -> Record:
    try:
        if isinstance(data, dict):
            thin(data.get("metrics"))
        record = Record.from_json(data)
    except RecordError as error:
        raise LoadError(clean(f"{where}: {error}")) from None
    return pool.intern(record)


def _launch(record: Record, path: Path, run: Any) -> Launch:
    return Launch(record, intern(_run_id(record.run.get("id") or run, path)), intern(clean(path.name)))


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[TextIO]:
    """The open file. Raises `LoadError` if it cannot be read as text."""
    try:
        with open(str(path), encoding="utf-8", opener=regular) as file:
            yield file
    except OSError as error:
        raise LoadError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise LoadError(f"{path}: is not UTF-8 text, so no run of this suite") from None


@contextlib.contextmanager
def _collector_off() -> Iterator[None]:
    """Without the garbage collector: it takes a quarter of the time, and finds nothing, since all records stay."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _by_age(paths: Iterable[Path]) -> list[Path]:
    """The files, oldest first; if their times are equal, as in a fresh checkout, by the number in the name."""
    return sorted((path for path in paths if path.is_file()), key=lambda path: (path.stat().st_mtime, path.name))


def _is_run(path: Path) -> bool:
    beside_report = path.name == SUMMARY and path.with_name(REPORT).exists()
    return path.suffix in SUFFIXES and path.is_file() and not beside_report


_MAKE = "`pytest suite --benchmark-save`"
_EMPTY = "{}: is empty; the run was cut off before it was saved, so compare its journal instead"
