"""TensorFlow on several devices: MultiWorkerMirroredStrategy, a process for each, or MirroredStrategy in one.

``synchronised`` is the former, with a model that takes its batch statistics over all devices.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from suite.plan.cell import LOADERS, Cell
from suite.worker.distributed.ranks import Ranks, free_port
from suite.worker.frameworks import UnsupportedError, check_batch
from suite.worker.frameworks.tensorflow import training as single
from suite.worker.frameworks.tensorflow.device import place
from workloads.data.dataset import Array
from workloads.spec import WorkloadSpec

SEEDS_APART = 1_000_003  # between the seeds from which two devices draw dropout's masks

_chosen: dict[str, Any] = {}  # the strategy of this process, which must be made before any tensor


def loaders(cell: Cell) -> tuple[str, ...]:
    return LOADERS if cell.processes > 1 else ("tuned", "workers", "naive")


def connect(cell: Cell, device: str, ranks: Ranks) -> None:
    if cell.strategy == "mirrored":
        logical_cpus(cell, device)
        return
    if ranks.interface:
        os.environ.setdefault("NCCL_SOCKET_IFNAME", ranks.interface)
    workers = ranks.gather(f"{ranks.address}:{free_port()}")
    task = {"type": "worker", "index": ranks.rank}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": workers}, "task": task})


def logical_cpus(cell: Cell, device: str) -> None:
    """Let the process see a CPU as so many devices as the cell has, where there is no GPU."""
    if device == "cpu" or not tf.config.list_physical_devices("GPU"):
        (cpu,) = tf.config.list_physical_devices("CPU")
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * cell.devices)


def init_process_group(cell: Cell, device: str, ranks: Ranks) -> dict[str, Any]:
    del ranks
    cuda = device == "cuda"
    if cell.processes > 1:
        options = tf.distribute.experimental
        kind = options.CommunicationImplementation.NCCL if cuda else options.CommunicationImplementation.RING
        communication = options.CommunicationOptions(implementation=kind)
        _chosen["strategy"] = tf.distribute.MultiWorkerMirroredStrategy(communication_options=communication)
        return {"backend": "nccl" if cuda else "ring"}
    kind = "GPU" if cuda else "CPU"
    devices = [each.name for each in tf.config.list_logical_devices(kind)]
    if len(devices) < cell.devices:
        raise UnsupportedError(f"{cell.devices} devices are asked for, and TensorFlow sees {len(devices)}")
    _chosen["strategy"] = tf.distribute.MirroredStrategy(devices[: cell.devices])
    return {"backend": "nccl" if cuda else "in-process"}


def match_strategy(local: single.Training, cell: Cell, spec: WorkloadSpec) -> None:
    del spec
    for layer in local.model.layers if cell.strategy == "synchronised" else ():
        if hasattr(layer, "synchronised"):  # the same kernels, whose exchange with no other device does nothing
            layer.synchronised = True


class Training(single.Training):
    """The training of one process: its share of each batch, and the gradients' mean over all devices."""

    def __init__(self, *arguments: Any, ranks: Ranks, **options: Any) -> None:
        self.ranks, self.strategy = ranks, _chosen["strategy"]
        with self.strategy.scope():
            super().__init__(*arguments, **options)
        for layer in self.model.layers:
            if generator := getattr(layer, "seed_generator", None):
                generator.next = _own_draws(generator.next)
        self.explained = tf.function(self._explain)

    def group_settings(self) -> dict[str, Any]:
        """The strategy and the number of devices, read back from TensorFlow's own strategy and from the model."""
        whole_batch = any(getattr(layer, "synchronised", False) for layer in self.model.layers)
        several = isinstance(self.strategy, tf.distribute.MultiWorkerMirroredStrategy)
        strategy = ("synchronised" if whole_batch else "multiworker") if several else "mirrored"
        return {"strategy": strategy, "devices": self.strategy.num_replicas_in_sync}

    def put(self, batch: tuple[Array | tf.Tensor, Array | tf.Tensor]) -> Any:
        if self.cell.processes > 1:
            return super().put(batch)
        size = len(batch[1]) // self.cell.devices
        kind = "GPU" if self.device == "cuda" else "CPU"

        def part(context: Any, array: Any) -> tf.Tensor:
            number = context.replica_id_in_sync_group
            with tf.device(f"/{kind}:{number}"):
                return tf.identity(array[number * size : (number + 1) * size])

        distribute = self.strategy.experimental_distribute_values_from_function
        return tuple(distribute(lambda context, array=array: part(context, array)) for array in batch)

    def get(self, batch: Any) -> tuple[Array, Array]:
        pieces = zip(
            *(super(Training, self).get(each) for each in zip(*map(self._locals, batch), strict=True)), strict=True
        )
        inputs, labels = (np.concatenate(arrays) for arrays in pieces)
        return inputs, labels

    def _step(self, inputs: Any, labels: Any) -> Any:
        return self.strategy.run(super()._step, args=(inputs, labels))

    def _scores(self, inputs: Any, labels: Any) -> Any:
        return self.strategy.run(super()._scores, args=(inputs, labels))

    def _explain(self, inputs: Any, labels: Any) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """One update; the loss before it and the gradients that it followed, their mean over all devices."""

        def update(inputs: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
            loss, gradients = self._update(inputs, labels)
            replica = tf.distribute.get_replica_context()
            kinds = tf.distribute.ReduceOp
            return replica.all_reduce(kinds.MEAN, loss), replica.all_reduce(kinds.SUM, gradients)

        loss, gradients = self.strategy.run(update, args=(inputs, labels))
        return self._locals(loss)[0], [self._locals(gradient)[0] for gradient in gradients]

    def step(self, batch: Any) -> Any:
        check_batch(self.cell, sum(len(labels) for labels in self._locals(batch[1])))
        return self.function(*batch)

    def read(self, losses: list[Any]) -> list[float]:
        return self.ranks.mean([float(np.mean([float(each) for each in self._locals(loss)])) for loss in losses])

    def each(self, losses: list[Any]) -> list[float]:
        own = [float(each) for loss in losses for each in self._locals(loss)]
        return [loss for each in self.ranks.gather(own) for loss in each]

    def logits(self, batch: Any) -> Array:
        return super().logits(single.Training.put(self, self.get(batch)))

    def _locals(self, value: Any) -> tuple[tf.Tensor, ...]:
        return self.strategy.experimental_local_results(value)

    def _loss_and_gradients(
        self, inputs: tf.Tensor, labels: tf.Tensor, scaled: bool = False
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        loss, gradients = super()._loss_and_gradients(inputs, labels, scaled)
        if scaled:  # Keras' optimizers sum over the devices what they are given, and do not say so
            gradients = [gradient / self.strategy.num_replicas_in_sync for gradient in gradients]
        return loss, gradients


def _own_draws(draw: Callable[..., tf.Tensor]) -> Callable[..., tf.Tensor]:
    """The seeds of dropout, made each device's own: a strategy gives all its devices the same variables."""

    def drawn(*arguments: Any, **options: Any) -> tf.Tensor:
        seed = draw(*arguments, **options)
        replica = tf.distribute.get_replica_context()
        number = replica.replica_id_in_sync_group if replica else 0
        return seed + tf.cast(tf.stack([number * SEEDS_APART, 0]), seed.dtype)

    return drawn


def gradient_bytes(training: Training) -> int:
    variables = training.model.trainable_variables
    return sum(int(np.prod(each.shape)) * tf.as_dtype(each.dtype).size for each in variables)


def summing(cell: Cell, device: str, ranks: Ranks, size: int) -> Callable[[int], None]:
    del cell, ranks
    strategy = _chosen["strategy"]
    with tf.device(place(device)):
        array = tf.zeros(max(1, size // 4))

    def total() -> tf.Tensor:
        replica = tf.distribute.get_replica_context()
        return replica.all_reduce(tf.distribute.ReduceOp.SUM, array)[0]

    summed = tf.function(lambda: strategy.run(total))

    def run(count: int) -> None:
        for _ in range(count):
            last = summed()
        for each in strategy.experimental_local_results(last):
            each.numpy()

    return run
