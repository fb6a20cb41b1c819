"""JSON Schemas, made from types. That of a record stands in ``results/record.schema.json``.

It checks less than `Record.from_json`: not that a good launch has trained, and not that every number within the objects
without a schema is finite.
"""

from __future__ import annotations

from inspect import cleandoc
from typing import Any

import msgspec

from suite.record.record import SCHEMA, Record


def json_schema() -> dict[str, Any]:
    """The schema of the output of `Record.to_json`, which writes the newest version only."""
    made = schema_of(Record, SCHEMA, "Made by `UPDATE_GOLDEN=1 pytest tests/record` from `suite/record/record.py`.")
    for part in made["$defs"].values():
        if "properties" in part:
            part["additionalProperties"] = False
    return made


def schema_of(kind: type, version: int, comment: str) -> dict[str, Any]:
    """The schema of a type whose JSON also has its ``version``, as ``schema``."""
    (reference,), parts = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    for part in parts.values():
        part["description"] = cleandoc(part["description"])
    whole = parts[kind.__name__]
    whole["properties"] = {"schema": {"const": version}} | whole["properties"]
    whole["required"] = ["schema", *whole["required"]]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$comment": comment,
        **reference,
        "$defs": parts,
    }
