"""`torch.jit.trace`: functions of a model as graphs of TorchScript, for those who still train so."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, nn

#: So often a new graph runs at first: TorchScript profiles the first run and changes the graph by what it saw, after
#: which dropout draws otherwise.
RUNS = 3


class Traced:
    """A function of a model and of tensors, traced once for each of their shapes, in training and in evaluation."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.graphs: dict[tuple[Any, ...], torch.jit.ScriptModule] = {}

    def __call__(self, model: nn.Module, inputs: Tensor, *others: Tensor) -> Any:
        return self.prepare(model, inputs, *others)(inputs, *others)

    def prepare(self, model: nn.Module, inputs: Tensor, *others: Tensor) -> torch.jit.ScriptModule:
        """The graph for such tensors, traced the first time."""
        key = (model.training, torch.is_grad_enabled(), inputs.shape)
        if key not in self.graphs:
            self.graphs[key] = self._trace(model, inputs, *others)
        return self.graphs[key]

    def _trace(self, model: nn.Module, *tensors: Tensor) -> torch.jit.ScriptModule:
        """The graph after its first runs, which change neither running statistics nor random numbers that follow."""
        buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
        weights = [weight for weight in model.parameters() if weight.requires_grad]
        with torch.random.fork_rng(devices=[tensors[0].device] if tensors[0].is_cuda else []):
            graph = torch.jit.trace(_Call(self.function, model), tensors, check_trace=False)
            for _ in range(RUNS):
                output = graph(*tensors)
                if isinstance(output, Tensor) and output.requires_grad:
                    torch.autograd.grad(output, weights, allow_unused=True)
        with torch.no_grad():
            for buffer, value in buffers:
                buffer.copy_(value)
        return graph

    def runs(self) -> bool:
        """Whether there are graphs and TorchScript has executed each, by the plans of its executors."""
        return bool(self.graphs) and all(map(_has_plan, self.graphs.values()))


def _has_plan(graph: Any) -> bool:
    with suppress(RuntimeError):  # which a graph raises that never ran
        return isinstance(graph, torch.jit.ScriptModule) and bool(graph.get_debug_state().execution_plans)
    return False


class _Call(nn.Module):
    """A module's call of the function, since no other traced function may hold weights."""

    def __init__(self, function: Callable[..., Any], model: nn.Module) -> None:
        super().__init__()
        self.function, self.model = function, model

    def forward(self, *tensors: Tensor) -> Any:
        return self.function(self.model, *tensors)
