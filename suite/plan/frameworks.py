"""The environment variables with which each framework's process starts."""

from __future__ import annotations

from suite.plan.cell import Cell

#: How glibc keeps the memory of tensors that were freed, so that the next step does not fault every page in again. By
#: default it maps every block above 32 MiB anew, in each step, and so it does above the heap of any thread but the
#: first. JAX's full CNN took 281,000 page faults a step (batch 32, two cores) and 0.6 s of 1.7 s of processor time in
#: the kernel, PyTorch's full LSTM 57,000 faults (batch 64); with these settings there are next to none in any
#: framework. The user's own values stand. For the memory of a GPU see `suite.plan.allocators`.
HOST_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_ARENA_MAX": "1", "MALLOC_TRIM_THRESHOLD_": str(64 << 30)}

#: In TensorFlow's LSTM two threads run some 24,700 small operations a step, each of which allocates. With one arena,
#: whose lock they probably wait for, a step takes longer: 166 against 134 ms (batch 32, medians of five processes each,
#: two cores), 199 against 159 (64). Its CNN is as fast or faster with one (406 against 447 ms), and JAX's CNN needs it
#: (609 against 860 ms with two arenas, two processes each).
ARENAS = {("tensorflow", "imdb_lstm"): "8"}

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


def host_memory(cell: Cell) -> dict[str, str]:
    """How the cell's process keeps freed memory: `HOST_MEMORY`, with the arenas that suit it best."""
    arenas = ARENAS.get((cell.framework, cell.workload), HOST_MEMORY["MALLOC_ARENA_MAX"])
    return HOST_MEMORY | {"MALLOC_ARENA_MAX": arenas}


def variables_of(cell: Cell) -> dict[str, str]:
    """The variables of a cell's framework, and with Keras its backend, which it reads at import."""
    backend = {"KERAS_BACKEND": KERAS_BACKENDS[cell.framework]} if cell.interface.startswith("keras") else {}
    return VARIABLES[cell.framework] | backend
