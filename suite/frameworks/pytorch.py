"""PyTorch: global precision switches, one training step in place, optimizers of its own."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from suite.cell import Cell
from suite.frameworks import UnsupportedError
from workloads.data.dataset import Array
from workloads.spec import Numbers, Sgd, WorkloadSpec

DISTRIBUTIONS = ("torch", "triton")

NUMBERS = {"fp32": Numbers(), "fp64": Numbers("float64", "float64")}

Batch = tuple[Tensor, Tensor]


def prepare(cell: Cell, device: str, seed: int) -> tuple[str, dict[str, Any]]:
    """Choose the device, set every global switch, and read back what is in force.

    ``device`` is ``auto``, ``cpu`` or ``cuda``; the answer is ``cpu`` or ``cuda``, and the settings.
    """
    found = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and found == "cpu":
        raise UnsupportedError("PyTorch sees no CUDA device")
    device = found if device == "auto" else device
    if cell.compile not in ("eager", "compile"):
        raise UnsupportedError(f"PyTorch has no compile mode {cell.compile!r}; it has eager and compile")
    torch.manual_seed(seed)
    switches = (torch.backends.cudnn.conv, torch.backends.cudnn.rnn, torch.backends.cuda.matmul)
    for switch in switches:
        switch.fp32_precision = "ieee"
    # Shapes never change within a launch, so that trying the algorithms once pays off.
    torch.backends.cudnn.benchmark = True
    return device, {
        "device": device,
        "threads": torch.get_num_threads(),
        "fp32_convolution": torch.backends.cudnn.conv.fp32_precision,
        "fp32_rnn": torch.backends.cudnn.rnn.fp32_precision,
        "fp32_matmul": torch.backends.cuda.matmul.fp32_precision,
        "device_name": torch.cuda.get_device_name() if device == "cuda" else "",
        "memory_format": "channels_last",
        "optimizer": "fused",
    }


class Training:
    """A model with its optimizer, and the step that is measured."""

    def __init__(
        self, cell: Cell, spec: WorkloadSpec, module: ModuleType, weights: dict[str, Array], device: str,
        *, dropout: bool = True, seed: int = 0,
    ) -> None:  # fmt: skip
        del seed  # dropout draws from the global generator, which `prepare` seeds
        self.module, self.device, self.compiles = module, device, cell.compile == "compile"
        self.model = module.build(spec, NUMBERS[cell.precision], dropout, device)
        module.import_weights(self.model, weights)
        trained = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        self.optimizer = _optimizer(spec, trained)
        self.loss = torch.compile(module.loss, fullgraph=True) if self.compiles else module.loss

    def put(self, batch: tuple[Array | Tensor, Array | Tensor]) -> Batch:
        """The batch on the device; from pinned memory without waiting for it."""
        inputs, labels = (torch.as_tensor(array).to(self.device, non_blocking=True) for array in batch)
        return inputs, labels

    def get(self, batch: Batch) -> tuple[Array, Array]:
        """The batch back on the host, as it reached the device."""
        inputs, labels = (tensor.cpu().numpy() for tensor in batch)
        return inputs, labels

    def compile(self, batch: Batch) -> bool:
        """Compile ahead of the first step where that can be told apart; whether anything was."""
        del batch  # torch.compile works inside the first call
        return False

    def step(self, batch: Batch) -> Tensor:
        """One update; the loss before it, still on the device."""
        loss = self.loss(self.model, *batch)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    def fence(self, pending: Any = None) -> None:
        """Wait until the device has done all that was asked of it."""
        del pending
        if self.device == "cuda":
            torch.cuda.synchronize()

    def read(self, losses: list[Tensor]) -> list[float]:
        """The losses as numbers; waits for the device."""
        return [float(loss) for loss in torch.stack(losses).cpu()] if losses else []

    def weights(self) -> dict[str, Array]:
        """Every tensor in canonical layout, on the host."""
        return self.module.export_weights(self.model)

    def gradients(self, batch: Batch) -> tuple[float, dict[str, Array]]:
        """Loss and the loss' own gradient (without L2), in canonical layout; changes no weight."""
        loss = self.loss(self.model, *batch)
        loss.backward()
        found = self.module.export_weights(self.model, of="grad")
        self.optimizer.zero_grad(set_to_none=True)
        return float(loss.detach()), found

    def logits(self, batch: Batch) -> Array:
        """The model's output, on the host."""
        with torch.no_grad():
            return self.model(batch[0]).cpu().numpy()


def memory(device: str) -> dict[str, int]:
    """The allocator's peaks in bytes; none on a CPU."""
    if device == "cpu":
        return {}
    return {
        "allocator_peak_bytes": torch.cuda.max_memory_allocated(),
        "allocator_reserved_bytes": torch.cuda.max_memory_reserved(),
    }


def out_of_memory(error: BaseException) -> bool:
    """Whether the error says that memory did not suffice."""
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or "can't allocate memory" in str(error)


def _optimizer(spec: WorkloadSpec, trained: list[Tensor]) -> torch.optim.Optimizer:
    chosen = spec.optimizer
    if isinstance(chosen, Sgd):
        return torch.optim.SGD(
            trained, lr=chosen.learning_rate, momentum=chosen.momentum, weight_decay=chosen.l2, fused=True
        )
    return torch.optim.Adam(
        trained, lr=chosen.learning_rate, betas=(chosen.beta1, chosen.beta2), eps=chosen.epsilon, fused=True
    )
