"""The optimizers that a spec can name, by their formulas, which every framework's own is held against."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sgd:
    """``v = momentum * v + (gradient + l2 * w)``, ``w = w - learning_rate * v``: L2 coupled, on every tensor."""

    learning_rate: float
    momentum: float
    l2: float


@dataclass(frozen=True)
class Adam:
    """Kingma and Ba (2015), algorithm 1: epsilon is added after the bias correction, as PyTorch and optax have it."""

    learning_rate: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8


@dataclass(frozen=True)
class AdamW(Adam):
    """Loshchilov and Hutter (2019): ``w = w - learning_rate * (step of Adam + decay * w)``, the decay decoupled.

    As is usual, only tensors with two axes or more decay: kernels and tables, no bias and no scale.
    """

    decay: float = 0.01


@dataclass(frozen=True)
class Lars:
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
class Lamb:
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


#: The optimizers that scale each tensor's move by its norm.
LAYERWISE = (Lars, Lamb)

Optimizer = Sgd | Adam | Lars | Lamb
