"""flax.nnx, as its users drive it: a module and its optimizer, changed in place by a step under `nnx.jit`.

The optimizers are those of the suite's own loop, and so are the loss and the batches. Module and optimizer are donated
to the step, as flax recommends.
"""

from __future__ import annotations

from functools import partial
from types import ModuleType
from typing import Any

import jax
import numpy as np
from flax import nnx

from suite.plan.cell import Cell
from suite.worker.frameworks import check_batch, find_kernel
from suite.worker.frameworks.jax import training as native
from suite.worker.frameworks.jax.evidence import compile_cache, on_host, read_process
from suite.worker.frameworks.jax.optimizer import optimizer
from workloads.data.dataset import Array
from workloads.spec import WorkloadSpec

__all__ = (
    "DISTRIBUTIONS",
    "Training",
    "applied",
    "compile_cache",
    "draws",
    "explain_step",
    "on_host",
    "updates",
)  # fmt: skip

DISTRIBUTIONS = ("flax",)


class Training:
    def __init__(
        self, cell: Cell, spec: WorkloadSpec, module: ModuleType, weights: dict[str, Array], device: str,
        *, dropout: bool = True, seed: int = 0, rates: Array | None = None,
    ) -> None:  # fmt: skip
        self.cell, self.module, self.device = cell, module, native._place(device)
        with jax.default_device(self.device):
            rngs = nnx.Rngs(params=0, dropout=jax.random.key(seed, impl=native.DROPOUT_PRNG[device]))
            self.model = module.build(spec, native.NUMBERS[cell.precision], dropout, device, cell.kernel, rngs=rngs)
            module.import_weights(self.model, weights)
            self.optimizer = nnx.Optimizer(self.model, optimizer(spec, rates), wrt=nnx.Param)
        self.traces = 0
        self.jitted = nnx.jit(partial(_step, self), donate_argnums=(0, 1))
        self.explained = nnx.jit(partial(_update, module), donate_argnums=(0, 1))
        self.scored = nnx.jit(module.scores)

    put, get = native.Training.put, native.Training.get

    def compile(self, batch: Any) -> bool:
        del batch  # nnx compiles inside the first step
        return False

    def step(self, batch: Any) -> jax.Array:
        check_batch(self.cell, len(batch[1]))
        loss: jax.Array = self.jitted(self.model, self.optimizer, *batch)
        return loss

    def evaluate(self, batch: Any) -> tuple[jax.Array, jax.Array]:
        losses, right = self.scored(nnx.view(self.model, deterministic=True, raise_if_not_found=False), *batch)
        return losses, right

    def fence(self, pending: Any = None) -> None:
        jax.block_until_ready((nnx.state((self.model, self.optimizer)), pending))

    read = native.Training.read

    def count_compiled(self) -> dict[str, int]:
        """The number of compiled graphs and of graph breaks so far: every compiled step was traced once."""
        return {"graphs": self.traces, "graph_breaks": 0}

    def weights(self) -> dict[str, Array]:
        arrays: dict[str, Array] = self.module.export_weights(self.model)
        return arrays

    def checkpoint(self) -> dict[str, Array]:
        return {name: np.array(_plain(each.get_value())) for name, each in self._variables().items()}

    def restore(self, state: dict[str, Array]) -> None:
        for name, variable in self._variables().items():
            array = jax.device_put(state[name], self.device)
            old = variable.get_value()
            random = jax.dtypes.issubdtype(old.dtype, jax.dtypes.prng_key)
            variable.set_value(jax.random.wrap_key_data(array, impl=jax.random.key_impl(old)) if random else array)

    def _variables(self) -> dict[str, nnx.Variable]:
        flat = nnx.to_flat_state(nnx.state((self.model, self.optimizer)))
        return {"/".join(map(str, path)): variable for path, variable in flat}

    def logits(self, batch: Any) -> Array:
        return np.asarray(nnx.jit(_forward)(self.model, batch[0]), np.float64)


def explain_step(training: Training, batch: Any) -> tuple[float, dict[str, Array]]:
    loss, gradients = training.explained(training.model, training.optimizer, *batch)
    return float(loss), training.module.export_weights(training.model, gradients)


def updates(training: Any) -> int | None:
    return int(training.optimizer.step.get_value())


def applied(training: Training, batch: Any) -> dict[str, Any]:
    """The settings of a cell that flax.nnx and JAX apply, read back from what ran; nnx has neither of the last two."""
    del batch
    own = {"kernel": find_kernel(training.cell, ()), "checkpointing": "off"}
    return read_process(training, training.traces > 0) | own


def draws(training: Training, batch: Any, count: int) -> tuple[Array, dict[str, Array]]:
    """Of its layers it shows nothing."""
    forward = nnx.jit(_forward)
    return np.stack([np.asarray(forward(training.model, batch[0]), np.float64) for _ in range(count)]), {}


def _step(training: Training, model: Any, optimizer: nnx.Optimizer, inputs: jax.Array, labels: jax.Array) -> jax.Array:
    """One update; the loss before it. Python runs this when it is traced."""
    training.traces += 1
    loss: jax.Array = _update(training.module, model, optimizer, inputs, labels)[0]
    return loss


def _update(module: ModuleType, model: Any, optimizer: nnx.Optimizer, inputs: jax.Array, labels: jax.Array) -> Any:
    loss, gradients = nnx.value_and_grad(module.loss)(model, inputs, labels)
    optimizer.update(model, gradients)
    return loss, gradients


def _forward(model: Any, inputs: jax.Array) -> jax.Array:
    return model(inputs)


def _plain(value: jax.Array) -> jax.Array:
    return jax.random.key_data(value) if jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key) else value
