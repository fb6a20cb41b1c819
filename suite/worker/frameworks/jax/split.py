"""JAX's strategy ``split``: the weights of each layer divided over the devices, in one process.

Kernels and tables lie on the devices by their last axis, the layer's outputs, with the optimizer's state of them; what
is smaller is on all devices, and so is every batch. `jit` makes one program of it, in which XLA gathers the activations
and adds up their gradients. With a process for each device of a CPU, XLA's exchange over Gloo fails for the LSTM: two
processes then are at different collectives (jax 0.10.2).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from suite.plan.cell import Cell
from suite.worker.distributed.ranks import Ranks
from suite.worker.frameworks.jax import devices as jax_devices
from suite.worker.frameworks.jax import training as single
from suite.worker.frameworks.jax.devices import AXIS, loaders
from workloads.data.dataset import Array

# What `suite.worker.distributed.process_group` asks of the file for a strategy; no process trains by itself, and no
# gradient is summed.
__all__ = ("Training", "connect", "gradient_bytes", "init_process_group", "loaders")


def connect(cell: Cell, device: str, ranks: Ranks) -> None:
    del device, ranks
    jax.config.update("jax_num_cpu_devices", cell.devices)


def init_process_group(cell: Cell, device: str, ranks: Ranks) -> dict[str, Any]:
    settings = jax_devices.init_process_group(cell, device, ranks)
    return settings | {"backend": "nccl" if device == "cuda" else "in-process", "batch_normalisation": "whole batch"}


class Training(jax_devices.Training):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.split = self.everywhere  # of a batch
        divided, rest = jax.tree.map(lambda leaf: leaf.sharding, self.state), self.everywhere
        given: dict[str, Any] = {"donate_argnums": 0, "in_shardings": (divided, rest, rest)}
        self.jitted = jax.jit(self._step, out_shardings=(divided, rest), **given)
        self.explained = jax.jit(self._update, out_shardings=(divided, rest, rest), **given)
        self._scored = jax.jit(self._scores, out_shardings=rest)

    def group_settings(self) -> dict[str, Any]:
        """The strategy and the number of devices, read back from the arrays, of which a device has a part of some."""
        weights = [leaf.sharding for leaf in jax.tree.leaves(self.state.weights)]
        is_divided = any(not each.is_fully_replicated for each in weights)
        return {"strategy": "split" if is_divided else "local", "devices": len(weights[0].device_set)}

    def _differentiate(self, state: single.State, statistics: Any, batch: Any) -> tuple[Any, ...]:
        return single.Training._differentiate(self, state, statistics, batch)

    def _accumulate(self, state: single.State, batch: Any) -> tuple[Any, ...]:
        return single.Training._accumulate(self, state, batch)

    def each(self, losses: list[jax.Array]) -> list[float]:
        return self.read(losses)

    def logits(self, batch: Any) -> Array:
        weights, statistics = jax.tree.map(np.array, (self.state.weights, self.state.statistics))
        logits = self.module.logits(self.model, weights, statistics, jnp.asarray(jax_devices._own(batch[0])))
        return np.asarray(logits, np.float64)

    def _spread(self, state: single.State) -> single.State:
        plain = state._replace(key=jax.random.key_data(state.key))
        spread = jax.tree.map(lambda leaf: jax.device_put(np.array(leaf), self._place_of(leaf)), plain)
        return spread._replace(key=jax.random.wrap_key_data(spread.key, impl=self.prng))

    def _place_of(self, array: jax.Array) -> NamedSharding:
        """By the last axis, if there are two or more and the devices can share that one equally; else everywhere."""
        mesh = self.everywhere.mesh
        divided = array.ndim > 1 and not array.shape[-1] % mesh.size
        return NamedSharding(mesh, PartitionSpec(*[None] * (array.ndim - 1), AXIS)) if divided else self.everywhere


def gradient_bytes(training: Training) -> int:
    del training
    return 0
