"""NVIDIA DALI, for all three frameworks: one pipeline that crops and flips, on the GPU where there is one.

The host gathers the samples of a batch; DALI's threads and, on CUDA, its kernels do the rest, some batches ahead. A
framework takes the result over by DLPack, as a copy, since DALI uses its buffers again. Needs the extra ``dali``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from suite.plan.cell import Cell
from suite.worker.frameworks import UnsupportedError
from suite.worker.loaders import Delivery, describe, refuse, refuse_own, tuned_workers
from workloads.data.augment import PAD, Batches
from workloads.data.dataset import Array

PREFETCH = 2  # batches that the pipeline keeps ready

Put = Callable[[Any], Any]


class Dali(Delivery):
    """A DALI pipeline over `Batches`; ``take`` makes a framework's tensor of a DLPack-capable one on the GPU."""

    def __init__(self, cell: Cell, source: Batches, device: str, put: Put, take: Put) -> None:
        refuse(cell.framework, cell.loader, "pin_memory", "cache")
        try:
            from nvidia.dali import fn, pipeline_def
        except ImportError as error:
            raise UnsupportedError(
                f"NVIDIA DALI cannot be imported ({error}): install it beside the framework with "
                "pip install 'framework-training-suite[dali]'"
            ) from None
        refuse_own(source, "images", "tokens")
        images, gpu = source.form == "images", device == "cuda"
        side = source.split.inputs.shape[1]
        batches = _images(source) if images else (source[number] for number in itertools.count())

        @pipeline_def
        def pipeline() -> Any:
            inputs, labels, *draws = fn.external_source(source=batches, num_outputs=4 if images else 2, batch=True)
            if gpu:
                inputs, labels = inputs.gpu(), labels.gpu()
            if images:
                starts, flips = draws
                crop = {"start": starts, "shape": (side, side), "axes": (0, 1), "out_of_bounds_policy": "pad"}
                inputs = fn.flip(fn.slice(inputs, **crop), horizontal=flips)
            return inputs, labels

        prefetch = PREFETCH if cell.loader.prefetch is None else cell.loader.prefetch
        if not prefetch:
            raise UnsupportedError("DALI keeps at least one batch ready; ask for prefetch 1")
        threads = max(1, tuned_workers(device))
        options = {"batch_size": source.batch, "num_threads": threads, "device_id": 0 if gpu else None}
        self.pipeline = pipeline(prefetch_queue_depth=prefetch, **options)
        self.pipeline.build()
        self.put, self.take = put, take if gpu else None
        self.settings = describe("nvidia.dali", threads, prefetch, pin_memory=gpu)

    def __next__(self) -> Any:
        outputs = [output.as_tensor() for output in self.pipeline.run()]
        if self.take:
            return tuple(self.take(output) for output in outputs)
        return self.put(tuple(np.array(output) for output in outputs))

    def close(self) -> None:
        """End the threads."""
        del self.pipeline


def _images(source: Batches) -> Iterator[tuple[Array, ...]]:
    """Uncropped images, labels, where in the image each crop starts (it may be outside), and flips."""
    for number in itertools.count():
        chosen, plan = source.choose(number), source.plan(number // source.per_epoch)
        starts = np.stack([plan.rows[chosen], plan.columns[chosen]], axis=1) - np.int32(PAD)
        yield source.split.inputs[chosen], source.split.labels[chosen], starts, plan.flips[chosen].astype(np.int32)
