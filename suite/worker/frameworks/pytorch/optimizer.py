"""The spec's optimizers in PyTorch, whose own have their formulas, as fused kernels where it has any."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from suite.plan.cell import Cell
from suite.worker.frameworks import mark_tensors, read_mark
from suite.worker.frameworks.pytorch import layerwise as pytorch_layerwise
from workloads.recipes import recipe
from workloads.spec import FROZEN, LAYERWISE, Adagrad, AdamW, Optimizer, RmsProp, Sgd, WorkloadSpec, specification

#: Optimizers of which PyTorch has no fused kernel on every device.
NOT_FUSED = (RmsProp, Adagrad)


def find_decays(module: ModuleType, model: nn.Module, spec: WorkloadSpec) -> dict[int, float]:
    """The decay of each parameter by its ``id``, as that of the spec's tensor; those that are frozen need no gradient.

    Empty where shapes say it. It leaves other weights in the model.
    """
    marks, found = mark_tensors(spec), {}
    if marks:
        module.import_weights(model, marks)
    for parameter in (each for each in model.parameters() if marks and each.requires_grad):
        least, most = (float(each) for each in parameter.detach().aminmax())
        found[id(parameter)] = read_mark(spec, least, most, spec.optimizer.decay_of(tuple(parameter.shape)))
        parameter.requires_grad_(found[id(parameter)] != FROZEN)
    return found


def kernels_of(cell: Cell) -> str:
    """How the optimizer of a cell moves the weights: ``fused``, ``per tensor``, or by PyTorch's own ``default``."""
    spec = specification(cell.workload, cell.size)
    config = recipe(cell.recipe, spec).optimizer if cell.recipe else spec.optimizer
    return "per tensor" if isinstance(config, LAYERWISE) else "default" if isinstance(config, NOT_FUSED) else "fused"


def optimizer(
    spec: WorkloadSpec, parameters: list[Tensor], decays: Mapping[int, float] | None = None, fused: bool = True
) -> torch.optim.Optimizer:
    """The spec's optimizer of these parameters, at its one learning rate; ``decays`` are those of `find_decays`."""
    config, groups = spec.optimizer, defaultdict(list)
    for parameter in parameters:
        groups[(decays or {}).get(id(parameter), config.decay_of(tuple(parameter.shape)))].append(parameter)
    made = _of(config, [{"params": groups[decay], "weight_decay": decay} for decay in sorted(groups)[::-1]], fused)
    if config.clip_norm is not None or config.clip_value is not None:
        made.register_step_pre_hook(lambda made, *_: _clip(config, made))
    return made


def _of(config: Optimizer, groups: list[dict[str, Any]], fused: bool) -> torch.optim.Optimizer:
    if isinstance(config, LAYERWISE):
        return pytorch_layerwise.optimizer(config, groups)
    if isinstance(config, Sgd):
        return torch.optim.SGD(
            groups, lr=config.learning_rate, momentum=config.momentum, nesterov=config.nesterov, fused=fused
        )
    rate, epsilon = {"lr": config.learning_rate}, {"eps": config.epsilon}
    if isinstance(config, RmsProp):
        return torch.optim.RMSprop(groups, **rate, alpha=config.rho, **epsilon, momentum=config.momentum)
    if isinstance(config, Adagrad):
        return torch.optim.Adagrad(groups, **rate, **epsilon, initial_accumulator_value=config.start)
    kind = torch.optim.AdamW if isinstance(config, AdamW) else torch.optim.Adam
    return kind(groups, **rate, betas=(config.beta1, config.beta2), **epsilon, fused=fused)


def _clip(config: Optimizer, made: Any) -> None:
    """Clip the gradients in place, without waiting for the device; in fp16 they are still scaled."""
    gradients = [each.grad for group in made.param_groups for each in group["params"] if each.grad is not None]
    scale = getattr(made, "grad_scale", None)
    scale = 1.0 if scale is None else scale
    if config.clip_value is not None:
        for gradient in gradients:
            gradient.clamp_(-config.clip_value * scale, config.clip_value * scale)
    elif config.clip_norm is not None:
        factor = config.clip_norm * scale / torch.nn.utils.get_total_norm(gradients)
        torch._foreach_mul_(gradients, factor.clamp(max=1))
