"""Devices that normalise their samples apart from each other train otherwise than one device does."""

from __future__ import annotations

from typing import Any

from tests import records
from tests.analysis.test_axes import along
from tests.analysis.test_identity import kinds, scaled


def test_devices_that_normalise_apart_are_compared_with_as_many_devices_only() -> None:
    """And those that share their statistics with one device."""
    cells = {"workload": "cifar100_resnet18", "n": 1}
    one = records.launches(["pytorch"], **cells)
    apart = records.launches(["pytorch", "jax"], devices=2, **cells)
    assert kinds([*one, *(scaled(each, 1.5) for each in apart)]) == ["alone", "same", "same"]
    together = records.launches(["jax"], devices=2, strategy="jit", **cells)
    assert kinds([*one, scaled(together[0], 1.5)]) == ["differs", "differs"]


def test_batch_statistics_of_each_device_are_not_compared_with_those_of_the_whole_batch() -> None:
    cell: dict[str, Any] = {"workload": "cifar100_resnet18", "devices": 2}
    held = [*records.launches(["pytorch"], **cell), *records.launches(["jax"], strategy="jit", **cell)]
    (found,) = along("framework", held, "pytorch")
    assert "batch statistics of each device" in " ".join(found.frame["ratio_reason"])
    (found,) = along("framework", records.launches(["pytorch", "jax"], **cell), "pytorch")
    assert found.frame["ratio_reason"].tolist() == ["", ""]
