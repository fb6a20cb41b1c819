"""The kinds of devices that the suite measures."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from suite.catalog import load_installed


@dataclass(frozen=True)
class Device:
    """One kind of device: its name in options and records, what it is called, and whether this machine has one.

    Its peaks are measured with a product of square matrices of ``peak_side``, an array of ``triad_elements`` that no
    cache holds, and a sum over devices of ``summed_bytes``.
    """

    name: str
    title: str
    is_here: Callable[[], bool]
    is_accelerator: bool = True
    peak_side: int = 8192
    triad_elements: int = 2**28
    summed_bytes: int = 2**28


#: The variable by which CUDA shows a process some GPUs only, and counts those from 0.
VISIBLE = "CUDA_VISIBLE_DEVICES"


def shown_gpus() -> list[str]:
    """The GPUs that this process may use, as `VISIBLE` names them; empty where nothing tells their number."""
    if names := os.environ.get(VISIBLE):
        return names.split(",")
    return [str(number) for number, _ in enumerate(Path("/dev").glob("nvidia[0-9]*"))]


def has_gpu() -> bool:
    """Whether this machine shows an NVIDIA GPU and `CUDA_VISIBLE_DEVICES` does not hide all of them."""
    hidden = os.environ.get(VISIBLE, "0") in ("", "-1")
    # Linux under Windows has the second instead of the first.
    return not hidden and (Path("/dev/nvidiactl").exists() or Path("/usr/lib/wsl/lib/libcuda.so.1").exists())


_ALL = (
    Device("cpu", "CPU", lambda: True, is_accelerator=False, peak_side=1024, triad_elements=2**24, summed_bytes=2**25),
    Device("cuda", "GPU", has_gpu),
)

#: By name.
DEVICES: dict[str, Device] = {each.name: each for each in (*_ALL, *load_installed("devices"))}

#: The names of those with a memory and a clock of their own.
ACCELERATORS = tuple(name for name, each in DEVICES.items() if each.is_accelerator)

#: The values of ``--device``.
CHOICES = ("auto", *DEVICES)
HELP = f"{', '.join(DEVICES)}, cuda:N for the N-th GPU, or auto: a GPU if there is one (default: auto)"

#: Dense peak rates of a GPU in TFLOP/s, without sparsity: fp32 outside of tensor cores, then tf32, bf16 and fp16.
#: The first pattern that a name has decides. From NVIDIA's data sheets of H200, H100, A100, L40S, L4, A10, T4 and V100.
GPUS: Mapping[str, Mapping[str, float]] = {
    r"H200|GH200|H100.*(SXM|HBM3)": {"fp32": 67, "tf32": 494, "bf16": 989, "fp16": 989},
    r"H100.*NVL": {"fp32": 60, "tf32": 418, "bf16": 835, "fp16": 835},
    r"H100": {"fp32": 51, "tf32": 378, "bf16": 756, "fp16": 756},
    r"A100": {"fp32": 19.5, "tf32": 156, "bf16": 312, "fp16": 312},
    r"L40S": {"fp32": 91.6, "tf32": 183, "bf16": 362, "fp16": 362},
    r"\bL4\b": {"fp32": 30.3, "tf32": 60, "bf16": 121, "fp16": 121},
    r"\bA10\b": {"fp32": 31.2, "tf32": 62.5, "bf16": 125, "fp16": 125},
    r"\bT4\b": {"fp32": 8.1, "fp16": 65},
    r"V100": {"fp32": 15.7, "fp16": 125},
}  # fmt: skip


def gpu_peak(name: str, precision: str) -> float | None:
    """The peak of a GPU with this name in FLOP/s; None if it is not known."""
    found = next((rates for pattern, rates in GPUS.items() if re.search(pattern, name)), {})
    return 1e12 * found[precision] if precision in found else None
