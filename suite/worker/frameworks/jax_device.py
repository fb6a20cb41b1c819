"""What JAX says of its build, the devices it sees, and their memory."""

from __future__ import annotations

from importlib import metadata
from typing import Any

import jax


def installation() -> dict[str, Any]:
    """Version, the CUDA and cuDNN it was built for, and the devices it sees; None and empty where there are none."""
    cards = [card for card in jax.devices() if card.platform == "gpu"]
    cuda = next((major for major in ("13", "12") if _version(f"jax-cuda{major}-plugin")), None)
    return {
        "version": jax.__version__,
        "cuda": cuda,
        "cudnn": _version(f"nvidia-cudnn-cu{cuda}"),
        "devices": [{"name": card.device_kind, "compute_capability": str(card.compute_capability)} for card in cards],
    }


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def memory(device: str) -> dict[str, int]:
    """The allocator's peaks in bytes; none on a CPU."""
    if device == "cpu":
        return {}
    stats = jax.local_devices(backend="gpu")[0].memory_stats() or {}
    names = {"peak_bytes_in_use": "allocator_peak_bytes", "peak_pool_bytes": "allocator_reserved_bytes"}
    return {ours: int(stats[theirs]) for theirs, ours in names.items() if theirs in stats}


def out_of_memory(error: BaseException) -> bool:
    """Whether the error means that memory ran out."""
    exhausted = isinstance(error, jax.errors.JaxRuntimeError) and "RESOURCE_EXHAUSTED" in str(error)
    return exhausted or isinstance(error, MemoryError)
