"""JAX on several devices: `shard_map` with one mean of the gradients, or `jit` over sharded batches.

``shard-map`` and ``jit`` have a process for each device, ``local`` has one process for all of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax._src.lib import _jax
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from suite.plan.cell import Cell
from suite.worker.distributed.ranks import Ranks
from suite.worker.frameworks import UnsupportedError, check_batch
from suite.worker.frameworks.jax import training as single
from suite.worker.frameworks.jax.device import call_compiled
from workloads.data.dataset import Array
from workloads.spec import WorkloadSpec

HEARTBEAT_S = 10  # the default noticed a killed process after 88 s

AXIS = "devices"


def loaders(cell: Cell) -> tuple[str, ...]:
    del cell  # the others make theirs on one device, and not on the host
    return "tuned", "workers", "naive"


def connect(cell: Cell, device: str, ranks: Ranks) -> None:
    del device
    if cell.strategy == "local":
        jax.config.update("jax_num_cpu_devices", cell.devices)
        return
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    if ranks.interface:
        os.environ.setdefault("NCCL_SOCKET_IFNAME", ranks.interface)
        # Without it Gloo listens where the host's name leads, often to loopback. JAX has no public setting for it.
        _jax.make_gloo_tcp_collectives = partial(_jax.make_gloo_tcp_collectives, interface=ranks.interface)
    address = f"{ranks.host}:{ranks.agreed_port()}"
    jax.distributed.initialize(
        address, ranks.world, ranks.rank, coordinator_bind_address=address, heartbeat_timeout_seconds=HEARTBEAT_S
    )


def init_process_group(cell: Cell, device: str, ranks: Ranks) -> dict[str, Any]:
    del ranks
    if len(_devices(device)) < cell.devices:
        raise UnsupportedError(f"{cell.devices} devices are asked for, and JAX sees {len(_devices(device))}")
    over_processes = "nccl" if device == "cuda" else "gloo"
    return {"backend": "in-process" if cell.strategy == "local" and device == "cpu" else over_processes}


def match_strategy(local: single.Training, cell: Cell, spec: WorkloadSpec) -> None:
    del local, cell, spec  # nothing: the strategies change no kernel, layout or optimizer


class Training(single.Training):
    """The training of one process: its share of each batch, and the gradients' mean over all devices."""

    def __init__(
        self, cell: Cell, spec: WorkloadSpec, module: ModuleType, weights: dict[str, Array], device: str,
        *, dropout: bool = True, seed: int = 0, rates: Array | None = None, ranks: Ranks,
    ) -> None:  # fmt: skip
        super().__init__(cell, spec, module, weights, device, dropout=dropout, seed=seed, rates=rates)
        self.ranks = ranks
        mesh = _mesh(cell, device)
        self.everywhere, self.split = NamedSharding(mesh, PartitionSpec()), NamedSharding(mesh, PartitionSpec(AXIS))
        self.state = self._spread(self.state)
        # Without check_vma: it refuses the LSTM's first state, which is no device's own. So the mean is written out.
        mapped = partial(jax.shard_map, mesh=mesh, check_vma=False)
        each = PartitionSpec(AXIS)
        scored = mapped(self._scores, in_specs=(PartitionSpec(), PartitionSpec(), each, each), out_specs=each)
        self._scored = jax.jit(scored)
        if cell.strategy == "jit":
            shardings = {"in_shardings": (self.everywhere, self.split, self.split), "out_shardings": self.everywhere}
            self.jitted = jax.jit(self._step, donate_argnums=0, **shardings)
            self.explained = jax.jit(self._update, donate_argnums=0, **shardings)
            return
        mapped = partial(mapped, in_specs=(PartitionSpec(), each, each))
        self.jitted = jax.jit(mapped(self._mapped_step, out_specs=(PartitionSpec(), each)), donate_argnums=0)
        self.explained = jax.jit(mapped(self._mapped_update, out_specs=PartitionSpec()), donate_argnums=0)

    def group_settings(self) -> dict[str, Any]:
        """The strategy and the number of devices, read back from the program and the devices of its arrays."""
        by_device = "shard_map" in {step.primitive.name for step in self.program.eqns}
        strategy = ("local" if jax.process_count() == 1 else "shard-map") if by_device else "jit"
        return {"strategy": strategy, "devices": len(jax.tree.leaves(self.state.weights)[0].sharding.device_set)}

    def put(self, batch: tuple[Array, Array]) -> Any:
        """The process's share as a part of the batch on all devices."""
        return tuple(jax.make_array_from_process_local_data(self.split, np.asarray(array)) for array in batch)

    def get(self, batch: Any) -> tuple[Array, Array]:
        inputs, labels = (_own(array) for array in batch)
        return inputs, labels

    def _mapped_step(self, state: single.State, inputs: jax.Array, labels: jax.Array) -> Any:
        state, loss = self._step(state, inputs, labels)
        return state, loss[None]  # each device's own

    def _mapped_update(self, state: single.State, inputs: jax.Array, labels: jax.Array) -> Any:
        state, loss, gradients = self._update(state, inputs, labels)
        return state, jax.lax.pmean(loss, AXIS), gradients

    def _differentiate(self, state: single.State, statistics: Any, batch: Any) -> tuple[Any, ...]:
        if self.cell.strategy == "jit":
            return super()._differentiate(state, statistics, batch)
        key, *arrays = batch
        key = jax.random.fold_in(key, jax.lax.axis_index(AXIS))  # every device draws its own masks
        results = super()._differentiate(state, statistics, (key, *arrays))
        return results if self.cell.accumulate > 1 else self._average(results)

    def _accumulate(self, state: single.State, batch: Any) -> tuple[Any, ...]:
        return self._average(super()._accumulate(state, batch))

    def _average(self, results: tuple[Any, ...]) -> tuple[Any, ...]:
        loss, gradients, *rest = results
        if self.device.platform == "cpu":  # where XLA would sum each tensor by itself; on a GPU it joins them
            flat, whole = ravel_pytree(gradients)
            return loss, whole(jax.lax.pmean(flat, AXIS)), *rest
        return loss, jax.lax.pmean(gradients, AXIS), *rest

    def step(self, batch: Any) -> jax.Array:
        check_batch(self.cell, len(batch[1]) // self.cell.processes)
        self.state, loss = call_compiled(self.jitted, self.state, *batch)
        return loss

    def read(self, losses: list[jax.Array]) -> list[float]:
        return self.ranks.mean([float(np.mean(_own(loss), dtype=np.float64)) for loss in losses])

    def each(self, losses: list[jax.Array]) -> list[float]:
        """The losses of every device by itself, as numbers; with ``jit`` the one that there is of all."""
        own = [float(each) for loss in losses for each in _own(loss)]
        return own if self.cell.strategy == "jit" else [loss for each in self.ranks.gather(own) for loss in each]

    def restore(self, state: dict[str, Array]) -> None:
        super().restore(state)
        self.state = self._spread(self.state)

    def logits(self, batch: Any) -> Array:
        weights, statistics = (jax.tree.map(_first, tree) for tree in (self.state.weights, self.state.statistics))
        logits = self.module.logits(self.model, weights, statistics, jnp.asarray(_own(batch[0])))
        return np.asarray(logits, np.float64)

    def _spread(self, state: single.State) -> single.State:
        plain = state._replace(key=jax.random.key_data(state.key))
        spread = jax.tree.map(
            lambda leaf: jax.make_array_from_process_local_data(self.everywhere, np.array(leaf)), plain
        )
        return spread._replace(key=jax.random.wrap_key_data(spread.key, impl=self.prng))


def gradient_bytes(training: Training) -> int:
    return sum(leaf.nbytes for leaf in jax.tree.leaves(training.state.weights))


def summing(cell: Cell, device: str, ranks: Ranks, size: int) -> Callable[[int], None]:
    del ranks
    mesh, everywhere = _mesh(cell, device), PartitionSpec()
    array = jax.make_array_from_process_local_data(
        NamedSharding(mesh, everywhere), np.zeros(max(1, size // 4), np.float32)
    )
    mean = partial(jax.lax.pmean, axis_name=AXIS)  # a sum would grow
    total = jax.jit(jax.shard_map(mean, mesh=mesh, in_specs=everywhere, out_specs=everywhere, check_vma=False))

    def run(count: int) -> None:
        for _ in range(count):
            last = total(array)
        jax.block_until_ready(last)

    return run


def _mesh(cell: Cell, device: str) -> Mesh:
    return Mesh(np.array(_devices(device)[: cell.devices]), (AXIS,))


def _devices(device: str) -> list[jax.Device]:
    return jax.devices("gpu" if device == "cuda" else "cpu")


def _own(array: jax.Array) -> Array:
    """What this process's devices hold of an array, in order; of one that is the same on all, one copy."""
    if array.is_fully_replicated:
        return np.atleast_1d(np.asarray(_first(array)))
    shards = sorted(array.addressable_shards, key=lambda shard: shard.index[0].start or 0)
    return np.concatenate([np.asarray(shard.data) for shard in shards])


def _first(array: jax.Array) -> jax.Array:
    return array.addressable_data(0)
