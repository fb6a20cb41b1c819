"""The environment variables with which each framework's process starts."""

from __future__ import annotations

from suite.plan.cell import Cell

#: The share of a GPU's memory that PyTorch's and JAX's allocators may take, both counted from the whole card. By
#: default JAX takes 75 % and PyTorch all, so the largest batches would come from unequal budgets. The rest is for what
#: lies outside of the allocators: the CUDA context, kernels, handles of cuBLAS and cuDNN. TensorFlow has no such
#: setting for an allocator that grows: it takes what is free when it starts, less a reserve of its own (0.5 to
#: 1.8 GiB).
MEMORY_FRACTION = 0.95

#: Environment variables that must be set before the framework is imported.
VARIABLES: dict[str, dict[str, str]] = {
    "pytorch": {},
    # Keras reads its backend at import, whatever a settings file in the home folder says.
    "tensorflow": {"KERAS_BACKEND": "tensorflow"},
    "jax": {
        # A preallocating client would hide what a model really needs.
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        "XLA_CLIENT_MEM_FRACTION": str(MEMORY_FRACTION),
        "XLA_PYTHON_CLIENT_MEM_FRACTION": "",  # the older name; XLA refuses to start where both are set
    },
}

#: The frameworks by the names that Keras has for them as its backends.
KERAS_BACKENDS = {"pytorch": "torch", "tensorflow": "tensorflow", "jax": "jax"}


def variables_of(cell: Cell) -> dict[str, str]:
    """The variables of a cell's framework, and with Keras its backend, which it reads at import."""
    backend = {"KERAS_BACKEND": KERAS_BACKENDS[cell.framework]} if cell.interface.startswith("keras") else {}
    return VARIABLES[cell.framework] | backend
