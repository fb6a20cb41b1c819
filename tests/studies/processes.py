"""Why is a process fast or slow as a whole? ``python -m tests.studies.processes JOURNAL`` launches, and prints.

Most of the noise of a launch is that of its process: its windows agree, and another process of the same program is
slower. Each candidate below is switched on alone, in all frameworks that know it, beside launches as they usually are.
A block has one launch of each, one cell's together, in random order. They time training alone, and have the whole
evidence in block 0. With ``--phases`` there is one candidate instead, launches with all phases: do they train as fast?

A candidate's *spread* is the standard deviation of the logarithms of throughput between processes, without what all
launches of a block share and without a drift of its own, and its *speed* the paired ratio to the usual launch. Both
have 95 % intervals: the ratio of the spreads by a bootstrap over blocks, the speed by Student's t. What is in JOURNAL
is not launched again, so that the study can be interrupted.
"""

# ruff: noqa: T201 - a command that prints

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from scipy.signal import detrend

from suite.analysis.statistics.inference import interval
from suite.plan.cell import Cell
from suite.plan.measuring import LONGEST_S, WHOLE_BLOCKS, Plan
from suite.plan.settings.frameworks import interpreter_variable
from suite.plan.settings.tunings import HUGE_PAGES
from suite.record.job import Job
from suite.session.launches.launch import interpreter
from suite.session.launches.machine import LaunchCallbacks, Machine

USUAL, PHASES = "as usual", "all phases"
DRAWS = 4000
FEWEST = 3  # blocks of which something is said, and candidates whose spreads can be told from the machine's

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Candidate:
    """What may make processes differ: variables to set, words before the interpreter, or whole launches."""

    name: str
    variables: Mapping[str, str] = field(default_factory=dict)
    before: str = ""
    whole: bool = False
    frameworks: tuple[str, ...] = ("pytorch", "tensorflow", "jax")


CANDIDATES = (
    Candidate(USUAL),
    Candidate("no randomised addresses", before="setarch -R"),
    Candidate("huge pages", HUGE_PAGES),
    Candidate("eight arenas", {"MALLOC_ARENA_MAX": "8"}),
    Candidate("threads bound to cores", {"OMP_PROC_BIND": "close", "OMP_PLACES": "cores"}, frameworks=("pytorch",)),
    Candidate("one inter-op thread", {"TF_NUM_INTEROP_THREADS": "1"}, frameworks=("tensorflow",)),
    Candidate("an environment 4 kB longer", {"SUITE_STUDY_PADDING": "x" * 4096}),
    Candidate(PHASES, whole=True),
)


@dataclass(frozen=True)
class Row:
    """One launch: its cell and candidate, its block, and its samples per second."""

    cell: str
    candidate: str
    block: int
    rate: float


def planned(
    cells: Sequence[Cell], blocks: int, seed: int, candidates: Sequence[Candidate]
) -> Iterator[tuple[int, Cell, Candidate]]:
    """Every launch of the study: block by block, in an order that the seed draws."""
    for block in range(blocks):
        draws = random.Random(f"{seed}-{block}")
        for cell in draws.sample(cells, len(cells)):
            known = [each for each in candidates if cell.framework in each.frameworks]
            yield from ((block, cell, candidate) for candidate in draws.sample(known, len(known)))


def measure(host: Machine, cell: Cell, candidate: Candidate, block: int, folder: Path) -> Row | None:
    """Launch the cell once as the candidate has it; None if the launch failed, which is printed."""
    wrapper = folder / f"{cell.framework}-{CANDIDATES.index(candidate)}"
    wrapper.write_text(f'#!/bin/sh\nexec {candidate.before} "{interpreter(cell.framework)}" "$@"\n', encoding="utf-8")
    wrapper.chmod(0o755)
    variables = {**candidate.variables, interpreter_variable(cell.framework): str(wrapper)}
    plan = Plan().of_launch(0 if candidate.whole else WHOLE_BLOCKS)
    job = Job(cell, "", block, device="cpu", plan=plan, full_evidence=block == 0)
    with patch.dict(os.environ, variables):
        record = host.launch(job, folder / "log", LONGEST_S, LaunchCallbacks())
    if not record.outcome.ok or not record.samples_per_s:
        print(f"{cell.id}, {candidate.name}: {record.outcome.reason}")
        return None
    return Row(cell.id, candidate.name, block, record.samples_per_s)


def read(journal: Path) -> list[Row]:
    """The launches that are done."""
    return [Row(**json.loads(line)) for line in journal.read_text("utf-8").splitlines()] if journal.exists() else []


def run(turns: Iterable[tuple[int, Cell, Candidate]], journal: Path, data_folder: str | None) -> None:
    """Launch what is not yet in the journal."""
    done = {(row.cell, row.candidate, row.block) for row in read(journal)}
    left = [turn for turn in turns if (turn[1].id, turn[2].name, turn[0]) not in done]
    with ExitStack() as until:
        host = Machine("cpu", "real", data_folder, print, until)
        folder = Path(until.enter_context(tempfile.TemporaryDirectory()))
        lines = until.enter_context(journal.open("a", encoding="utf-8"))
        for number, (block, cell, candidate) in enumerate(left, 1):
            if row := measure(host, cell, candidate, block, folder):
                print(f"[{number}/{len(left)}] {cell.id}, {candidate.name}: {row.rate:.4g} samples/s", flush=True)
                lines.write(json.dumps(vars(row)) + "\n")
                lines.flush()


def spreads(logs: Array) -> Array:
    """The standard deviation (...,) between launches of each candidate, from logarithms (..., candidates, blocks).

    A machine is faster in one block than in another, which is no spread of processes. With three candidates or more it
    is taken out: each one's variance around the blocks' means is a known mixture of all (Grubbs, 1948, Journal of the
    American Statistical Association 43:243).
    """
    count = logs.shape[-2]
    if count < FEWEST:
        deviation: Array = logs.std(axis=-1, ddof=1)
        return deviation
    around = (logs - logs.mean(axis=-2, keepdims=True)).var(axis=-1, ddof=1)
    shared = around.sum(axis=-1, keepdims=True) / (count * (count - 1))
    found: Array = np.sqrt(np.maximum(0.0, (around - shared) * count / (count - 2)))
    return found


def compare(rows: Sequence[Row], cell: str) -> Iterator[str]:
    """The lines of a cell: a candidate's launches, its spread, the ratio of that to the usual one, and its speed."""
    rates = {
        name: found
        for each in CANDIDATES
        if (found := {row.block: row.rate for row in rows if (row.cell, row.candidate) == (cell, name := each.name)})
    }
    blocks = sorted(set.intersection(*(set(found) for found in rates.values())))
    logs = np.log([[found[block] for block in blocks] for found in rates.values()])
    apart = detrend(logs) if len(blocks) >= FEWEST else logs
    picked = np.random.default_rng(0).integers(len(blocks), size=(DRAWS, len(blocks)))
    drawn, values = spreads(np.moveaxis(apart[:, picked], 0, -2)), spreads(apart)
    for at, name in enumerate(rates):
        cells = [cell, name, str(len(blocks)), f"{values[at]:.1%}"]
        if name == USUAL or len(blocks) < FEWEST:
            yield f"| {' | '.join([*cells, '-', '-'])} |"
            continue
        with np.errstate(divide="ignore", invalid="ignore"):
            low, high = np.nanpercentile(drawn[:, at] / drawn[:, 0], (2.5, 97.5))
            ratio = f"{values[at] / values[0]:.2f} ({low:.2f} to {high:.2f})"
        speed = interval(np.exp(logs[at] - logs[0]).tolist())
        cells += [ratio, f"{speed.value:.3f} ({speed.low:.3f} to {speed.high:.3f})" if speed else "-"]
        yield f"| {' | '.join(cells)} |"


def report(rows: Sequence[Row]) -> str:
    """The table, in Markdown."""
    lines = ["| cell | processes | n | spread | of the usual spread | speed |", "|:--|:--|--:|--:|--:|--:|"]
    for cell in dict.fromkeys(row.cell for row in rows):
        lines += compare(rows, cell)
    return "\n".join(lines)


def main() -> None:
    """Launch what is missing, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.studies.processes", description=__doc__)
    parser.add_argument("journal", type=Path)
    parser.add_argument("--blocks", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workload", action="append", help="default: imdb_lstm; may be repeated")
    parser.add_argument("--framework", action="append", help="default: all; may be repeated")
    parser.add_argument("--size", default="full")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--phases", action="store_true", help="compare launches with all phases, and nothing else")
    parser.add_argument("--data-dir")
    parser.add_argument("--report", action="store_true", help="launch nothing")
    options = parser.parse_args()
    cells = [
        Cell(workload, framework, batch=options.batch, size=options.size)
        for workload in options.workload or ["imdb_lstm"]
        for framework in options.framework or ["pytorch", "tensorflow", "jax"]
    ]
    if not options.report:
        candidates = [CANDIDATES[0], *(each for each in CANDIDATES[1:] if each.whole == options.phases)]
        run(planned(cells, options.blocks, options.seed, candidates), options.journal, options.data_dir)
    print(report(read(options.journal)))


if __name__ == "__main__":
    main()
