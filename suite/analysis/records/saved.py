"""Where a saved run has its records: in the JSON of pytest-benchmark, beside what the suite adds to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import Raw

from framework_training_suite import typed
from suite.analysis.records.json_text import decode, items, members
from suite.record.record import RecordError
from suite.record.saved import SCHEMA
from suite.record.text import clean

EMPTY = "is empty; the run was cut off before it was saved, so compare its journal instead"

_MAKE = f"`{typed('pytest suite --benchmark-save')}`"
_NOTHING, _UNKNOWN = Raw(b"null"), Raw(b'"unknown version"')


@dataclass(frozen=True)
class SavedRun:
    """``places`` are first byte and length of each record, and ``shared`` the values that the records have in common.

    ``run`` describes the run, and ``foreign`` counts the benchmarks without a record.
    """

    places: list[tuple[int, int]]
    shared: Mapping[str, list[bytes]]
    run: Any
    foreign: int


def find_records(text: bytes) -> SavedRun:
    """Raises `RecordError` for a file without records of this suite, and `ValueError` for bad JSON."""
    if not text.strip():
        raise RecordError(EMPTY)
    parts = members(text)
    benchmarks = items(parts["benchmarks"]) if "benchmarks" in parts else None
    if benchmarks is None:
        raise RecordError(f"no run of this suite and no pytest-benchmark file; make one with {_MAKE}")
    extras = [members(members(each).get("extra_info", _NOTHING)) for each in benchmarks]
    records = [extra["record"] for extra in extras if "record" in extra]
    suite = members(parts.get("suite", _NOTHING))
    if not suite:
        version = clean(decode(parts.get("version", _UNKNOWN)), limit=20)
        raise RecordError(
            f"holds no records of this suite; it was made by pytest-benchmark {version} from other tests. "
            f"Make one with {_MAKE}"
        )
    failed = _read_failed(suite)
    if not records and not failed:
        raise RecordError(f"holds no launch; make a run with {_MAKE}")
    places = [*_places(text, parts["benchmarks"], records), *_places(text, parts["suite"], failed)]
    tables = {name: items(values) or [] for name, values in members(parts.get("shared", _NOTHING)).items()}
    shared = {name: [bytes(value) for value in values] for name, values in tables.items()}
    return SavedRun(places, shared, decode(suite.get("run", _NOTHING)), len(benchmarks) - len(records))


def _read_failed(suite: Mapping[str, Raw]) -> list[Raw]:
    """The records of the launches that failed, from the suite's part of a file."""
    schema = decode(suite.get("schema", _NOTHING))
    if type(schema) is not int or schema < 1:
        raise RecordError(f"its schema is {clean(repr(schema), 40)}; this is not the suite's")
    if schema > SCHEMA:
        raise RecordError(f"schema {schema} is newer than the {SCHEMA} known here: update the suite")
    failed = items(suite["failed"]) if "failed" in suite else []
    if failed is None:
        raise RecordError("its failed launches are not a list")
    return failed


def _places(text: bytes, part: Raw, records: Iterable[Raw]) -> Iterator[tuple[int, int]]:
    """Where the records are in a part of the text, in this order: where the bytes are equal, so is the record."""
    at = text.index(bytes(part))
    for record in map(bytes, records):
        while not text.startswith(record, at := text.index(record[:64], at)):  # a long text is slow to look for
            at += 1
        yield at, len(record)
        at += len(record)
