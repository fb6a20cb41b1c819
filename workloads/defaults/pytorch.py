"""Defaults of a workload's `pytorch.py`: import those that fit, and write the others."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from workloads.data.dataset import Array
from workloads.spec import Numbers, WorkloadSpec

#: The canonical axes of a weight in the order in which PyTorch has them, by kind of layer.
LAYOUTS: dict[type[nn.Module], list[int]] = {nn.Linear: [1, 0], nn.Conv1d: [2, 1, 0], nn.Conv2d: [3, 2, 0, 1]}
NORMALISATIONS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.GroupNorm, nn.LayerNorm)


def loss(model: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
    """The mean over the batch of the softmax cross entropy of logits (b, classes)."""
    return F.cross_entropy(model(inputs), labels.long())


def scores(model: nn.Module, inputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Of every sample the loss (b,), and whether the largest logit is the label's (b,); of a model in evaluation."""
    logits, labels = model(inputs), labels.long()
    return F.cross_entropy(logits, labels, reduction="none"), logits.argmax(1) == labels


def kernels(spec: WorkloadSpec, numbers: Numbers, device: str, kernel: str) -> dict[str, str]:
    """Which implementation of a layer runs, where there is a choice: none."""
    del spec, numbers, device, kernel
    return {}


def import_weights(model: nn.Module, weights: dict[str, Array]) -> None:
    """Set every tensor from canonical weights."""
    with torch.no_grad():
        for name, parameter, layout in _tensors(model):
            parameter.copy_(torch.from_numpy(weights[name].transpose(layout)))


def export_weights(model: nn.Module, of: str = "data") -> dict[str, Array]:
    """A copy of every tensor (or, with ``of="grad"``, of its gradient) in canonical layout, on the host."""
    exported = {}
    for name, parameter, layout in _tensors(model):
        array = getattr(parameter, of).detach().cpu().numpy()
        exported[name] = array.transpose([layout.index(axis) for axis in range(array.ndim)]).copy()
    return exported


def _tensors(model: nn.Module) -> Iterator[tuple[str, nn.Parameter, list[int]]]:
    """Every parameter with its canonical name, ``layer/tensor``, and the canonical axes in its own order.

    Raises `NotImplementedError` for a layer of another kind, whose layout is the workload's to say.
    """
    for path, layer in model.named_modules():
        for name, parameter in layer.named_parameters(recurse=False):
            if isinstance(layer, NORMALISATIONS):
                own, layout = {"weight": "scale"}.get(name, name), [0]
            elif isinstance(layer, nn.Embedding):
                own, layout = "table", [0, 1]
            elif type(layer) in LAYOUTS:
                own, layout = ("kernel", LAYOUTS[type(layer)]) if name == "weight" else (name, [0])
            else:
                raise NotImplementedError(
                    f"{path}.{name}: {type(layer).__name__} has no default; write import_weights and export_weights"
                )
            yield f"{path.replace('.', '/')}/{own}", parameter, layout
