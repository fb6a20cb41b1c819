"""Lists the stored runs, a line each: ``training-suite list``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from framework_training_suite import spelled
from suite.analysis.options import RUNS, STORAGE_FOLDER
from suite.plan.command.common import command, option

if TYPE_CHECKING:
    from suite.plan.cell import Cell
    from suite.record.record import Record

EPILOG = """\
examples:
  training-suite list                     all saved runs, the last saved last
  training-suite list runs/journals       what these files hold
  training-suite compare 0032             compare one of them

exit status: 0; 1 if a file cannot be read; 2 for wrong usage or where there is no run; 130 if interrupted
"""
HEADERS = ("run", "date", "machine", "workloads", "settings", "launches")
#: Settings whose values are listed though all cells of a run share them.
ALWAYS = ("size", "precision", "batch")
#: Values of a setting that a line names, at most; the JSON has all.
SHOWN_MOST = 4


@command(
    "suite.list", __doc__, EPILOG,
    RUNS.but(help=f"{RUNS.help} (default: all saved runs)"),
    STORAGE_FOLDER,
    option("--json", action="store_true", help="print a JSON list instead, for other programs"),
)  # fmt: skip
def main(options: argparse.Namespace) -> int:
    """Print a line of each run; what cannot be read is said, and the others are listed."""
    from suite.analysis.records.load import LoadError, find, find_saved
    from suite.record.text import clean

    every = [] if options.run else find_saved(options.storage)
    paths = every or find(options.run, options.storage)[0]
    lines, status = [], 0
    for path in sorted(paths, key=lambda each: each.stat().st_mtime):
        try:
            lines += _describe(path)
        except LoadError as error:
            print(f"training-suite list: {spelled(clean(error, 1000))}", file=sys.stderr)
            status = 1
    lines.sort(key=lambda line: str(line["date"]))
    print(json.dumps(lines, indent=1) if options.json else "\n".join(_table(lines)))
    return status


def _describe(path: Path) -> list[dict[str, Any]]:
    """The runs of a file. Raises `LoadError`."""
    from suite.analysis.records.load import load
    from suite.analysis.records.machines import Machines
    from suite.record.saved import run_name

    launches = load([path]).launches
    machines = Machines((each.run, each.record) for each in launches)
    by_run: dict[str, list[Record]] = {}
    for each in launches:
        by_run.setdefault(each.run, []).append(each.record)
    return [
        {
            "run": run_name(path),
            "date": min(str(record.started) for record in records),
            "machine": "; ".join(dict.fromkeys(machines.name(run, record) for record in records)),
            "workloads": list(dict.fromkeys(record.cell.workload for record in records)),
            "settings": _settings({record.cell for record in records}),
            "launches": len(records),
        }
        for run, records in by_run.items()
    ]


def _settings(cells: Iterable[Cell]) -> dict[str, list[str]]:
    """The values of what varies within a workload and framework, and of some settings always."""
    from suite.analysis.rows.axes import varied
    from suite.catalog.settings import SETTINGS

    cells = list(cells)
    shared = {name: sorted({getattr(cell, name) for cell in cells}, key=SETTINGS[name].rank) for name in ALWAYS}
    return {name: list(map(SETTINGS[name].text, values)) for name, values in shared.items()} | varied(cells)


def _table(lines: Sequence[dict[str, Any]]) -> list[str]:
    """Columns as wide as they need to be."""
    rows = [HEADERS] + [
        (line["run"], line["date"][:16].replace("T", " "), line["machine"], ",".join(line["workloads"]),
         "; ".join(_words(*each) for each in line["settings"].items()), str(line["launches"]))
        for line in lines
    ]  # fmt: skip
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _words(name: str, values: Sequence[str]) -> str:
    from suite.catalog.settings import SETTINGS

    shown = ",".join(values) if len(values) <= SHOWN_MOST else f"{values[0]} to {values[-1]} ({len(values)})"
    return SETTINGS[name].words.format(shown)


if __name__ == "__main__":
    sys.exit(main())
