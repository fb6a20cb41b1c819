"""PyTorch's strategy ``split``: the model's layers in two stages, a device and a process for each.

`torch.distributed.pipelining` sends the activations of each microbatch on and their gradients back, in the order 1F1B.
A microbatch has the cell's batch, and there are as many as devices times accumulated batches. Each stage's optimizer
moves its own weights. Both processes take every batch, of which the first uses the inputs and the second the labels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

from suite.plan.cell import Cell
from suite.worker.distributed.ranks import Ranks
from suite.worker.frameworks.pytorch import devices as pytorch_devices
from suite.worker.frameworks.pytorch import training as pytorch
from suite.worker.frameworks.pytorch.devices import connect, loaders
from suite.worker.frameworks.pytorch.optimizer import optimizer
from workloads.data.dataset import Array
from workloads.spec import WorkloadSpec

# What `suite.worker.distributed.process_group` asks of the file for a strategy; no process trains by itself, and no
# gradient is summed.
__all__ = ("Training", "connect", "gradient_bytes", "init_process_group", "loaders")


def init_process_group(cell: Cell, device: str, ranks: Ranks) -> dict[str, Any]:
    settings = pytorch_devices.init_process_group(cell, device, ranks)
    return settings | {"schedule": "1F1B", "microbatches": _microbatches(cell), "batch_normalisation": "per microbatch"}


def _microbatches(cell: Cell) -> int:
    return cell.devices * cell.accumulate


class Stage(nn.Module):
    """Some layers of a model, and what they compute together, in the cell's precision."""

    def __init__(self, cell: Cell, device: str, layers: list[nn.Module], compute: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.cell, self.device = cell, device
        self.layers, self.compute = nn.ModuleList(layers), compute

    def forward(self, x: Tensor) -> Tensor:
        if x.requires_grad:  # its gradient is sent back as it lies, which must be in a row
            x = x.view_as(x)
            x.register_hook(Tensor.contiguous)
        with pytorch._autocast(self.cell, self.device):
            return self.compute(x)


class Training(pytorch.Training):
    """The training of one rank: one stage of the model, for every sample of each batch."""

    def __init__(self, cell: Cell, spec: WorkloadSpec, *arguments: Any, ranks: Ranks, **options: Any) -> None:
        super().__init__(cell, spec, *arguments, **options)
        self.ranks, self.whole = ranks, self.model
        stages = [Stage(cell, self.device, *stage) for stage in self.module.stages(self.whole)]
        self.owners = {parameter: rank for rank, stage in enumerate(stages) for parameter in stage.parameters()}
        self.model = stages.pop(ranks.rank)
        for other in stages:  # keeps the places of weights that only the other device has
            other.to("cpu")
        self.optimizer = optimizer(spec, [weight for weight in self.model.parameters() if weight.requires_grad])
        self._schedules: dict[int, Schedule1F1B] = {}

    def group_settings(self) -> dict[str, Any]:
        """The strategy and the number of devices, read back from the owners of the weights."""
        return {"strategy": "split", "devices": len({*self.owners.values()})}

    def backward(self, batch: Any) -> list[Tensor]:
        """The first half of a step: this stage's gradients; the loss of each microbatch, (microbatches,)."""
        inputs, labels = batch
        schedule = self._schedule(len(labels))
        losses: list[Tensor] = []
        if self.ranks.rank:
            schedule.step(target=labels, losses=losses, return_outputs=False)
            return [torch.stack(losses).detach()]
        schedule.step(inputs, return_outputs=False)
        return [torch.zeros(_microbatches(self.cell), device=self.device)]  # which the other stage knows

    def _schedule(self, samples: int) -> Schedule1F1B:
        if samples not in self._schedules:
            stage = PipelineStage(self.model, self.ranks.rank, self.ranks.world, torch.device(self.device))
            self._schedules[samples] = Schedule1F1B(stage, _microbatches(self.cell), self._loss_of)
        return self._schedules[samples]

    def _loss_of(self, output: Tensor, labels: Tensor) -> Tensor:
        with pytorch._autocast(self.cell, self.device):
            loss: Tensor = self.loss(lambda _: output, labels, labels)
        return loss

    def evaluate(self, batch: Any) -> tuple[Tensor, Tensor]:
        inputs, labels = batch
        self.model.eval()
        with torch.no_grad(), pytorch._autocast(self.cell, self.device):
            output = self._output(inputs)
            losses, right = self.scores(lambda _: output, labels, labels)
        self.model.train()
        return losses, right

    def logits(self, batch: Any) -> Array:
        with torch.no_grad():
            array: Array = self._output(batch[0]).double().cpu().numpy()
        return array

    def _output(self, x: Tensor) -> Tensor:
        """The model's output on every rank; all of them call it."""
        for rank in range(self.ranks.world):
            own = self.model(x).contiguous() if rank == self.ranks.rank else None
            form = [list(own.shape), str(own.dtype).removeprefix("torch.")] if own is not None else None
            shape, dtype = self.ranks.gather(form)[rank]
            x = torch.empty(shape, dtype=getattr(torch, dtype), device=self.device) if own is None else own
            dist.broadcast(x, rank)
        return x

    def read(self, losses: list[Tensor]) -> list[float]:
        """The losses as numbers, the mean over microbatches; waits for the device."""
        own = [float(loss) for loss in torch.stack(losses).mean(1).cpu()] if losses else []
        return self._last(own)

    def each(self, losses: list[Tensor]) -> list[float]:
        return self._last([float(loss) for step in losses for loss in step.cpu()])

    def _last(self, own: list[float]) -> list[float]:
        said: list[float] = self.ranks.gather(own)[-1]
        return said

    def weights(self, of: str = "data") -> dict[str, Array]:
        for parameter in self.whole.parameters():
            if of == "grad" and not parameter.requires_grad:
                continue
            owner, array = self.owners[parameter], torch.empty(parameter.shape, dtype=parameter.dtype)
            if owner == self.ranks.rank:
                array.copy_(getattr(parameter, of).detach())
            dist.broadcast(array, owner)
            if owner != self.ranks.rank:
                setattr(parameter, of, array)
        arrays: dict[str, Array] = self.module.export_weights(self.whole, of=of)
        return arrays

    def checkpoint(self) -> dict[str, Array]:
        """Everything that the next step depends on besides its batch, for a checkpoint: of this stage."""
        return {self._place + name: array for name, array in super().checkpoint().items()}

    def restore(self, state: dict[str, Array]) -> None:
        own = {name: array for name, array in state.items() if name.startswith(self._place)}
        super().restore({name.removeprefix(self._place): array for name, array in own.items()})

    @property
    def _place(self) -> str:
        return f"stage{self.ranks.rank}/"


def gradient_bytes(training: Training) -> int:
    del training
    return 0
