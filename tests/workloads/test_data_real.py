"""The real data sets, where SUITE_DATA_DIR names a directory that has them."""

from __future__ import annotations

import time

import numpy as np
import pytest

from workloads.data.cache import open_cached
from workloads.data.dataset import arrays
from workloads.data.prepare import SOURCES, data_directory, prepare

# By name: shapes of the training inputs and labels, samples of the test split, and the sum of the training inputs.
FACTS = {
    "cifar100": ((50_000, 32, 32, 3), 10_000, 18_729_378_732),
    "imdb": ((25_000, 500), 25_000, 2_396_163_085),
}


@pytest.mark.parametrize("name", ["cifar100", pytest.param("imdb", marks=pytest.mark.slow)])
def test_real_data(name, tmp_path, monkeypatch, capsys):
    directory = data_directory()
    if directory is None:
        pytest.skip("SUITE_DATA_DIR is not set")
    if SOURCES[name].find(directory) is None:
        pytest.skip(f"{directory} has no {name}")
    before = sorted(directory.iterdir())
    started = time.perf_counter()
    folder = prepare(name, "real", cache=tmp_path, fetch=False)
    parsed = time.perf_counter()
    data = open_cached(folder)
    opened = time.perf_counter()
    with capsys.disabled():
        print(f"\n{name}: parsed in {parsed - started:.1f} s, opened in {(opened - parsed) * 1e3:.1f} ms")  # noqa: T201 - a figure to look at, not a limit
    shape, tests, total = FACTS[name]
    assert data.kind == "real"
    assert data.digest == SOURCES[name].digest
    assert data.train.inputs.shape == shape
    assert len(data.test) == tests
    assert int(data.train.inputs.sum(dtype=np.int64)) == total
    assert all(array.dtype == kind for array, kind in zip(arrays(data).values(), types(name), strict=True))
    classes = 100 if name == "cifar100" else 2
    for split in (data.train, data.test):
        assert set(np.bincount(split.labels)) == {len(split) // classes}
    assert sorted(directory.iterdir()) == before


def types(name):
    inputs = np.uint8 if name == "cifar100" else np.uint16
    return inputs, np.int32, inputs, np.int32
