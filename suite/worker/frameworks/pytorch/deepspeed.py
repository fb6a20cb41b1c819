"""PyTorch's strategy ``deepspeed``: ZeRO stage 1 of DeepSpeed, a process for each device.

Each process keeps the optimizer's state of a part of the weights, moves that part, and gets the others from the other
processes. The weights lie contiguously, as DeepSpeed refuses channels-last ones. Its clipping of gradients is off.
"""

from __future__ import annotations

import os
from importlib import import_module
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from suite.plan.cell import Cell
from suite.plan.settings.strategies import FLAT, why_not_measured
from suite.worker.distributed.ranks import Ranks
from suite.worker.frameworks import UnsupportedError
from suite.worker.frameworks.pytorch import devices as pytorch_devices
from suite.worker.frameworks.pytorch import training as pytorch
from suite.worker.frameworks.pytorch.devices import gradient_bytes, loaders, summing
from suite.worker.frameworks.pytorch.optimizer import optimizer
from workloads.data.dataset import Array
from workloads.spec import LAYERWISE, WorkloadSpec

# What `suite.worker.distributed.process_group` asks of the file for a strategy.
__all__ = ("Training", "connect", "gradient_bytes", "init_process_group", "loaders", "match_strategy", "summing")


def connect(cell: Cell, device: str, ranks: Ranks) -> None:
    cuda = device != "cpu" and torch.cuda.is_available()
    # DeepSpeed reads both at its import: the launcher shows each rank its own device only, as its first.
    os.environ.setdefault("DS_ACCELERATOR", "cuda" if cuda else "cpu")
    os.environ["LOCAL_RANK"] = "0"
    _deepspeed()
    pytorch_devices.connect(cell, device, ranks)


def _deepspeed() -> ModuleType:
    try:
        deepspeed = import_module("deepspeed")
    except ModuleNotFoundError as error:
        if error.name != "deepspeed":
            raise
        raise UnsupportedError(
            "DeepSpeed is not installed beside PyTorch; install the extra deepspeed there: "
            "pip install -e '.[pytorch-cpu,deepspeed]', or with pytorch-cuda"
        ) from None
    # None of its own operations: on a CPU it would compile one that only inference uses, for a minute in each launch.
    deepspeed.ops.__compatible_ops__ = {}
    return deepspeed


def init_process_group(cell: Cell, device: str, ranks: Ranks) -> dict[str, Any]:
    settings = pytorch_devices.init_process_group(cell, device, ranks)
    return settings | {"deepspeed": _deepspeed().__version__, "zero_stage": 1, "memory_format": "contiguous"}


def match_strategy(local: pytorch.Training, cell: Cell, spec: WorkloadSpec) -> None:
    del cell
    local.model = local.model.to(memory_format=torch.contiguous_format)
    local.optimizer = optimizer(spec, [weight for weight in local.model.parameters() if weight.requires_grad])


def configuration(cell: Cell, spec: WorkloadSpec) -> dict[str, Any]:
    """What DeepSpeed is told; https://www.deepspeed.ai/docs/config-json has the names and the defaults."""
    numbers = pytorch.NUMBERS[cell.precision]
    return {
        "train_micro_batch_size_per_gpu": cell.batch,
        "gradient_accumulation_steps": cell.accumulate,
        "gradient_clipping": 0.0,  # by default gradients whose norm is above 1 are clipped
        "zero_optimization": {
            "stage": 1,
            "reduce_bucket_size": spec.parameters,  # one sum of all gradients
            "compute_grad_norm": False,  # only clipping needs it
        },
        "zero_allow_untested_optimizer": True,  # PyTorch's own
        # Gradients are summed in float32, as the other strategies do; by default those of some layers are not.
        "torch_autocast": {
            "enabled": numbers.compute != numbers.weights,
            "dtype": numbers.compute,
            "lower_precision_safe_modules": [],
        },
        "timers": {"throughput": {"enabled": False}},  # which would wait for the device
    }


class Training(pytorch.Training):
    """The training of one rank: its share of each batch, and its part of the optimizer."""

    def __init__(self, cell: Cell, spec: WorkloadSpec, *arguments: Any, ranks: Ranks, **options: Any) -> None:
        if reason := why_not_measured(cell) or (FLAT if isinstance(spec.optimizer, LAYERWISE) else ""):
            raise UnsupportedError(reason)  # the proof in float64, too
        super().__init__(cell, spec, *arguments, **options)
        self.ranks = ranks
        match_strategy(self, cell, spec)
        self.engine, *_ = _deepspeed().initialize(
            model=self.model, optimizer=self.optimizer, config=configuration(cell, spec)
        )

    def group_settings(self) -> dict[str, Any]:
        """The strategy and the number of devices, read back from the engine."""
        return {"strategy": "deepspeed", "devices": self.engine.world_size}

    def backward(self, batch: Any) -> list[Tensor]:
        losses = []
        for number, part in enumerate(zip(*(tensor.split(self.cell.batch) for tensor in batch), strict=True)):
            if number:
                self.engine.step()  # counts the part; no more than that before the last one
            with pytorch._autocast(self.cell, self.device):
                loss = self.loss(self.engine, *part)
            self.engine.backward(loss)  # which divides it by the number of parts
            losses.append(loss.detach() / self.cell.accumulate)
        return losses

    def update(self) -> None:
        if self.rates is not None:
            for group in self.optimizer.param_groups:
                group["lr"] = float(self.rates[self.steps])
        self.steps += 1
        self.engine.step()

    def read(self, losses: list[Tensor]) -> list[float]:
        return self.ranks.mean(super().read(losses))

    def each(self, losses: list[Tensor]) -> list[float]:
        return [loss for own in self.ranks.gather(super().read(losses)) for loss in own]

    def restore(self, state: dict[str, Array]) -> None:
        super().restore(state)
        self.engine.optimizer.refresh_fp32_params()  # its own copy of the weights that this rank moves
