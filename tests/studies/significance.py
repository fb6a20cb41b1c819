"""How often does a table say "faster" where nothing is? ``python -m tests.studies.significance`` simulates and prints.

The noise is not invented: it is that of the launches of published runs, drawn again with replacement. Every table has
six rows besides the baseline's and its second copy, and goes through the same functions as real launches: ratios by
block, test, Holm, margin, verdict. A drift slows the machine over the whole run, and so within each block too, whose
launches follow each other in a random order; an outlier is a launch that is 30 % slow.
"""

# ruff: noqa: T201 - a command that prints

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from suite.analysis.records.load import load
from suite.analysis.rows.groups import Group, group
from suite.analysis.statistics import power
from suite.analysis.statistics.inference import correct, run_t_test
from suite.plan.measuring import MARGIN
from suite.report.tables.frame import table as table_of
from tests.published import numbered

ROWS = 6
#: The runs whose tables must name launches that find 5 % in 80 % of tables.
PLANNED = (("0005", "cifar100_cnn"), ("0005", "imdb_lstm"), ("0011", "cifar100_cnn"))
#: The throughputs of runs that are in git's history, and what a control's rows are called.
NOISE, KEPT, CONTROL = Path(__file__).parents[1] / "golden" / "noise.csv", ("0003", "0004", "0010"), " (control)"
OUTLIER = 0.7

Values = np.ndarray


@cache
def groups(run: str) -> tuple[Group, ...]:
    """The committed run's launches, one group per workload."""
    return tuple(group(load([numbered(run)]).launches))


def of_launches(run: str, workload: str) -> tuple[float, ...]:
    """How far each launch lies from its cell's mean and its block's, in logarithms."""
    return tuple(residuals(run, workload).ravel().tolist())


@cache
def throughputs(run: str, workload: str) -> dict[str, dict[int, float]]:
    """Samples per second by block of each row's successful launches; a control's launches are a row of their own."""
    made: dict[str, dict[int, float]] = {}
    if run in KEPT:
        with NOISE.open(encoding="utf-8", newline="") as file:
            for each in csv.DictReader(file):
                if (each["run"], each["workload"]) == (run, workload):
                    name = each["cell"] + (CONTROL if each["control"] == "True" else "")
                    made.setdefault(name, {})[int(each["block"])] = float(each["samples_per_s"])
        return made
    one = next(each for each in groups(run) if each.workload == workload)
    for number, row in enumerate(one.rows):
        for name, launches in ((f"{number}", row.launches), (f"{number}{CONTROL}", row.control)):
            if rates := {x.record.block: x.record.samples_per_s or 1.0 for x in launches if x.record.outcome.ok}:
                made[name] = rates
    return made


@cache
def residuals(run: str, workload: str) -> Values:
    """The same, as an array (cells, blocks).

    Of a table of I cells and J blocks only (I - 1)(J - 1) of IJ such residuals are free, so that they are stretched.
    """
    found = list(throughputs(run, workload).values())
    blocks = sorted({block for rates in found for block in rates})
    logs = np.array([[math.log(rates[block]) for block in blocks] for rates in found if len(rates) == len(blocks)])
    rest = logs - logs.mean(axis=1, keepdims=True) - logs.mean(axis=0) + logs.mean()
    rows, columns = logs.shape
    stretched: Values = rest * math.sqrt(rows * columns / ((rows - 1) * (columns - 1)))
    return stretched


@dataclass(frozen=True)
class World:
    """What launches are like: residuals to draw from, how much slower the run ends than it began, share of outliers."""

    noise: tuple[float, ...]
    drift: float = 0.0
    outliers: float = 0.0

    def table(self, ratio: float, launches: int, draws: np.random.Generator) -> Values:
        """Throughputs (2 + ROWS, launches): the baseline, its second copy, and rows ``ratio`` times as fast."""
        shape = 2 + ROWS, launches
        rates = np.array([1.0, 1.0, *[ratio] * ROWS])[:, None] * np.exp(draws.choice(self.noise, shape))
        moments = draws.permuted(np.arange(rates.size).reshape(launches, -1), axis=1).T / rates.size
        rates *= 1 - self.drift * moments
        return rates * np.where(draws.random(shape) < self.outliers, OUTLIER, 1.0)


def real(run: str, workload: str) -> dict[str, World]:
    """The noise of a committed run as it is, with drift, and with outliers."""
    noise, name = of_launches(run, workload), f"{run} {workload.partition('_')[2]}"
    return {
        name: World(noise),
        f"{name}, drift 20 %": World(noise, drift=0.2),
        f"{name}, outliers 5 %": World(noise, outliers=0.05),
    }


def worlds() -> dict[str, World]:
    """Of the run that has a control, six launches of each cell, and those of two launches each."""
    return {
        name: world
        for run in ("0005", "0003", "0004")
        for workload in ("cifar100_cnn", "imdb_lstm")
        for name, world in real(run, workload).items()
    }


def judged(table: Values) -> list[str]:
    """The verdicts of a simulated table's rows, as `suite.compare` reaches them."""
    baseline, _, *rows = table
    tests = [test for row in rows if (test := run_t_test((row / baseline).tolist()))]
    return [test.verdict for test in correct(tests, MARGIN)]


WORDS = ("faster", "equal", "inconclusive", "slower")


def rates(world: World, ratio: float, launches: int, tables: int, seed: int = 0) -> dict[str, float]:
    """Shares over many tables: of rows by verdict, and of tables with any row that is called faster or slower."""
    draws = np.random.default_rng(seed)
    return _shares([judged(world.table(ratio, launches, draws)) for _ in range(tables)])


def _shares(tables: Sequence[Sequence[str]]) -> dict[str, float]:
    rows = [word for words in tables for word in words]
    shares = {word: rows.count(word) / max(1, len(rows)) for word in WORDS}
    return shares | {"any": sum("faster" in words or "slower" in words for words in tables) / len(tables)}


def named(run: str, workload: str) -> tuple[power.Noise, int]:
    """The noise of the run's table, and the launches that a table of `ROWS` rows names for 5 % by it."""
    one = next(each for each in groups(run) if each.workload == workload)
    noise = table_of(one, "pytorch").power.noise
    launches = noise and power.launches_for(noise.deviation, tests=ROWS)
    if noise is None or launches is None:
        raise ValueError(f"run {run} does not say how many launches 5 % takes")
    return noise, launches


def detected(world: World, ratio: float, launches: int, tables: int, seed: int = 0) -> float:
    """The share of tables that call the one row that differs faster."""
    draws, found = np.random.default_rng(seed), 0
    for _ in range(tables):
        rates = world.table(1.0, launches, draws)
        rates[2] *= ratio
        found += judged(rates)[0] == "faster"
    return found / tables


def by_world(tables: int) -> Iterator[str]:
    yield "Verdicts, by the noise of a committed run's launches"
    yield f"{'noise':34}{'ratio':>6}{'n':>4}" + "".join(f"{word:>14}" for word in (*WORDS, "any"))
    for name, world in worlds().items():
        for ratio, launches in ((1.00, 6), (1.00, 20), (1.05, 6), (1.05, 20), (1.05, 40)):
            shares = rates(world, ratio, launches, tables).values()
            yield f"{name:34}{ratio:>6.2f}{launches:>4}" + "".join(f"{share:>14.3f}" for share in shares)


def by_plan(tables: int) -> Iterator[str]:
    yield "Is a true 5 % found with the launches that a table names?"
    yield f"{'noise':18}{'deviation':>10}{'n named':>9}{'found':>9}{'of 6':>8}{'found':>9}"
    for run, workload in PLANNED:
        noise, launches = named(run, workload)
        world, smallest = World(of_launches(run, workload)), power.smallest_difference(noise.deviation, 6, tests=ROWS)
        found, of_six = detected(world, 1.05, launches, tables), detected(world, 1 + (smallest or 0), 6, tables)
        name = f"{run} {workload.partition('_')[2]}"
        yield f"{name:18}{noise.deviation:>10.1%}{launches:>9}{found:>9.3f}{smallest:>8.1%}{of_six:>9.3f}"


PARTS = {"world": by_world, "plan": by_plan}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=2000, help="simulated for each line (default: 2000)")
    parser.add_argument("--by", choices=PARTS, help="one part only")
    options = parser.parse_args(arguments)
    print(f"{options.tables} tables of {ROWS} rows; shares of rows, and of tables with any row faster or slower")
    for name, part in PARTS.items():
        for number, line in enumerate(part(options.tables) if options.by in (None, name) else ()):
            print(f"\n{line}\n" if not number else line, flush=True)


if __name__ == "__main__":
    main()
