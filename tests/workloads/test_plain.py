"""The plain loops run beside the suite's own, on every task; their networks are as large as the suite's."""

from __future__ import annotations

import argparse
import importlib
from itertools import product
from math import prod
from typing import Any

import pytest

from suite.checks import plain
from suite.plan.cell import FRAMEWORKS
from tests.frameworks import needs_frameworks
from workloads.plain import NETWORKS
from workloads.spec import specification

pytestmark = pytest.mark.long

TRAINING, DECODING = ("imdb_lstm", "train"), ("gpt_small", "decode")
SLOW = [pytest.mark.slow]
TASKS = [
    DECODING, *product(("imdb_lstm", "gpt_small", "imdb_transformer", "cifar100_cnn"), ("train", "infer")),
]  # fmt: skip


@needs_frameworks
@pytest.mark.parametrize(
    ("workload", "task", "framework"),
    [
        pytest.param(*task, name, marks=[] if task == TRAINING or (task == DECODING and name == "pytorch") else SLOW)
        for task in TASKS
        for name in FRAMEWORKS
    ],
)
def test_both_loops_run(workload: str, task: str, framework: str) -> None:
    options = argparse.Namespace(
        workload=[workload], framework=[framework], batch=(4,), size="small", task=task, rounds=1, min_window=0.001
    )
    found = plain.pair(options)
    assert len(found["ratios"]) == 1
    assert found["ratios"][0] > 0
    assert found["step_s"] > 0


@needs_frameworks("pytorch")
@pytest.mark.parametrize("workload", NETWORKS)
def test_the_plain_network_is_as_large(workload: str) -> None:
    """Of cuDNN's two biases of an LSTM the suite trains one."""
    spec: Any = specification(workload, "small")
    loops = importlib.import_module("workloads.plain.pytorch")
    parameters = {name: each.numel() for name, each in loops.network(spec, "cpu").named_parameters()}
    second = sum(count for name, count in parameters.items() if "bias_hh" in name)
    assert sum(parameters.values()) - second == sum(prod(tensor.shape) for tensor in spec.tensors)
