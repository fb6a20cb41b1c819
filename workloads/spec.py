"""What a workload is, before any framework: tensors, initial weights, hyperparameters, FLOPs.

Canonical layouts, from which each framework maps in and out:

* convolution kernels ``(height, width, in, out)``, dense kernels ``(in, out)`` with the input flattened from
  ``(height, width, channel)``, embeddings ``(vocabulary, width)``;
* LSTM kernels ``(in, 4 * units)`` and ``(units, 4 * units)`` with the gates in the order input, forget, cell, output,
  and one bias ``(4 * units,)``;
* a projection to queries, keys and values is one dense kernel ``(in, 3 * width)``, the three one after the other, each
  with the heads in their order.
"""

from __future__ import annotations

import hashlib
import json
import math
import zlib
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path

import numpy as np

from workloads import registry
from workloads.data.dataset import Array
from workloads.faults import FAULTS, explained

WORKLOADS = ("cifar100_cnn", "cifar100_resnet18", "imdb_lstm", "imdb_transformer")


@dataclass(frozen=True)
class Tensor:
    """A trained tensor: canonical name and shape, and how it starts.

    It starts at ``offset`` plus uniform draws in ``[-bound, bound)``; ``offset`` counts from index ``offset_from`` to
    ``offset_to`` of the last axis only (the forget gate's bias of an LSTM).
    """

    name: str
    shape: tuple[int, ...]
    bound: float = 0.0
    offset: float = 0.0
    offset_from: int = 0
    offset_to: int = 0

    @property
    def parameters(self) -> int:
        return math.prod(self.shape)


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


class UnavailableKernelError(ValueError):
    """A kernel that a framework does not have for these numbers on this device; the launch ends as unsupported."""


@dataclass(frozen=True)
class Numbers:
    """Floating-point types by NumPy's names: those that layers compute in, and those of the weights."""

    compute: str = "float32"
    weights: str = "float32"


@dataclass(frozen=True)
class WorkloadSpec:
    """What all workloads have in common. The subclasses in ``workloads/*/spec.py`` add the architecture."""

    name: str
    size: str
    data: str  # name of the data set
    optimizer: Optimizer
    batch: int  # the study's; a cell's own batch goes before it

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        raise NotImplementedError

    @property
    def flops_per_sample(self) -> int:
        """FLOPs of one sample's forward pass: two per multiply-add of convolutions and products, nothing else."""
        raise NotImplementedError

    @property
    def flops_by_kind(self) -> dict[str, int]:
        """The same by kind: ``convolution``, ``matrix product`` and ``recurrence``, which add up to all of them.

        Empty for a workload that does not say; then a roofline shows its whole step only.
        """
        return {}

    @property
    def training_flops_per_sample(self) -> int:
        """Forward plus backward, by the usual convention that the backward pass costs twice the forward pass."""
        return 3 * self.flops_per_sample

    @property
    def proof_learning_rate(self) -> float:
        """The learning rate of fingerprints: the workload's own, unless that makes training chaotic."""
        return self.optimizer.learning_rate

    @property
    def parameters(self) -> int:
        return sum(tensor.parameters for tensor in self.tensors)

    @property
    def digest(self) -> str:
        """Changes with anything that affects the computation: sizes, hyperparameters, tensors."""
        text = json.dumps([asdict(self), [asdict(tensor) for tensor in self.tensors]], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def reference_weights(self, seed: int) -> dict[str, Array]:
        """The initial weights, float32, by canonical name; each tensor has its own random stream."""
        return {tensor.name: _initial(tensor, seed) for tensor in self.tensors}


def specification(workload: str, size: str = "full") -> WorkloadSpec:
    """The spec of a workload at a size."""
    known = (*WORKLOADS, *registry.names())
    if workload not in known:
        also = "" if not workload.startswith(registry.PREFIX) else "; name its folder with --workloads PATH"
        raise registry.RegistryError(f"unknown workload {workload!r}; there are: {', '.join(known)}{also}")
    try:
        spec: WorkloadSpec = import_module(f"workloads.{workload}.spec").specification(size)
        _ = spec.digest, spec.parameters, spec.training_flops_per_sample, spec.batch  # which a user's code computes
    except FAULTS as error:
        if not (folder := registry.folder_of(workload)):
            raise
        raise registry.RegistryError(f"{workload}: {explained(error, Path(folder))}") from error
    return spec


def weights_digest(weights: dict[str, Array]) -> str:
    """SHA-256 over names, shapes and float32 bytes in the order of the names."""
    digest = hashlib.sha256()
    for name in sorted(weights):
        array = np.ascontiguousarray(weights[name], dtype="<f4")
        digest.update(f"{name}{array.shape}".encode() + array.tobytes())
    return digest.hexdigest()


def glorot_bound(fan_in: int, fan_out: int) -> float:
    """Glorot and Bengio (2010), uniform: variance ``2 / (fan_in + fan_out)``."""
    return math.sqrt(6 / (fan_in + fan_out))


def _initial(tensor: Tensor, seed: int) -> Array:
    generator = np.random.Generator(np.random.Philox(key=[seed, zlib.crc32(tensor.name.encode())]))
    draws = generator.random(tensor.shape)
    draws *= 2  # in place, as each new array of so many numbers takes as long as drawing them
    draws -= 1
    draws *= tensor.bound
    draws[..., tensor.offset_from : tensor.offset_to] += tensor.offset
    return draws.astype(np.float32)
