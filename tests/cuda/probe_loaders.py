"""A probe of the loaders: what reaches the device and comes back, byte for byte against the reference batches."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any

from suite.plan.cell import Cell
from tests.cuda.cells import LOADERS
from tests.cuda.probing import Request, answer_all

WORKLOADS = ("cifar100_cnn", "imdb_lstm")  # one of each kind of data
BATCH = 512
MORE = 2  # batches of a second epoch

_TRAININGS: dict[str, Any] = {}


def delivered(request: Request, workload: str, kind: str) -> dict[str, Any]:
    """The batches of one epoch and a little: which of them differ from the reference, and where they lay."""
    cell = Cell(workload, request.framework, batch=BATCH, size="small", loader=LOADERS[kind])
    if workload not in _TRAININGS:
        _TRAININGS[workload] = request.training(cell)
    training, source, reference = _TRAININGS[workload], request.batches(cell), request.batches(cell)
    loaders = import_module(f"suite.worker.loaders.{request.framework}")
    loader = loaders.batches(cell, source, request.device, training.put)
    differ, places = [], set()
    count = min(reference.per_epoch, 8) + MORE
    try:
        for number in range(count):
            batch = next(loader)
            places |= {str(getattr(array, "device", "")) for array in batch}
            for name, found, right in zip(("inputs", "labels"), training.get(batch), reference[number], strict=True):
                if (found.dtype, found.shape) != (right.dtype, right.shape):
                    differ.append(
                        f"batch {number}: {name} {found.dtype} {found.shape}, not {right.dtype} {right.shape}"
                    )
                elif found.tobytes() != right.tobytes():
                    differ.append(f"batch {number}: {name} in {int((found != right).sum())} values")
        settings = dict(loader.settings)
    finally:
        loader.close()
    return {"batches": count, "epoch": reference.per_epoch, "differ": differ, "places": sorted(places)} | settings


CHECKS = {
    f"{workload} {kind}": partial(delivered, workload=workload, kind=kind) for workload in WORKLOADS for kind in LOADERS
}

if __name__ == "__main__":
    answer_all(Request.read(), CHECKS)
