"""What PyTorch says of its build, the devices it sees, and their memory."""

from __future__ import annotations

from typing import Any

import torch

from suite.catalog.settings import LAYOUTS
from suite.plan.cell import Cell
from suite.worker.frameworks import NUMBERS
from workloads.lengths import FIXED
from workloads.spec import read_declaration


def installation() -> dict[str, Any]:
    """Version, the CUDA and cuDNN it was built for, and the devices it sees; None and empty where there are none."""
    cudnn = torch.backends.cudnn.version() if torch.backends.cudnn.is_available() else None
    cards = [torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count())]
    return {
        "version": torch.__version__,
        "cuda": torch.version.cuda,
        "cudnn": str(cudnn) if cudnn else None,
        "devices": [{"name": card.name, "compute_capability": f"{card.major}.{card.minor}"} for card in cards],
    }


def other_accelerator() -> str:
    """What PyTorch would compute on besides a CPU and CUDA: its kind and its name; empty if nothing."""
    if torch.version.hip and torch.cuda.is_available():  # under the name cuda
        return f"ROCm ({torch.cuda.get_device_name(0)})"
    accelerator = getattr(torch, "accelerator", None)  # new in 2.6
    if accelerator is None or not accelerator.is_available():
        return ""
    kind = str(accelerator.current_accelerator().type)
    return "" if kind == "cuda" else f"an accelerator of the kind {kind}"


def lstm_in_bf16() -> bool:
    """Whether this CPU can compute an LSTM in bf16: oneDNN has it for AVX-512 and newer, and PyTorch has no other."""
    step = torch.nn.LSTM(1, 1)
    try:
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            step(torch.zeros(1, 1, 1))
    except RuntimeError:
        return False
    return True


#: Compile modes that leave each operation to PyTorch's own kernels.
UNCOMPILED = ("eager", "trace")


def lacking(cell: Cell, device: str) -> str:
    """Why PyTorch cannot train the cell's LSTM, or in its layout or lengths, as it asks; empty if it can."""
    numbers = NUMBERS[cell.precision]
    if cell.compile == "trace" and (cell.checkpointing == "on" or numbers.compute != numbers.weights):
        return "torch.jit.trace is measured in one number format and without gradient checkpointing; use eager"
    if cell.lengths != FIXED and cell.compile != "eager":
        return "torch.jit.trace holds one length, and torch.compile stops at eight programs of a function; use eager"
    if cell.layout != LAYOUTS[0] and cell.compile not in UNCOMPILED:
        return "torch.compile chooses the layout of convolutions by itself; use eager"
    if not read_declaration(cell.workload).recurrent:
        return ""
    if cell.compile not in UNCOMPILED:
        return "torch.compile breaks its graph at nn.LSTM, which then runs as it does in eager mode"
    lacks = (cell.precision, device) == ("bf16", "cpu") and not lstm_in_bf16()
    return "PyTorch computes an LSTM in bf16 by oneDNN, which needs AVX-512; this CPU lacks it" if lacks else ""


def set_fp32(kind: str) -> dict[str, str]:
    """Compute float32 in ``tf32`` or as ``ieee`` has it, and return what then is in force.

    By the old switches first, then by those that are new in 2.9, so that all of them agree. With the new ones alone,
    reading an old one raises, which Inductor does where it has kernels to choose from.
    """
    cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
    cudnn.allow_tf32 = matmul.allow_tf32 = kind == "tf32"
    if not hasattr(cudnn, "conv"):
        kinds = ["tf32" if each.allow_tf32 else "ieee" for each in (cudnn, cudnn, matmul)]
    else:
        for switch in (cudnn, cudnn.conv, cudnn.rnn, matmul):
            switch.fp32_precision = kind
        kinds = [each.fp32_precision for each in (cudnn.conv, cudnn.rnn, matmul)]
    return dict(zip(("fp32_convolution", "fp32_rnn", "fp32_matmul"), kinds, strict=True))


def allocator() -> str:
    """The allocator of GPU memory that is in force."""
    backend = torch.cuda.get_allocator_backend()
    if backend != "native":
        return str(backend)
    something = torch.empty(1, device="cuda")  # so that there is a segment to look at
    expandable = any(segment.get("is_expandable") for segment in torch.cuda.memory_snapshot())
    del something
    return "expandable" if expandable else "default"


def take_threads(cell: Cell) -> None:
    """Compute with as many threads as the cell asks for, on a CPU."""
    if cell.threads:
        torch.set_num_threads(cell.threads)
        torch.set_num_interop_threads(cell.threads)


def threads() -> int:
    """How many threads compute an operation."""
    return torch.get_num_threads()


def reset_memory(device: str) -> None:
    """Forget the peaks so far: cuDNN's trials in the first step may have taken gigabytes."""
    if device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def memory(device: str) -> dict[str, int]:
    """The allocator's peaks in bytes; none on a CPU."""
    if device == "cpu":
        return {}
    return {
        "allocator_peak_bytes": torch.cuda.max_memory_allocated(),
        "allocator_reserved_bytes": torch.cuda.max_memory_reserved(),
    }


def out_of_memory(error: BaseException) -> bool:
    """Whether the error means that memory ran out."""
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or "can't allocate memory" in str(error)
