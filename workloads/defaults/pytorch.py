"""Defaults of a workload's `pytorch.py`: import those that fit, and write the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from workloads import defaults
from workloads.data.dataset import Array

#: Which implementation of a layer runs, where there is a choice: none.
kernels = defaults.kernels

Compared = Callable[[Any, Tensor], Tensor]

#: The canonical axes of a weight in the order in which PyTorch has them, by kind of layer.
LAYOUTS: dict[type[nn.Module], list[int]] = {
    nn.Linear: [1, 0], nn.Conv1d: [2, 1, 0], nn.Conv2d: [3, 2, 0, 1], nn.ConvTranspose1d: [2, 1, 0],
    nn.ConvTranspose2d: [3, 2, 0, 1],
}  # fmt: skip
NORMALISATIONS = (nn.modules.batchnorm._BatchNorm, nn.GroupNorm, nn.LayerNorm, nn.RMSNorm)


def loss(model: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
    """The mean over the batch of the softmax cross entropy of logits (b, classes)."""
    return F.cross_entropy(model(inputs), labels.long())


def scores(model: nn.Module, inputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Of every sample the loss (b,), and whether the largest logit is the label's (b,); of a model in evaluation."""
    logits, labels = model(inputs), labels.long()
    return F.cross_entropy(logits, labels, reduction="none"), logits.argmax(1) == labels


def binary_loss(model: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
    """The mean over the batch of the binary cross entropy of logits (b,)."""
    logits = model(inputs)
    return F.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype))


def binary_scores(model: nn.Module, inputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Of every sample the loss (b,), and whether the logit's sign is the label's (b,); of a model in evaluation."""
    logits = model(inputs)
    losses = F.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype), reduction="none")
    return losses, (logits > 0) == (labels > 0)


def by_sample(losses: Compared, right: Compared) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """`loss`, the mean over the batch in training, and `scores`, of every sample in evaluation, of a workload.

    ``losses`` and ``right`` are functions of the output, or a list of outputs, and the labels: of every sample the loss
    (b,), and whether it is right (b,).
    """

    def loss(model: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
        return losses(model(inputs), labels).mean()

    def scores(model: nn.Module, inputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        output = model(inputs)
        return losses(output, labels), right(output, labels)

    return loss, scores


def _off(output: Tensor, labels: Tensor) -> Tensor:
    return (output - labels.reshape(output.shape).to(output.dtype)).reshape(len(labels), -1)


#: The mean squared error of outputs (b, ...), for a regression; right if all are within 0.5 of their labels.
squared_loss, squared_scores = by_sample(
    lambda output, labels: _off(output, labels).square().mean(1),
    lambda output, labels: (_off(output, labels).abs() < 0.5).all(1),
)


def unpack(inputs: Tensor, parts: tuple[defaults.Part, ...]) -> list[Tensor]:
    """The inputs that `workloads.data.own.pack` made one of, by the shape of a sample and the type of each."""
    each = [
        (inputs[:, place].clone(memory_format=torch.contiguous_format), *rest) for place, *rest in defaults.cut(parts)
    ]
    return [array.view(getattr(torch, dtype)).reshape(-1, *shape) for array, shape, _, dtype in each]


def join(output: Any) -> Tensor:
    """A model's output as one tensor: several, in a tuple or list, as (b, numbers)."""
    return torch.cat([each.flatten(1) for each in output], 1) if isinstance(output, tuple | list) else output


def import_weights(model: nn.Module, weights: dict[str, Array]) -> None:
    """Set every tensor from canonical weights.

    Of an LSTM, which has one bias in the other frameworks, the second stays at zero and is not trained.
    """
    with torch.no_grad():
        for layer in model.modules():
            for name, parameter in layer.named_parameters(recurse=False):
                if isinstance(layer, nn.RNNBase) and not isinstance(layer, nn.GRU) and name.startswith("bias_hh"):
                    parameter.requires_grad_(False).zero_()
        for name, parameters, layout, swapped in _tensors(model):
            arrays = weights[name] if len(parameters) > 1 else weights[name][None]
            for parameter, array in zip(parameters, arrays, strict=True):
                parameter.copy_(torch.from_numpy(_swap(array, swapped).transpose(layout)))


def export_weights(model: nn.Module, of: str = "data") -> dict[str, Array]:
    """A copy of every tensor (or, with ``of="grad"``, of its gradient, or zeros) in canonical layout, on the host."""
    exported = {}
    for name, parameters, layout, swapped in _tensors(model):
        found = [getattr(parameter, of) for parameter in parameters]
        found = [torch.zeros_like(p) if tensor is None else tensor for p, tensor in zip(parameters, found, strict=True)]
        back = [layout.index(axis) for axis in range(len(layout))]
        arrays = [_swap(tensor.detach().cpu().numpy().transpose(back), swapped).copy() for tensor in found]
        exported[name] = np.stack(arrays) if len(arrays) > 1 else arrays[0]
    return exported


def _swap(array: Array, swapped: bool) -> Array:
    """The first two of three gates in the other order: PyTorch's GRU has the reset gate before the update gate."""
    if not swapped:
        return array
    first, second, last = np.split(array, 3, -1)
    return np.concatenate([second, first, last], -1)


def _tensors(model: nn.Module) -> Iterator[tuple[str, list[nn.Parameter], list[int], bool]]:
    """Every tensor: its name, ``layer/tensor``, its parameters, the canonical axes in their order, whether to `_swap`.

    A model whose modules have other names has a dictionary ``canonical_names``, of modules or parameters by their
    paths. A parameter that two layers share has the name that it has in the first. Raises `NotImplementedError` for a
    layer of another kind, whose layout is the workload's to say.
    """
    seen, names = set(), getattr(model, "canonical_names", {})
    for path, layer in model.named_modules():
        place = names.get(path, path.replace(".", "/"))
        if isinstance(layer, nn.RNNBase):
            yield from _recurrent(place, layer)
            continue
        for name, parameter in layer.named_parameters(recurse=False):
            if parameter in seen:
                continue
            seen.add(parameter)
            if isinstance(layer, NORMALISATIONS):
                own, layout = {"weight": "scale"}.get(name, name), [*range(parameter.ndim)]
            elif isinstance(layer, nn.Embedding | nn.EmbeddingBag):
                own, layout = "table", [0, 1]
            elif type(layer) in LAYOUTS:
                own, layout = ("kernel", LAYOUTS[type(layer)]) if name == "weight" else (name, [0])
            elif type(layer).__module__.startswith("torch."):
                raise NotImplementedError(
                    f"{path}.{name}: {type(layer).__name__} has no default; write import_weights and export_weights"
                )
            else:  # of a module of the workload's own, as it is
                own, layout = name, [*range(parameter.ndim)]
            yield names.get(f"{path}.{name}", f"{place}/{own}".lstrip("/")), [parameter], layout, False


def _recurrent(place: str, layer: nn.RNNBase) -> Iterator[tuple[str, list[nn.Parameter], list[int], bool]]:
    """The tensors of an RNN, LSTM or GRU; where it has several layers or both ways, those are ``backward_NAME_1``."""
    outer, slash, own = place.rpartition("/")
    gru = isinstance(layer, nn.GRU)
    ways = ("forward_", "backward_") if layer.bidirectional else ("",)
    for number, (kernel, recurrent, *biases) in enumerate(layer.all_weights):
        depth, way = divmod(number, len(ways))
        name = f"{outer}{slash}{ways[way]}{own}" + (f"_{depth}" if layer.num_layers > 1 else "")
        yield f"{name}/kernel", [kernel], [1, 0], gru
        yield f"{name}/recurrent", [recurrent], [1, 0], gru
        if biases:
            yield f"{name}/bias", biases if gru else biases[:1], [0], gru


def recompute(
    block: nn.Module, draws: bool, within: Callable[[], AbstractContextManager[Any]] = nullcontext
) -> Callable[..., Tensor]:
    """The block as a function whose activations the backward pass computes again.

    ``draws`` says whether the block draws random numbers, whose state is then kept and restored. ``within`` is what it
    runs within, which the backward pass has left.
    """

    def forward(*inputs: Tensor) -> Tensor:
        if not torch.is_grad_enabled():
            return block(*inputs)
        # What torch.compile makes of a block has no side effects, and it takes no contexts of ours.
        options: dict[str, Any] = {} if torch.compiler.is_compiling() else {"context_fn": contexts}
        return checkpoint(block, *inputs, use_reentrant=False, preserve_rng_state=draws, **options)

    def contexts() -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
        return nullcontext(), _repeat(block, within())

    return forward


@contextmanager
def _repeat(block: nn.Module, within: AbstractContextManager[Any]) -> Iterator[None]:
    """What the second pass runs ``within``, where batch normalisation does not move its running statistics.

    The numbers are the same: a momentum of 0 leaves the statistics as they are to the last bit. Without them the layer
    would keep other tensors, which `torch.utils.checkpoint` refuses.
    """
    layers = [layer for layer in block.modules() if isinstance(layer, nn.modules.batchnorm._NormBase)]
    before = [(layer.momentum, layer.num_batches_tracked) for layer in layers]
    for layer in layers:
        layer.momentum, layer.num_batches_tracked = 0.0, None
    try:
        with within:
            yield
    finally:
        for layer, (momentum, count) in zip(layers, before, strict=True):
            layer.momentum, layer.num_batches_tracked = momentum, count
