"""``python docs/publish.py DIR``: adds the results and a first page to the documentation that was built in DIR/docs."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def lay(site: Path) -> None:
    """Copy the published results, without journals, to ``site/results``, and the first page to ``site``."""
    unpublished = shutil.ignore_patterns("journals")
    shutil.copytree(ROOT / "results", site / "results", ignore=unpublished, dirs_exist_ok=True)
    shutil.copy(ROOT / "docs" / "_site" / "index.html", site / "index.html")


if __name__ == "__main__":
    lay(Path(sys.argv[1]))
