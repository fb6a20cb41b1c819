"""A saved run that writes values common to its launches once; they are a third of most records.

The run starts with ``shared``: for some fields of a record, a list of their different values. The records of the run
hold the index into that list instead of the value. A record may also hold the value itself. The file of a published
run is compressed.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from errno import EIO
from io import BytesIO
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, BinaryIO

from suite.record.text import estimate_memory
from workloads.data.files import regular

#: How the name of a compressed file ends, and how many bytes its run may have, and take. The largest published one has
#: 2 MB, and takes 22 MiB.
COMPRESSED, RUN_MOST, RUN_TAKES = ".gz", 256 << 20, 512 << 20

SCHEMA = 2  # of a saved run; 1 shared nothing

SHARED = ("cell", "data", "workload", "environment", "identity")


def open_run(path: Path) -> BinaryIO:
    """Opens the file of a run to read its JSON, compressed or not. Raises `OSError`, also for no regular file."""
    file = open(str(path), "rb", opener=regular)  # noqa: SIM115 - the caller closes it
    if path.suffix != COMPRESSED:
        return file
    with file:
        unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)  # of gzip
        try:
            text = unpacker.decompress(file.read(), RUN_MOST)
        except zlib.error as error:
            raise OSError(EIO, f"it is damaged: {error}", str(path)) from None
    if not unpacker.eof or unpacker.unused_data:
        raise OSError(EIO, f"it is cut off, or is no single file of at most {RUN_MOST >> 20} MiB", str(path))
    if (takes := estimate_memory(text)) > RUN_TAKES:
        raise OSError(EIO, f"it would take {takes >> 20} MiB of memory, and {RUN_TAKES >> 20} is the most", str(path))
    return BytesIO(text)


def compress(content: bytes) -> bytes:
    """Returns what gzip makes of a run, always the same bytes."""
    packer = zlib.compressobj(9, wbits=zlib.MAX_WBITS | 16)
    return packer.compress(content) + packer.flush()


def plain_name(path: Path) -> str:
    """Returns the name that the file of a run has when it is not compressed."""
    return path.name.removesuffix(COMPRESSED)


def run_name(path: Path) -> str:
    """Returns the name of the file of a run without what tells its form."""
    return Path(plain_name(path)).stem


def pack(content: Mapping[str, Any]) -> dict[str, Any]:
    """The run, as pytest-benchmark would save it, with ``shared`` in front."""
    if "suite" not in content:  # benchmarks of other tests
        return dict(content)
    values: dict[str, dict[str, int]] = {name: {} for name in SHARED}

    def short(record: Mapping[str, Any]) -> dict[str, Any]:
        texts = {name: json.dumps(record[name]) for name in SHARED if isinstance(record.get(name), dict)}
        return {**record, **{name: values[name].setdefault(text, len(values[name])) for name, text in texts.items()}}

    benchmarks = [_with_record(entry, short) for entry in content["benchmarks"]]
    suite = {**content["suite"], "schema": SCHEMA, "failed": [short(record) for record in content["suite"]["failed"]]}
    shared = {name: [json.loads(text) for text in texts] for name, texts in values.items()}
    return {"shared": shared, **content, "benchmarks": benchmarks, "suite": suite}


def restore(record: Any, shared: Any) -> Any:
    """The record with its own values, whatever it shared. Raises `ValueError` for an index that ``shared`` lacks."""
    if not isinstance(record, dict):
        return record
    values = {}
    for name in SHARED:
        if type(index := record.get(name)) is int:
            table = shared.get(name) if isinstance(shared, dict) else None
            if not isinstance(table, list) or not 0 <= index < len(table):
                raise ValueError(f"{name} is number {index} of what the file shares, which is not there")
            values[name] = table[index]
    return record | values


def unpack(content: Mapping[str, Any]) -> dict[str, Any]:
    """The run with whole records. Raises `ValueError`."""
    shared = content.get("shared")
    benchmarks = [_with_record(entry, lambda record: restore(record, shared)) for entry in content["benchmarks"]]
    suite = {**content["suite"], "failed": [restore(record, shared) for record in content["suite"]["failed"]]}
    rest = {name: value for name, value in content.items() if name != "shared"}
    return {**rest, "benchmarks": benchmarks, "suite": suite}


def _with_record(entry: Mapping[str, Any], change: Callable[[Any], Any]) -> Mapping[str, Any]:
    extra = entry.get("extra_info")
    if not isinstance(extra, dict) or "record" not in extra:
        return entry
    return {**entry, "extra_info": {**extra, "record": change(extra["record"])}}


#: Points of a line that are kept, at most: as many as a plot can show.
POINTS = 120
#: Digits that are kept of a line's largest reading, and the largest whole number of which all are kept.
DIGITS, COUNT_MOST = 3, 9999
#: Readings are whole numbers of ten to the power of at most this, and of at least minus this.
POWER_MOST = 30


def encode_lines(at_s: Sequence[float], values: Mapping[str, Sequence[float | None]]) -> dict[str, Any]:
    """Lines over the same moments, as a record stores them; the moments are rounded to milliseconds.

    ``at_ms`` holds the first moment, then the time from each to the next. A line is ``{"e": e, "n": [...]}``: every
    reading is n times ten to the power of e, and None where nothing was read.
    """
    moments = [round(1000 * moment) for moment in at_s]
    steps = [*moments[:1], *(after - before for before, after in pairwise(moments))]
    return {"at_ms": steps, "lines": {name: _scale(readings) for name, readings in values.items()}}


def decode_line(timeline: Any) -> dict[str, Any] | None:
    """The lines of a record as plain numbers: ``at_s``, and ``values`` by name. None if it holds no lines.

    A timeline that is already plain is returned unchecked.
    """
    if not isinstance(timeline, dict):
        return None
    if "at_ms" not in timeline:
        return timeline
    try:
        moments, lines = timeline["at_ms"], timeline["lines"]
        if not _is_whole(moments):
            return None
        readings = {name: _readings(line["n"], line["e"]) for name, line in lines.items()}
        return {"at_s": [moment / 1000 for moment in accumulate(moments)], "values": readings}
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
        return None


def thin_lines(metrics: Any) -> None:
    """Replace the timelines in ``record.metrics`` by plain ones of at most `POINTS`; invalid ones are removed."""
    if not isinstance(metrics, dict):
        return
    devices = metrics.get("gpus")
    for source in [metrics.get("host"), *(devices if isinstance(devices, list) else ())]:
        if not isinstance(source, dict) or source.get("timeline") is None:
            continue
        line = decode_line(source["timeline"]) or {}
        at_s: Any = line.get("at_s")
        values: Any = line.get("values")
        lists = [at_s, *values.values()] if isinstance(values, dict) else [None]
        if not isinstance(at_s, list) or not all(isinstance(each, list) and len(each) == len(at_s) for each in lists):
            del source["timeline"]
            continue
        step = max(1, -(-len(at_s) // POINTS))
        source["timeline"] = {"at_s": at_s[::step], "values": {name: each[::step] for name, each in values.items()}}


def _scale(readings: Sequence[float | None]) -> dict[str, Any]:
    known = [reading for reading in readings if reading is not None]
    peak = max(map(abs, known), default=0.0)
    counts = peak <= COUNT_MOST and all(reading == round(reading) for reading in known)
    power = 0 if counts else max(math.floor(math.log10(peak)) + 1 - DIGITS, -POWER_MOST)
    return {"e": power, "n": [None if reading is None else round(_times(reading, -power)) for reading in readings]}


def _readings(numbers: Any, power: Any) -> list[float | None]:
    """The readings of a stored line. Raises `ValueError` for anything that `encode_lines` cannot have written."""
    if not _is_whole(numbers, type(None)) or type(power) is not int or abs(power) > POWER_MOST:
        raise ValueError("no line")
    return [None if number is None else _times(number, power) for number in numbers]


def _times(number: float, power: int) -> float:
    return float(number * 10**power if power >= 0 else number / 10**-power)


def _is_whole(values: Any, *others: type) -> bool:
    return isinstance(values, list) and set(map(type, values)) <= {int, *others}
