"""JSON becomes records, whose equal parts are there once; lines over time stay in the file until they are drawn."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from errno import EIO
from pathlib import Path
from sys import intern
from typing import Any

from msgspec import Raw

from suite.analysis.records.saved import decode, members, without_surrogates
from suite.catalog.metrics import METRICS, within
from suite.record.chain import BEFORE, digest
from suite.record.record import Record, RecordError
from suite.record.saved import POINTS, SHARED, decode_line, open_run, restore, thin_lines
from suite.record.text import clean, parse_json

#: Columns of `cells.csv`, and their names in ``record.metrics``. GPU figures are those of the first device.
HOST_FIGURES, GPU_FIGURES = (
    {name: metric.source.partition(".")[2] for name, metric in METRICS.items() if metric.source.startswith(device)}
    for device in ("host.", "gpu.")
)

#: What the ledger holds other figures against: a reading of the host, and counters over the windows of training.
JUDGED_READING, JUDGED_COUNTERS = "rss_bytes", ("cpu_s", "other_cpu_s")
#: The parts of a reading that are kept: what is shown, and what it lies between.
PARTS = ("median", "p5", "p95", "max")

#: The lines that are shown, by their names in a timeline.
HOST_LINES = ("cpu_cores", "rss_bytes")
GPU_LINES = ("gpu_utilisation_percent", "gpm_sm_utilisation_percent", "power_w", "memory_used_bytes")


#: The moments of a line in seconds, and the value at each, None if it is missing.
Points = tuple[tuple[float, ...], tuple[float | None, ...]]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a file has a record, by its first byte and its length, and a digest of what was there."""

    path: Path = field(compare=False)
    at: int = field(compare=False)
    size: int = field(compare=False)
    digest: int = field(compare=False)

    def metrics(self) -> dict[str, Any]:
        """The record's metrics, read again. Raises `OSError` if the file has changed meanwhile."""
        with open_run(self.path) as file:
            file.seek(self.at, os.SEEK_SET)
            text = file.read(self.size)
        if hash(text) != self.digest:
            raise OSError(EIO, "it changed while it was compared", str(self.path))
        found: dict[str, Any] = decode(members(without_surrogates(text))["metrics"])
        return found


def keep_shown(metrics: dict[str, Any], place: Place) -> dict[str, Any]:
    """The part of ``metrics`` that is shown or judged: facts, the host's and first GPU's readings, where lines are."""
    (host, _), (first, _) = sources(metrics)
    kept: dict[str, Any] = {}
    if "host" in metrics:
        kept["host"] = _keep_shown(host, (*HOST_FIGURES.values(), JUDGED_READING), HOST_LINES, place)
        if isinstance(counted := within(host, "totals", "train"), dict):
            kept["host"]["totals"] = {"train": {name: counted.get(name) for name in JUDGED_COUNTERS}}
        if isinstance(disturbance := host.get("disturbance"), dict):  # which decides whether a launch is in a test
            kept["host"]["disturbance"] = disturbance
    if isinstance(gpus := metrics.get("gpus"), list):
        others = (_keep_shown(gpu if isinstance(gpu, dict) else {}, (), (), place) for gpu in gpus[1:])
        kept["gpus"] = [_keep_shown(first, GPU_FIGURES.values(), GPU_LINES, place), *others] if gpus else []
    return kept


def sources(metrics: Mapping[str, Any]) -> tuple[tuple[Mapping[str, Any], Collection[str]], ...]:
    gpus = metrics.get("gpus")
    first = gpus[0] if isinstance(gpus, list) and gpus else None
    host = metrics.get("host")
    return tuple(
        (source if isinstance(source, Mapping) else {}, names)
        for source, names in ((host, HOST_LINES), (first, GPU_LINES))
    )


def place_of(metrics: Mapping[str, Any]) -> Place | None:
    places = (source.get("timeline") for source, _ in sources(metrics))
    return next((place for place in places if isinstance(place, Place)), None)


def lines(metrics: Mapping[str, Any]) -> Iterator[tuple[str, Points]]:
    """The lines that are shown, at most `POINTS` of each; one that is malformed or has one reading is left out."""
    for source, names in sources(metrics):
        for name in names:
            if points := _points(source.get("timeline"), name):
                yield name, points


def _keep_shown(
    source: Mapping[str, Any], figures: Collection[str], names: Collection[str], place: Place
) -> dict[str, Any]:
    kept = {
        name: intern(fact) if isinstance(fact, str) else fact
        for name, fact in source.items()
        if not isinstance(fact, (dict, list))
    }
    found = {name: read for name in figures if isinstance(read := within(source, "phases", "train", name), dict)}
    if readings := {name: {part: read[part] for part in PARTS if part in read} for name, read in found.items()}:
        kept["phases"] = {"train": readings}
    if any(_points(source.get("timeline"), name) for name in names):
        kept["timeline"] = place
    return kept


def _points(timeline: Any, name: str) -> Points | None:
    part = "lines" if isinstance(timeline, dict) and "at_ms" in timeline else "values"
    every = timeline.get(part) if isinstance(timeline, dict) else None
    if not isinstance(every, dict) or name not in every:
        return None
    line = decode_line({**timeline, part: {name: every[name]}}) or {}
    at_s, values = line.get("at_s"), line.get("values", {}).get(name)
    if not isinstance(at_s, list) or not isinstance(values, list) or len(at_s) != len(values):
        return None
    step = max(1, -(-len(at_s) // POINTS))
    times, readings = (_numbers(each[::step]) for each in (at_s, values))
    known = [moment for moment in times if moment is not None]
    if len(known) < len(times) or known != sorted(known) or len(readings) - readings.count(None) < 2:
        return None
    return tuple(known), tuple(readings)


def _numbers(values: list[Any]) -> list[float | None]:
    if set(map(type, values)) == {float}:
        return values
    numbers = (isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)
    return [float(value) if is_number else None for value, is_number in zip(values, numbers, strict=True)]


#: Fields of a record that are equal in many launches.
ALIKE = ("cell", "outcome", "data", "workload", "settings", "environment", "flags", "log")
#: Those of them that no rule of a record connects with other fields: what was checked once is not checked again.
SHARED_PARTS = ("data", "workload", "environment")
#: Evidence that differs in every launch.
OWN_EVIDENCE = ("last", "seconds")
#: How many values of a field are remembered. A field with more values is rarely equal in two launches.
MOST_SHARED = 4096
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
        """The record that is this text. ``tables`` are the values that the records of a saved run share."""
        text = without_surrogates(text)
        if not (fields := members(text)):
            return Record.from_json(decode(text))  # which it refuses
        texts = {name: bytes(value) for name, value in _put_shared(fields, tables).items()}
        if self._whole:
            data = {name: decode(value) for name, value in texts.items()}
            thin_lines(data.get("metrics"))
            return Record.from_json(data)
        known: dict[str, Any] = {
            name: self._known[name][texts[name]] for name in SHARED_PARTS if texts.get(name) in self._known[name]
        }
        record = Record.from_json({name: decode(value) for name, value in texts.items() if name not in known})
        record = replace(record, **known, metrics=keep_shown(record.metrics, place))
        return replace(record, **self._share(record, {name: texts[name] for name in ALIKE if name in texts}),
                       **self._evidence(record, texts))  # fmt: skip

    def _evidence(self, record: Record, texts: Mapping[str, bytes]) -> dict[str, Any]:
        if record.identity is None:
            return {}
        parts = {name: bytes(text) for name, text in members(texts["identity"]).items() if name not in OWN_EVIDENCE}
        return {"identity": replace(record.identity, seconds={}, **self._share(record.identity, parts))}

    def _share(self, holder: object, texts: Mapping[str, bytes]) -> dict[str, Any]:
        shared = {}
        for name, text in texts.items():
            known = self._known[name]
            shared[name] = known.get(text, getattr(holder, name))
            if len(known) < MOST_SHARED:
                known[text] = shared[name]
        return shared


def _put_shared(fields: dict[str, Raw], tables: Mapping[str, list[bytes]] | None) -> dict[str, Any]:
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
