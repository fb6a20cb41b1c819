"""The environment variables with which each framework's process starts."""

from __future__ import annotations

#: How glibc keeps the memory of tensors that were freed, so that the next step does not fault every page in again: in
#: PyTorch's full CNN that was 6 % of a step and most of its spread. The user's own values stand.
ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(64 << 30)}

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
