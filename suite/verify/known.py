"""What a machine of a kind can do, and what was trained: facts that a bundle is held against."""

from __future__ import annotations

import re
from collections.abc import Mapping

#: SHA-256 of the data sets as the suite stores them, made of the official archives.
DATA = {
    "cifar100": "2a692ece3508eaa2f7a14b37424b7241b020cb402ecb757430ab3caeb920987c",
    "imdb": "7ba2c6aa9394f3ba8f952f0f22f68aa0f589a76f7265604e5848c9f0e71069c8",
}

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

#: FLOP of one core in a cycle, at most: two fused multiply-adds of 512 bits, and in short types a matrix unit; and
#: cycles in a second, at most.
CORE_FLOPS = {"fp64": 32, "fp32": 64, "tf32": 64, "bf16": 2048, "fp16": 2048}
CORE_HZ = 6e9


def gpu_peak(name: str, precision: str) -> float | None:
    """The peak of a GPU with this name in FLOP/s; None if it is not known."""
    found = next((rates for pattern, rates in GPUS.items() if re.search(pattern, name)), {})
    return 1e12 * found[precision] if precision in found else None


def core_peak(cores: int, precision: str) -> float | None:
    """More than so many cores of any processor can do, in FLOP/s."""
    return cores * CORE_HZ * CORE_FLOPS[precision] if precision in CORE_FLOPS else None
