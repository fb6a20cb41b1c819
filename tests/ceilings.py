"""How large each room may be: ``python -m tests.ceilings`` lowers the ceilings in ``tests/ceilings.toml`` to today.

With ``--raise "REASON"`` those that are too low are raised, and the reason is written beside each. If there is no table
yet, all are what is there.
"""

# ruff: noqa: T201 - a command that prints

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
TABLE = Path(__file__).with_suffix(".toml")
ROOMS = ("suite", "workloads", "tests", "studies")
#: What counts as code besides Python.
TEMPLATES = {".jinja", ".css", ".js", ".txt"}
TEXTS = ("docs/**/*.md", "README.md", "CONTRIBUTING.md", "CHANGELOG.md")
LINE = re.compile(r'"(?P<name>[^"]+)" = \d+(?P<note>.*)')

HEAD = """\
# How large things may be at most; tests/test_ceilings.py reads it. A change may lower a number, and raises one only
# with a reason beside it: `python -m tests.ceilings` lowers all to what is there, `--raise "REASON"` raises what is
# too low.
"""


def sizes(root: Path = ROOT) -> dict[str, dict[str, int]]:
    """Returns lines of code by room, with comments and blanks; words of texts; and files."""
    lines: Counter[str] = Counter()
    for path in (path for room in ROOMS for path in (root / room).rglob("*")):
        room = "/".join(path.relative_to(root).parts[:-1][:2])
        templates = TEMPLATES if room.startswith("suite") else set()
        if path.suffix in {".py", *templates} and path.is_file():
            lines[room] += len(path.read_text(encoding="utf-8").splitlines())
    texts = [path for pattern in TEXTS for path in root.glob(pattern)]
    words = sum(len(path.read_text(encoding="utf-8").split()) for path in texts)
    return {
        "lines": dict(sorted(lines.items())),
        "words": {"texts": words},
        "files": {"suite": len([*(root / "suite").rglob("*.py")])},
    }


def read() -> dict[str, dict[str, int]]:
    """Returns the ceilings."""
    return tomllib.loads(TABLE.read_text(encoding="utf-8"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 1 if something is above its ceiling and no reason was given."""
    parser = argparse.ArgumentParser(prog="python -m tests.ceilings", description=__doc__)
    parser.add_argument("--raise", dest="reason", metavar="REASON", help="raise what is above its ceiling")
    reason = parser.parse_args(arguments).reason
    stored, notes = (read(), _notes()) if TABLE.exists() else ({}, {})
    text, above = HEAD, False
    for section, numbers in sizes().items():
        text += f"\n[{section}]\n"
        for name, number in numbers.items():
            ceiling, note = stored.get(section, {}).get(name, 0 if stored else number), notes.get((section, name), "")
            if number > ceiling:
                print(f"{section} of {name}: {number:,}, the ceiling is {ceiling:,}")
                above, note = True, f"  # {reason}" if reason else note
            text += f'"{name}" = {number if reason else min(number, ceiling)}{note}\n'
    TABLE.write_text(text, encoding="utf-8")
    return int(above and not reason)


def _notes() -> dict[tuple[str, str], str]:
    """The reasons that stand beside ceilings, by section and name."""
    found, section = {}, ""
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        section = line[1:-1] if line.startswith("[") else section
        if match := LINE.fullmatch(line):
            found[section, match["name"]] = match["note"]
    return found


if __name__ == "__main__":
    sys.exit(main())
