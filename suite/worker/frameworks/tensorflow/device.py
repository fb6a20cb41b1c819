"""What TensorFlow says of its build, the devices it sees, and their memory."""

from __future__ import annotations

import os
from typing import Any

import tensorflow as tf

from suite.plan.cell import Cell
from suite.record.parts.environment import own_cores
from workloads.data.dataset import Array


def installation() -> dict[str, Any]:
    build = tf.sysconfig.get_build_info()
    cards = [tf.config.experimental.get_device_details(card) for card in tf.config.list_physical_devices("GPU")]
    capabilities = [".".join(map(str, card.get("compute_capability", ()))) for card in cards]
    return {
        "version": tf.__version__,
        "cuda": build.get("cuda_version"),
        "cudnn": build.get("cudnn_version"),
        "devices": [
            {"name": card.get("device_name", ""), "compute_capability": capability}
            for card, capability in zip(cards, capabilities, strict=True)
        ],
    }


def other_accelerator() -> str:
    kinds = {each.device_type for each in tf.config.list_physical_devices()} - {"CPU"}
    if "GPU" in kinds and tf.test.is_built_with_rocm():
        return "ROCm"
    if "GPU" in kinds and not tf.test.is_built_with_cuda():
        return "a GPU that is not of CUDA"
    others = sorted(kind for kind in kinds - {"GPU"} if not kind.startswith("XLA_"))
    return f"an accelerator of the kind {others[0]}" if others else ""


def allocator() -> str:
    """TensorFlow has no function that names it, so these are the variables that it reads when it starts."""
    growth = os.environ.get("TF_FORCE_GPU_ALLOW_GROWTH", "true").lower() == "true"
    if os.environ.get("TF_GPU_ALLOCATOR") == "cuda_malloc_async":
        return "cudaMallocAsync"
    if os.environ.get("TF_FORCE_UNIFIED_MEMORY", "").lower() in ("1", "true"):
        return "unified"
    return "default" if growth else "preallocated"


def reset_memory(device: str) -> None:
    """Forget the peaks so far, which the first step's trials may have set."""
    if device == "cuda":
        tf.config.experimental.reset_memory_stats("GPU:0")


def take_threads(cell: Cell) -> None:
    if cell.threads:
        tf.config.threading.set_intra_op_parallelism_threads(cell.threads)
        tf.config.threading.set_inter_op_parallelism_threads(cell.threads)


def threads() -> int:
    """What a function has set, a variable says, or one a core; the pool's threads have no names to count them by."""
    told, asked = tf.config.threading.get_intra_op_parallelism_threads(), os.environ.get("TF_NUM_INTRAOP_THREADS", "")
    return int(told or (asked.strip().isdecimal() and int(asked)) or len(own_cores()))


def memory(device: str) -> dict[str, int]:
    if device == "cpu":
        return {}
    return {"allocator_peak_bytes": int(tf.config.experimental.get_memory_info("GPU:0")["peak"])}


def out_of_memory(error: BaseException) -> bool:
    return isinstance(error, (tf.errors.ResourceExhaustedError, MemoryError))


def place(device: str) -> str:
    """TensorFlow's name of ``cpu`` or ``cuda``."""
    return "/GPU:0" if device == "cuda" else "/CPU:0"


def synchronise(device: str) -> None:
    """Wait until the devices have finished all pending work."""
    if "TF_CONFIG" not in os.environ:
        tf.test.experimental.sync_devices()
        return
    # That one does not know the devices of a cluster. A result is on the host when all before it is computed.
    with tf.device(place(device)):
        (tf.zeros(()) + 1).numpy()


def integers(device: str) -> tf.DType:
    """The type that tokens, labels and plans have on a device.

    On a GPU it is int64, since many kernels there take int32 in the host's memory only: `Identity`, slices,
    comparisons, arguments and results of functions. A batch of int32 would go to the host and back inside a step.
    """
    return tf.int64 if device == "cuda" else tf.int32


def place_array(array: Array | tf.Tensor, device: str) -> tf.Tensor:
    """The array as a tensor on the device, there in the type of `integers` if it is int32."""
    with tf.device(place(device)):
        if device == "cpu":
            return tf.convert_to_tensor(array)
        if tf.as_dtype(array.dtype) == tf.int32:
            return tf.cast(array, integers(device))
        return tf.identity(array)
