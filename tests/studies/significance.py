"""How often does a table say "faster" where nothing is? ``python -m tests.studies.significance`` simulates and prints.

Every table has six rows besides the baseline's, every launch a noise of its own, and the whole goes through the same
functions as real launches: ratios by block, A/A control, test, Holm, margin, verdict. Wilcoxon's and the sign test are
run beside the t-test on the same draws.
"""

# ruff: noqa: T201 - a command that prints

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from suite.analysis.statistics import LEVEL, holm, margin, paired, verdict

ROWS = 6

Values = np.ndarray


@dataclass(frozen=True)
class World:
    """What launches are like: relative noise, a drift over the run that all share, and how many are outliers."""

    noise: float = 0.01
    drift: float = 0.0
    outliers: float = 0.0

    def table(self, ratio: float, launches: int, draws: np.random.Generator) -> Values:
        """Throughputs (2 + ROWS, launches): the baseline, its second copy, and rows ``ratio`` times as fast."""
        means = np.array([1.0, 1.0, *[ratio] * ROWS])[:, None]
        made = means * np.exp(self.noise * draws.standard_normal((2 + ROWS, launches)))
        made *= 1 + self.drift * np.linspace(0, 1, launches)
        return made * np.where(draws.random(made.shape) < self.outliers, 0.7, 1.0)


WORLDS = {
    "noise 1 %": World(),
    "noise 5 %": World(noise=0.05),
    "drift 20 %": World(drift=-0.2),
    "outliers 5 %": World(outliers=0.05),
}
TESTS: dict[str, Callable[[Values], float]] = {
    "t": lambda logs: float(stats.ttest_1samp(logs, 0).pvalue),
    "Wilcoxon": lambda logs: float(stats.wilcoxon(logs).pvalue),
    "sign": lambda logs: float(stats.binomtest(int((logs > 0).sum()), len(logs)).pvalue),
}


def verdicts(table: Values) -> list[str]:
    """The verdicts of a simulated table's rows, as `suite.compare` reaches them."""
    baseline, control, *rows = table
    apart = margin((control / baseline).tolist())
    found = [made for row in rows if (made := paired((row / baseline).tolist()))]
    return [verdict(one, p, apart) for one, p in zip(found, holm([one.p for one in found]), strict=True)]


def rates(world: World, ratio: float, launches: int, tables: int, seed: int = 0) -> dict[str, float]:
    """Shares over many tables: of rows by verdict, and of tables with any row that is called faster or slower."""
    draws = np.random.default_rng(seed)
    told = [verdicts(world.table(ratio, launches, draws)) for _ in range(tables)]
    rows = [word for one in told for word in one]
    shares = {word: rows.count(word) / max(1, len(rows)) for word in ("faster", "equal", "inconclusive", "slower")}
    return shares | {"any": sum("faster" in one or "slower" in one for one in told) / tables}


def significant(name: str, ratio: float, launches: int, tables: int) -> float:
    """The share of tables with any row below the level after Holm, by a test alone: no margin."""
    draws, count = np.random.default_rng(0), 0
    for _ in range(tables):
        baseline, _, *rows = WORLDS["noise 1 %"].table(ratio, launches, draws)
        count += min(holm([TESTS[name](np.log(row / baseline)) for row in rows])) < LEVEL
    return count / tables


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=2000, help="simulated for each line (default: 2000)")
    options = parser.parse_args(arguments)
    print(f"{options.tables} tables of {ROWS} rows; shares of rows, and of tables with any row faster or slower\n")
    print(f"{'world':14}{'ratio':>6}{'n':>4}{'faster':>9}{'equal':>9}{'inconcl.':>9}{'slower':>9}{'any':>9}")
    for name, world in WORLDS.items():
        for ratio in (1.00, 1.01, 1.05, 1.30):
            for launches in (6, 10):
                found = rates(world, ratio, launches, options.tables)
                figures = "".join(f"{share:>9.3f}" for share in found.values())
                print(f"{name:14}{ratio:>6.2f}{launches:>4}{figures}", flush=True)
    print("\nany row significant after Holm, by the test alone (noise 1 %)\n")
    print(f"{'ratio':>6}{'n':>4}" + "".join(f"{name:>10}" for name in TESTS))
    for ratio in (1.00, 1.05):
        for launches in (6, 10):
            shares = "".join(f"{significant(name, ratio, launches, options.tables // 4):>10.3f}" for name in TESTS)
            print(f"{ratio:>6.2f}{launches:>4}{shares}", flush=True)


if __name__ == "__main__":
    main()
