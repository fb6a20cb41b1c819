"""Files that stand beside a report for a page over all runs of a site; anybody may have written them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, TypeVar

from msgspec import Meta

from suite.plan.schema import SchemaError, decode
from suite.record.text import clean
from workloads.data.files import read_regular

Kind = TypeVar("Kind")

#: Bytes of a file, at most.
LARGEST = 1 << 20

Text = Annotated[str, Meta(max_length=300)]
Rate = Annotated[float, Meta(ge=0, lt=1e15)]


def read(path: Path, kind: type[Kind]) -> Kind:
    """Returns what the file holds. Raises `SchemaError`, and `OSError` if there is none."""
    try:
        data = json.loads(read_regular(path, LARGEST))
    except (ValueError, RecursionError):
        raise SchemaError("it is no JSON") from None
    return decode(kind, data)


def scan(site: Path, file: str, kind: type[Kind], page: str) -> tuple[list[tuple[str, Kind]], list[str]]:
    """Returns what the folders of a site hold in such files, and why others are left out of the ``page``."""
    found, notes = [], []
    for folder in sorted(site.iterdir(), key=lambda each: each.name):
        try:
            here = (folder / file).is_file() and folder.resolve().parent == site.resolve()
            if here and not folder.name.startswith("."):
                folder.name.encode()  # a page names it
                found.append((folder.name, read(folder / file, kind)))
        except (SchemaError, OSError, UnicodeEncodeError) as error:
            notes.append(f"{clean(folder.name)} is left out of the {page}: {clean(error)}")
    return found, notes


def short(value: float) -> float:
    """Returns the value with the digits that a page shows."""
    return float(f"{value:.4g}")
