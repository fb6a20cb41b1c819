"""The allocators of a GPU's memory, by framework: the variables that choose each, or why a framework lacks it.

This is the memory of a GPU; for the host's see `suite.plan.settings.tunings`. Nothing here has run on a GPU yet.

``default`` leaves the choice to the framework, with its preallocation switched off
(`suite.plan.settings.frameworks.VARIABLES`) and the user's own variables in place. ``cudaMallocAsync`` is CUDA's
stream-ordered pool. ``expandable`` are segments that grow. ``preallocated`` takes the memory at the start. ``unified``
is memory that the host and the GPU share.
"""

from __future__ import annotations

from collections.abc import Mapping

from suite.plan.cell import Cell

#: The variables that choose an allocator. Sources: PyTorch's notes on CUDA, "Optimizing memory usage"; TensorFlow's
#: `gpu_device.cc` and `gpu_process_state.cc`; JAX's page "GPU memory allocation", and XLA's `gpu_helpers.cc`.
CHOSEN_BY: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "pytorch": {
        "default": {},
        "cudaMallocAsync": {"PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync"},
        "expandable": {"PYTORCH_ALLOC_CONF": "expandable_segments:True"},
    },
    "tensorflow": {
        "default": {},
        "cudaMallocAsync": {"TF_GPU_ALLOCATOR": "cuda_malloc_async"},
        # The variable goes before the setting that lets memory grow.
        "preallocated": {"TF_FORCE_GPU_ALLOW_GROWTH": "false"},
        "unified": {"TF_FORCE_UNIFIED_MEMORY": "1"},
    },
    "jax": {
        "default": {},
        "cudaMallocAsync": {"XLA_PYTHON_CLIENT_ALLOCATOR": "cuda_async"},
        "preallocated": {"XLA_PYTHON_CLIENT_ALLOCATOR": "bfc", "XLA_PYTHON_CLIENT_PREALLOCATE": "true"},
        "unified": {"XLA_PYTHON_CLIENT_ALLOCATOR": "bfc", "TF_FORCE_UNIFIED_MEMORY": "1"},
    },
}

#: Why a framework lacks one.
LACKING = {
    ("pytorch", "preallocated"): "PyTorch's allocator takes memory as it needs it; no setting takes it at the start",
    ("pytorch", "unified"): "PyTorch has no allocator for unified memory; a pluggable one would have to be built",
    ("tensorflow", "expandable"): "expandable segments are a mode of PyTorch's allocator",
    ("jax", "expandable"): "expandable segments are a mode of PyTorch's allocator",
}

#: Variables that would add to the choice, or go before it; without a choice the user's own stand.
REPLACED = (
    "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "TF_GPU_ALLOCATOR", "TF_FORCE_GPU_ALLOW_GROWTH",
    "TF_FORCE_UNIFIED_MEMORY", "XLA_PYTHON_CLIENT_ALLOCATOR",
)  # fmt: skip

ON_A_CPU = "a CPU has no allocator of GPU memory to choose; --tuning chooses how its own memory is kept"


def variables(cell: Cell, environment: Mapping[str, str]) -> dict[str, str]:
    """The environment with the variables that choose the cell's allocator, before the framework is imported."""
    if cell.allocator == "default":
        return dict(environment)
    kept = {name: value for name, value in environment.items() if name not in REPLACED}
    return kept | dict(CHOSEN_BY[cell.framework].get(cell.allocator, {}))


def lacking(cell: Cell, device: str) -> str:
    """Why the cell's allocator cannot be had on ``cpu`` or ``cuda``; empty if it can."""
    if cell.allocator == "default":
        return ""
    return ON_A_CPU if device == "cpu" else LACKING.get((cell.framework, cell.allocator), "")


def list_variables(cell: Cell) -> set[str]:
    """The variables that the cell's own allocator has set or removed."""
    return set() if cell.allocator == "default" else {*REPLACED, *CHOSEN_BY[cell.framework].get(cell.allocator, {})}
