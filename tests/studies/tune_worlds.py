"""Simulated machines for `tests.studies.tune`: committed noise, effects of committed cells, drift, outliers, speeds."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from tests.studies.significance import CONTROL, of_launches, throughputs

#: The cells of a search, and how many of them lie within `NEAR` of the best.
CELLS, CLOSE, NEAR = 24, 3, 0.03
#: Cells that were measured at another time lie a little beside the committed ones.
JITTER = 0.02
OUTLIER, HALF = 0.7, 0.5
#: A process that runs at the lower of two speeds (TensorFlow's LSTM step: 443 and 514 samples/s).
SLOW, SLOW_SHARE = 0.86, 0.3
#: Blocks that a search can have at most here.
BLOCKS = 30

Values = np.ndarray


@cache
def effects(run: str, workload: str) -> tuple[float, ...]:
    """The logarithms of the throughputs of a committed run's cells over that of the best one."""
    rows = {name: rates for name, rates in throughputs(run, workload).items() if not name.endswith(CONTROL)}
    logs = [np.mean([math.log(rate) for rate in rates.values()]) for rates in rows.values()]
    return tuple(float(each - max(logs)) for each in logs)


@dataclass(frozen=True)
class World:
    """What launches and cells are like.

    ``noise`` are residuals to draw from, ``pool`` the effects to draw from. The machine ends the full matrix slower by
    ``drift`` than it began it, a launch is an outlier with the chance ``outliers``, which runs at ``outlier`` of its
    speed, and of the cells of the share ``fickle`` every third process runs at the lower of two speeds.
    """

    noise: tuple[float, ...]
    pool: tuple[float, ...]
    drift: float = 0.0
    outliers: float = 0.0
    outlier: float = OUTLIER
    fickle: float = 0.0

    def search(self, draws: np.random.Generator) -> Search:
        logs = draws.choice(self.pool, CELLS) + draws.normal(0, JITTER, CELLS)
        logs = np.minimum(logs, -math.log1p(NEAR))
        logs[:CLOSE] = -np.log1p(draws.uniform(0, NEAR, CLOSE))
        logs[0] = 0.0
        noise = draws.choice(self.noise, (BLOCKS, CELLS))
        noise += np.where(draws.random(noise.shape) < self.outliers, math.log(self.outlier), 0.0)
        fickle = draws.random(CELLS) < self.fickle
        noise += np.where(fickle & (draws.random(noise.shape) < SLOW_SHARE), math.log(SLOW), 0.0)
        truth = logs + fickle * SLOW_SHARE * math.log(SLOW)
        order = draws.permutation(CELLS)
        return Search(truth[order], (logs + noise)[:, order], self.drift, draws)


@dataclass
class Search:
    """One search: the true means of its cells, and their launches; ``seen`` (blocks, cells) are those made so far."""

    truth: Values
    rates: Values
    drift: float
    draws: np.random.Generator
    launched: int = 0
    seen: Values = field(default_factory=lambda: np.empty((0, CELLS)))

    def block(self, number: int, alive: Values) -> Values:
        """The scores of a block, NaN for cells that are out."""
        cells = self.draws.permutation(np.flatnonzero(alive))
        scores = np.full(CELLS, np.nan)
        moments = (self.launched + np.arange(len(cells))) / (6 * CELLS)
        scores[cells] = self.rates[number, cells] + np.log1p(-self.drift * np.minimum(moments, 1.0))
        self.launched += len(cells)
        self.seen = np.vstack([self.seen, scores])
        return scores


SOURCES = (("0005", "cifar100_cnn"), ("0005", "imdb_lstm"), ("0003", "cifar100_cnn"), ("0003", "imdb_lstm"),
           ("0010", "cifar100_cnn"))  # fmt: skip


def worlds() -> dict[str, World]:
    """By name: the noise of each committed run as it is, with drift, with outliers, and with two speeds.

    The effects are those of 0003, which has the most cells; 0005 and 0010 are of full size, and lend their noise.
    """
    made = {}
    for run, workload in SOURCES:
        noise, pool = of_launches(run, workload), effects("0003", workload)
        name = f"{run} {workload.partition('_')[2]}"
        made[name] = World(noise, pool)
        made[f"{name}, drift 20 %"] = World(noise, pool, drift=0.2)
        made[f"{name}, outliers 5 %"] = World(noise, pool, outliers=0.05)
        made[f"{name}, every tenth half as fast"] = World(noise, pool, outliers=0.1, outlier=HALF)
        made[f"{name}, two speeds"] = World(noise, pool, fickle=0.3)
    return made
