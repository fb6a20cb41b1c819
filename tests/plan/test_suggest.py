from __future__ import annotations

from collections.abc import Iterable

import pytest

from suite.catalog.devices import DEVICES
from suite.catalog.suggest import nearest, unknown
from suite.plan.cell import FRAMEWORKS, PRECISIONS, WORKLOADS


@pytest.mark.parametrize(("value", "choices", "meant"), [
    ("pytroch", FRAMEWORKS, "pytorch"),
    ("torch", FRAMEWORKS, "pytorch"),
    ("TensorFlow", FRAMEWORKS, "tensorflow"),
    ("bf-16", PRECISIONS, "bf16"),
    ("imdb", WORKLOADS, "imdb_lstm"),
    ("lstm", WORKLOADS, "imdb_lstm"),
    ("cifar100-cnn", WORKLOADS, "cifar100_cnn"),
    ("mxnet", FRAMEWORKS, ""),
    ("gpu", DEVICES, "cuda"),
    ("cuda:1", DEVICES, "cuda"),
    ("tf", FRAMEWORKS, "tensorflow"),
    ("BFloat16", PRECISIONS, "bf16"),
    ("float32", PRECISIONS, "fp32"),
    ("gpu", PRECISIONS, ""),
    ("", FRAMEWORKS, ""),
])  # fmt: skip
def test_the_nearest_name_is_the_one_that_was_probably_meant(value: str, choices: Iterable[str], meant: str) -> None:
    assert nearest(value, choices) == meant


def test_the_text_names_the_nearest_choice_and_all_others() -> None:
    assert unknown("framework", "jaxx", FRAMEWORKS) == (
        "unknown framework 'jaxx'; did you mean 'jax'? There are: pytorch, tensorflow, jax"
    )
    assert unknown("framework", "mxnet", FRAMEWORKS, "or none") == (
        "unknown framework 'mxnet'; there are: pytorch, tensorflow, jax, or none"
    )
