"""How often is a run wrong whose number of launches is raised until something is decided? It is simulated and printed.

Answers of six comparisons, between three equal frameworks in two workloads, whose launches scatter by 15 or by 5 %.
Somebody looks after 6, 8, 10, ... and 20 launches, by what the suite itself says of the records of these launches, and
stops as soon as anything is called faster or slower. ``python -m tests.studies.looks --write`` puts what it prints into
docs/lab/method.md. A quarter of an hour on one core.
"""

# ruff: noqa: T201 - a command that prints

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from suite.analysis.records.load import Launch
from suite.analysis.statistics.multiple_testing import correct_run
from suite.plan.measuring import LAST_LOOK, LEAST_TESTED
from suite.record.record import Phase, Record, Window
from tests import records
from tests.studies.tune import written

PAGE = Path(__file__).parents[2] / "docs" / "lab" / "method.md"
MARK = "looks"
WORKLOADS, FRAMEWORKS = ("cifar100_cnn", "imdb_lstm"), ("pytorch", "tensorflow", "jax")
SCATTERS = (0.15, 0.05)
LOOKS = tuple(range(LEAST_TESTED, LAST_LOOK + 1, 2))

#: What a launch of a block says of how many were asked for, when as many have been made by a look; by who looks.
Asked = Mapping[str, Any]


def nothing(_: int, __: int) -> Asked:
    """As older versions, whose records do not say it."""
    return {}


def raised(block: int, _: int) -> Asked:
    """``--resume --launches N`` after each look."""
    return {"launches": next(look for look in LOOKS if block < look)}


def interrupted(_: int, __: int) -> Asked:
    """``--launches 20``, interrupted at each look, and its journal compared."""
    return {"launches": LAST_LOOK}


def fixed(_: int, look: int) -> Asked:
    """As many as there are at this look, and no other look."""
    return {"launches": look}


#: By what is done: what launches say, and when somebody looks.
WAYS = {
    "six launches, once": (fixed, LOOKS[:1]),
    "twenty launches, once": (fixed, LOOKS[-1:]),
    "raised until decided, before": (nothing, LOOKS),
    "raised until decided": (raised, LOOKS),
    "interrupted until decided": (interrupted, LOOKS),
}


def cells() -> list[list[Record]]:
    """The launches of each cell by block, whose times are put in later."""
    made = []
    for workload, name in product(WORKLOADS, FRAMEWORKS):
        of_cell = (records.proved(records.timed(1.0, name, at, workload=workload)) for at in range(LAST_LOOK))
        made.append(list(of_cell))
    return made


def is_wrong(launches: Sequence[Sequence[Record]], steps_s: np.ndarray[Any, Any], way: str) -> bool:
    """Whether any of these equal cells is called faster or slower at a look; ``steps_s`` are (cells, blocks)."""
    asked, looks = WAYS[way]
    for look in looks:
        made = [
            replace(
                record,
                phases={"train": Phase((Window(10, 10 * float(seconds)),))},
                run=record.run | asked(block, look),
            )
            for of_cell, times in zip(launches, steps_s, strict=True)
            for block, (record, seconds) in enumerate(zip(of_cell[:look], times[:look], strict=True))
        ]
        found = correct_run([Launch(record, "run-a", "") for record in made]).ratios
        if {"faster", "slower"} & {ratio.verdict for ratio in found.values()}:
            return True
    return False


def share(way: str, scatter: float, answers: int, seed: int = 0) -> float:
    """The share of wrong answers."""
    draws, launches = np.random.default_rng(seed), cells()
    times = (np.exp(scatter * draws.standard_normal((len(launches), LAST_LOOK))) for _ in range(answers))
    return sum(is_wrong(launches, steps_s, way) for steps_s in times) / answers


def lines(answers: int) -> Iterator[str]:
    """The table for the documentation."""
    yield f"| launches | {' | '.join(f'wrong, at {scatter:.0%} scatter' for scatter in SCATTERS)} |"
    yield "|:--|" + "--:|" * len(SCATTERS)
    for way in WAYS:
        found = [share(way, scatter, answers) for scatter in SCATTERS]
        errors = [math.sqrt(each * (1 - each) / answers) for each in found]
        figures = (f"{each:.1%} +- {error:.1%}".replace("%", " %") for each, error in zip(found, errors, strict=True))
        yield f"| {way} | {' | '.join(figures)} |"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", type=int, default=1000, help="simulated for each figure (default: 1000)")
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE.name}")
    options = parser.parse_args(arguments)
    table = []
    for line in lines(options.answers):
        print(line, flush=True)
        table.append(line)
    table += ["", f"{options.answers:,} answers for each figure, with its standard error."]
    if options.write:
        PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), MARK, table), encoding="utf-8")


if __name__ == "__main__":
    main()
