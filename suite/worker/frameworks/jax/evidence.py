"""What JAX's `Training` shows of itself for the evidence in a record; nothing here is timed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import jax
import jax.extend
import numpy as np
import optax
from jax.experimental.compilation_cache import compilation_cache

from suite.catalog.settings import LAYOUTS
from suite.worker.evidence.owners import once, part
from suite.worker.frameworks import find_kernel
from suite.worker.frameworks.jax.device import allocator, graphs_switched_off, takes, threads, without_trials
from suite.worker.frameworks.jax.proof import calls, parameters_by_layer  # noqa: F401 - for the spread at each layer
from suite.worker.frameworks.jax.training import COMPILE_MODES, COMPILER_OPTIONS
from workloads.data.dataset import Array
from workloads.defaults.jax import SWITCH, join, turn_off

#: What compiles a step on a CPU in half the time, and hardly changes how long it takes: loops fused as before XLA had
#: emitters. The full `cifar100_cnn` at batch 8 compiled in 0.8 s instead of 1.7, and the median of five steps was 205
#: ms instead of 199 (AMD EPYC, 2 cores, one process each). XLA has no such option from JAX 0.11.2 on.
WITHOUT_EMITTERS = {"xla_cpu_use_fusion_emitters": False}


@contextmanager
def on_host() -> Iterator[None]:
    """A context in which a `Training` on ``cpu`` computes there, in float64 if its cell asks for it."""
    names = ("jax_enable_x64", "jax_default_matmul_precision")
    previous = {name: getattr(jax.config, name) for name in names}
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_default_matmul_precision", "highest")
    try:
        with jax.default_device(jax.local_devices(backend="cpu")[0]):
            yield
    finally:
        for name, value in previous.items():
            jax.config.update(name, value)


@cache
def time_savers() -> dict[str, Any]:
    """Those of `WITHOUT_EMITTERS` that this release of XLA has."""
    return {name: value for name, value in WITHOUT_EMITTERS.items() if takes({name: value})}


@contextmanager
def programs_kept(folder: str, how: str) -> Iterator[None]:
    """A context in which compiled programs are kept in the folder and taken from there.

    They compile sooner, unless they are to be ``exact``. On a CPU, ``quickly`` takes a fifth of the time or less, but
    such programs run more slowly: for small ones that run a few times. On a GPU, where XLA chooses kernels by trying
    them, exact ones compile anew, by the choices that this process has made, and others without trials.
    """
    on_a_cpu = jax.default_backend() == "cpu"
    if how == "exact" and not on_a_cpu:
        yield
        return
    wanted: dict[str, Any] = {
        "jax_compilation_cache_dir": folder,
        "jax_persistent_cache_min_compile_time_secs": 0.02,
        "jax_persistent_cache_enable_xla_caches": "none",
    }
    if how == "quickly" and on_a_cpu:
        wanted["jax_disable_most_optimizations"] = True
    previous = {name: jax.config.values[name] for name in wanted if name in jax.config.values}
    options = COMPILER_OPTIONS.copy()
    savers = time_savers if on_a_cpu else without_trials
    saving = savers() if how != "exact" else {}  # before a cache that would keep the trial
    try:
        _configure({name: wanted[name] for name in previous})
        COMPILER_OPTIONS.update(saving)
        yield
    finally:
        COMPILER_OPTIONS.clear()
        COMPILER_OPTIONS.update(options)
        _configure(previous)


def _configure(values: dict[str, Any]) -> None:
    for name, value in values.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()  # JAX looks at its settings once only


def without_dropout(training: Any) -> None:
    """Train without dropout from now on, by the same program, where its workload's file has that in the state."""
    training.state = training.state._replace(statistics=turn_off(training.state.statistics))


def explain_step(training: Any, batch: Any) -> tuple[float, dict[str, Array]]:
    """One update as `Training.step` makes it; returns the loss before it and its gradient, in canonical layout."""
    if not isinstance(training.explained, jax.stages.Compiled):  # ahead, as a second call would compile once more
        training.explained = training.explained.lower(training.state, *batch).compile(compiler_options=COMPILER_OPTIONS)
    training.state, loss, gradients = training.explained(training.state, *batch)
    return float(loss), training.module.export_weights(training.model, gradients)


def updates(training: Any) -> int | None:
    """How many steps the optimizer of a `Training` has counted itself; None where it keeps no count."""
    counts = optax.tree_utils.tree_get_all_with_path(training.state.optimizer, "count")
    return min((int(np.min(jax.device_get(count))) for _, count in counts), default=None)


def draws(training: Any, batch: Any, count: int) -> tuple[Array, dict[str, Array]]:
    """The logits of ``count`` forward passes in training mode, each with new dropout masks: (count, b, classes).

    And the input of each layer that is called once, of as many samples as `part` takes.
    """

    def applied(weights: Any, key: jax.Array, inputs: jax.Array) -> jax.Array:
        statistics = {name: tree for name, tree in training.state.statistics.items() if name != SWITCH}
        if not statistics:
            return join(training.model.apply({"params": weights}, inputs, rngs={"dropout": key}))
        variables = {"params": weights, "batch_stats": statistics}
        return join(training.model.apply(variables, inputs, rngs={"dropout": key}, mutable=["batch_stats"])[0])

    def forward(weights: Any, key: jax.Array, inputs: jax.Array) -> tuple[jax.Array, dict[str, jax.Array]]:
        with calls(training, of=lambda x: part(x).astype("float32") if isinstance(x, jax.Array) else None) as called:
            logits = applied(weights, key, inputs)
        return logits, once(called)

    key, passes = training.state.key, []
    compiled = jax.jit(forward).lower(training.state.weights, key, batch[0]).compile(compiler_options=COMPILER_OPTIONS)
    for _ in range(count):
        key, pass_key = jax.random.split(key)  # as a step does
        passes.append(jax.device_get(compiled(training.state.weights, pass_key, batch[0])))
    inputs = {path: np.stack([each[path] for _, each in passes]) for path in passes[0][1]}
    return np.stack([np.asarray(logits, np.float64) for logits, _ in passes]), inputs


def seed_draws(seed: int) -> None:
    """Start the generator that dropout draws from anew."""
    del seed  # the key is a part of the training's state


def count_kept_bytes(training: Any, batch: Any) -> int:
    """Bytes that a forward pass keeps for the backward pass, besides weights, statistics and the batch."""
    state = training.state

    def residuals(weights: Any, statistics: Any, key: jax.Array, inputs: jax.Array, labels: jax.Array) -> list[Any]:
        def loss(weights: Any) -> Any:
            return training._loss(weights, statistics, key, inputs, labels)

        _, backward, _ = jax.vjp(loss, weights, has_aux=True)
        return jax.tree.leaves(backward)

    traced = jax.make_jaxpr(residuals)(state.weights, state.statistics, state.key, *batch).jaxpr
    saved = {leaf for leaf in traced.outvars if isinstance(leaf, jax.extend.core.Var)}
    saved -= {*traced.invars, *traced.constvars}
    return sum(leaf.aval.size * leaf.aval.dtype.itemsize for leaf in saved)


def applied(training: Any, batch: Any) -> dict[str, Any]:
    """The settings of a cell that JAX applies, read back from what ran: `suite.worker.launch.applied`."""
    del batch
    steps = [*_list_steps(training.program)]
    names = {step.primitive.name for step in steps}
    # The axis of the channels among those of the images.
    channels = {step.params["dimension_numbers"].lhs_spec[1] for step in steps if "conv_general" in step.primitive.name}
    is_compiled = isinstance(training.jitted, jax.stages.Compiled)
    return read_process(training, is_compiled) | {
        "kernel": find_kernel(training.cell, names),
        "layout": LAYOUTS[1] if 1 in channels else LAYOUTS[0],
        "checkpointing": "on" if names & {"checkpoint", "remat", "remat2"} else "off",
    }


def read_process(training: Any, is_compiled: bool) -> dict[str, Any]:
    """What JAX' switches, and this process, show of the settings, whatever drives the training."""
    on_gpu = jax.default_backend() == "gpu"
    without = graphs_switched_off(os.environ.get("XLA_FLAGS", "")) or COMPILE_MODES["nographs"].items() <= (
        getattr(training, "options", {}).items()
    )
    mode = "nographs" if on_gpu and without else "compile"
    return {
        "compile": mode if is_compiled and not jax.config.jax_disable_jit else "eager",
        "layout": LAYOUTS[0],
        "threads": threads(),
        "allocator": allocator() if on_gpu else "default",
    }


def _list_steps(program: Any) -> Iterator[Any]:
    """The steps of a traced program, and of those within them."""
    for step in getattr(program, "jaxpr", program).eqns:
        yield step
        for value in jax.tree.leaves([*step.params.values()]):
            if hasattr(value, "eqns") or hasattr(value, "jaxpr"):
                yield from _list_steps(value)
