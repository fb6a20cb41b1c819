"""LARS and LAMB in PyTorch, which has neither: the arithmetic of `workloads.spec`, tensor by tensor.

In fp16 `torch.amp.GradScaler` waits for the device to learn whether a gradient overflowed, unless the optimizer handles
that itself. These do: after an overflow the device puts the old values back.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from workloads import spec as specs


def optimizer(config: specs.Lars | specs.Lamb, parameters: Iterable[Any]) -> torch.optim.Optimizer:
    """The optimizer of these settings, of parameters or groups of them."""
    return Lars(config, parameters) if isinstance(config, specs.Lars) else Lamb(config, parameters)


class Layerwise(torch.optim.Optimizer):
    """Moves one weight at a time, and none where a gradient overflowed.

    `torch.amp.GradScaler` sets ``grad_scale`` and ``found_inf`` for the length of a step.
    """

    _step_supports_amp_scaling = True

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        """Move every weight along its gradient."""
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
                    tensor.copy_(torch.where(_full(overflow) > 0, before, tensor))

    def start(self, weight: Tensor) -> dict[str, Tensor]:
        """What is kept of a weight, before the first step."""
        raise NotImplementedError

    def move(self, weight: Tensor, gradient: Tensor, state: dict[str, Tensor], group: dict[str, Any]) -> None:
        """Change the weight, and what is kept of it, in place."""
        raise NotImplementedError


class Lars(Layerwise):
    """`workloads.spec.Lars` as a PyTorch optimizer."""

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
    """`workloads.spec.Lamb` as a PyTorch optimizer."""

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
    return _full(torch.linalg.vector_norm(tensor))


def _full(tensor: Tensor) -> Tensor:
    """The tensor itself, of a sharded one its value over all ranks."""
    # Not by its class: importing that takes 0.3 s, which every launch of one device would pay.
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def _ratio(weight: Tensor, move: Tensor) -> Tensor:
    """The quotient of two norms; 1 where one of them is zero."""
    return torch.where((weight > 0) & (move > 0), weight / move, torch.ones_like(weight))
