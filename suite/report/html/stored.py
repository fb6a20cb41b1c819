"""What `run.json` beside a report holds for the pages over all reports of a site; anybody may have written it."""

from __future__ import annotations

import errno
import json
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from suite.analysis.records.load import SUMMARY
from suite.analysis.records.machines import Machine
from suite.plan.schema import SchemaError, decode
from suite.record.text import clean
from workloads.data.files import read_regular

SCHEMA = 1
#: Bytes of a summary, characters of a text in it, and of an address, which may be a name of 255 bytes, at most.
LARGEST, TEXT_MOST, ADDRESS_MOST = 3 << 20, 300, 1000
#: Cells and values of a cell, at most; rows of a leaderboard; lines of releases, releases of a line, named categories.
CELLS_MOST, VALUES_MOST, ROWS_MOST, LINES_MOST, STEPS_MOST, NAMED_MOST = 100, 1000, 1000, 200, 100, 3

THROUGHPUT, INFERENCE, ACCURACY = "throughput", "inference", "accuracy"
FRAMEWORK = "framework"
UNNAMED = "machine not recorded"

Number = Annotated[int, Meta(ge=0, lt=10**9)]
Count = Annotated[int, Meta(ge=1, lt=10**6)]
Value = Annotated[float, Meta(ge=0, lt=1e15)]
Range = tuple[Value, Value, Value]
Text = Annotated[str, Meta(max_length=TEXT_MOST)]
Milliseconds = Annotated[float, Meta(gt=-1e9, lt=1e9)]


class SummaryError(ValueError):
    """A file that is not a summary; the message says why."""


@dataclass(frozen=True)
class Figure:
    """A cell: its framework with its version, and its ``values``.

    These are the median, the lowest and the highest throughput over launches, or the mean test accuracy by epoch.
    ``setting`` has the settings that cells of other frameworks may share, in words; older summaries have none.
    """

    cell: str
    framework: str
    version: str
    values: Annotated[tuple[Value, ...], Meta(min_length=1, max_length=VALUES_MOST)]
    setting: str = ""


@dataclass(frozen=True)
class Entry:
    """What the index shows of a table of a run.

    ``n`` are the fewest and the most successful launches of a cell (seeds, in training to the end), without cells that
    have none. ``flags`` are what a reader must know of the launches. ``same`` is the digest of data and workload: only
    figures of the same may be set side by side. ``suite`` is the version of the suite, where it was recorded.
    ``by`` is the axis that was compared along; older summaries do not say.
    """

    kind: str
    workload: str
    title: str
    machine: str
    verdict: str
    n: tuple[Number, Number]
    flags: Annotated[tuple[str, ...], Meta(max_length=CELLS_MOST)]
    same: str
    suite: str
    by: str = FRAMEWORK
    figures: Annotated[tuple[Figure, ...], Meta(max_length=CELLS_MOST)] = ()


@dataclass(frozen=True)
class Change:
    """A ratio of throughputs with its bounds, and its verdict, which is empty where it was not tested."""

    ratio: Range
    verdict: Text


@dataclass(frozen=True)
class Release:
    """A release of a framework. ``samples_per_s`` is the median over ``n`` launches, with the lowest and the highest.

    ``shares`` are the largest categories of its step, where it has a profile, and ``changed`` the milliseconds per step
    by which categories differ from the release before.
    """

    release: Text
    python: Text
    n: Count
    samples_per_s: Range
    to_before: Change | None = None
    to_oldest: Change | None = None
    shares: Annotated[tuple[tuple[Text, Value], ...], Meta(max_length=NAMED_MOST)] = ()
    changed: Annotated[tuple[tuple[Text, Milliseconds], ...], Meta(max_length=NAMED_MOST)] = ()


@dataclass(frozen=True)
class Line:
    """The releases of a framework with one workload and one setting in one run, the oldest first."""

    workload: Text
    framework: Text
    cell: Text
    machine: Text
    date: Text
    releases: Annotated[tuple[Release, ...], Meta(min_length=2, max_length=STEPS_MOST)]


@dataclass(frozen=True)
class Standing:
    """The best row of a framework in one setting of a run.

    ``samples_per_s`` is the median over ``n`` launches, with the lowest and the highest. ``to_fastest`` is its ratio to
    the fastest framework of the same run, with its interval. ``price`` is that of a million samples.
    """

    workload: Text
    precision: Text
    devices: Count
    batch: Text
    framework: Text
    cell: Text
    version: Text
    n: Count
    samples_per_s: Range
    to_fastest: Range | None
    verdict: Text
    price: Value | None = None


@dataclass(frozen=True)
class Standings:
    """The rows of a bundle. ``kind`` is the kind of device, ``checked`` what the rules said, ``bundle`` its address.

    ``hardware`` is what is known of the machine where the device is a processor.
    """

    run: Text
    kind: Text
    date: Text
    checked: Text
    bundle: Annotated[str, Meta(max_length=ADDRESS_MOST)]
    rows: Annotated[tuple[Standing, ...], Meta(min_length=1, max_length=ROWS_MOST)]
    hardware: Machine | None = None


@dataclass(frozen=True)
class Summary:
    """``runs`` are the ids of the compared runs, ``dates`` the first and last day; counts are of all launches.

    ``started`` is when the last launch started, ``entries`` what the index shows of each table, and ``hardware`` what
    is known of each machine, after its name; older summaries have none of these. ``releases`` are the lines of a
    framework's releases, and ``standings`` those of a submitted bundle.
    """

    runs: tuple[str, ...]
    dates: tuple[str, ...]
    machines: tuple[str, ...]
    devices: tuple[str, ...]
    versions: tuple[str, ...]
    data: tuple[str, ...]
    workloads: tuple[str, ...]
    cells: Number
    launches: Number
    ok: Number
    started: str = ""
    entries: Annotated[tuple[Entry, ...], Meta(max_length=CELLS_MOST)] = ()
    hardware: Annotated[tuple[tuple[str, Machine], ...], Meta(max_length=CELLS_MOST)] = ()
    releases: Annotated[tuple[Line, ...], Meta(max_length=LINES_MOST)] = ()
    standings: Standings | None = None

    def to_json(self) -> str:
        values = {name: value for name, value in asdict(self).items() if value or name not in ("releases", "standings")}
        return json.dumps({"schema": SCHEMA, **values}, indent=1) + "\n"


def read(folder: Path) -> Summary:
    """Returns the summary of a published folder. Raises `SummaryError`, and `OSError` if there is none."""
    try:
        text = read_regular(folder / SUMMARY, LARGEST)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise SummaryError("is too large" if error.errno == errno.EFBIG else f"cannot be read: {error}") from None
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise SummaryError("is no JSON") from None
    schema = data.pop("schema", None) if isinstance(data, dict) else None
    if type(schema) is not int or schema < 1:
        raise SummaryError("has no schema")
    if schema > SCHEMA:
        raise SummaryError(f"has schema {schema}, newer than the {SCHEMA} known here: update the suite")
    try:
        found = decode(Summary, data)
    except SchemaError as error:
        raise SummaryError(f"is no summary: {error}") from None
    cleaned: Summary = _clean(found)
    if not (cleaned.standings and found.standings):
        return cleaned
    address = clean(found.standings.bundle, ADDRESS_MOST)
    return replace(cleaned, standings=replace(cleaned.standings, bundle=address))


def _clean(value: Any) -> Any:
    """Returns the value with all text in it cleaned again."""
    if isinstance(value, str):
        return clean(value, TEXT_MOST)
    if isinstance(value, tuple):
        return tuple(map(_clean, value))
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{each.name: _clean(getattr(value, each.name)) for each in fields(value)})
    return value
