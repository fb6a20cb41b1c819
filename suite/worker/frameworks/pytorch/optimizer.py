"""The spec's optimizers in PyTorch, whose own have their formulas, as fused kernels where it has any.

It has no LARS and no LAMB; here is the arithmetic of `workloads.spec`, tensor by tensor.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from suite.plan.cell import Cell
from suite.worker.frameworks import mark_tensors, read_mark
from workloads import spec as specs
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
        return Lars(config, groups) if isinstance(config, specs.Lars) else Lamb(config, groups)
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


class Layerwise(torch.optim.Optimizer):
    """Moves one weight at a time, and none where a gradient overflowed: the device then puts the old values back.

    `torch.amp.GradScaler` sets ``grad_scale`` and ``found_inf`` for the length of a step, and does not wait for the
    device where an optimizer handles overflows itself.
    """

    _step_supports_amp_scaling = True

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        del closure
        scale, overflow = getattr(self, "grad_scale", None), getattr(self, "found_inf", None)
        for weight, group in ((weight, own) for own in self.param_groups for weight in own["params"]):
            state = self.state[weight]
            if not state:
                state |= self.start(weight)
            changing = [weight, *state.values()]
            old = [tensor.clone() for tensor in changing] if overflow is not None else []
            self.move(weight, weight.grad if scale is None else weight.grad / scale, state, group)
            if overflow is not None:
                for tensor, before in zip(changing, old, strict=True):
                    tensor.copy_(torch.where(full(overflow) > 0, before, tensor))

    def start(self, weight: Tensor) -> dict[str, Tensor]:
        raise NotImplementedError

    def move(self, weight: Tensor, gradient: Tensor, state: dict[str, Tensor], group: dict[str, Any]) -> None:
        raise NotImplementedError


class Lars(Layerwise):
    def __init__(self, spec: specs.Lars, parameters: Iterable[Any]) -> None:
        super().__init__(parameters, {"lr": spec.learning_rate, "weight_decay": spec.l2})
        self.spec = spec

    def start(self, weight: Tensor) -> dict[str, Tensor]:
        return {"velocity": torch.zeros_like(weight)}

    def move(self, weight: Tensor, gradient: Tensor, state: dict[str, Tensor], group: dict[str, Any]) -> None:
        spec, l2 = self.spec, group["weight_decay"]
        local = group["lr"] * spec.coefficient * _ratio(_norm(weight), _norm(gradient) + l2 * _norm(weight))
        state["velocity"].mul_(spec.momentum).add_(local * (gradient + l2 * weight))
        weight.sub_(state["velocity"])


class Lamb(Layerwise):
    def __init__(self, spec: specs.Lamb, parameters: Iterable[Any]) -> None:
        super().__init__(parameters, {"lr": spec.learning_rate, "weight_decay": spec.decay})
        self.spec = spec

    def start(self, weight: Tensor) -> dict[str, Tensor]:
        # PyTorch would leave a "step" on the host when it restores a checkpoint.
        count = torch.zeros((), device=weight.device)
        return {"count": count, "mean": torch.zeros_like(weight), "square": torch.zeros_like(weight)}

    def move(self, weight: Tensor, gradient: Tensor, state: dict[str, Tensor], group: dict[str, Any]) -> None:
        spec, count = self.spec, state["count"].add_(1).double()
        state["mean"].mul_(spec.beta1).add_(gradient, alpha=1 - spec.beta1)
        state["square"].mul_(spec.beta2).addcmul_(gradient, gradient, value=1 - spec.beta2)
        root = (state["square"] / (1 - spec.beta2**count)).sqrt_() + spec.epsilon
        move = state["mean"] / (1 - spec.beta1**count) / root + group["weight_decay"] * weight
        weight.sub_(group["lr"] * _ratio(_norm(weight), _norm(move)) * move)


def _norm(tensor: Tensor) -> Tensor:
    """The L2 norm of a tensor, of a sharded one over all ranks: ()."""
    return full(torch.linalg.vector_norm(tensor))


def own_part(tensor: Tensor) -> Tensor:
    """The part of a sharded tensor that is this rank's; of any other the tensor itself."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def lay_as(weight: Tensor, buffer: Tensor) -> Tensor:
    """A buffer that lies as its weight does, through which the fused kernels walk; of another shape, as it is."""
    if own_part(weight).shape != buffer.shape:
        return buffer
    laid = torch.empty_like(weight)
    own_part(laid).copy_(buffer)
    return laid


def full(tensor: Tensor) -> Tensor:
    """The tensor itself, of a sharded one its value over all ranks."""
    # Not by its class: importing that takes 0.3 s, which every launch of one device would pay.
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def _ratio(weight: Tensor, move: Tensor) -> Tensor:
    return torch.where((weight > 0) & (move > 0), weight / move, torch.ones_like(weight))
