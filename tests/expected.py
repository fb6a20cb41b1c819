"""Stored outputs that tests compare with, to the last character.

``UPDATE_GOLDEN=1 pytest`` writes them anew; read the difference before it is committed.
"""

from __future__ import annotations

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
