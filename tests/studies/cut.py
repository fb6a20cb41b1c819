"""Cut a recorded run down to a journal small enough for a test: ``python -m tests.studies.cut RUN.json OUT.jsonl``.

The records stay as they were written, whatever their schema; only their lines over time are shortened. After it, renew
the outputs that `tests/report/test_golden.py` compares with: ``UPDATE_GOLDEN=1 pytest tests/report/test_golden.py``.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from suite.plan.cell import Cell
from suite.record.saved import decode_line, unpack


def cut(
    saved: dict[str, Any], cells: str, launches: int, points: int, without: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """The lines of a journal: the first launches of the cells whose id has this pattern, in the order they ran in."""
    run = unpack(saved)
    held = [entry["extra_info"]["record"] for entry in run["benchmarks"]] + run["suite"]["failed"]
    chosen = [
        record
        for record in held
        if re.search(cells, Cell.from_json(record["cell"]).id) and record["launch"] % 1000 < launches
    ]
    for record in chosen:
        record |= {name: type(record[name])() for name in without}
        metrics = record.get("metrics") or {}
        for source in [metrics.get("host"), *metrics.get("gpus", [])]:
            if source and (line := decode_line(source.get("timeline"))):
                values = {name: each[:points] for name, each in line["values"].items()}
                source["timeline"] = {"at_s": line["at_s"][:points], "values": values}
    chosen.sort(key=lambda record: record["run"]["position"])
    return [{"run": saved["suite"]["run"]}, *chosen]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("saved", type=Path, metavar="RUN.json")
    parser.add_argument("journal", type=Path, metavar="OUT.jsonl")
    parser.add_argument("-k", default="", metavar="PATTERN", help="regular expression for the ids of the cells to keep")
    parser.add_argument("--launches", type=int, default=2, metavar="N", help="to keep of each (default: 2)")
    parser.add_argument(
        "--points", type=int, default=5, metavar="N", help="to keep of each line over time (default: 5)"
    )
    parser.add_argument("--without", nargs="*", default=(), metavar="PART", help="of each record, as metrics")
    options = parser.parse_args(arguments)
    saved = json.loads(options.saved.read_text(encoding="utf-8"))
    lines = cut(saved, options.k, options.launches, options.points, options.without)
    options.journal.parent.mkdir(parents=True, exist_ok=True)
    options.journal.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main()
