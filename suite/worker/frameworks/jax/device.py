"""What JAX says of its build, the devices it sees, and their memory."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from typing import Any

import jax
import jax.numpy as jnp

from suite.worker.frameworks import RecompiledError, UnsupportedError, count_threads


def find_devices() -> list[Any]:
    """The devices of the kind that JAX uses. Raises `UnsupportedError` where ``JAX_PLATFORMS`` hides all."""
    try:
        return jax.devices()
    except (AssertionError, RuntimeError) as error:  # the first where none of these platforms is there
        if not (asked := os.environ.get("JAX_PLATFORMS")):
            raise
        raise UnsupportedError(f"JAX_PLATFORMS is {asked!r}, and JAX finds no such device here; unset it") from error


def refuse_variables() -> None:
    """Raises `UnsupportedError` where a variable hides all devices, or lets JAX compile nothing."""
    find_devices()
    if jax.config.jax_disable_jit:
        raise UnsupportedError("JAX_DISABLE_JIT=1 leaves nothing compiled; unset it")


def installation() -> dict[str, Any]:
    cards = [card for card in find_devices() if card.platform == "gpu"]
    cuda = next((major for major in ("13", "12") if _version(f"jax-cuda{major}-plugin")), None)
    return {
        "version": jax.__version__,
        "cuda": cuda,
        "cudnn": _version(f"nvidia-cudnn-cu{cuda}"),
        "devices": [{"name": card.device_kind, "compute_capability": str(card.compute_capability)} for card in cards],
    }


def other_accelerator() -> str:
    first = find_devices()[0]
    if first.platform == "gpu":  # so does a GPU of AMD call itself
        return f"ROCm ({first.device_kind})" if "rocm" in first.client.platform_version.lower() else ""
    return "" if first.platform == "cpu" else f"an accelerator of the kind {first.platform} ({first.device_kind})"


def call_compiled(step: Any, *arguments: Any) -> Any:
    """What a compiled step returns. Raises `RecompiledError` where it would have to be compiled anew."""
    try:
        return step(*arguments)
    except TypeError as error:  # of other shapes or types than those that were compiled ahead
        raise RecompiledError(f"would have to compile inside the windows: {str(error).splitlines()[0]}") from error


@dataclass
class Programs:
    """A step that is compiled ahead for each shape of its batches, when the first of them comes."""

    compile: Callable[..., Any]
    by_shape: dict[tuple[int, ...], Any]

    def __call__(self, state: Any, inputs: jax.Array, labels: jax.Array) -> Any:
        program = self.by_shape.get(inputs.shape)
        if program is None:
            program = self.by_shape[inputs.shape] = self.compile(state, inputs, labels)
        return program(state, inputs, labels)

    def _cache_size(self) -> int:
        return len(self.by_shape)


def graphs(step: Any) -> int:
    """How many programs a jitted step has compiled; of what is compiled ahead there is one, and stays one."""
    return int(step._cache_size()) if hasattr(step, "_cache_size") else 1


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


#: What spares the trials by which XLA chooses kernels on a GPU: NVIDIA's libraries then choose, by rules of their own.
#: On an H200 (JAX 0.11.2) probing fp32 and its peak took 22 s with them; the peak is the same without (51 TFLOP/s).
WITHOUT_TRIALS = {"xla_gpu_autotune_level": 0, "xla_gpu_enable_triton_gemm": False}


@cache
def without_trials() -> dict[str, Any]:
    """Those of `WITHOUT_TRIALS` that this release of XLA has; for evidence and peaks. What is timed has trials."""
    return {name: value for name, value in WITHOUT_TRIALS.items() if takes({name: value})}


def takes(options: dict[str, Any]) -> bool:
    """Whether this release of XLA has these options of its compiler; it refuses every program with another."""
    program = jax.jit(jnp.negative).lower(0.0)
    try:
        program.compile(compiler_options=options)
    except jax.errors.JaxRuntimeError as error:
        if "No such compile option" not in str(error):
            raise
        return False
    return True


def graphs_switched_off(flags: str) -> bool:
    """Whether the user's own flags switch command buffers off."""
    return "--xla_gpu_enable_command_buffer=" in (flag.strip("'\"") for flag in flags.split())


def memory_fraction() -> float:
    """The share of the card that the client was started with; 75 % is its own choice."""
    return float(os.environ.get("XLA_CLIENT_MEM_FRACTION") or 0.75)


def allocator() -> str:
    """By the variables that name a kind, of which JAX refuses an unknown one, as no function of JAX names it.

    Whether memory was taken at the start shows in the size of the pool after the first array.
    """
    card = jax.local_devices(backend="gpu")[0]
    jax.device_put(0.0, card).block_until_ready()
    stats = card.memory_stats() or {}
    pool, limit = int(stats.get("pool_bytes", 0)), int(stats.get("bytes_limit", 0))
    if os.environ.get("XLA_PYTHON_CLIENT_ALLOCATOR", "default").lower() == "cuda_async":
        return "cudaMallocAsync"
    if os.environ.get("TF_FORCE_UNIFIED_MEMORY", "").lower() in ("1", "true"):
        return "unified"
    return "preallocated" if limit and pool > limit / 2 else "default"


def threads() -> int:
    """How many threads compute an operation: no function of JAX tells it, so those of XLA's pool are counted."""
    return count_threads("tf_XLAEigen")


def reset_memory(device: str) -> None:
    """JAX cannot forget its peaks, which XLA's trials of kernels while it compiles may have set."""
    del device


def memory(device: str) -> dict[str, int]:
    if device == "cpu":
        return {}
    stats = jax.local_devices(backend="gpu")[0].memory_stats() or {}
    names = {"peak_bytes_in_use": "allocator_peak_bytes", "peak_pool_bytes": "allocator_reserved_bytes"}
    return {ours: int(stats[theirs]) for theirs, ours in names.items() if theirs in stats}


def out_of_memory(error: BaseException) -> bool:
    exhausted = isinstance(error, jax.errors.JaxRuntimeError) and "RESOURCE_EXHAUSTED" in str(error)
    return exhausted or isinstance(error, MemoryError)
