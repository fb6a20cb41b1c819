"""How often is a run wrong that stops when it is decided, and how soon does it stop? It is simulated and printed.

Simulates whole answers: three frameworks at two batch sizes of two workloads, so that twelve pairs are tested together.
Each cell has the noise of one committed launch after another, drawn with replacement from its own run and workload.
Every run is looked at after each block, as a real one is, and a cell takes part until all its pairs are decided. The
fixed design, six launches of each cell, is run on the same draws. `python -m tests.studies.stopping` prints it all.

An answer is *wrong* if any pair without a difference is called faster or slower, or equal where it differs by more than
the margin; the *wrong side* is faster in place of slower. Each share has its simulation error.
"""

# ruff: noqa: T201 - a command that prints

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product

import numpy as np

from suite.analysis.statistics.inference import MARGIN, paired, verdicts
from suite.analysis.statistics.sequential import Design, looks
from suite.analysis.statistics.two_way import fit
from tests.studies.significance import OUTLIER, residuals

#: The committed runs whose noise is drawn: one for each workload of an answer.
RUNS = {
    "0005": (("0005", "cifar100_cnn"), ("0005", "imdb_lstm")),
    "0011 and 0014": (("0011", "cifar100_cnn"), ("0014", "imdb_lstm")),
    "0023": (("0023", "cifar100_cnn"), ("0023", "imdb_lstm")),
}
FRAMEWORKS, BATCHES = ("pytorch", "tensorflow", "jax"), (32, 64)
#: Ratios of throughput to PyTorch's in the committed answers, roughly: those of the CNN, then of the LSTM.
REAL = ({"pytorch": 1.0, "tensorflow": 1.0, "jax": 0.6}, {"pytorch": 1.0, "tensorflow": 0.55, "jax": 0.5})
#: Seconds of a launch that times its training alone.
LAUNCH_S = 10.0
FIXED = 6
UNDECIDED = "inconclusive"

Cell = tuple[int, int, str]  # workload, batch, framework
Pair = tuple[Cell, Cell]
Values = np.ndarray


@dataclass(frozen=True)
class World:
    """The noise of each workload's cells, and what else may happen to launches.

    ``drift`` slows the machine by that share until the last block, ``outliers`` is the share of launches that are 30 %
    slow, ``speeds`` the loss of processes of the slower of two speeds, which every second one has.
    """

    noise: tuple[Values, Values]
    drift: float = 0.0
    outliers: float = 0.0
    speeds: float = 0.0

    def rates(self, true: Mapping[Cell, float], blocks: int, draws: np.random.Generator) -> dict[Cell, Values]:
        """Throughputs (blocks,) of each cell."""
        rates = {}
        for index, (cell, rate) in enumerate(true.items()):
            pool = self.noise[cell[0]]
            values = rate * np.exp(draws.choice(pool[index % len(pool)], blocks))
            values *= np.where(draws.random(blocks) < self.outliers, OUTLIER, 1.0)
            values *= np.where(draws.random(blocks) < 0.5, 1 - self.speeds, 1.0)
            moments = (np.arange(blocks) + draws.random(blocks)) / blocks
            rates[cell] = values * (1 - self.drift * moments)
        return rates


@dataclass
class Tally:
    """What became of the runs of one world: counts of answers, and sums."""

    runs: int = 0
    wrong: int = 0
    wrong_side: int = 0
    decided: float = 0.0
    launches: float = 0.0
    bias: float = 0.0

    def line(self) -> str:
        share, launches = self.wrong / self.runs, self.launches / self.runs
        error = math.sqrt(share * (1 - share) / self.runs)
        return (
            f"{share:8.1%} +-{error:5.1%}{self.wrong_side / self.runs:8.2%}{self.decided / self.runs:8.1f}"
            f"{launches:10.1f}{launches * LAUNCH_S / 60:9.1f}{self.bias / self.runs:9.2%}"
        )


def cells() -> list[Cell]:
    return [(workload, batch, name) for workload, batch, name in product((0, 1), BATCHES, FRAMEWORKS)]


def pairs() -> list[Pair]:
    """The contests of an answer: each two frameworks in each setting."""
    settings = product((0, 1), BATCHES)
    return [((*at, first), (*at, second)) for at in settings for first, second in combinations(FRAMEWORKS, 2)]


def sequential(rates: Mapping[Cell, Values], design: Design) -> dict[Pair, tuple[str, int, float]]:
    """Verdict, blocks and ratio of each pair by the stopped design, as of the look at which it was decided."""
    logs = {(a, b): dict(enumerate(np.log(rates[a] / rates[b]).tolist())) for a, b in pairs()}
    common = {0: {}, 1: {}}
    for workload, block in product((0, 1), range(design.first - 1, design.most)):
        scores = np.log([rates[cell][: block + 1] for cell in cells() if cell[0] == workload]).T
        common[workload][block] = 2 * fit(scores).deviation ** 2
    tests = {pair: looks(each, common[pair[0][0]], design) for pair, each in logs.items()}
    found: dict[Pair, tuple[str, int, float]] = {}
    for at, count in enumerate(design.looks):
        words = verdicts([each[at] for each in tests.values()])
        for (pair, each), word in zip(tests.items(), words, strict=True):
            if found.get(pair, (UNDECIDED,))[0] == UNDECIDED:
                found[pair] = word, count, each[at].value
    return found


def fixed(rates: Mapping[Cell, Values], _: Design) -> dict[Pair, tuple[str, int, float]]:
    """The same by six launches of each cell."""
    tests = {(a, b): paired((rates[a] / rates[b])[:FIXED].tolist()) for a, b in pairs()}
    known = {pair: test for pair, test in tests.items() if test}
    words = verdicts(list(known.values()))
    return {pair: (word, FIXED, known[pair].value) for pair, word in zip(known, words, strict=True)}


def judge(tally: Tally, found: Mapping[Pair, tuple[str, int, float]], true: Mapping[Cell, float]) -> None:
    """Add one run to the tally."""
    differences = {(a, b): math.log(true[a] / true[b]) for a, b in found}
    tally.runs += 1
    tally.wrong += any(_is_wrong(word, differences[pair]) for pair, (word, *_) in found.items())
    tally.wrong_side += any(
        (word == "faster" and differences[pair] < 0) or (word == "slower" and differences[pair] > 0)
        for pair, (word, *_) in found.items()
    )
    tally.decided += sum(word != UNDECIDED for word, *_ in found.values())
    tally.launches += sum(max(blocks for pair, (_, blocks, _) in found.items() if cell in pair) for cell in cells())
    real = [
        (math.log(value) - differences[pair]) * math.copysign(1, differences[pair])
        for pair, (word, _, value) in found.items()
        if word in ("faster", "slower") and differences[pair]
    ]
    tally.bias += float(np.mean(real)) if real else 0.0


def _is_wrong(word: str, difference: float) -> bool:
    if word == "equal":
        return abs(difference) > math.log1p(MARGIN)
    return word in ("faster", "slower") and not difference


def run(world: World, true: Mapping[Cell, float], design: Design, runs: int, seed: int = 0) -> dict[str, Tally]:
    """Many runs of one world, by both designs on the same draws."""
    draws, tallies = np.random.default_rng(seed), {"sequential": Tally(), "six launches": Tally()}
    for _ in range(runs):
        rates = world.rates(true, design.most, draws)
        judge(tallies["sequential"], sequential(rates, design), true)
        judge(tallies["six launches"], fixed(rates, design), true)
    return tallies


def truths() -> dict[str, dict[Cell, float]]:
    """The true throughputs of the cells, by the name of what differs."""
    return {
        "nothing differs": dict.fromkeys(cells(), 1.0),
        "one in each setting by 5 %": {cell: 1.05 if cell[2] == "jax" else 1.0 for cell in cells()},
        "one in each setting by 20 %": {cell: 1.2 if cell[2] == "jax" else 1.0 for cell in cells()},
        "as in the committed runs": {cell: REAL[cell[0]][cell[2]] for cell in cells()},
    }


def _normal(noise: Values) -> Values:
    """Normal noise of each cell's own deviation: a few residuals, drawn again, repeat themselves as no launches do."""
    deviations = np.sqrt((noise**2).mean(axis=1))
    drawn: Values = np.random.default_rng(5).standard_normal((len(noise), 20_000)) * deviations[:, None]
    return drawn


def worlds(name: str) -> dict[str, World]:
    """The noise of these committed runs as it is, and with what else may happen."""
    first, second = (residuals(*each) for each in RUNS[name])
    world = World((first, second))
    return {
        name: world,
        f"{name}, drift 20 %": replace(world, drift=0.2),
        f"{name}, outliers 5 %": replace(world, outliers=0.05),
        f"{name}, two speeds (20 %)": replace(world, speeds=0.2),
        f"{name}, normal": replace(world, noise=(_normal(first), _normal(second))),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000, help="simulated for each line (default: 1000)")
    parser.add_argument("--first", type=int, default=Design.first, help=f"first look (default: {Design.first})")
    options = parser.parse_args(arguments)
    design = Design(first=options.first)
    print(f"{options.runs} answers of {len(pairs())} pairs each; looks after block {design.first} to {design.most}")
    print(
        f"{'noise':28}{'design':14}{'wrong':>8}{'':>8}{'side':>8}{'decided':>8}{'launches':>10}{'minutes':>9}{'bias':>9}"
    )
    for what, true in truths().items():
        print(f"\n{what}")
        for name in RUNS:
            for label, world in worlds(name).items():
                for kind, tally in run(world, true, design, options.runs).items():
                    print(f"{label:28}{kind:14}{tally.line()}", flush=True)


if __name__ == "__main__":
    main()
