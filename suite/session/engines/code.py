"""Which code this is: hosts that run different code cannot share a run."""

from __future__ import annotations

import hashlib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def code_digest() -> str:
    """A digest of the suite's and the workloads' Python files."""
    found = hashlib.sha256()
    for room in ("suite", "workloads"):
        for path in sorted((ROOT / room).rglob("*.py")):
            found.update(f"{path.relative_to(ROOT)}\n".encode() + path.read_bytes())
    return found.hexdigest()
