"""Where a saved run has its records in the JSON of pytest-benchmark, which is decoded value by value, strictly."""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import Raw

from suite.record.record import RecordError
from suite.record.saved import SCHEMA
from suite.record.text import clean, parse_json

_VALUE, _MEMBERS, _ITEMS = (msgspec.json.Decoder(kind) for kind in (Any, dict[str, Raw], list[Raw]))


def decode(text: bytes | Raw) -> Any:
    """The one value of a JSON text. Raises `ValueError`, also for numbers that no measurement gives."""
    try:
        return _VALUE.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return parse_json(bytes(text))  # which names the place


def members(text: bytes | Raw) -> dict[str, Raw]:
    """The values of a JSON object by name, undecoded; none for any other value. Raises `ValueError` for bad JSON."""
    found: dict[str, Raw] = _split(_MEMBERS, text) or {}
    return found


def items(text: bytes | Raw) -> list[Raw] | None:
    """The values of a JSON list, undecoded; None for any other value. Raises `ValueError` for bad JSON."""
    found: list[Raw] | None = _split(_ITEMS, text)
    return found


def without_surrogates(text: bytes) -> bytes:
    """The JSON text with spaces for a byte order mark and for lone surrogates, which UTF-8 lacks; as long as it was."""
    text = text.replace(BOM_UTF8, b"   ", 1) if text.startswith(BOM_UTF8) else text
    return _ESCAPE.sub(lambda match: rb"\u0020" if match["lone"] else match[0], text) if rb"\u" in text else text


def _split(decoder: Any, text: bytes | Raw) -> Any:
    try:
        return decoder.decode(text)
    except msgspec.ValidationError:
        decode(text)  # which may be no JSON further on
        return None
    except (msgspec.DecodeError, RecursionError) as error:
        decode(text)  # which names the place
        raise ValueError(str(error)) from None


#: Escapes one after another, so that neither an escaped backslash nor a pair of surrogates is taken for a lone one.
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<lone>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)


EMPTY = "is empty; the run was cut off before it was saved, so compare its journal instead"

_MAKE = "`training-suite run`"
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
    at = text.index(bytes(part))
    for record in map(bytes, records):
        while not text.startswith(record, at := text.index(record[:64], at)):  # a long text is slow to look for
            at += 1
        yield at, len(record)
        at += len(record)
