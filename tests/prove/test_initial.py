"""Initial weights that frameworks draw themselves: compared as distributions, and no part of the proof."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from suite.plan.cell import Cell
from suite.prove.initial import describe
from suite.prove.numbers import Given, Numbers
from suite.worker.evidence import initial
from tests.frameworks import framework_of, module, narrow, needs_frameworks, switches_restored

SHAPE = (64, 32)
GIVEN = Given({"a/kernel": np.zeros(SHAPE), "a/bias": np.zeros(32)}, [])


def numbers(framework: str, kernel: Any, bias: Any, **facts: str) -> Numbers:
    return Numbers({"framework": framework, **facts}, {"initial/a/kernel": kernel, "initial/a/bias": bias})


def uniform(seed: int) -> Any:
    """Draws as PyTorch's of a dense layer with 64 inputs."""
    return np.random.default_rng(seed).uniform(-1 / 8, 1 / 8, SHAPE).ravel()


def normal(seed: int) -> Any:
    """As flax' of that layer, whose normal numbers end at two deviations."""
    drawn = np.random.default_rng(seed).standard_normal(4 * SHAPE[0] * SHAPE[1])
    return (drawn[np.abs(drawn) < 2] / 0.8796 / 8)[: SHAPE[0] * SHAPE[1]]


def test_the_same_distribution_by_other_seeds_is_no_difference() -> None:
    (line,) = describe(numbers("pytorch", uniform(0), np.zeros(32)), numbers("jax", uniform(1), np.zeros(32)), GIVEN)
    assert "no difference" in line


def test_another_distribution_is_named_on_both_sides_and_another_constant_by_its_value() -> None:
    _, kernel, bias = describe(
        numbers("pytorch", uniform(0), np.zeros(32)), numbers("jax", normal(1), np.ones(32)), GIVEN
    )
    assert re.search(r"a/kernel: std 0\.07\d? \(kaiming_uniform with a = sqrt\(5\)\) in pytorch, std 0\.1[23] ", kernel)
    assert kernel.endswith("(lecun_normal) in jax")
    assert bias.strip() == "a/bias: all 0 in pytorch, all 1 in jax"


def test_a_constant_differs_from_draws() -> None:
    _, line = describe(numbers("pytorch", uniform(0), uniform(1)[:32]), numbers("jax", uniform(2), np.zeros(32)), GIVEN)
    assert line.strip().startswith("a/bias: std")
    assert line.endswith("all 0 in jax")


def test_a_builder_that_draws_nothing_is_told_and_without_draws_nothing_is() -> None:
    one = numbers("pytorch", uniform(0), np.zeros(32))
    (line,) = describe(one, numbers("jax", uniform(1), np.zeros(32), undrawn="ValueError: no"), GIVEN)
    assert "jax drew none (ValueError: no)" in line
    assert not describe(one, Numbers({"framework": "jax"}, {}), GIVEN)


@needs_frameworks
@pytest.mark.parametrize("framework", ["pytorch", "tensorflow", "jax"])
def test_a_workloads_own_builder_draws_every_tensor_anew_by_each_seed(framework: str) -> None:
    framework_of(framework)
    spec, tools = narrow("cifar100_cnn"), import_module(f"suite.worker.frameworks.{framework}.evidence")
    cell = Cell("cifar100_cnn", framework, precision="fp64", batch=2, size="small")
    images = np.zeros((2, 32, 32, 3), np.uint8)
    with switches_restored(framework):
        drawn = initial.draw(tools, cell, spec, module("cifar100_cnn", framework), images)
    assert {name.removeprefix("initial/") for name in drawn} == {tensor.name for tensor in spec.tensors}
    kernel = drawn["initial/logits/kernel"]
    assert np.ptp(kernel) > 0
    assert len({*kernel.tolist()}) == kernel.size


def test_what_a_builder_raises_is_no_fault_of_the_proof() -> None:
    tools = import_module("suite.worker.evidence.initial")  # which has neither function
    drawn = initial.draw(tools, Cell("imdb_lstm", "jax"), narrow("imdb_lstm"), tools, np.zeros(1))
    assert "AttributeError" in drawn["undrawn"]
