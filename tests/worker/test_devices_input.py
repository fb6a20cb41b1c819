"""Each of several processes gets its share of the global batch bit for bit, through every loader that serves it."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest

from suite.plan.cell import Cell, Loader
from tests.frameworks import data, each_framework, needs_frameworks, training
from workloads.data.augment import Batches, Share
from workloads.spec import specification

pytestmark = needs_frameworks

BATCH, COUNT = 64, 7  # over two ends of an epoch, of three batches each


@each_framework
@pytest.mark.parametrize("workload", ["cifar100_cnn", "imdb_lstm"])
def test_a_rank_s_batches_are_its_share_of_one_device_s(workload: str, framework: str) -> None:
    spec = specification(workload, "small")
    length, of = getattr(spec, "length", None), data(spec.data)
    one = Batches(of, BATCH, 1, length)
    share = Share(devices=2, parts=2, first=1, own=1)
    loaders = import_module(f"suite.worker.loaders.{framework}")
    with training(workload, framework, "fp32") as running:
        for kind in ("naive", "tuned", "resident"):
            cell = Cell(workload, framework, batch=BATCH // 4, accumulate=2, loader=Loader(kind), size="small")
            loader = loaders.batches(cell, Batches(of, BATCH, 1, length, share=share), "cpu", running.put)
            for number in range(COUNT):
                for got, whole in zip(running.get(next(loader)), one[number], strict=True):
                    assert np.array_equal(got, share.of(whole)), (kind, number)
            loader.close()
