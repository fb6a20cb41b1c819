"""PyTorch: global precision switches, autocast, one training step in place."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch._dynamo.utils import counters

from suite.plan.cell import Cell
from suite.plan.settings.frameworks import MEMORY_FRACTION
from suite.plan.settings.tunings import flushes
from suite.worker.frameworks import (
    LOSS_SCALE,
    LOSS_SCALE_GROWTH_STEPS,
    NUMBERS,
    UnsupportedError,
    build,
    check_batch,
    choose,
)
from suite.worker.frameworks.pytorch.device import (
    installation,
    lacking,
    memory,
    other_accelerator,
    out_of_memory,
    reset_memory,
    set_fp32,
    take_threads,
)
from suite.worker.frameworks.pytorch.optimizer import find_decays, kernels_of, lay_as, optimizer, own_part
from suite.worker.frameworks.pytorch.traced import Traced
from workloads.data.dataset import Array
from workloads.defaults.pytorch import join
from workloads.lengths import FIXED
from workloads.spec import WorkloadSpec

__all__ = (
    "DISTRIBUTIONS", "NUMBERS", "Training", "convolution", "installation", "memory", "multiplication", "out_of_memory",
    "prepare", "product", "reset_memory",
)  # fmt: skip

DISTRIBUTIONS = ("torch", "triton")
#: The modes of `torch.compile`; the others have none.
COMPILE_MODES = {"eager": None, "compile": "default", "max": "max-autotune", "trace": None}

Batch = tuple[Tensor, Tensor]


def prepare(cell: Cell, device: str, seed: int) -> tuple[str, dict[str, Any]]:
    """Choose the device, set every global switch, and read back the settings.

    ``device`` is ``auto``, ``cpu`` or ``cuda``; returns ``cpu`` or ``cuda``, and the settings. Raises
    `UnsupportedError` for what PyTorch does not have there.
    """
    device = choose(
        cell,
        device,
        "PyTorch",
        cuda=torch.cuda.is_available(),
        installation=installation,
        other=other_accelerator(),
        modes=COMPILE_MODES,
    )
    if reason := lacking(cell, device):
        raise UnsupportedError(reason)
    take_threads(cell)
    torch.manual_seed(seed)
    # TensorFlow and XLA do so by themselves on a CPU. Threads inherit it, so it comes before the first computation.
    torch.set_flush_denormal(flushes(cell))
    fp32 = set_fp32("tf32" if cell.precision == "tf32" else "ieee")
    if device == "cuda":
        torch.cuda.set_per_process_memory_fraction(MEMORY_FRACTION)
    # Where shapes never change within a launch, trying the algorithms once pays off.
    torch.backends.cudnn.benchmark = cell.lengths == FIXED
    torch.backends.cudnn.enabled = cell.kernel != "scan"
    return device, {
        "device": device,
        "device_name": torch.cuda.get_device_name() if device == "cuda" else "",
        **fp32,
        "memory_format": "contiguous" if cell.layout == "channels-first" else "channels_last",
        "optimizer": kernels_of(cell),
        **({"memory_fraction": MEMORY_FRACTION, "cuda_graphs": cell.compile == "max"} if device == "cuda" else {}),
    }


class Training:
    """A model with its optimizer, and the step that is measured."""

    def __init__(
        self, cell: Cell, spec: WorkloadSpec, module: ModuleType, weights: dict[str, Array], device: str,
        *, dropout: bool = True, seed: int = 0, rates: Array | None = None,
    ) -> None:  # fmt: skip
        """``rates`` are the learning rates of all steps, where they are not the spec's one.

        Where a step of fp16 overflows and changes nothing, the next still takes the next rate.
        """
        del seed  # dropout draws from the global generator, which `prepare` seeds
        self.cell, self.module, self.device = cell, module, device
        self.model = build(module, cell, spec, NUMBERS[cell.precision], dropout, device)
        decays = find_decays(module, self.model, spec)
        module.import_weights(self.model, weights)
        parameters = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        self.optimizer = optimizer(spec, parameters, decays)
        self.scaler = None
        if cell.precision == "fp16":
            self.scaler = torch.amp.GradScaler(device, init_scale=LOSS_SCALE, growth_interval=LOSS_SCALE_GROWTH_STEPS)
        self.rates, self.steps = spec.optimizer.rates if rates is None else rates, 0
        # In the memory of a CUDA graph they would not outlive the next part of the batch.
        self.keeps_gradients = device == "cuda" and cell.compile == "max" and cell.accumulate > 1
        if self.keeps_gradients:
            for parameter in parameters:
                parameter.grad = torch.zeros_like(parameter)
        self.loss, self.scores = module.loss, module.scores
        mode = COMPILE_MODES[cell.compile]
        self.programs = "none"  # where lengths differ: other modes than eager are refused
        if mode:
            self.loss = torch.compile(module.loss, fullgraph=True, dynamic=False, mode=mode)
            self.scores = torch.compile(module.scores, fullgraph=True, dynamic=False, mode=mode)
        elif cell.compile == "trace":
            self.loss, self.scores = Traced(module.loss), Traced(module.scores)

    def put(self, batch: tuple[Array | Tensor, Array | Tensor]) -> Batch:
        """The batch on the device; from pinned memory without waiting for it."""
        inputs, labels = (torch.as_tensor(array).to(self.device, non_blocking=True) for array in batch)
        return inputs, labels

    def get(self, batch: Batch) -> tuple[Array, Array]:
        """The batch back on the host, as it reached the device."""
        inputs, labels = (tensor.cpu().numpy() for tensor in batch)
        return inputs, labels

    def compile(self, batch: Batch) -> bool:
        """Compile before the first step, if that can be timed by itself; returns whether anything was compiled."""
        if self.cell.compile != "trace":
            return False  # torch.compile works inside the first call
        self.loss.prepare(self.model, *(tensor[: self.cell.batch] for tensor in batch))
        return True

    def step(self, batch: Batch) -> Tensor:
        """Make one update; returns the loss before it, averaged over the accumulated batches, still on the device."""
        check_batch(self.cell, len(batch[1]))
        losses = self.backward(batch)
        self.update()
        return losses[0] if len(losses) == 1 else torch.stack(losses).sum()

    def backward(self, batch: Batch) -> list[Tensor]:
        """The first half of a step: gradients, and each part's share of the loss."""
        losses = []
        for part in zip(*(tensor.split(self.cell.batch) for tensor in batch), strict=True):
            loss = self._forward(*part) / self.cell.accumulate
            (self.scaler.scale(loss) if self.scaler else loss).backward()
            losses.append(loss.detach())  # a quotient of its own, which no later replay of a CUDA graph overwrites
        return losses

    def update(self) -> None:
        """The second half: the optimizer follows the gradients, which then are gone."""
        if self.rates is not None:
            for group in self.optimizer.param_groups:
                group["lr"] = float(self.rates[self.steps])
        self.steps += 1
        if self.scaler:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=not self.keeps_gradients)

    def evaluate(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Loss and correctness of each sample, (b,) each, still on the device; without dropout."""
        self.model.eval()
        with torch.inference_mode(), _autocast(self.cell, self.device):
            losses, right = self.scores(self.model, *batch)
        self.model.train()
        if self.cell.compile == "max":  # as in `step`
            return losses.clone(), right.clone()
        return losses, right

    def fence(self, pending: Any = None) -> None:
        """Wait until the device has finished all pending work."""
        del pending
        if self.device == "cuda":
            torch.cuda.synchronize()

    def read(self, losses: list[Tensor]) -> list[float]:
        """The losses as numbers; waits for the device."""
        return [float(loss) for loss in torch.stack(losses).cpu()] if losses else []

    def count_compiled(self) -> dict[str, int]:
        """The number of compiled graphs and of graph breaks so far."""
        return {
            "graphs": counters["stats"]["unique_graphs"] + len(getattr(self.loss, "graphs", ())),
            "graph_breaks": sum(counters["graph_break"].values()),
        }

    def weights(self, of: str = "data") -> dict[str, Array]:
        """Every tensor (or, with ``of="grad"``, its gradient) in canonical layout, on the host."""
        return self.module.export_weights(self.model, of=of)

    def checkpoint(self) -> dict[str, Array]:
        """Everything that the next step depends on besides its batch, for a checkpoint."""
        tensors = {f"model/{name}": tensor for name, tensor in self.model.state_dict().items()}
        for index, buffers in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer/{index}/{name}": value for name, value in buffers.items() if value is not None}
        tensors["random/cpu"] = torch.get_rng_state()
        if self.device == "cuda":
            tensors["random/cuda"] = torch.cuda.get_rng_state()
        arrays = {name: own_part(tensor).cpu().numpy() for name, tensor in tensors.items()}
        scale = self.scaler.state_dict() if self.scaler else {}
        return arrays | {"steps": np.array(self.steps), "scale": np.array([*scale.values()], float)}

    @torch.no_grad()
    def restore(self, state: dict[str, Array]) -> None:
        """Resume from a checkpoint. Raises `ValueError` for that of another model."""
        self.steps = int(state["steps"])
        tensors = {name: torch.from_numpy(np.array(array)) for name, array in state.items()}
        saved = {name[6:]: tensor for name, tensor in tensors.items() if name.startswith("model/")}
        own = {name: own_part(tensor) for name, tensor in self.model.state_dict().items()}
        if {name: tensor.shape for name, tensor in own.items()} != {name: each.shape for name, each in saved.items()}:
            raise ValueError("the checkpoint is of another model: its tensors have other names or shapes")
        for name, tensor in own.items():
            tensor.copy_(saved[name])
        trained = [weight for group in self.optimizer.param_groups for weight in group["params"]]
        buffers: dict[int, dict[str, Tensor]] = {}
        for path, tensor in tensors.items():
            if path.startswith("optimizer/"):
                _, index, name = path.split("/")
                buffers.setdefault(int(index), {})[name] = lay_as(trained[int(index)], tensor)
        self.optimizer.load_state_dict(self.optimizer.state_dict() | {"state": buffers})
        torch.set_rng_state(tensors["random/cpu"])
        if self.device == "cuda":
            torch.cuda.set_rng_state(tensors["random/cuda"])
        if self.scaler:
            names = self.scaler.state_dict()
            scale = dict(zip(names, state["scale"].tolist(), strict=True))
            self.scaler.load_state_dict({name: type(names[name])(value) for name, value in scale.items()})

    def gradients(self, batch: Batch) -> tuple[float, dict[str, Array]]:
        """Loss and the loss' own gradient (without L2), in canonical layout; changes no weight."""
        loss = self._forward(*batch)
        loss.backward()
        gradients = self.module.export_weights(self.model, of="grad")
        self.optimizer.zero_grad(set_to_none=True)
        return float(loss.detach()), gradients

    def logits(self, batch: Batch) -> Array:
        """The model's output, on the host."""
        with torch.no_grad(), _autocast(self.cell, self.device):
            return join(self.model(batch[0])).double().cpu().numpy()

    def _forward(self, inputs: Tensor, labels: Tensor) -> Tensor:
        with _autocast(self.cell, self.device):
            return self.loss(self.model, inputs, labels)


def product(cell: Cell, device: str, a: Array, b: Array) -> Array:
    """The matrix product as a layer computes it in the cell's precision."""
    left, right = _operands(cell, device, a, b)
    with torch.no_grad(), _autocast(cell, device):
        return torch.matmul(left, right).double().cpu().numpy()


def convolution(cell: Cell, device: str, images: Array, kernel: Array) -> Array:
    """The "valid" convolution of NHWC images with an HWIO kernel, likewise."""
    left, right = _operands(cell, device, images.transpose(0, 3, 1, 2), kernel.transpose(3, 2, 0, 1))
    with torch.no_grad(), _autocast(cell, device):
        output = torch.nn.functional.conv2d(left.contiguous(memory_format=torch.channels_last), right)
    return output.permute(0, 2, 3, 1).double().cpu().numpy()


def multiplication(cell: Cell, device: str, a: Array, b: Array, repeats: int = 1) -> Callable[[int], None]:
    """A function that multiplies both, repeated along their sides on the device, so many times and waits for it."""
    compute = getattr(torch, NUMBERS[cell.precision].compute)  # autocast would cast both in every product
    left, right = (operand.to(compute).repeat(repeats, repeats) for operand in _operands(cell, device, a, b))

    def run(count: int) -> None:
        with torch.no_grad():
            for _ in range(count):
                torch.matmul(left, right)
        if device == "cuda":
            torch.cuda.synchronize()

    return run


def _operands(cell: Cell, device: str, *arrays: Array) -> list[Tensor]:
    dtype = getattr(torch, NUMBERS[cell.precision].weights)
    return [torch.tensor(array, dtype=dtype, device=device) for array in arrays]


def _autocast(cell: Cell, device: str) -> torch.autocast:
    numbers = NUMBERS[cell.precision]
    mixed = numbers.compute != numbers.weights
    return torch.autocast(device, getattr(torch, numbers.compute) if mixed else None, enabled=mixed)
