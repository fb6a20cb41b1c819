"""What PyTorch's `Training` shows of its layers for `suite.worker.evidence.proof`; nothing here is timed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from workloads.data.dataset import Array

#: Modules whose tensors have the channels second.
CHANNELS_SECOND = (nn.Conv1d, nn.Conv2d, nn.ConvTranspose2d, nn.BatchNorm1d, nn.BatchNorm2d, nn.GroupNorm)


def count_trained(training: Any) -> int:
    """How many parameters the optimizer moves."""
    return sum(parameter.numel() for group in training.optimizer.param_groups for parameter in group["params"])


@contextmanager
def calls(
    training: Any, note: Callable[[str], object] = str, of: Callable[..., Any] | None = None
) -> Iterator[list[tuple[str, Any, Any]]]:
    """A context that lists the calls of layers: path, first input and first output, channels last.

    After each it calls ``note`` with the path. In place of the arrays on the host stands what ``of`` makes of a tensor.
    """
    listed: list[tuple[str, Any, Any]] = []

    def hook(path: str) -> Any:
        def called(layer: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
            first = output[0] if isinstance(output, tuple) else output
            taken, given = (of(each) if of else _array(layer, each) for each in (inputs[0] if inputs else None, first))
            listed.append((path, taken, given))
            note(path)

        return called

    hooks = [layer.register_forward_hook(hook(path)) for path, layer in training.model.named_modules() if path]
    try:
        yield listed
    finally:
        for each in hooks:
            each.remove()


def load(training: Any, weights: dict[str, Array]) -> None:
    """Set every tensor from canonical weights."""
    training.module.import_weights(training.model, weights)


def forward(training: Any, batch: Any) -> float:
    """The loss of a forward pass in training mode."""
    with torch.no_grad():
        return float(training.loss(training.model, *batch))


def gradients(training: Any, batch: Any) -> tuple[float, dict[str, Array]]:
    """The loss and its gradient by canonical names, zeros where there is none."""
    loss = training.loss(training.model, *batch)
    loss.backward()
    for parameter in training.model.parameters():
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    exported: dict[str, Array] = training.module.export_weights(training.model, of="grad")
    training.model.zero_grad(set_to_none=True)
    return float(loss.detach()), exported


def parameters_by_layer(training: Any) -> dict[str, list[Array]]:
    """The parameters of each layer by its path, in the layouts that they have there."""
    return {
        path: [parameter.detach().cpu().numpy() for parameter in layer.parameters(recurse=False)]
        for path, layer in training.model.named_modules()
    }


def statistics(training: Any) -> dict[str, dict[str, Array]]:
    """The running mean and variance of each layer that has them, by its path."""
    return {
        path: {"mean": layer.running_mean.cpu().numpy().copy(), "variance": layer.running_var.cpu().numpy().copy()}
        for path, layer in training.model.named_modules()
        if getattr(layer, "running_mean", None) is not None
    }


def _array(layer: nn.Module, tensor: Any) -> Array | None:
    if not isinstance(tensor, Tensor):
        return None
    if isinstance(layer, CHANNELS_SECOND) and tensor.ndim > 2:
        tensor = tensor.movedim(1, -1)
    return tensor.detach().cpu().numpy().copy()
