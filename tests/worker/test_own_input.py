"""Data from outside of the repository comes out of every loader as the reference has it, augmented or not."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest

from suite.plan.cell import Cell, Loader
from suite.worker.frameworks import UnsupportedError
from tests.frameworks import each_framework, needs_frameworks, training
from workloads.data.augment import Batches
from workloads.data.dataset import DataSet
from workloads.data.own import synthetic

pytestmark = needs_frameworks

KINDS = ("tuned", "naive", "resident")


def data(**changes) -> DataSet:
    splits = synthetic((5, 2), "float32", train=64, test=16)
    return replace(DataSet("own_mine", "synthetic", "", splits.train, splits.test, form=splits.form), **changes)


def augment(inputs, draws):
    return inputs * draws[:, :, None].astype(inputs.dtype)


@each_framework
def test_samples_stay_as_they_are(framework):
    source = Batches(data(), 8, 3)
    for kind in KINDS:
        assert_delivered(framework, source, kind)


@each_framework
def test_an_augmentation_of_ones_own_is_the_same_in_every_framework(framework):
    source = Batches(data(augment=augment, draws=1), 8, 3)
    assert_delivered(framework, source, "tuned")
    with pytest.raises(UnsupportedError, match="cannot run the data's own augmentation"):
        assert_delivered(framework, source, "resident")


def assert_delivered(framework: str, source: Batches, kind: str) -> None:
    """The first batches of an epoch and the first after it."""
    cell = Cell("imdb_lstm", framework, batch=8, loader=Loader(kind), size="small")
    with training("imdb_lstm", framework, "fp32") as running:  # only for what brings a batch to the device
        loader = import_module(f"suite.worker.loaders.{framework}").batches(cell, source, "cpu", running.put)
        try:
            for number in range(9):
                inputs, labels = running.get(next(loader))
                expected, answers = source[number]
                assert inputs.dtype == expected.dtype
                assert np.array_equal(inputs, expected)
                assert np.array_equal(labels, answers)
        finally:
            loader.close()
