"""The optimizers that a spec can name, by their formulas, which every framework's own is held against.

A tensor's own ``decay`` (`workloads.spec.Tensor`) takes the place of their ``l2`` or ``decay``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

#: Fields that were added later, which are no part of a digest where they have these values.
LATER = {
    "schedule": None, "clip_norm": None, "clip_value": None, "decay": None, "nesterov": False, "frozen": False,
    "l2": None,
}  # fmt: skip

#: The factor of the learning rate when a part of the decay is over: of that part, from 0 to 1, and of the last factor.
DECAYS: dict[str, Callable[[float, float], float]] = {
    "constant": lambda *_: 1.0,
    "linear": lambda part, end: 1 + (end - 1) * part,
    "cosine": lambda part, end: end + (1 - end) * (1 + math.cos(math.pi * part)) / 2,  # Loshchilov and Hutter (2017)
    "exponential": lambda part, end: end**part,
}


def as_dict(instance: Any) -> dict[str, Any]:
    """`dataclasses.asdict` without the fields of `LATER` that are not used."""
    return asdict(instance, dict_factory=lambda pairs: {k: v for k, v in pairs if k not in LATER or v is not LATER[k]})


class Rates(tuple[float, ...]):
    """The learning rate of each step by its number; the last one is that of all steps after it too."""

    def __getitem__(self, step: Any) -> Any:
        return super().__getitem__(min(step, len(self) - 1))


@dataclass(frozen=True)
class Schedule:
    """The learning rate of step ``t``, counted from 0, as a factor of the optimizer's.

    It is ``(t + 1) / warmup`` in the first ``warmup`` steps. Then it falls from 1 to ``end`` at step ``steps``, where
    it stays, as ``decay`` says: ``constant``, ``linear``, ``cosine`` or ``exponential``. At each of the ``milestones``
    it is multiplied by ``gamma``, besides. It ends above 0, since a step that moves nothing shows nothing.
    """

    steps: int
    warmup: int = 0
    decay: str = "constant"
    end: float = 0.01
    milestones: tuple[int, ...] = ()
    gamma: float = 0.1

    def __post_init__(self) -> None:
        if self.decay not in DECAYS or not 0 <= self.warmup <= self.steps or min(self.end, self.gamma) <= 0:
            raise ValueError(f"{self}: decay is one of {', '.join(DECAYS)}; 0 <= warmup <= steps; end and gamma > 0")

    def factor(self, step: int) -> float:
        """The factor of a step."""
        part = min(1.0, (step - self.warmup) / max(1, self.steps - self.warmup))
        rising = (step + 1) / self.warmup if step < self.warmup else DECAYS[self.decay](part, self.end)
        return rising * self.gamma ** sum(step >= each for each in self.milestones)


@dataclass(frozen=True, kw_only=True)
class Options:
    """What every optimizer may have besides.

    With ``clip_norm`` all gradients are multiplied by ``min(1, clip_norm / norm)``, with their norm over all trained
    tensors together (Pascanu, Mikolov and Bengio, 2013, algorithm 1). With ``clip_value`` each number of a gradient is
    brought into ``[-clip_value, clip_value]``. Both come before anything else, also before L2.
    """

    schedule: Schedule | None = None
    clip_norm: float | None = None
    clip_value: float | None = None

    def __post_init__(self) -> None:
        if self.clip_norm is not None and self.clip_value is not None:
            raise ValueError("an optimizer has clip_norm or clip_value, not both")

    @property
    def rates(self) -> Rates | None:
        """The learning rates of all steps by the schedule; None without one."""
        if not (schedule := self.schedule):
            return None
        rate = float(getattr(self, "learning_rate"))  # noqa: B009 - each kind declares its own
        return Rates(rate * schedule.factor(step) for step in range(schedule.steps + 1))

    @property
    def has_more(self) -> bool:
        """Whether it is another than `Sgd`, `Adam`, `AdamW`, `Lars` and `Lamb` by themselves."""
        if isinstance(self, RmsProp | Adagrad) or (isinstance(self, Adam) and self.l2):
            return True
        return any(as_dict(self).get(name) for name in LATER.keys() - {"decay", "l2"})

    def decay_of(self, shape: tuple[int, ...]) -> float:
        """The L2 or decay of a tensor of this canonical shape that has none of its own."""
        del shape
        return float(getattr(self, "l2", None) or 0.0)


@dataclass(frozen=True)
class Sgd(Options):
    """``v = momentum * v + (gradient + l2 * w)``, ``w = w - learning_rate * v``: L2 coupled, on every tensor.

    With ``nesterov`` the move is ``learning_rate * (gradient + l2 * w + momentum * v)``, with the new ``v``, as
    PyTorch and optax have it; Keras has the rate within ``v``, which is another optimizer if the rate changes.
    """

    learning_rate: float
    momentum: float
    l2: float
    nesterov: bool = False


@dataclass(frozen=True)
class Adam(Options):
    """Kingma and Ba (2015), algorithm 1: epsilon is added after the bias correction, as PyTorch and optax have it.

    With ``l2`` both moments are those of ``gradient + l2 * w``: L2 coupled, on every tensor, as PyTorch's Adam has it,
    and optax with `add_decayed_weights` before Adam; `AdamW` has its ``decay`` instead.
    """

    learning_rate: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    l2: float | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class AdamW(Adam):
    """Loshchilov and Hutter (2019): ``w = w - learning_rate * (step of Adam + decay * w)``, the decay decoupled.

    As is usual, only tensors with two canonical axes or more decay: kernels and tables, no bias and no scale.
    """

    decay: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.l2 is not None:
            raise ValueError("AdamW has a decay and no l2; write Adam for L2 in the gradient")

    def decay_of(self, shape: tuple[int, ...]) -> float:
        return self.decay if len(shape) > 1 else 0.0


@dataclass(frozen=True)
class RmsProp(Options):
    """Tieleman and Hinton (2012, lecture 6.5): ``s = rho * s + (1 - rho) * g**2`` with ``g = gradient + l2 * w``,
    ``v = momentum * v + g / (sqrt(s) + epsilon)``, ``w = w - learning_rate * v``; ``s`` and ``v`` start at 0.

    The lecture has neither ``epsilon`` nor momentum; they are where PyTorch has them. Keras and optax have epsilon
    under the root, and the rate within ``v``.
    """

    learning_rate: float = 1e-3
    rho: float = 0.9
    epsilon: float = 1e-8
    momentum: float = 0.0
    l2: float = 0.0


@dataclass(frozen=True)
class Adagrad(Options):
    """Duchi, Hazan and Singer (2011, figure 1, diagonal): ``s = s + g**2`` with ``g = gradient + l2 * w``,
    ``w = w - learning_rate * g / (sqrt(s) + epsilon)``.

    ``s`` starts at ``start``: 0 in the paper and in PyTorch, 0.1 in Keras and optax, which have epsilon under the root.
    """

    learning_rate: float = 1e-2
    epsilon: float = 1e-10
    start: float = 0.0
    l2: float = 0.0


@dataclass(frozen=True)
class Lars(Options):
    """You, Gitman and Ginsburg (2017, arXiv 1708.03888), algorithm 1, for each tensor ``w`` with norms over all of it:
    ``local = coefficient * |w| / (|gradient| + l2 * |w|)``,
    ``v = momentum * v + learning_rate * local * (gradient + l2 * w)``, ``w = w - v``.

    The paper leaves open what a tensor of zeros does, as every bias is at its start, which would never move: where
    either norm is zero, ``local`` is the coefficient alone.
    """

    learning_rate: float
    momentum: float = 0.9
    l2: float = 5e-4
    coefficient: float = 1e-3


@dataclass(frozen=True)
class Lamb(Options):
    """You et al. (2020, arXiv 1904.00962), algorithm 2, for each tensor ``w`` with norms over all of it:
    ``u = m / (sqrt(s) + epsilon) + decay * w``, ``w = w - learning_rate * |w| / |u| * u``.

    ``m`` and ``s`` are Adam's moments with the bias correction. The paper's function of ``|w|`` is the identity, as in
    its experiments. Where either norm is zero, as of a bias at its start, their quotient counts as 1.
    """

    learning_rate: float
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-6
    decay: float = 0.01

    def decay_of(self, shape: tuple[int, ...]) -> float:
        del shape
        return self.decay


#: The optimizers that scale each tensor's move by its norm.
LAYERWISE = (Lars, Lamb)

Optimizer = Sgd | Adam | RmsProp | Adagrad | Lars | Lamb
