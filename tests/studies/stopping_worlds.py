"""What launches are like in the simulations of `tests.studies.stopping`: the noise of every committed run, and more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from scipy import special

from suite.plan.measuring import FIRST_LOOK
from tests.published import RUNS
from tests.studies.significance import KEPT, NOISE, OUTLIER, groups, residuals

FRAMEWORKS, BATCHES = ("pytorch", "tensorflow", "jax"), (32, 64)
#: Fewer rows, or fewer launches of each, say little of their noise.
LEAST_ROWS, LEAST_BLOCKS = 2, FIRST_LOOK

Cell = tuple[int, int, str]  # workload, batch, framework
Values = np.ndarray
#: What is added to logarithms of the given shape.
Disturbance = Callable[[tuple[int, ...], np.random.Generator], Values]


def cells() -> list[Cell]:
    """The cells of an answer: three frameworks at two batch sizes of two workloads."""
    return [(workload, batch, name) for workload, batch, name in product((0, 1), BATCHES, FRAMEWORKS)]


@dataclass(frozen=True)
class World:
    """The noise (rows, launches) of each workload's cells, and what else may happen to launches.

    ``drift`` slows the machine by that share until the last block, ``outliers`` is the share of launches that are 30 %
    slow, ``speeds`` the loss of processes of the slower of two speeds, which every second one has, and
    ``disturbance`` one of `DISTURBANCES`.
    """

    noise: tuple[Values, Values]
    drift: float = 0.0
    outliers: float = 0.0
    speeds: float = 0.0
    disturbance: str = ""

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
        return made + self.disturb(made.shape, draws)[..., 0] if self.disturbance else made

    def disturb(self, shape: tuple[int, ...], draws: np.random.Generator) -> Values:
        """What disturbance adds to logarithms (answers, cells, blocks, 2): to launches, and to their repeats."""
        return DISTURBANCES[self.disturbance]((*shape, 2), draws)


def _slow(shape: tuple[int, ...], draws: np.random.Generator) -> Values:
    """Launches that are 30 to 60 % slow."""
    return np.log(draws.uniform(0.4, 0.7, shape))


def _one_in(share: float, of: Values | float = 1.0) -> Disturbance:
    """That share of the launches is slow, of all cells or of those of one framework."""
    return lambda shape, draws: np.where(draws.random(shape) < share * of, _slow(shape, draws), 0.0)


def _start_cold(shape: tuple[int, ...], draws: np.random.Generator) -> Values:
    """The first launch of each cell is slow."""
    slow = _slow(shape, draws)
    slow[:, :, 1:], slow[..., 1] = 0.0, 0.0
    return slow


def _in_order(of_moments: Values, shape: tuple[int, ...], draws: np.random.Generator) -> Values:
    """What holds at successive moments (answers, moments), for launches in a random order within their blocks."""
    answers, cells, blocks, _ = shape
    held = of_moments.reshape(answers, blocks, 2, cells)  # a block's repeats follow its launches
    order = np.argsort(draws.random((answers, blocks, 1, cells)), axis=-1)
    return np.take_along_axis(held, np.broadcast_to(order, held.shape), -1).transpose(0, 3, 1, 2)


def _burst(shape: tuple[int, ...], draws: np.random.Generator) -> Values:
    """Slow stretches of 2.5 launches on average, a fifth of the time; each launch meets a part of them."""
    moments = np.empty((shape[0], shape[1] * shape[2] * 2))
    on = draws.random(shape[0]) < 0.2
    for at in range(moments.shape[1]):
        moments[:, at] = on
        on = np.where(on, draws.random(shape[0]) < 0.6, draws.random(shape[0]) < 0.1)
    depth = draws.uniform(0.2, 0.6, (shape[0], 1)) * draws.uniform(0.3, 1.0, moments.shape)
    return _in_order(np.log1p(-depth * moments), shape, draws)


def _steal(shape: tuple[int, ...], draws: np.random.Generator) -> Values:
    """The host takes 16 % of the time on average, and much the same of launches that follow each other."""
    moments = np.empty((shape[0], shape[1] * shape[2] * 2))
    state = draws.standard_normal(shape[0])
    for at in range(moments.shape[1]):
        moments[:, at] = state
        state = 0.8 * state + 0.6 * draws.standard_normal(shape[0])
    return _in_order(np.log1p(-special.betaincinv(1.5, 7.9, special.ndtr(moments))), shape, draws)


def _two_speeds(shape: tuple[int, ...], draws: np.random.Generator) -> Values:
    """Processes of one framework run at two speeds 20 % apart, and are as fast as others on average."""
    return np.where(draws.random(shape) < 0.5, 0.1, -0.1) * JAX


#: The cells of one framework (cells, 1, 1).
JAX = np.array([[[float(name == "jax")]] for _, _, name in cells()])
DISTURBANCES: dict[str, Disturbance] = {
    "one in ten slow": _one_in(0.1),
    "one in ten slow, of JAX alone": _one_in(0.1, JAX),
    "one in five slow, of JAX alone": _one_in(0.2, JAX),
    "bursts": _burst,
    "steal": _steal,
    "cold starts": _start_cold,
    "two speeds of JAX alone": _two_speeds,
}
#: The runs whose noise is disturbed: a quiet one, an ordinary one, and the noisiest.
DISTURBED = ("0005", "0032", "0017")


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


def disturbed(noise: tuple[Values, Values]) -> dict[str, World]:
    """A run's noise with each disturbance, none of which is flagged."""
    return {name: World(noise, disturbance=name) for name in DISTURBANCES}


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
