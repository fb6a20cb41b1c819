"""How often does a bisection over releases find the right one? ``python -m tests.studies.bisect`` simulates and prints.

Eight releases, one of which made everything slower that comes after it. Each launch has the noise of one committed
launch, drawn with replacement from the rows of its run and workload, so that releases scatter as cells do. The search
is that of `suite.bisect`, with its risk of 5 %.

*Right* is the planted release, *wrong* another one; else the search has not decided within the blocks of each step.
"""

# ruff: noqa: T201 - a command that prints

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from suite.bisect.search import Bisection
from tests.studies.significance import residuals

RELEASES = 8
#: The committed runs and workloads whose noise is drawn.
NOISE = (("0005", "cifar100_cnn"), ("0005", "imdb_lstm"), ("0023", "imdb_lstm"))
#: Throughput after the planted release, as a share of that before it.
SLOWER = (1.0, 0.95, 0.9, 0.8, 0.6)

RIGHT, WRONG, UNDECIDED = "right", "wrong", "undecided"


@dataclass(frozen=True)
class World:
    """The noise of cells (cells, launches) in logarithms, and the throughput of a slow release."""

    noise: np.ndarray
    slower: float

    def search(self, first_slow: int, draws: np.random.Generator) -> Bisection:
        """A search whose launches are drawn."""

        def measure(places: Sequence[int], _: int) -> dict[int, float]:
            rates = {}
            for place in places:
                pool = self.noise[place % len(self.noise)]
                rates[place] = (self.slower if place >= first_slow else 1.0) * float(np.exp(draws.choice(pool)))
            return rates

        return Bisection([f"0.{place}" for place in range(RELEASES)], measure)


def outcome(world: World, draws: np.random.Generator) -> tuple[str, int]:
    """How one search ended, and its blocks. Where nothing was planted, finding nothing is right."""
    planted = int(draws.integers(1, RELEASES))
    search = world.search(planted, draws)
    found = search.go()
    if world.slower == 1.0:
        return WRONG if found else RIGHT, search.blocks
    if found:
        return RIGHT if search.bad == planted else WRONG, search.blocks
    return (UNDECIDED if search.good < planted <= search.bad else WRONG), search.blocks


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulate searches in all worlds, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--searches", type=int, default=200, metavar="N")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    options = parser.parse_args(arguments)
    print(f"{'noise':24}{'slower':>8}{RIGHT:>8}{WRONG:>8}{UNDECIDED:>11}{'blocks':>8}")
    for run, workload in NOISE:
        for slower in SLOWER:
            world, draws = World(residuals(run, workload), slower), np.random.default_rng(options.seed)
            ended = [outcome(world, draws) for _ in range(options.searches)]
            counts, blocks = Counter(word for word, _ in ended), np.mean([blocks for _, blocks in ended])
            shares = "".join(f"{counts[word]:{width}}" for word, width in ((RIGHT, 8), (WRONG, 8), (UNDECIDED, 11)))
            print(f"{f'{run} {workload}':24}{slower:8}{shares}{blocks:8.1f}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
