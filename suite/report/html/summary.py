"""The summary of a run for a site's index: `run.json`, written beside each report and read when the index is made."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from suite.analysis.records.hardware import gpus, processor
from suite.analysis.records.load import SUMMARY, Launch
from suite.record.record import Record
from suite.record.text import clean
from suite.report.html.entries import Entry, EntryError, checked, version

SCHEMA = 1

#: Bytes of a summary, at most.
LARGEST = 1 << 20


class SummaryError(ValueError):
    """A file that is not a summary; the message says why."""


@dataclass(frozen=True)
class Summary:
    """``runs`` are the ids of the compared runs, ``dates`` the first and last day; counts are of all launches.

    ``started`` is when the last launch started, ``entries`` what the index shows of each table. Older summaries have
    neither.
    """

    runs: tuple[str, ...]
    dates: tuple[str, ...]
    machines: tuple[str, ...]
    devices: tuple[str, ...]
    versions: tuple[str, ...]
    data: tuple[str, ...]
    workloads: tuple[str, ...]
    cells: int
    launches: int
    ok: int
    started: str = ""
    entries: tuple[Entry, ...] = field(default=())

    def to_json(self) -> str:
        return json.dumps({"schema": SCHEMA, **asdict(self)}, indent=1) + "\n"


def summary(loaded: Iterable[Launch], entries: tuple[Entry, ...] = ()) -> Summary:
    """Returns the summary of these launches; ``entries`` are of their tables."""
    launches = list(loaded)
    records = [launch.record for launch in launches]
    # A launch that failed early does not know the device.
    known = [record for record in records if record.outcome.ok] or records
    days = sorted({clean(record.started, 40)[:10] for record in records if record.started})
    return Summary(
        runs=_distinct(launch.run for launch in launches),
        dates=_distinct([*days[:1], *days[-1:]]),
        machines=_distinct(map(processor, known)),
        devices=_distinct(_device(record) for record in known),
        versions=tuple(sorted(_distinct(map(version, known)))),
        data=_distinct(clean(record.data.get("kind", ""), 20) for record in records),
        workloads=tuple(sorted(_distinct(f"{r.cell.workload} {r.cell.size}" for r in records))),
        cells=len({(launch.run, launch.record.cell) for launch in launches}),
        launches=len(launches),
        ok=sum(record.outcome.ok for record in records),
        started=max((clean(record.started, 40) for record in records), default=""),
        entries=entries,
    )


def read(folder: Path) -> Summary:
    """Returns the summary of a published folder. Raises `SummaryError`, and `OSError` if there is none."""
    path = folder / SUMMARY
    if path.stat().st_size > LARGEST:
        raise SummaryError("is too large")
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise SummaryError("is no JSON") from None
    schema = data.get("schema") if isinstance(data, dict) else None
    if type(schema) is not int or schema < 1:
        raise SummaryError("has no schema")
    if schema > SCHEMA:
        raise SummaryError(f"has schema {schema}, newer than the {SCHEMA} known here: update the suite")
    try:
        return Summary(**{each.name: _checked(each.name, data.get(each.name)) for each in fields(Summary)})
    except EntryError as error:
        raise SummaryError(str(error)) from None


def _checked(name: str, value: Any) -> Any:
    """Returns the value with its text cleaned again, since anybody may have written the file."""
    if name in ("cells", "launches", "ok"):
        if type(value) is not int or not 0 <= value < 10**9:
            raise SummaryError(f"has {name} that are no number")
        return value
    if name == "entries":
        return checked([] if value is None else value)
    if name == "started":
        return clean(value, 40) if isinstance(value, str) else ""
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise SummaryError(f"has {name} that are no texts")
    return tuple(clean(each, 120) for each in value)


def _device(record: Record) -> str:
    """Returns the GPUs, or ``CPU`` for a launch without any."""
    return gpus(record) or ("CPU" if processor(record) else "")


def _distinct(words: Iterable[str] | Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for word in words if word))
