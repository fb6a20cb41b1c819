"""Lines of a journal that hold together: each names a digest of the line before.

So none can be left out, moved, changed or put in without all lines after it showing it. It is no signature: whoever
writes all lines again can compute all digests again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

#: In ``record.run``: the digest of the line before.
BEFORE = "before"

#: What a bundle may leave out or replace, since it may tell who measured. No digest covers it. A list's items have the
#: path of the list.
PRIVATE = (
    ("log",), ("outcome", "reason"), ("environment", "variables"),
    ("metrics", "gpus", "uuid"), ("metrics", "host", "disturbance", "processes"), ("ranks", "interface"),
    ("run", "host"), ("run", "typed"),
)  # fmt: skip

#: Hexadecimal digits of a digest.
DIGITS = 32


def digest(line: Mapping[str, Any]) -> str:
    """SHA-256 of a line's content, however it was written, shortened to `DIGITS`; raises ValueError for NaN."""
    text = json.dumps(_without(line, PRIVATE), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def _without(value: Any, paths: tuple[tuple[str, ...], ...]) -> Any:
    if not paths:
        return value
    if isinstance(value, (list, tuple)):
        return [_without(each, paths) for each in value]
    if not isinstance(value, Mapping):
        return value
    return {
        name: _without(each, tuple(path[1:] for path in paths if path[0] == name))
        for name, each in value.items()
        if (name,) not in paths
    }
