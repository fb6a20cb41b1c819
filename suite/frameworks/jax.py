"""JAX: one jitted step over a donated state, optimizers of optax."""

from __future__ import annotations

from types import ModuleType
from typing import Any, NamedTuple

import jax
import optax

from suite.cell import Cell
from suite.frameworks import UnsupportedError
from workloads.data.dataset import Array
from workloads.spec import Numbers, Sgd, WorkloadSpec

DISTRIBUTIONS = ("jax", "jaxlib", "jax-cuda12-plugin", "jax-cuda13-plugin", "flax", "optax", "grain")

NUMBERS = {"fp32": Numbers(), "fp64": Numbers("float64", "float64")}

Batch = tuple[jax.Array, jax.Array]


def prepare(cell: Cell, device: str, seed: int) -> tuple[str, dict[str, Any]]:
    """Choose the device, set every global switch, and read back what is in force.

    ``device`` is ``auto``, ``cpu`` or ``cuda``; the answer is ``cpu`` or ``cuda``, and the settings.
    """
    del seed  # dropout draws from the key in the training state
    found = "cuda" if jax.default_backend() == "gpu" else "cpu"
    if device == "cuda" and found == "cpu":
        raise UnsupportedError("JAX sees no CUDA device")
    device = found if device == "auto" else device
    if cell.compile != "compile":
        raise UnsupportedError(f"JAX is not measured in mode {cell.compile!r}; it has compile")
    jax.config.update("jax_enable_x64", cell.precision == "fp64")
    jax.config.update("jax_default_matmul_precision", "highest")
    return device, {
        "device": device,
        "device_name": jax.devices()[0].device_kind if device == "cuda" else "",
        "matmul_precision": jax.config.jax_default_matmul_precision,
        "x64": jax.config.jax_enable_x64,
        "prng": str(jax.config.jax_default_prng_impl),
    }


class State(NamedTuple):
    """All that a step changes; donated to it, so that it is updated in place as in the other frameworks."""

    weights: Any
    statistics: Any
    optimizer: Any
    key: jax.Array


class Training:
    """A model with its optimizer, and the step that is measured."""

    def __init__(
        self, cell: Cell, spec: WorkloadSpec, module: ModuleType, weights: dict[str, Array], device: str,
        *, dropout: bool = True, seed: int = 0,
    ) -> None:  # fmt: skip
        self.module, self.device = module, jax.devices("gpu" if device == "cuda" else "cpu")[0]
        self.model = module.build(spec, NUMBERS[cell.precision], dropout, device)
        self.optimizer = _optimizer(spec)
        with jax.default_device(self.device):
            start = module.import_weights(self.model, weights)
            statistics = module.statistics(self.model)
            self.state = State(start, statistics, self.optimizer.init(start), jax.random.key(seed))
        self._jitted = jax.jit(self._step, donate_argnums=0)

    def put(self, batch: tuple[Array, Array]) -> Batch:
        """The batch on the device."""
        return jax.device_put(batch, self.device)

    def get(self, batch: Batch) -> tuple[Array, Array]:
        """The batch back on the host, as it reached the device."""
        return jax.device_get(batch)

    def compile(self, batch: Batch) -> bool:
        """Compile ahead of the first step where that can be told apart; whether anything was."""
        self._jitted = self._jitted.lower(self.state, *batch).compile()
        return True

    def _step(self, state: State, inputs: jax.Array, labels: jax.Array) -> tuple[State, jax.Array]:
        """One update; the state after it and the loss before it. `step` calls this jitted."""
        key, used = jax.random.split(state.key)
        differentiated = jax.value_and_grad(self._loss, has_aux=True)
        (loss, statistics), gradients = differentiated(state.weights, state.statistics, used, inputs, labels)
        updates, optimizer = self.optimizer.update(gradients, state.optimizer, state.weights)
        return State(optax.apply_updates(state.weights, updates), statistics, optimizer, key), loss

    def step(self, batch: Batch) -> jax.Array:
        """One update; the loss before it, still on the device."""
        self.state, loss = self._jitted(self.state, *batch)
        return loss

    def fence(self, pending: Any = None) -> None:
        """Wait until the device has done all that was asked of it."""
        jax.block_until_ready((self.state, pending))

    def read(self, losses: list[jax.Array]) -> list[float]:
        """The losses as numbers; waits for the device."""
        return [float(loss) for loss in jax.device_get(losses)]

    def weights(self) -> dict[str, Array]:
        """Every tensor in canonical layout, on the host."""
        return self.module.export_weights(self.model, self.state.weights)

    def gradients(self, batch: Batch) -> tuple[float, dict[str, Array]]:
        """Loss and the loss' own gradient (without L2), in canonical layout; changes no weight."""
        differentiated = jax.jit(jax.value_and_grad(self._loss, has_aux=True))
        (loss, _), gradients = differentiated(self.state.weights, self.state.statistics, self.state.key, *batch)
        return float(loss), self.module.export_weights(self.model, gradients)

    def logits(self, batch: Batch) -> Array:
        """The model's output, on the host."""
        return jax.device_get(self.module.logits(self.model, self.state.weights, self.state.statistics, batch[0]))

    def _loss(self, weights: Any, statistics: Any, key: jax.Array, inputs: Any, labels: Any) -> tuple[jax.Array, Any]:
        return self.module.loss(self.model, weights, statistics, key, inputs, labels)


def memory(device: str) -> dict[str, int]:
    """The allocator's peaks in bytes; none on a CPU."""
    if device == "cpu":
        return {}
    stats = jax.devices("gpu")[0].memory_stats() or {}
    names = {"peak_bytes_in_use": "allocator_peak_bytes", "peak_pool_bytes": "allocator_reserved_bytes"}
    return {ours: int(stats[theirs]) for theirs, ours in names.items() if theirs in stats}


def out_of_memory(error: BaseException) -> bool:
    """Whether the error says that memory did not suffice."""
    exhausted = isinstance(error, jax.errors.JaxRuntimeError) and "RESOURCE_EXHAUSTED" in str(error)
    return exhausted or isinstance(error, MemoryError)


def _optimizer(spec: WorkloadSpec) -> optax.GradientTransformation:
    chosen = spec.optimizer
    if isinstance(chosen, Sgd):
        return optax.chain(
            optax.add_decayed_weights(chosen.l2), optax.sgd(chosen.learning_rate, momentum=chosen.momentum)
        )
    return optax.adam(chosen.learning_rate, b1=chosen.beta1, b2=chosen.beta2, eps=chosen.epsilon)
