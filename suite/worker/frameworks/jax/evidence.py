"""What JAX's `Training` shows of itself for the evidence in a record; nothing here is timed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import ModuleType
from typing import Any

import flax.linen as nn
import jax
import jax.extend
import numpy as np
import optax
from flax.traverse_util import flatten_dict
from jax.experimental.compilation_cache import compilation_cache

from suite.catalog.settings import LAYOUTS
from suite.plan.cell import Cell
from suite.worker.evidence.layers import once, part
from suite.worker.frameworks import NUMBERS, build, find_kernel
from suite.worker.frameworks.jax.device import (
    Programs,
    allocator,
    graphs_switched_off,
    takes,
    threads,
    without_trials,
)
from suite.worker.frameworks.jax.optimizer import zero_frozen
from suite.worker.frameworks.jax.training import COMPILE_MODES, COMPILER_OPTIONS
from workloads.data.dataset import Array
from workloads.defaults.jax import SWITCH, join, turn_off
from workloads.spec import FROZEN, WorkloadSpec


def count_trained(training: Any) -> int:
    weights = jax.tree.leaves(training.state.weights)
    decays = jax.tree.leaves(training.decays) or [0.0] * len(weights)
    return sum(int(leaf.size) for leaf, decay in zip(weights, decays, strict=True) if decay != FROZEN)


@contextmanager
def calls(
    training: Any, note: Callable[[str], object] = str, of: Callable[..., Any] | None = None
) -> Iterator[list[tuple[str, Any, Any]]]:
    del training  # flax tells the calls of all modules
    listed: list[tuple[str, Any, Any]] = []
    take = of or _array

    def called(function: Any, arguments: Any, keywords: Any, context: Any) -> Any:
        output = function(*arguments, **keywords)
        if context.method_name == "__call__" and context.module.path:
            first = output[0] if isinstance(output, tuple | list) else output
            path = "/".join(context.module.path)
            listed.append((path, take(arguments[0] if arguments else None), take(first)))
            note(path)
        return output

    with nn.intercept_methods(called):
        yield listed


def load(training: Any, weights: dict[str, Array]) -> None:
    training.state = training.state._replace(weights=training.module.import_weights(training.model, weights))


def initial(cell: Cell, spec: WorkloadSpec, module: ModuleType, inputs: Array) -> Callable[[int], dict[str, Array]]:
    model = build(module, cell, spec, NUMBERS[cell.precision], False, "cpu")
    compiled = jax.jit(model.init)
    return lambda seed: dict(module.export_weights(model, compiled(jax.random.key(seed), inputs)["params"]))


def forward(training: Any, batch: Any) -> float:
    key, own = jax.random.split(training.state.key)
    training.state = training.state._replace(key=key)
    return float(training._loss(training.state.weights, training.state.statistics, own, *batch)[0])


def gradients(training: Any, batch: Any) -> tuple[float, dict[str, Array]]:
    found: tuple[float, dict[str, Array]] = training.gradients(batch)
    return found


def parameters_by_layer(training: Any) -> dict[str, list[Array]]:
    found: dict[str, list[Array]] = {}
    for path, array in flatten_dict(training.state.weights).items():
        found.setdefault("/".join(map(str, path[:-1])), []).append(np.asarray(array))
    return found


def statistics(training: Any) -> dict[str, dict[str, Array]]:
    found: dict[str, dict[str, Array]] = {}
    for path, array in flatten_dict(training.state.statistics).items():
        name = {"mean": "mean", "var": "variance", "variance": "variance"}.get(str(path[-1]))
        if name:
            found.setdefault("/".join(map(str, path[:-1])), {})[name] = np.array(array)
    return {path: pair for path, pair in found.items() if len(pair) == 2}


def _array(tensor: Any) -> Array | None:
    if not isinstance(tensor, jax.Array) or isinstance(tensor, jax.core.Tracer):
        return None
    return np.array(tensor)


#: What compiles a step on a CPU in half the time, and hardly changes how long it takes: loops fused as before XLA had
#: emitters. The full `cifar100_cnn` at batch 8 compiled in 0.8 s instead of 1.7, and the median of five steps was 205
#: ms instead of 199 (AMD EPYC, 2 cores, one process each). XLA has no such option from JAX 0.11.2 on.
WITHOUT_EMITTERS = {"xla_cpu_use_fusion_emitters": False}


@contextmanager
def on_host() -> Iterator[None]:
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
def compile_cache(folder: str, how: str) -> Iterator[None]:
    """Programs compile sooner, unless ``exact``. On a CPU, ``quickly`` takes a fifth of the time or less, but such
    programs run more slowly: for small ones that run a few times. On a GPU, where XLA chooses kernels by trying
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
    training.state = training.state._replace(statistics=turn_off(training.state.statistics))


def explain_step(training: Any, batch: Any) -> tuple[float, dict[str, Array]]:
    if not isinstance(training.explained, Programs):  # ahead, as a second call would compile once more
        step = training.explained
        training.explained = Programs(lambda *of: step.lower(*of).compile(compiler_options=COMPILER_OPTIONS), {})
    training.state, loss, gradients = training.explained(training.state, *batch)
    return float(loss), training.module.export_weights(training.model, zero_frozen(gradients, training.decays))


def updates(training: Any) -> int | None:
    counts = optax.tree_utils.tree_get_all_with_path(training.state.optimizer, "count")
    return min((int(np.min(jax.device_get(count))) for _, count in counts), default=None)


def draws(training: Any, batch: Any, count: int) -> tuple[Array, dict[str, Array]]:
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
    del seed  # the key is a part of the training's state


def count_kept_bytes(training: Any, batch: Any) -> int:
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
    del batch
    steps = [*_list_steps(training.program)]
    names = {step.primitive.name for step in steps}
    # The axis of the channels among those of the images.
    channels = {step.params["dimension_numbers"].lhs_spec[1] for step in steps if "conv_general" in step.primitive.name}
    programs = [*getattr(training.jitted, "by_shape", {"": training.jitted}).values()]
    is_compiled = all(isinstance(program, jax.stages.Compiled) for program in programs)
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
    for step in getattr(program, "jaxpr", program).eqns:
        yield step
        for value in jax.tree.leaves([*step.params.values()]):
            if hasattr(value, "eqns") or hasattr(value, "jaxpr"):
                yield from _list_steps(value)
