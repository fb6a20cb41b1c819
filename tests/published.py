"""The runs that the project published: those that `results/README.md` lists. A user's own may lie beside them."""

from __future__ import annotations

import re
from pathlib import Path

RESULTS = Path(__file__).parents[1] / "results"
#: Runs of another Python are saved in another folder, where their numbers begin at 0001 again.
STORAGE = RESULTS / "runs" / "Linux-CPython-3.11-64bit"
NAMES = sorted(re.findall(r"^\| \[\d+\]\((\w+)/table\.md\)", (RESULTS / "README.md").read_text("utf-8"), re.MULTILINE))
#: The raw file of each, by its name.
RUNS = {name: STORAGE / f"{name}.json.gz" for name in NAMES}


def numbered(number: str) -> Path:
    """The raw file of the run with this number."""
    (path,) = (path for name, path in RUNS.items() if name.startswith(f"{number}_"))
    return path
