"""From files to records: pytest-benchmark's JSON as the suite saves it, and the suite's journal.

Nothing is repaired: a file that cannot be trusted is refused with one line that names it and the way out. The one
exception is the last line of a journal, which a killed run leaves half written; it is ignored, and a note says so.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from suite.compare.text import clean
from suite.record import Record, RecordError

SCHEMA = 1
STORAGE = Path("results/runs")
SUFFIXES = (".json", ".jsonl")


class LoadError(ValueError):
    """Input that cannot be compared; one line that names the file, what is wrong, and the way out."""


@dataclass(frozen=True)
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
            inside = sorted(p for p in path.rglob("*") if p.suffix in SUFFIXES and p.is_file())
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
    launches: dict[tuple[str, str], Launch] = {}
    notes: list[str] = []
    for path in paths:
        for launch in _journal(path, notes) if path.suffix == ".jsonl" else _saved(path, notes):
            before = launches.get(launch.key)
            if before is None or before.record == launch.record:
                launches.setdefault(launch.key, launch)
                continue
            last = max(before, launch, key=lambda each: str(each.record.started))
            launches[launch.key] = last
            notes.append(
                f"{launch.record.key} is held twice and differently ({before.source}, {launch.source}); the one that "
                f"started last counts (from {last.source}, {last.record.outcome.status})"
            )
    return Loaded(tuple(launches.values()), tuple(clean(note) for note in notes))


def _saved(path: Path, notes: list[str]) -> list[Launch]:
    text = _text(path)
    try:
        data = _parse(text)
    except ValueError as error:
        raise LoadError(f"{path}: cut off or no JSON ({error}); run the suite again, or compare its journal") from None
    if not isinstance(data, dict) or not isinstance(data.get("benchmarks"), list):
        raise LoadError(f"{path}: no run of this suite and no pytest-benchmark file; make one with {_MAKE}")
    suite = data.get("suite")
    if not isinstance(suite, dict):
        version = clean(data.get("version", "unknown version"), limit=20)
        raise LoadError(
            f"{path}: holds no records of this suite; it was made by pytest-benchmark {version} from other tests. "
            f"Make one with {_MAKE}"
        )
    schema = suite.get("schema")
    if type(schema) is not int or schema < 1:
        raise LoadError(f"{path}: its schema is {clean(repr(schema), 40)}; this is not the suite's")
    if schema > SCHEMA:
        raise LoadError(f"{path}: schema {schema} is newer than the {SCHEMA} known here: update the suite")
    entries = [entry.get("extra_info") if isinstance(entry, dict) else None for entry in data["benchmarks"]]
    records = [entry["record"] for entry in entries if isinstance(entry, dict) and "record" in entry]
    if foreign := len(entries) - len(records):
        notes.append(f"{path.name}: {foreign} benchmarks of other tests are left out, they hold no record")
    failed = suite.get("failed", [])
    if not isinstance(failed, list):
        raise LoadError(f"{path}: its failed launches are not a list")
    if not records and not failed:
        raise LoadError(f"{path}: holds no launch; make a run with {_MAKE}")
    described = suite.get("run")
    run = described.get("id") if isinstance(described, dict) else None
    return [_launch(entry, path, str(path), run) for entry in [*records, *failed]]


def _journal(path: Path, notes: list[str]) -> list[Launch]:
    lines = _text(path).split("\n")
    launches = []
    run = None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            data = _parse(line)
        except ValueError as error:
            if number == len(lines):  # no newline ends it
                notes.append(f"{path.name}: line {number}, the last, is half written and was left out")
                continue
            raise LoadError(f"{path}: line {number} is no JSON ({error}); take the line out to use the rest") from None
        if number == 1 and isinstance(data, dict) and data.keys() == {"run"}:  # the journal's own first line
            run = data["run"].get("id") if isinstance(data["run"], dict) else None
            continue
        launches.append(_launch(data, path, f"{path}: line {number}", run))
    if not launches:
        raise LoadError(f"{path}: holds no finished launch; run the suite again, or go on from it with --resume")
    return launches


def _launch(data: Any, path: Path, where: str, run: Any) -> Launch:
    try:
        record = Record.from_json(data)
        told = record.identity
        if told and not (isinstance(told.weights, str) and isinstance(told.batches, str)):
            raise RecordError("identity holds a digest that is no text")  # noqa: TRY301 - said like the schema's own
        return Launch(record, clean(record.run.get("id") or run or path.stem, 80), clean(path.name))
    except RecordError as error:
        raise LoadError(clean(f"{where}: {error}")) from None
    except (TypeError, AttributeError, ValueError, OverflowError) as error:
        raise LoadError(clean(f"{where}: not a record: {error}")) from None


def _text(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise LoadError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise LoadError(f"{path}: is not UTF-8 text, so no run of this suite") from None
    if not text.strip():
        raise LoadError(f"{path}: is empty; the run was cut off before it was saved, so compare its journal instead")
    return text


def _parse(text: str) -> Any:
    """JSON without the numbers that no measurement gives. Raises `ValueError`."""
    try:
        return json.loads(text, parse_constant=_number, parse_float=_number, parse_int=_whole)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _number(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"the number {text[:40]} is not finite")
    return value


def _whole(text: str) -> int:
    if len(text) > 25:
        raise ValueError(f"the number {text[:25]}... is too large")
    return int(text)


def _by_age(paths: Iterable[Path]) -> list[Path]:
    """The oldest first; where the clock does not tell, as in a fresh checkout, by the number in the name."""
    return sorted((p for p in paths if p.is_file()), key=lambda p: (p.stat().st_mtime, p.name))


def _bears(path: Path, name: str) -> bool:
    number, _, rest = path.stem.partition("_")
    return name in {path.stem, path.name, number, number.lstrip("0"), rest} - {""}


_MAKE = "`pytest suite --benchmark-save`"
