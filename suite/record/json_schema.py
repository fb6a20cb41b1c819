"""The JSON Schema of a record, made from its types; it stands in ``results/record.schema.json``.

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
    (reference,), parts = msgspec.json.schema_components([Record], ref_template="#/$defs/{name}")
    for part in parts.values():
        part["description"] = cleandoc(part["description"])
        if "properties" in part:
            part["additionalProperties"] = False
    record = parts["Record"]
    record["properties"] = {"schema": {"const": SCHEMA}} | record["properties"]
    record["required"] = ["schema", *record["required"]]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$comment": "Made by `UPDATE_GOLDEN=1 pytest tests/record` from `suite/record/record.py`.",
        **reference,
        "$defs": parts,
    }
