"""The plain loops run beside the suite's own, on every task; their networks are as large as the suite's."""

from __future__ import annotations

import argparse
import importlib
from math import prod
from typing import Any

import pytest

from suite.checks import plain
from tests.frameworks import each_framework, needs_frameworks
from workloads.plain import NETWORKS
from workloads.spec import specification

pytestmark = pytest.mark.long

TASKS = [
    ("gpt_small", "decode"),
    ("imdb_lstm", "train"),
    *(
        pytest.param(workload, task, marks=pytest.mark.slow)
        for workload, task in (
            ("gpt_small", "train"), ("gpt_small", "infer"), ("imdb_lstm", "infer"), ("imdb_transformer", "train"),
            ("imdb_transformer", "infer"), ("cifar100_cnn", "train"), ("cifar100_cnn", "infer"),
        )
    ),
]  # fmt: skip


@needs_frameworks
@each_framework
@pytest.mark.parametrize(("workload", "task"), TASKS)
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
