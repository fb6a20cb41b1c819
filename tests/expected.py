"""Stored outputs that tests compare with, to the last character.

``UPDATE_GOLDEN=1 pytest`` writes them anew; read the difference before it is committed.
"""

from __future__ import annotations

import csv
import math
import os
from pathlib import Path

GOLDEN = Path(__file__).parent / "golden"


def golden(name: str | Path, text: str) -> None:
    """Compare with the stored output of this name, or of this path."""
    path = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), f"{path.name} is out of date: UPDATE_GOLDEN=1 pytest rewrites it"


def golden_figures(name: str, text: str) -> None:
    """Compare a CSV with the stored one to the last figure but rounding, which differs between processors."""
    path = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN"):
        golden(name, text)
    stored, made = (list(csv.reader(each.splitlines())) for each in (path.read_text(encoding="utf-8"), text))
    assert len(made) == len(stored)
    for line, expected in zip(made, stored, strict=True):
        assert all(map(_same, line, expected)), f"{path.name} is out of date: {line} instead of {expected}"
        assert len(line) == len(expected)


def _same(text: str, expected: str) -> bool:
    try:
        return text == expected or math.isclose(float(text), float(expected), rel_tol=1e-12)
    except ValueError:
        return False
