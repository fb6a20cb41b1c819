"""PyTorch on several devices, a process for each: DistributedDataParallel, or FSDP2's `fully_shard`.

``synchronised`` is the former with `SyncBatchNorm`, which takes its statistics over all devices.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import nullcontext
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from suite.plan.cell import LOADERS, Cell
from suite.worker.distributed.ranks import Ranks
from suite.worker.frameworks import UnsupportedError
from suite.worker.frameworks.pytorch import training as pytorch
from suite.worker.frameworks.pytorch.optimizer import full, optimizer
from workloads.data.dataset import Array
from workloads.recipes import OF_LAYERS
from workloads.spec import Sgd, WorkloadSpec, specification

TIMEOUT = timedelta(hours=1)  # the launch's deadline comes first


def loaders(cell: Cell) -> tuple[str, ...]:
    """The loaders whose batches the strategy takes."""
    del cell  # each rank's batches are its own device's
    return LOADERS


def connect(cell: Cell, device: str, ranks: Ranks) -> None:
    """Join the other ranks; comes before anything else asks the framework for its devices."""
    del cell
    cuda = device != "cpu" and torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(0)  # the launcher shows each rank its own device only
    if ranks.interface:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", ranks.interface)
        os.environ.setdefault("NCCL_SOCKET_IFNAME", ranks.interface)
    door = None if ranks.rank else socket.create_server((ranks.host, 0))  # PyTorch's own listens on all interfaces
    (port, *_) = ranks.gather(door.getsockname()[1] if door else 0)
    store = dist.TCPStore(
        ranks.host, port, ranks.world, is_master=not ranks.rank, timeout=TIMEOUT,
        master_listen_fd=door.detach() if door else None,
    )  # fmt: skip
    backend = "cpu:gloo,cuda:nccl" if cuda else "gloo"
    dist.init_process_group(backend, store=store, rank=ranks.rank, world_size=ranks.world, timeout=TIMEOUT)


def init_process_group(cell: Cell, device: str, ranks: Ranks) -> dict[str, Any]:
    """What else the strategy needs once the framework is prepared; returns the settings that it adds."""
    del ranks
    settings: dict[str, Any] = {"backend": "nccl" if device == "cuda" else "gloo"}
    if device == "cuda":
        settings["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
    if cell.strategy == "fsdp":
        settings["memory_format"] = "contiguous"  # sharded weights must lie in a row
        if cell.recipe not in OF_LAYERS and not _has_fused(specification(cell.workload, cell.size)):
            settings["optimizer"] = "foreach"
    return settings


def _has_fused(spec: WorkloadSpec) -> bool:
    """Whether PyTorch has the fused kernel of an optimizer for sharded weights: that of SGD it has not."""
    return not isinstance(spec.optimizer, Sgd)


def match_strategy(local: pytorch.Training, cell: Cell, spec: WorkloadSpec) -> None:
    """Give a training of one process by itself what the cell's strategy has besides communication."""
    if cell.strategy == "fsdp":
        local.model = local.model.to(memory_format=torch.contiguous_format)
        local.optimizer = optimizer(spec, [*local.model.parameters()], fused=_has_fused(spec))
    elif mode := pytorch.COMPILE_MODES[cell.compile]:
        _compile_model(local, mode)


def _compile_model(training: pytorch.Training, mode: str) -> None:
    """Compile the model alone, before it is wrapped: a graph around the wrapper would break where it communicates."""
    training.loss = training.module.loss
    training.model.compile(fullgraph=True, dynamic=False, mode=mode)


class Training(pytorch.Training):
    """The training of one rank: its share of each batch, and the gradients' mean over all ranks."""

    def __init__(self, cell: Cell, spec: WorkloadSpec, *arguments: Any, ranks: Ranks, **options: Any) -> None:
        super().__init__(cell, spec, *arguments, **options)
        self.ranks = ranks
        self.whole: torch.nn.Module | None = None
        if cell.strategy == "fsdp":
            # What the parts are put together in, outside of the device's memory.
            self.whole = self.module.build(spec, pytorch.NUMBERS[cell.precision], False, self.device, cell.kernel).cpu()
            self.model = self.model.to(memory_format=torch.contiguous_format)
            # Without a mesh PyTorch takes the GPU, wherever this training is.
            fully_shard(self.model, mesh=init_device_mesh(torch.device(self.device).type, (ranks.world,)))
            self.optimizer = optimizer(spec, [*self.model.parameters()], fused=_has_fused(spec))
            self.parallel = self.model
            return
        if cell.strategy == "synchronised":
            if self.device == "cpu":
                raise UnsupportedError("PyTorch's SyncBatchNorm computes on a GPU only")
            self.model = torch.nn.SyncBatchNorm.convert_sync_batchnorm(self.model)
        if mode := pytorch.COMPILE_MODES[cell.compile]:
            _compile_model(self, mode)
        # Statistics of batch normalisation stay each rank's own. The gradients of eager steps are summed while the
        # backward pass still runs.
        self.parallel = DistributedDataParallel(self.model, broadcast_buffers=False, gradient_as_bucket_view=True)

    def group_settings(self) -> dict[str, Any]:
        """The strategy and the number of devices, read back from what wraps the model and from the process group."""
        whole_batch = any(isinstance(layer, torch.nn.SyncBatchNorm) for layer in self.model.modules())
        is_ddp = isinstance(self.parallel, DistributedDataParallel)
        strategy = ("synchronised" if whole_batch else "ddp") if is_ddp else "fsdp"
        return {"strategy": strategy, "devices": dist.get_world_size()}

    def backward(self, batch: Any) -> list[Tensor]:
        """The first half of a step: gradients, averaged over the ranks with the last part, and each part's loss."""
        parts = [*zip(*(tensor.split(self.cell.batch) for tensor in batch), strict=True)]
        losses = []
        for number, part in enumerate(parts, 1):
            with nullcontext() if number == len(parts) else self._quiet():
                loss = self._forward(*part) / self.cell.accumulate
                loss.backward()
            losses.append(loss.detach())
        return losses

    def _quiet(self) -> Any:
        if isinstance(self.parallel, DistributedDataParallel):
            return self.parallel.no_sync()
        return nullcontext()  # FSDP2 sums every part's gradient, which has no place in full

    def evaluate(self, batch: Any) -> tuple[Tensor, Tensor]:
        """Loss and correctness of each sample of this rank, (b,) each, still on the device; without dropout."""
        if self.whole is None:
            return super().evaluate(batch)
        self.model.eval()  # not in inference mode, whose tensors FSDP2 would keep for training
        with torch.no_grad(), pytorch._autocast(self.cell, self.device):
            losses, right = self.scores(self.model, *batch)
        self.model.train()
        return losses, right

    def read(self, losses: list[Tensor]) -> list[float]:
        """The losses as numbers, their mean over all ranks; waits for the device."""
        return self.ranks.mean(super().read(losses))

    def each(self, losses: list[Tensor]) -> list[float]:
        """The losses of every device by itself, as numbers."""
        return [loss for own in self.ranks.gather(super().read(losses)) for loss in own]

    def weights(self, of: str = "data") -> dict[str, Array]:
        """Every tensor (or, with ``of="grad"``, its gradient) in canonical layout, on the host; all ranks call it."""
        if self.whole is None:
            return super().weights(of)
        for sharded, parameter in zip(self.model.parameters(), self.whole.parameters(), strict=True):
            tensor = getattr(sharded, of)
            if tensor is not None:  # a weight that is not trained has no gradient
                setattr(parameter, of, full(tensor).detach().cpu().clone())
        arrays: dict[str, Array] = self.module.export_weights(self.whole, of=of)
        return arrays

    def _forward(self, inputs: Tensor, labels: Tensor) -> Tensor:
        with pytorch._autocast(self.cell, self.device):
            return self.loss(self.parallel, inputs, labels)


def gradient_bytes(training: Training) -> int:
    """The size of one gradient, as it is summed over the ranks."""
    return sum(parameter.numel() * parameter.element_size() for parameter in training.model.parameters())


def summing(cell: Cell, device: str, ranks: Ranks, size: int) -> Callable[[int], None]:
    """A function that sums an array of ``size`` bytes over all ranks a given number of times and waits for it."""
    del cell, ranks
    array = torch.zeros(max(1, size // 4), device=device)

    def run(count: int) -> None:
        for _ in range(count):
            dist.all_reduce(array)
        if device == "cuda":
            torch.cuda.synchronize()

    return run
