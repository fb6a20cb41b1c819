"""A saved run that writes values common to its launches once; they are a third of most records.

The run starts with ``shared``: for some fields of a record, a list of their different values. The records of the run
hold the index into that list instead of the value. A record may also hold the value itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

SCHEMA = 2  # of a saved run; 1 shared nothing

SHARED = ("cell", "data", "workload", "environment", "identity")


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
    """The benchmark with its record changed; a benchmark without a record is returned as it is."""
    extra = entry.get("extra_info")
    if not isinstance(extra, dict) or "record" not in extra:
        return entry
    return {**entry, "extra_info": {**extra, "record": change(extra["record"])}}
