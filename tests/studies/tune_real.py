"""Searches for real, beside the full matrix: ``python -m tests.studies.tune_real FOLDER``, an hour on an idle machine.

Both studied workloads at size small, in all frameworks, 12 cells each: `suite.tune` three times, then all cells with
six launches each. The report has the launches, the minutes, and the regret: how much slower than the best cell of the
full matrix the recommended one is there. What is done already in FOLDER is not repeated, so that the command can be
interrupted; --report prints the report of what there is, and --write puts it into docs/lab/search.md.
"""

# ruff: noqa: T201 - a command that prints

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from suite.analysis.records.load import load
from suite.analysis.records.machines import machine
from suite.analysis.statistics.inference import Paired, interval
from suite.analysis.statistics.ratios import blockwise
from suite.record.record import Record
from tests.studies.tune import PAGE, written

SPACE = {
    "workload": "cifar100_cnn,imdb_lstm", "size": "small", "framework": "pytorch,tensorflow,jax", "batch": "32,128",
    "precision": "fp32", "compile": "usual", "loader": "naive,tuned",
}  # fmt: skip
REPEATS, LAUNCHES = 3, 6


@dataclass(frozen=True)
class Found:
    """What one search found for a workload: its choice, all that it recommends, its launches and its minutes."""

    chosen: str
    recommended: tuple[str, ...]
    launches: int
    minutes: float


def axes() -> list[str]:
    return [word for axis, values in SPACE.items() for word in (f"--{axis}", values)]


def searching(folder: Path, repeat: int, more: Sequence[str]) -> list[str]:
    """The command of one search; the seed gives it another order of launches."""
    places = [f"--output={folder}", f"--journals={folder}/journals", f"--storage={folder}/runs"]
    return [sys.executable, "-m", "suite.tune", *axes(), *places, f"--seed={repeat}", *more]


def measuring(folder: Path, more: Sequence[str]) -> list[str]:
    """The command that launches all cells six times."""
    places = [f"--journals={folder}/journals", f"--benchmark-storage={folder}/runs", "--benchmark-save=full"]
    command = [sys.executable, "-m", "pytest", "suite", *axes(), *places, "--no-control", f"--launches={LAUNCHES}"]
    return [*command, *more]


def run(folder: Path, more: Sequence[str]) -> None:
    """Make what is missing. What was begun goes on from its journal."""
    folders = [folder / f"search{repeat}" for repeat in range(REPEATS)]
    steps = [(each, searching(each, repeat, more)) for repeat, each in enumerate(folders)]
    for place, command in [*steps, (folder / "full", measuring(folder / "full", more))]:
        done = place / "done"
        if done.exists():
            continue
        resume = ["--resume"] if list(place.glob("journals/*.jsonl")) else []
        print(f"{place.name}: {' '.join(command[1:])}", flush=True)
        status = subprocess.run([*command, *resume], check=False).returncode
        # A launch that ends as crashed or diverged fails `pytest suite`, and is a result all the same.
        if status not in ((0, 1) if place.name == "full" else (0,)):
            raise SystemExit(f"{place.name} ended with status {status}; run this command again to continue")
        done.touch()


def found_in(folder: Path) -> dict[str, Found]:
    """What the search in a folder found, by workload."""
    races = json.loads((folder / "answer.json").read_text(encoding="utf-8"))["races"]
    return {
        race["workload"]: Found(
            race["recommended"][0], tuple(race["recommended"]), race["launches"], race["seconds"] / 60
        )
        for race in races
    }


def truth(records: Sequence[Record]) -> dict[str, float]:
    """The mean logarithm of the throughput of each cell in the full matrix, by the cell's id."""
    rates: dict[str, list[float]] = {}
    for record in records:
        if record.outcome.ok and record.samples_per_s:
            rates.setdefault(record.cell.id, []).append(math.log(record.samples_per_s))
    return {cell: fmean(each) for cell, each in rates.items()}


def best_of(means: Mapping[str, float]) -> str:
    """The cell that is the fastest in the full matrix."""
    return max(means, key=means.__getitem__)


def regret(cell: str, records: Sequence[Record]) -> Paired | None:
    """The speed of a cell over that of the best one in the full matrix, block by block; None for the best itself."""
    best = best_of(truth(records))
    own, others = ([each for each in records if each.cell.id == name and each.outcome.ok] for name in (cell, best))
    return None if cell == best else interval(blockwise(own, others))


def shown(found: Paired | None) -> str:
    """How much slower, with its 95 % interval; below zero where it may be faster."""
    return "0" if found is None else f"{1 - found.value:.1%} ({1 - found.high:.0%} to {1 - found.low:.0%})"


def agreement(searches: Sequence[Found], records: Sequence[Record]) -> str:
    """How many searches of a workload choose the best cell of the full matrix, and recommend it, in words."""
    best, count = best_of(truth(records)), len(searches)
    chosen = sum(each.chosen == best for each in searches)
    recommended = sum(best in each.recommended for each in searches)
    return f"{chosen} of {count} searches choose the best cell of the full matrix, and {recommended} recommend it"


def report(searches: Mapping[str, Sequence[Found]], records: Sequence[Record]) -> Iterator[str]:
    """The report as Markdown: a row for each search and for the full matrix, and whether the searches agree."""
    yield "| workload | run | launches | minutes | recommended | its choice | slower than the best (95 % interval) |"
    yield "|:--|:--|--:|--:|--:|:--|:--|"
    notes = []
    for workload, found in searches.items():
        own = [record for record in records if record.cell.workload == workload]
        for number, each in enumerate(found, 1):
            figures = f"{each.launches} | {each.minutes:.1f} | {len(each.recommended)}"
            slower = shown(regret(each.chosen, own))
            yield f"| {workload} | search {number} | {figures} | `{each.chosen}` | {slower} |"
        minutes = sum(float(record.run.get("took_s") or 0) for record in own) / 60
        yield f"| {workload} | all cells | {len(own)} | {minutes:.1f} | | `{best_of(truth(own))}` | |"
        notes.append(f"- {workload}: {agreement(found, own)}.")
    machines = ", ".join(dict.fromkeys(map(machine, records)))
    yield from ["", *notes, "", f"Machine: {machines}. Started {min(record.started for record in records)[:10]}."]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="for journals, saved runs and answers")
    parser.add_argument("--report", action="store_true", help="run nothing, report what there is")
    parser.add_argument("--write", action="store_true", help=f"write the report into {PAGE}")
    parser.add_argument("--min-window", default="0.2", help="seconds of a timed window (default: 0.2)")
    parser.add_argument("--wait-idle", default="600", help="seconds to wait for an idle machine (default: 600)")
    options = parser.parse_args(arguments)
    if not options.report:
        run(options.folder, ["--min-window", options.min_window, "--wait-idle", options.wait_idle])
    searches: dict[str, list[Found]] = {}
    for answer in sorted(options.folder.glob("search*/answer.json")):  # those that were made by hand, too
        for workload, each in found_in(answer.parent).items():
            searches.setdefault(workload, []).append(each)
    records = [
        launch.record for launch in load(sorted((options.folder / "full" / "runs").rglob("*.json"))[-1:]).launches
    ]
    lines = list(report(searches, records))
    print(*lines, sep="\n")
    if options.write:
        PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), "measured", lines), encoding="utf-8")


if __name__ == "__main__":
    main()
