"""From files to records: pytest-benchmark's JSON as the suite saves it, and the suite's journal.

Nothing is repaired: a file that cannot be trusted is refused with one line that names it and the way out. The one
exception is the last line of a journal, which a killed run leaves half written; it is ignored, and a note says so.

Files are taken in launch by launch, and of each launch only what a comparison needs is kept (`suite.analysis.kept`), so
that many large files can be compared at once.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from sys import intern
from typing import TYPE_CHECKING, Any, TextIO

from suite.analysis.stream import Text, parse
from suite.record.line import thin
from suite.record.record import Record, RecordError
from suite.record.retry import may_pass
from suite.record.saved import SCHEMA, whole
from suite.record.text import clean

if TYPE_CHECKING:
    from suite.analysis.kept import Kept

STORAGE = Path("results/runs")
SUFFIXES = (".json", ".jsonl")

#: What a comparison writes beside its report: a summary, no run.
SUMMARY, REPORT = "run.json", "report.html"


class LoadError(ValueError):
    """Input that cannot be compared; one line that names the file, what is wrong, and the way out."""


@dataclass(frozen=True, slots=True)
class Launch:
    """A record and where it came from: the id of its run, and the name (never the folder) of the file."""

    record: Record
    run: str
    source: str

    @property
    def key(self) -> tuple[str, str]:
        return self.run, self.record.key


@dataclass(frozen=True)
class Loaded:
    """All launches of some files, each once, and what the reader of the comparison must know about the files."""

    launches: tuple[Launch, ...]
    notes: tuple[str, ...] = ()


def find(runs: Sequence[str], storage: Path = STORAGE) -> tuple[list[Path], list[str]]:
    """The files that ``runs`` name, each a path, a folder, or a run's number or name in ``storage``; and notes.

    Without names it is the run saved last. A name that several runs bear means the one saved last, and a note says so.
    Raises `LoadError` where there is none.
    """
    saved = _by_age(storage.rglob("*.json"))
    journals = _by_age(p for place in (storage, storage.parent / "journals") for p in place.rglob("*.jsonl"))
    if not runs:
        if not saved:
            raise LoadError(f"no saved run in {storage}: make one with `pytest suite --benchmark-save`, or name a file")
        newer = [j for j in journals if j.stat().st_mtime > saved[-1].stat().st_mtime]
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
            named = [p for p in saved if _bears(p, run)] or [p for p in journals if _bears(p, run)]
            if not named:
                there = ", ".join(p.stem for p in saved[-5:]) or "none"
                raise LoadError(f"{run}: no such file, and no run of that name in {storage} (last saved: {there})")
            if len(named) > 1:
                notes.append(f"{run} names {len(named)} runs; this is the one saved last, {named[-1].name}")
            paths.append(named[-1])
    return list(dict.fromkeys(paths)), notes


def load(paths: Iterable[Path]) -> Loaded:
    """The launches of all files, each launch of a run once. Raises `LoadError`."""
    from suite.analysis.kept import Kept  # which needs what imports this module

    launches: dict[tuple[str, str], Launch] = {}
    notes: list[str] = []
    kept = Kept()
    for path in paths:
        twice: list[str] = []
        with _all_kept():
            found = _journal(path, notes, kept) if path.suffix == ".jsonl" else _saved(path, notes, kept)
            for launch in found:
                before = launches.setdefault(key := launch.key, launch)
                if tried_again := before.source == launch.source and may_pass(before.record.outcome):
                    launches[key] = launch
                if tried_again or before is launch or before.record == launch.record:
                    continue
                last = launches[key] = max(before, launch, key=lambda each: str(each.record.started))
                twice.append(
                    f"{launch.record.key} is held twice and differently ({before.source}, {launch.source}); the one "
                    f"that started last counts (from {last.source}, {last.record.outcome.status})"
                )
        notes += twice
    return Loaded(tuple(launches.values()), tuple(clean(note) for note in notes))


def _saved(path: Path, notes: list[str], kept: Kept) -> list[Launch]:
    records: list[Record] = []
    foreign = 0
    rest: dict[str, Any] = {}
    try:
        for name, value in _parts(path):
            held = value.get("extra_info") if name == "benchmarks" and isinstance(value, dict) else None
            if isinstance(held, dict) and "record" in held:
                records.append(_record(_whole(held["record"], rest, path), str(path), kept))
            elif name == "benchmarks":
                foreign += 1
            else:
                rest[name] = value
    except LoadError:
        raise
    except ValueError as error:
        raise LoadError(f"{path}: cut off or no JSON ({error}); run the suite again, or compare its journal") from None
    suite = rest.get("suite")
    if not isinstance(suite, dict):
        version = clean(rest.get("version", "unknown version"), limit=20)
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
    records += [_record(_whole(data, rest, path), str(path), kept) for data in failed]
    if not records:
        raise LoadError(f"{path}: holds no launch; make a run with {_MAKE}")
    described = suite.get("run")
    run = described.get("id") if isinstance(described, dict) else None
    return [_launch(record, path, run) for record in records]


def _whole(data: Any, rest: dict[str, Any], path: Path) -> Any:
    try:
        return whole(data, rest.get("shared"))
    except ValueError as error:
        raise LoadError(clean(f"{path}: {error}")) from None


def _parts(path: Path) -> Iterator[tuple[str, Any]]:
    """What a saved file holds, by name; its benchmarks one by one. Raises `LoadError`, and `ValueError` for no JSON."""
    listed = False
    with _reading(path) as file:
        text = Text(file)
        if not text.next():
            raise LoadError(_EMPTY.format(path))
        if text.next() == "{":
            for name in text.names():
                if name == "benchmarks" and text.next() == "[":
                    listed = True
                    for entry in text.items():
                        yield name, entry
                else:
                    value = text.value()
                    if name in ("shared", "suite", "version"):
                        yield name, value
        else:
            text.value()
        text.end()
    if not listed:
        raise LoadError(f"{path}: no run of this suite and no pytest-benchmark file; make one with {_MAKE}")


def _journal(path: Path, notes: list[str], kept: Kept) -> Iterator[Launch]:
    run: Any = None
    empty = bare = True
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
                run = data["run"].get("id") if isinstance(data["run"], dict) else None
                continue
            bare = False
            yield _launch(_record(data, f"{path}: line {number}", kept), path, run)
    if empty:
        raise LoadError(_EMPTY.format(path))
    if bare:
        raise LoadError(f"{path}: holds no finished launch; run the suite again, or go on from it with --resume")


def _record(data: Any, where: str, kept: Kept) -> Record:
    try:
        if isinstance(data, dict):
            thin(data.get("metrics"))
        record = Record.from_json(data)
    except RecordError as error:
        raise LoadError(clean(f"{where}: {error}")) from None
    return kept.of(record)


def _launch(record: Record, path: Path, run: Any) -> Launch:
    name = clean(record.run.get("id") or run or path.stem, 80)
    return Launch(record, intern(name), intern(clean(path.name)))


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[TextIO]:
    """The file, open; what keeps it from being read as text is a `LoadError`."""
    try:
        with path.open(encoding="utf-8") as file:
            yield file
    except OSError as error:
        raise LoadError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise LoadError(f"{path}: is not UTF-8 text, so no run of this suite") from None


@contextlib.contextmanager
def _all_kept() -> Iterator[None]:
    """Without the collector, which would look again and again through what stays, for a quarter of the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _by_age(paths: Iterable[Path]) -> list[Path]:
    """The oldest first; where the clock does not tell, as in a fresh checkout, by the number in the name."""
    return sorted((p for p in paths if p.is_file()), key=lambda p: (p.stat().st_mtime, p.name))


def _bears(path: Path, name: str) -> bool:
    number, _, rest = path.stem.partition("_")
    return name in {path.stem, path.name, number, number.lstrip("0"), rest} - {""}


def _is_run(path: Path) -> bool:
    beside_report = path.name == SUMMARY and path.with_name(REPORT).exists()
    return path.suffix in SUFFIXES and path.is_file() and not beside_report


_MAKE = "`pytest suite --benchmark-save`"
_EMPTY = "{}: is empty; the run was cut off before it was saved, so compare its journal instead"
