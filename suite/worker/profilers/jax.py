"""JAX's profiler: the instructions of the compiled step, on the host's threads or on a GPU's streams."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from suite.worker.profilers import xla
from suite.worker.profilers.profiling import Recording, chrome_trace
from suite.worker.profilers.timeline import nvtx_range
from suite.worker.profilers.xla_events import events_of
from suite.worker.profilers.xplane import rows_of_jax

Loop = Callable[[int], None]


@contextmanager
def span(name: str) -> Iterator[None]:
    with jax.profiler.TraceAnnotation(name), nvtx_range(name):
        yield


def record(
    training: Any, loop: Loop, steps: int, folder: Path, batch: Any = None, *, memory: bool = False
) -> Recording:
    """Run the steps under `jax.profiler`, whose files stay in the folder."""
    del batch  # the program is compiled already
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0  # every Python call would be an event
    options.host_tracer_level = 2  # instructions on a CPU
    jax.profiler.start_trace(str(folder), profiler_options=options)
    try:
        loop(steps)
    finally:
        jax.profiler.stop_trace()
    (path,) = folder.glob("**/*.xplane.pb")
    events = events_of(
        rows_of_jax(jax.profiler.ProfileData.from_file(str(path))), xla.program(training.jitted.as_text())
    )
    extra = {"memory.prof": jax.profiler.device_memory_profile()} if memory else {}
    return Recording(events, chrome_trace(events, "JAX"), _count(training), extra=extra)


def code(training: Any, batch: Any) -> dict[str, bytes]:
    """The step as XLA optimised it, by file name."""
    del batch
    return {"optimised.hlo.gz": gzip.compress(training.jitted.as_text().encode())}


def triad(device: str, elements: int) -> Callable[[int], None]:
    place = jax.devices("gpu" if device == "cuda" else "cpu")[0]
    held = [jax.device_put(jnp.full(elements, number, jnp.float32), place) for number in (1, 2)]
    add = jax.jit(lambda a, b: b + a * 0.5, donate_argnums=0)

    def run(count: int) -> None:
        for _ in range(count):
            held[0] = add(*held)
        jax.block_until_ready(held[0])

    return run


def _count(training: Any) -> float | None:
    """XLA's own count of a step's floating-point operations; it counts a loop's body once."""
    analysis = training.jitted.cost_analysis() or {}
    return float(analysis["flops"]) if analysis.get("flops", 0) > 0 else None
