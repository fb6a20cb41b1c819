"""What does a launch spend its seconds on? ``python -m tests.studies.launch_costs`` reads a published run and prints.

Medians over launches by workload, framework and kind: *first* has the whole evidence and all phases, *whole* all
phases, *lean* times training alone. *Start* is the interpreter, imports, data, model and first batch; *first step* has
the compiling; *windows* are all phases' warm-ups and windows, *evidence* that of identity. The *rest* is the peak rate,
the check of precision, gaps, and the end of the process. ``--write`` puts the table into results/README.md.
"""

# ruff: noqa: T201 - a command that prints

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import median

from suite.analysis.records.load import load
from suite.plan.measuring import PHASES
from suite.record.record import Phase, Record
from tests.published import RESULTS, numbered
from tests.studies.tune import written

RUN = "0032"
PAGE, MARK = RESULTS / "README.md", "launch costs"
PARTS = ("start", "first step", "train windows", "other windows", "evidence", "rest", "all")


def kind(record: Record) -> str:
    """Which evidence and phases a launch has."""
    if record.identity and "float64" in record.identity.seconds:
        return "first"
    return "lean" if record.phases.keys() == {PHASES[0]} else "whole"


def seconds(record: Record) -> dict[str, float]:
    """The seconds of each part of a launch that ended well."""
    train, *others = (_seconds(record.phases[name]) for name in PHASES if name in record.phases)
    spent = {
        "start": sum(record.startup.values()),
        "first step": record.first_step_s or 0.0,
        "train windows": train,
        "other windows": sum(others),
        "evidence": sum(record.identity.seconds.values()) if record.identity else 0.0,
    }
    total = float(record.run["took_s"])
    return spent | {"rest": total - sum(spent.values()), "all": total}


def _seconds(phase: Phase) -> float:
    return sum(window.seconds for window in (*phase.warmup, *phase.windows))


def table(records: Iterable[Record]) -> Iterator[str]:
    """The lines of the table, in Markdown."""
    groups: dict[tuple[str, str, str], list[dict[str, float]]] = {}
    for record in records:
        if record.outcome.ok and "took_s" in record.run:
            key = record.cell.workload, record.cell.framework, kind(record)
            groups.setdefault(key, []).append(seconds(record))
    yield f"| workload | framework | launches | n | {' | '.join(PARTS)} |"
    yield f"|:--|:--|:--|--:|{'--:|' * len(PARTS)}"
    for key, held in sorted(groups.items()):
        figures = (f"{median(each[part] for each in held):.1f}" for part in PARTS)
        yield f"| {' | '.join([*key, str(len(held)), *figures])} |"


def main() -> None:
    """Print the table, and write it if asked to."""
    parser = argparse.ArgumentParser(prog="python -m tests.studies.launch_costs", description=__doc__)
    parser.add_argument("run", nargs="?", default=RUN, help=f"a published run's number, or a journal (default: {RUN})")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    path = Path(options.run) if Path(options.run).is_file() else numbered(options.run)
    lines = list(table(launch.record for launch in load([path], whole=True).launches))
    print(*lines, sep="\n")
    if options.write:
        PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), MARK, lines), encoding="utf-8")


if __name__ == "__main__":
    main()
