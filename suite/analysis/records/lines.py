"""What a comparison shows of ``record.metrics``; lines over time stay in the file until something draws them."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from errno import EIO
from pathlib import Path
from sys import intern
from typing import Any

from suite.analysis.records.json_text import decode, members, without_surrogates
from suite.analysis.records.readings import (
    GPU_FIGURES,
    GPU_LINES,
    HOST_FIGURES,
    HOST_LINES,
    JUDGED_COUNTERS,
    JUDGED_READING,
    PARTS,
)
from suite.catalog.metrics import within
from suite.record.saved import POINTS, decode_line
from workloads.data.files import regular

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
        with open(str(self.path), "rb", opener=regular) as file:
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
    """The host's readings and the first GPU's, and the names of their lines; empty readings where there are none."""
    gpus = metrics.get("gpus")
    first = gpus[0] if isinstance(gpus, list) and gpus else None
    host = metrics.get("host")
    return tuple(
        (source if isinstance(source, Mapping) else {}, names)
        for source, names in ((host, HOST_LINES), (first, GPU_LINES))
    )


def place_of(metrics: Mapping[str, Any]) -> Place | None:
    """Where the lines are, if they are still in a file."""
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
    """The readings of the host or of a device: all its plain facts, these figures, and where its lines are."""
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
    """One line of a timeline, of which no other is decoded."""
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
