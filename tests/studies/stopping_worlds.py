"""What launches are like in the simulations of `tests.studies.stopping`: the noise of every committed run, and more."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from suite.plan.measuring import FIRST_LOOK
from tests.published import RUNS
from tests.studies.significance import KEPT, NOISE, OUTLIER, groups, residuals

FRAMEWORKS, BATCHES = ("pytorch", "tensorflow", "jax"), (32, 64)
#: Fewer rows, or fewer launches of each, say little of their noise.
LEAST_ROWS, LEAST_BLOCKS = 2, FIRST_LOOK

Cell = tuple[int, int, str]  # workload, batch, framework
Values = np.ndarray


def cells() -> list[Cell]:
    """The cells of an answer: three frameworks at two batch sizes of two workloads."""
    return [(workload, batch, name) for workload, batch, name in product((0, 1), BATCHES, FRAMEWORKS)]


@dataclass(frozen=True)
class World:
    """The noise (rows, launches) of each workload's cells, and what else may happen to launches.

    ``drift`` slows the machine by that share until the last block, ``outliers`` is the share of launches that are 30 %
    slow, ``speeds`` the loss of processes of the slower of two speeds, which every second one has.
    """

    noise: tuple[Values, Values]
    drift: float = 0.0
    outliers: float = 0.0
    speeds: float = 0.0

    def logarithms(self, true: Values, answers: int, blocks: int, draws: np.random.Generator) -> Values:
        """Logarithms of throughputs (answers, cells, blocks), given those of the true ones (cells,)."""
        made = np.empty((answers, len(true), blocks))
        for index, (workload, *_) in enumerate(cells()):
            pool = self.noise[workload]
            made[:, index] = _redraw(pool[index % len(pool)], (answers, blocks), draws)
        made += true[:, None]
        if self.outliers:
            made += np.where(draws.random(made.shape) < self.outliers, np.log(OUTLIER), 0.0)
        if self.speeds:
            made += np.where(draws.random(made.shape) < 0.5, np.log1p(-self.speeds), 0.0)
        if self.drift:
            moments = (np.arange(blocks) + draws.random(made.shape)) / blocks
            made += np.log1p(-self.drift * moments)
        return made


def _redraw(residuals: Values, shape: tuple[int, int], draws: np.random.Generator) -> Values:
    """A smoothed bootstrap of one cell's residuals (launches,), of the same deviation.

    A few launches that are drawn again as they are repeat themselves, as no launches do. Each draw is moved by a normal
    one of Silverman's width, and all are shrunk towards their mean, which is zero (Silverman and Young, "The bootstrap:
    to smooth or not to smooth?", Biometrika 74, 1987). That makes tails lighter, about half as heavy with ten launches.
    """
    width = 1.06 * len(residuals) ** -0.2
    moved = draws.choice(residuals, shape) + width * residuals.std() * draws.standard_normal(shape)
    drawn: Values = moved / np.sqrt(1 + width**2)
    return drawn


def sources() -> dict[str, tuple[Values, Values]]:
    """The noise of each committed run's timed cells; a run of one workload lends it to both of an answer."""
    found = {}
    for run in [*sorted({name[:4] for name in RUNS}), *KEPT]:
        noise = [each for workload in _workloads(run) if (each := _noise(run, workload)) is not None]
        if noise:
            found[run] = noise[0], noise[-1]
    return found


def _workloads(run: str) -> list[str]:
    if run in KEPT:
        lines = NOISE.read_text(encoding="utf-8").splitlines()
        return sorted({line.split(",")[1] for line in lines if line.startswith(f"{run},")})
    timed = (one.workload for one in groups(run) if not any(row.cell.recipe for row in one.rows))
    return list(dict.fromkeys(timed))  # of one with two sizes, the first table is taken


def _noise(run: str, workload: str) -> Values | None:
    """The residuals of the rows that have a launch in each block; None where there are too few."""
    values = residuals(run, workload)
    rows, blocks = values.shape
    return values if rows >= LEAST_ROWS and blocks >= LEAST_BLOCKS else None


def _normal(noise: Values) -> Values:
    """Normal noise of each cell's own deviation."""
    deviations = np.sqrt((noise**2).mean(axis=1))
    drawn: Values = np.random.default_rng(5).standard_normal((len(noise), 20_000)) * deviations[:, None]
    return drawn


def worlds(noise: tuple[Values, Values]) -> dict[str, World]:
    """A run's noise, and with what else may happen."""
    world = World(noise)
    return {
        "smoothed": world,
        "drift 20 %": replace(world, drift=0.2),
        "outliers 5 %": replace(world, outliers=0.05),
        "two speeds (20 %)": replace(world, speeds=0.2),
        "normal": replace(world, noise=(_normal(noise[0]), _normal(noise[1]))),
    }
