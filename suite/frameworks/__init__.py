"""One file per framework, with the same names in the same order, so that they can be read side by side.

Each has `DISTRIBUTIONS`, `NUMBERS`, `prepare`, `Training`, `installation`, `memory`, `out_of_memory`, `product`,
`convolution` and `multiplication`. `Training` takes the step that is measured (`put`, `get`, `compile`, `step`,
`fence`, `read`), evaluates (`evaluate`), goes on where another process ended (`checkpoint`, `restore`), and shows what
it computes (`weights`, `gradients`, `logits`, `compiled`). What a framework says of its build, its devices and their
memory stands in a second file beside each, named ``*_device``. Importing this package imports none of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: How glibc keeps the memory of tensors that were freed, so that the next step does not fault every page in again: in
#: PyTorch's full CNN that was 6 % of a step and most of its spread. The user's own values stand.
ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(64 << 30)}

#: The share of a GPU's memory that PyTorch's and JAX's allocators may take, both counted from the whole card. By
#: default JAX takes 75 % and PyTorch all, so that the largest batches that fit would come of unequal budgets. The rest
#: is for what lies outside of the allocators: the CUDA context, kernels, handles of cuBLAS and cuDNN. TensorFlow has no
#: such setting for an allocator that grows: it takes what is free when it starts, less a reserve of its own (0.5 to 1.8
#: GiB).
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

#: The module that tells whether a framework is there, without importing it.
MODULES = {"pytorch": "torch", "tensorflow": "tensorflow", "jax": "jax"}

#: Dynamic loss scaling in fp16, alike in all three: where it starts, and after how many finite steps it doubles.
LOSS_SCALE = 2.0**16
LOSS_SCALE_GROWTH_STEPS = 2000


class UnsupportedError(RuntimeError):
    """A setting that this framework does not have on this device; the launch is skipped with the reason."""


#: Precisions that are modes of NVIDIA's tensor cores, or too slow elsewhere to be measured.
CUDA_ONLY = {
    "tf32": "TF32 is a mode of NVIDIA's tensor cores",
    "fp16": "float16 training needs the tensor cores of a GPU",
}


def check(workload: str, precision: str, kernel: str, device: str) -> None:
    """Refuse what no framework has on this device. Raises `UnsupportedError` with the reason."""
    if device == "cpu" and precision in CUDA_ONLY:
        raise UnsupportedError(f"{CUDA_ONLY[precision]}; this device is a CPU")
    if kernel != "auto" and workload != "imdb_lstm":
        raise UnsupportedError(f"{workload} has no LSTM whose kernel could be {kernel}")
    if kernel == "cudnn" and device == "cpu":
        raise UnsupportedError("cuDNN needs a CUDA device; this device is a CPU")


def no_cuda(name: str, installed: Mapping[str, Any]) -> str:
    """Why a framework, by its full name, does not run on CUDA here; ``installed`` is its `installation`."""
    version, cuda = installed["version"], installed["cuda"]
    if not cuda:
        return f"{name} {version} was built without CUDA; install the extra {name.lower()}-cuda"
    return f"{name} {version} for CUDA {cuda} sees no CUDA device"
