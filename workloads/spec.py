"""What a workload is, before any framework: tensors, initial weights, hyperparameters, FLOPs.

Canonical layouts, from which each framework maps in and out:

* convolution kernels ``(height, width, in, out)``, dense kernels ``(in, out)`` with the input flattened from
  ``(height, width, channel)``, embeddings ``(vocabulary, width)``;
* kernels of a transposed convolution ``(height, width, out, in)``: those of the convolution whose transpose it is;
* LSTM kernels ``(in, 4 * units)`` and ``(units, 4 * units)`` with the gates in the order input, forget, cell, output,
  and one bias ``(4 * units,)``;
* GRU kernels ``(in, 3 * units)`` and ``(units, 3 * units)`` with the gates in the order update, reset, candidate, and a
  bias ``(2, 3 * units)``, of the inputs and of the state, which the reset gate multiplies after both;
* a projection to queries, keys and values is one dense kernel ``(in, 3 * width)``, the three one after the other, each
  with the heads in their order.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from workloads import registry
from workloads.faults import FAULTS, describe_fault
from workloads.optimizers import LAYERWISE, Adagrad, Adam, AdamW, Lamb, Lars, Optimizer, RmsProp, Schedule, Sgd, as_dict

if TYPE_CHECKING:
    from workloads.data.dataset import Array, DataSet  # NumPy is imported where weights are drawn: a plan needs none

__all__ = (
    "LAYERWISE", "WORKLOADS", "Adagrad", "Adam", "AdamW", "Bounds", "DropoutBounds", "Lamb", "Lars", "Numbers",
    "Optimizer", "RmsProp", "Schedule", "Sgd", "Tensor", "Training", "UnavailableKernelError", "WorkloadSpec",
    "glorot_bound", "read_declaration", "specification",
)  # fmt: skip

WORKLOADS = registry.WORKLOADS
#: What stands for the decay of a tensor that is not trained.
FROZEN = -1.0


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
    decay: float | None = None
    frozen: bool = False

    @property
    def parameters(self) -> int:
        return math.prod(self.shape)


class UnavailableKernelError(ValueError):
    """A kernel that a framework does not have for these numbers on this device; the launch ends as unsupported."""


@dataclass(frozen=True)
class Numbers:
    """Floating-point types by NumPy's names: those that layers compute in, and those of the weights."""

    compute: str = "float32"
    weights: str = "float32"


@dataclass(frozen=True)
class Bounds:
    """The largest relative deviations between two frameworks that still count as the same, in one precision.

    ``early_losses`` are of steps two to four, and ``early_updates`` the tensors' after two steps; ``losses`` and
    ``updates`` are those of later steps. Provisional bounds are derived, not measured. See
    `suite.analysis.identity.tolerances`, which has the measurements.
    """

    first_loss: float
    early_losses: float
    losses: float
    early_updates: float
    updates: float
    provisional: bool = False


@dataclass(frozen=True)
class DropoutBounds:
    """How far dropout spreads the logits, and the input of each layer by the name of its kernel, by size.

    Relative to that, a launch's spread of the logits may be off by ``scatter``, and the input of a layer by ``apart``
    off another framework's. Size ``""`` is for records that name none.
    """

    spread: Mapping[str, float] = field(default_factory=dict)
    layers: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    scatter: float = 0.05
    apart: float = 0.08


#: A target above this is neither an accuracy nor a loss, and likely a percentage.
TARGET_MOST = 20.0


def is_loss(target: float) -> bool:
    """Whether a target is a test loss, in nats, since no accuracy reaches it."""
    return target > 1


@dataclass(frozen=True)
class Training:
    """A training to the end: optimizer, epochs, and the test accuracy to reach, or the test loss if it is above 1."""

    optimizer: Optimizer
    epochs: int
    target: float
    dropout: bool = True


@dataclass(frozen=True)
class WorkloadSpec:
    """What all workloads have in common. The subclasses in ``workloads/*/spec.py`` add the architecture.

    They also declare what a workload has, and everything that lists workloads reads it there:

    * ``title`` is what tables call it, and ``study`` what Elshawi et al. (2021) published of it, with
      ``study_differs``, what is different here; empty where they had no such model;
    * ``kernels`` are those that its main layer can choose from, of ``cudnn``, ``scan``, ``fused`` and ``plain``;
    * ``stages``: PyTorch's and TensorFlow's files have a function `stages` for two devices;
    * ``batch_normalised``: it has batch normalisation;
    * ``recurrent``: its main layer is the framework's own LSTM;
    * ``ignored_label`` is the label of a position that `scores` leaves out, where each position of a sample has a label
      of its own, (b, positions); None where a sample has one;
    * ``decodes``: each framework's file has `prefill` and `decode`, which go on word by word with a cache;
    * ``evaluation_batch``: samples that go through the network of a device at once in an evaluation;
    * ``one_block`` is why computing blocks again saves no memory, ``one_length`` why all batches have one length; empty
      where it does, and where they need not: the spec then has a function `at_length`, of what such a batch computes;
    * ``bounds`` on the deviation between frameworks by precision; without any, wide and provisional ones;
    * ``dropout_bounds``.
    """

    title: ClassVar[str] = ""
    study: ClassVar[str] = ""
    study_differs: ClassVar[str] = ""
    kernels: ClassVar[tuple[str, ...]] = ()
    stages: ClassVar[bool] = False
    batch_normalised: ClassVar[bool] = False
    recurrent: ClassVar[bool] = False
    ignored_label: ClassVar[int | None] = None
    decodes: ClassVar[bool] = False
    evaluation_batch: ClassVar[int] = 500
    one_block: ClassVar[str] = ""
    one_length: ClassVar[str] = "its samples have one length"
    bounds: ClassVar[Mapping[str, Bounds]] = {}
    dropout_bounds: ClassVar[DropoutBounds] = DropoutBounds()

    name: str
    size: str
    data: str  # name of the data set
    optimizer: Optimizer
    batch: int  # the study's; a cell's own batch goes before it

    def arrange(self, data: DataSet) -> DataSet:
        """The samples that the workload makes of its data set: those of the data set, unless it cuts them anew."""
        return data

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        raise NotImplementedError

    @property
    def label_count(self) -> int:
        """How many labels there are: as many as logits have biases, or two where there is one; 0 if not known."""
        logits = [tensor.shape[-1] for tensor in self.tensors if tensor.name == "logits/bias"]
        return max(2, *logits) if logits else 0

    @property
    def flops_per_sample(self) -> int:
        """FLOPs of one sample's forward pass: two per multiply-add of convolutions and products, nothing else."""
        if not self.flops_by_kind:
            raise NotImplementedError
        return sum(self.flops_by_kind.values())

    @property
    def flops_by_kind(self) -> dict[str, int]:
        """The same by kind: ``convolution``, ``matrix product`` and ``recurrence``, which add up to all of them.

        Empty for a workload that does not say; then a roofline shows its whole step only.
        """
        return {}

    @property
    def answer_flops_per_sample(self) -> int:
        """The same where the trained model answers a sample: of a workload that `decodes`, with the next word alone."""
        return self.flops_per_sample

    @property
    def training_flops_per_sample(self) -> int:
        """Forward plus backward, by the usual convention that the backward pass costs twice the forward pass."""
        return 3 * self.flops_per_sample

    @property
    def proof_learning_rate(self) -> float:
        """The learning rate of fingerprints: the workload's own, unless that makes training chaotic."""
        return self.optimizer.learning_rate

    @property
    def studied(self) -> Training:
        """How the study trained it, or would have: recipe ``study``."""
        return Training(self.optimizer, epochs=200, target=0.50)

    @property
    def modern(self) -> Training:
        """What learns fast, with warm-up and decay of the rate: recipe ``modern``."""
        if self.size == "small":
            return Training(Sgd(0.05, momentum=0.9, l2=1e-4), epochs=4, target=0.20, dropout=False)
        return Training(Sgd(0.05, momentum=0.9, l2=5e-4), epochs=30, target=0.60)

    @property
    def parameters(self) -> int:
        return sum(tensor.parameters for tensor in self.tensors)

    @property
    def decays(self) -> dict[str, float]:
        """The L2 or decay of every tensor by its name; `FROZEN` for one that is not trained."""
        usual = self.optimizer.decay_of
        every = {each.name: usual(each.shape) if each.decay is None else each.decay for each in self.tensors}
        if type(self.optimizer) is Adam and self.optimizer.l2 is None and any(every.values()):
            raise ValueError("a tensor's decay needs an optimizer that has some; write AdamW or Adam(l2=0.0)")
        return every | dict.fromkeys(self.frozen, FROZEN)

    @property
    def frozen(self) -> tuple[str, ...]:
        """The names of the tensors that are not trained."""
        return tuple(each.name for each in self.tensors if each.frozen)

    @property
    def own_decays(self) -> dict[str, float]:
        """The same where it is not to be seen from the shape of what a framework has for a tensor; else empty."""
        differ = self.name not in WORKLOADS and len({*self.decays.values()}) > 1  # the suite's have canonical axes
        return self.decays if self.has_own or differ else {}

    @property
    def has_own(self) -> bool:
        """Whether a tensor is frozen or has a decay of its own."""
        return any(each.frozen or each.decay is not None for each in self.tensors)

    @property
    def digest(self) -> str:
        """Changes with anything that affects the computation: sizes, hyperparameters, tensors."""
        text = json.dumps([as_dict(self), [as_dict(tensor) for tensor in self.tensors]], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def reference_weights(self, seed: int) -> dict[str, Array]:
        """The initial weights, float32, by canonical name; each tensor has its own random stream."""
        from workloads.weights import draw_weights

        return {tensor.name: draw_weights(tensor, seed) for tensor in self.tensors}


def specification(workload: str, size: str = "full") -> WorkloadSpec:
    """The spec of a workload at a size."""
    if workload not in (known := (*WORKLOADS, *registry.names())):
        also = "" if not workload.startswith(registry.PREFIX) else "; name its folder with --workloads PATH"
        raise registry.RegistryError(f"unknown workload {workload!r}; there are: {', '.join(known)}{also}")
    try:
        spec: WorkloadSpec = import_module(f"workloads.{workload}.spec").specification(size)
        _ = spec.digest, spec.parameters, spec.training_flops_per_sample, spec.batch  # which a user's code computes
    except FAULTS as error:
        if not (folder := registry.folder_of(workload)):
            raise
        raise registry.RegistryError(f"{workload}: {describe_fault(error, Path(folder))}") from error
    return spec


def read_declaration(workload: str) -> type[WorkloadSpec]:
    """The class of a workload's spec, which declares what it has; `WorkloadSpec` for one that is not known here."""
    if workload in WORKLOADS:
        return _spec_class(workload)
    return type(specification(workload)) if workload in registry.names() else WorkloadSpec


@cache
def _spec_class(workload: str) -> type[WorkloadSpec]:
    return type(import_module(f"workloads.{workload}.spec").specification())


def glorot_bound(fan_in: int, fan_out: int) -> float:
    """Glorot and Bengio (2010), uniform: variance ``2 / (fan_in + fan_out)``."""
    return math.sqrt(6 / (fan_in + fan_out))
