"""JAX: one jitted step over a donated state, optimizers of optax."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training.dynamic_scale import DynamicScale

from suite.plan.cell import Cell
from suite.worker.frameworks import (
    LOSS_SCALE,
    LOSS_SCALE_GROWTH_STEPS,
    NUMBERS,
    UnsupportedError,
    build,
    check_batch,
    choose,
)
from suite.worker.frameworks.jax.device import (
    Programs,
    call_compiled,
    graphs,
    graphs_switched_off,
    installation,
    memory,
    memory_fraction,
    other_accelerator,
    out_of_memory,
    refuse_variables,
    reset_memory,
    takes,
    without_trials,
)
from suite.worker.frameworks.jax.optimizer import find_decays, optimizer, zero_frozen
from workloads.data.dataset import Array
from workloads.imdb_lstm.jax import CUDNN_TYPES
from workloads.lengths import FIXED
from workloads.spec import WorkloadSpec

__all__ = (
    "DISTRIBUTIONS", "NUMBERS", "Training", "convolution", "installation", "memory", "multiplication", "out_of_memory",
    "prepare", "product", "reset_memory",
)  # fmt: skip

DISTRIBUTIONS = ("jax", "jaxlib", "jax-cuda12-plugin", "jax-cuda13-plugin", "flax", "optax", "grain")
#: Options of XLA by compile mode. On CUDA, XLA puts launches of kernels into command buffers, that is CUDA graphs: 4 in
#: the small `cifar100_cnn`, compiled ahead for an H100. The usual modes of the other frameworks have none.
COMPILE_MODES = {"compile": {}, "nographs": {"xla_gpu_enable_command_buffer": ""}}
#: How products of float32 are computed; those of narrower types are left as they are.
MATMUL_PRECISION = {"fp32": "highest", "tf32": "tensorfloat32", "fp64": "highest"}
#: What draws dropout's masks, by device: JAX's default, as nothing else was measured to be faster. A step of
#: `cifar100_cnn` on a CPU (AMD EPYC, 2 cores, batch 32, paired windows in one process) took with `rbg` 1.02 times as
#: long (0.91 to 1.15, n = 12) in size small and 1.00 times (0.58 to 1.17, n = 10) in full; `tests/cuda` has a GPU's.
DROPOUT_PRNG = {"cpu": "threefry2x32", "cuda": "threefry2x32"}

#: Options of XLA for a step that compiles now. What is timed has none; `evidence.compile_cache` sets some.
COMPILER_OPTIONS: dict[str, Any] = {}

Batch = tuple[jax.Array, jax.Array]


def prepare(cell: Cell, device: str, seed: int) -> tuple[str, dict[str, Any]]:
    del seed  # dropout draws from the key in the training state
    refuse_variables()
    cuda = jax.default_backend() == "gpu"
    device = choose(
        cell, device, "JAX", cuda=cuda, installation=installation, other=other_accelerator(), modes=COMPILE_MODES
    )
    if cell.compile == "nographs" and device == "cpu":
        raise UnsupportedError("a CPU has no CUDA graphs to leave out; use compile")
    if cell.compile == "nographs" and (cell.interface != "native" or cell.devices > 1):
        raise UnsupportedError("JAX compiles without CUDA graphs on one device and by its own interface; use compile")
    if cell.compile == "nographs" and not takes(COMPILE_MODES["nographs"]):
        option = " ".join(COMPILE_MODES["nographs"])
        raise UnsupportedError(f"JAX {jax.__version__} has no option {option}, to leave out CUDA graphs; use compile")
    if cell.kernel == "cudnn" and NUMBERS[cell.precision].compute not in CUDNN_TYPES:
        raise UnsupportedError(f"JAX has cuDNN's LSTM in {', '.join(CUDNN_TYPES)} only, not in {cell.precision}")
    jax.config.update("jax_enable_x64", cell.precision == "fp64")
    jax.config.update("jax_default_matmul_precision", MATMUL_PRECISION.get(cell.precision))
    return device, {
        "device": device,
        "device_name": jax.devices()[0].device_kind if device == "cuda" else "",
        "matmul_precision": jax.config.jax_default_matmul_precision,
        "x64": jax.config.jax_enable_x64,
        "prng": DROPOUT_PRNG[device],
        **(_on_cuda(cell) if device == "cuda" else {}),
    }


def _on_cuda(cell: Cell) -> dict[str, Any]:
    graphs = cell.compile != "nographs" and not graphs_switched_off(os.environ.get("XLA_FLAGS", ""))
    return {"memory_fraction": memory_fraction(), "cuda_graphs": graphs}


class State(NamedTuple):
    """All that a step changes; donated to it, so that it is updated in place as in the other frameworks."""

    weights: Any
    statistics: Any
    optimizer: Any
    key: jax.Array
    scale: DynamicScale | None


class Training:
    def __init__(
        self, cell: Cell, spec: WorkloadSpec, module: ModuleType, weights: dict[str, Array], device: str,
        *, dropout: bool = True, seed: int = 0, rates: Array | None = None,
    ) -> None:  # fmt: skip
        self.cell, self.module, self.device = cell, module, _place(device)
        self.prng, self.options = DROPOUT_PRNG[device], COMPILE_MODES[cell.compile]
        self.model = build(module, cell, spec, NUMBERS[cell.precision], dropout, device)
        with jax.default_device(self.device):
            self.decays = find_decays(module, self.model, spec)
            self.optimizer = optimizer(spec, rates, self.decays)
            start = module.import_weights(self.model, weights)
            statistics, scale = module.statistics(self.model), None
            if cell.precision == "fp16":
                scale = DynamicScale(growth_interval=LOSS_SCALE_GROWTH_STEPS, scale=jnp.float32(LOSS_SCALE))
            key = jax.random.key(seed, impl=self.prng)
            optimizer_state = jax.jit(self.optimizer.init)(start)  # one program, not one for each shape
            self.state = State(start, statistics, optimizer_state, key, scale)
        self.jitted, self.programs = jax.jit(self._step, donate_argnums=0), "one for each shape"
        self.explained = jax.jit(self._update, donate_argnums=0)
        self._scored = jax.jit(self._scores)

    def put(self, batch: tuple[Array, Array]) -> Batch:
        return jax.device_put(batch, self.device)

    def get(self, batch: Batch) -> tuple[Array, Array]:
        return jax.device_get(batch)

    def compile(self, batch: Batch) -> bool:
        step = self.jitted

        def compile_for(*arguments: Any) -> Any:
            traced = step.trace(*arguments)
            self.program = traced.jaxpr  # by which a record says what the step consists of
            return traced.lower().compile(compiler_options=COMPILER_OPTIONS | self.options)

        compiled = compile_for(self.state, *batch)
        self.jitted = compiled if self.cell.lengths == FIXED else Programs(compile_for, {batch[0].shape: compiled})
        return True

    def _step(self, state: State, inputs: jax.Array, labels: jax.Array) -> tuple[State, jax.Array]:
        """One update; the state after it and the loss before it. `step` calls this jitted."""
        return self._update(state, inputs, labels)[:2]

    def _update(self, state: State, inputs: jax.Array, labels: jax.Array) -> tuple[State, jax.Array, Any]:
        key, *keys = jax.random.split(state.key, 1 + self.cell.accumulate)
        if self.cell.accumulate == 1:
            results = self._differentiate(state, state.statistics, (keys[0], inputs, labels))
        else:
            results = self._accumulate(state, (jnp.stack(keys), inputs, labels))
        loss, gradients, statistics, finite, scale = results
        updates, optimizer = self.optimizer.update(gradients, state.optimizer, state.weights)
        after = State(optax.apply_updates(state.weights, updates), statistics, optimizer, key, scale)
        if scale is not None:  # a step whose gradients overflowed changes nothing but the scale
            skipped = state._replace(statistics=statistics, key=key, scale=scale)
            after = jax.tree.map(lambda new, old: jnp.where(finite, new, old), after, skipped)
        return after, loss, gradients

    def _differentiate(self, state: State, statistics: Any, batch: Any) -> tuple[Any, ...]:
        if state.scale is None:
            differentiated = jax.value_and_grad(self._loss, has_aux=True)
            (loss, statistics), gradients = differentiated(state.weights, statistics, *batch)
            return loss, gradients, statistics, True, None
        differentiated = state.scale.value_and_grad(self._loss, has_aux=True)
        scale, finite, (loss, statistics), gradients = differentiated(state.weights, statistics, *batch)
        return loss, gradients, statistics, finite, scale

    def _accumulate(self, state: State, batch: Any) -> tuple[Any, ...]:
        """The same over `accumulate` batches, one after the other in a scan; loss and gradients averaged."""
        count, (keys, *arrays) = self.cell.accumulate, batch
        parts = (keys, *(array.reshape(count, -1, *array.shape[1:]) for array in arrays))

        def add(carry: Any, part: Any) -> tuple[Any, None]:
            total, summed, statistics, finite, scale = carry
            loss, gradients, statistics, now, after = self._differentiate(state, statistics, part)
            # All parts start from one scale, so that any part that overflows says where it goes.
            scale = jax.tree.map(lambda new, old: jnp.where(now & finite, new, jnp.where(now, old, new)), after, scale)
            summed = jax.tree.map(lambda a, b: a + b / count, summed, gradients)
            return (total + loss / count, summed, statistics, finite & now, scale), None

        zeros = jax.tree.map(jnp.zeros_like, state.weights)
        start = (jnp.zeros((), jax.tree.leaves(zeros)[0].dtype), zeros, state.statistics, jnp.bool_(True), state.scale)
        # XLA's convolutions on a CPU lose their threads and more inside a loop (11 times slower on two cores).
        return jax.lax.scan(add, start, parts, unroll=count if self.device.platform == "cpu" else 1)[0]

    def step(self, batch: Batch) -> jax.Array:
        check_batch(self.cell, len(batch[1]))
        self.state, loss = call_compiled(self.jitted, self.state, *batch)
        return loss

    def evaluate(self, batch: Batch) -> tuple[jax.Array, jax.Array]:
        return self._scored(self.state.weights, self.state.statistics, *batch)

    def _scores(self, weights: Any, statistics: Any, inputs: jax.Array, labels: jax.Array) -> Any:
        return self.module.scores(self.model, weights, statistics, inputs, labels)

    def fence(self, pending: Any = None) -> None:
        jax.block_until_ready((self.state, pending))

    def read(self, losses: list[jax.Array]) -> list[float]:
        return [float(loss) for loss in jax.device_get(losses)]

    def count_compiled(self) -> dict[str, int]:
        return {"graphs": graphs(self.jitted), "graph_breaks": 0}

    def weights(self) -> dict[str, Array]:
        return self.module.export_weights(self.model, self.state.weights)

    def checkpoint(self) -> dict[str, Array]:
        leaves, _ = self._flatten()
        return {name: np.array(leaf) for name, leaf in leaves.items()}

    def restore(self, state: dict[str, Array]) -> None:
        leaves, tree = self._flatten()
        restored = tree.unflatten([jax.device_put(state[name], self.device) for name in leaves])
        self.state = restored._replace(key=jax.random.wrap_key_data(restored.key, impl=self.prng))

    def _flatten(self) -> tuple[dict[str, jax.Array], Any]:
        plain = self.state._replace(key=jax.random.key_data(self.state.key))
        leaves, tree = jax.tree_util.tree_flatten_with_path(plain)
        return {jax.tree_util.keystr(path): leaf for path, leaf in leaves}, tree

    def gradients(self, batch: Batch) -> tuple[float, dict[str, Array]]:
        differentiated = jax.jit(jax.value_and_grad(self._loss, has_aux=True))
        (loss, _), gradients = differentiated(self.state.weights, self.state.statistics, self.state.key, *batch)
        return float(loss), self.module.export_weights(self.model, zero_frozen(gradients, self.decays))

    def logits(self, batch: Batch) -> Array:
        forward = jax.jit(partial(self.module.logits, self.model))  # one program, not one for each operation
        return np.asarray(forward(self.state.weights, self.state.statistics, batch[0]), np.float64)

    def _loss(self, weights: Any, statistics: Any, key: jax.Array, inputs: Any, labels: Any) -> tuple[jax.Array, Any]:
        return self.module.loss(self.model, weights, statistics, key, inputs, labels)


def product(cell: Cell, device: str, a: Array, b: Array) -> Array:
    left, right = _operands(cell, device, a, b)
    return np.asarray(jax.jit(jnp.matmul)(left, right), np.float64)


def convolution(cell: Cell, device: str, images: Array, kernel: Array) -> Array:
    left, right = _operands(cell, device, images, kernel)

    def convolve(left: jax.Array, right: jax.Array) -> jax.Array:
        dimensions = ("NHWC", "HWIO", "NHWC")
        return jax.lax.conv_general_dilated(left, right, (1, 1), "VALID", dimension_numbers=dimensions)

    return np.asarray(jax.jit(convolve)(left, right), np.float64)


def multiplication(cell: Cell, device: str, a: Array, b: Array, repeats: int = 1) -> Callable[[int], None]:
    left, right = (jnp.tile(operand, (repeats, repeats)) for operand in _operands(cell, device, a, b))
    multiply = jax.jit(jnp.matmul).lower(left, right).compile(compiler_options=without_trials())

    def run(count: int) -> None:
        for _ in range(count):
            last = multiply(left, right)
        jax.block_until_ready(last)

    return run


def _operands(cell: Cell, device: str, *arrays: Array) -> list[jax.Array]:
    dtype = NUMBERS[cell.precision].compute
    return [jax.device_put(jnp.asarray(array, dtype), _place(device)) for array in arrays]


def _place(device: str) -> jax.Device:
    return jax.local_devices(backend="gpu" if device == "cuda" else "cpu")[0]
