"""LARS and LAMB in PyTorch, which has neither: the arithmetic of `workloads.spec`, tensor by tensor."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

from workloads import spec as specs


def optimizer(config: specs.Lars | specs.Lamb, parameters: Iterable[Tensor]) -> torch.optim.Optimizer:
    """The optimizer of these settings."""
    return Lars(config, parameters) if isinstance(config, specs.Lars) else Lamb(config, parameters)


class Lars(torch.optim.Optimizer):
    """`workloads.spec.Lars` as a PyTorch optimizer."""

    def __init__(self, spec: specs.Lars, parameters: Iterable[Tensor]) -> None:
        super().__init__(parameters, {"lr": spec.learning_rate})
        self.spec = spec

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        """Move every weight along its gradient."""
        del closure
        spec, (group,) = self.spec, self.param_groups
        for weight in group["params"]:
            state, gradient = self.state[weight], weight.grad
            if not state:
                state["velocity"] = torch.zeros_like(weight)
            ratio = _ratio(_norm(weight), _norm(gradient) + spec.l2 * _norm(weight))
            local = group["lr"] * spec.coefficient * ratio
            state["velocity"].mul_(spec.momentum).add_(local * (gradient + spec.l2 * weight))
            weight.sub_(state["velocity"])


class Lamb(torch.optim.Optimizer):
    """`workloads.spec.Lamb` as a PyTorch optimizer."""

    def __init__(self, spec: specs.Lamb, parameters: Iterable[Tensor]) -> None:
        super().__init__(parameters, {"lr": spec.learning_rate})
        self.spec = spec

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        """Move every weight along its gradient."""
        del closure
        spec, (group,) = self.spec, self.param_groups
        for weight in group["params"]:
            state, gradient = self.state[weight], weight.grad
            if not state:
                state |= {"step": torch.zeros(()), "mean": torch.zeros_like(weight), "square": torch.zeros_like(weight)}
            state["step"] += 1
            count = int(state["step"])
            state["mean"].mul_(spec.beta1).add_(gradient, alpha=1 - spec.beta1)
            state["square"].mul_(spec.beta2).addcmul_(gradient, gradient, value=1 - spec.beta2)
            root = (state["square"] / (1 - spec.beta2**count)).sqrt_() + spec.epsilon
            move = state["mean"] / (1 - spec.beta1**count) / root + spec.decay * weight
            weight.sub_(group["lr"] * _ratio(_norm(weight), _norm(move)) * move)


def _norm(tensor: Tensor) -> Tensor:
    """The L2 norm of a tensor, of a sharded one over all ranks: ()."""
    norm = torch.linalg.vector_norm(tensor)
    return norm.full_tensor() if isinstance(norm, DTensor) else norm


def _ratio(weight: Tensor, move: Tensor) -> Tensor:
    """The quotient of two norms; 1 where one of them is zero."""
    return torch.where((weight > 0) & (move > 0), weight / move, torch.ones_like(weight))
