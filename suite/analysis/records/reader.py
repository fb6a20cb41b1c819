"""JSON becomes records, whose equal parts are there once, so that tens of thousands of launches fit into memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from msgspec import Raw

from suite.analysis.records.json_text import decode, members, without_surrogates
from suite.analysis.records.lines import Place, keep_shown
from suite.record.chain import BEFORE, digest
from suite.record.record import Record, RecordError
from suite.record.saved import SHARED, restore, thin_lines
from suite.record.text import clean, parse_json

#: Fields of a record that are equal in many launches.
ALIKE = ("cell", "outcome", "data", "workload", "settings", "environment", "flags", "log")
#: Those of them that no rule of a record connects with other fields: what was checked once is not checked again.
APART = ("data", "workload", "environment")
#: Evidence that differs in every launch.
OWN_EVIDENCE = ("last", "seconds")
#: How many values of a field are remembered. A field with more values is rarely equal in two launches.
MOST = 4096
#: Hosts of a bundle, at most: each is compared with all others.
MACHINES_MOST = 64


class Reader:
    """Makes records from JSON. Equal parts of them are made once, and their lines over time stay in the file.

    With ``whole`` records have all that the file has of them.
    """

    def __init__(self, whole: bool = False) -> None:
        self._whole = whole
        self._known: dict[str, dict[bytes, Any]] = defaultdict(dict)

    def record(self, text: bytes, place: Place, tables: Mapping[str, list[bytes]] | None = None) -> Record:
        """The record that is this text. ``tables`` are the values that the records of a saved run share.

        Raises `RecordError`, and `ValueError` for what is no JSON.
        """
        text = without_surrogates(text)
        if not (fields := members(text)):
            return Record.from_json(decode(text))  # which it refuses
        texts = {name: bytes(value) for name, value in _put_shared(fields, tables).items()}
        if self._whole:
            data = {name: decode(value) for name, value in texts.items()}
            thin_lines(data.get("metrics"))
            return Record.from_json(data)
        known: dict[str, Any] = {
            name: self._known[name][texts[name]] for name in APART if texts.get(name) in self._known[name]
        }
        record = Record.from_json({name: decode(value) for name, value in texts.items() if name not in known})
        record = replace(record, **known, metrics=keep_shown(record.metrics, place))
        return replace(record, **self._share(record, {name: texts[name] for name in ALIKE if name in texts}),
                       **self._evidence(record, texts))  # fmt: skip

    def _evidence(self, record: Record, texts: Mapping[str, bytes]) -> dict[str, Any]:
        """The evidence of identity without the seconds that it took."""
        if record.identity is None:
            return {}
        parts = {name: bytes(text) for name, text in members(texts["identity"]).items() if name not in OWN_EVIDENCE}
        return {"identity": replace(record.identity, seconds={}, **self._share(record.identity, parts))}

    def _share(self, holder: object, texts: Mapping[str, bytes]) -> dict[str, Any]:
        """The values of these fields, or those of an earlier record that were written in the same way."""
        shared = {}
        for name, text in texts.items():
            known = self._known[name]
            shared[name] = known.get(text, getattr(holder, name))
            if len(known) < MOST:
                known[text] = shared[name]
        return shared


def _put_shared(fields: dict[str, Raw], tables: Mapping[str, list[bytes]] | None) -> dict[str, Any]:
    """The fields of a record with their own values, whatever they shared. Raises `ValueError`."""
    numbers = {name: decode(fields[name]) for name in SHARED if bytes(fields.get(name, b""))[:1].isdigit()}
    return {**fields, **{name: value for name, value in restore(numbers, tables).items() if isinstance(value, bytes)}}


def read_lines(lines: Sequence[bytes]) -> tuple[dict[str, Any], list[tuple[object, str]], list[Record]]:
    """What a bundle's first line describes, each line's link to the one before, and the records of the others.

    A link is the digest that the line names of the line before, and its own. Raises `RecordError`.
    """
    header: Any = None
    links, records, reader = [], [], Reader(whole=True)
    machines: set[tuple[str, str]] = set()
    for number, text in enumerate(lines, 1):
        try:
            line = parse_json(without_surrogates(text))
            if number > 1:
                record = reader.record(text, Place(Path(), 0, 0, 0))
                records.append(record)
                machines.add((str(record.run.get("id")), str(record.environment.get("machine"))))
            elif isinstance(line, dict) and line.keys() == {"run"}:
                header = line["run"]
            if not isinstance(header, dict):
                raise RecordError("it describes no run")
            if len(machines) > MACHINES_MOST:
                raise RecordError(f"more machines are named than {MACHINES_MOST}, which are the most")
            links.append((line.get("run", {}).get(BEFORE), digest(line)))
        except ValueError as error:
            raise RecordError(f"line {number}: {clean(error)}") from None
    if not records:
        raise RecordError("it holds no launch")
    return header, links, records
