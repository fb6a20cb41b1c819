"""Dropout by its draws, on numbers that NumPy makes: rounding is no draw, and draws that are shared are seen."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from suite.prove.arithmetic import softmax
from suite.prove.draws import first_differing
from suite.prove.layers import Pair
from suite.prove.numbers import Given, Numbers
from suite.worker.evidence.proof import DRAWS

SAMPLES, HEADS, WIDTH, RATE = 8, 4, 32, 0.1
KERNEL = np.ones((WIDTH, 2))


def side(framework: str, plain: Any, passes: Any) -> Numbers:
    facts = {"framework": framework, "layers": [{"path": "", "tensors": ["out/kernel"], "lines": []}]}
    return Numbers(facts, {"layers/0/input": plain, "layers/0/drawn_input": passes})


def cause(one: tuple[Any, Any], other: tuple[Any, Any]) -> str | None:
    """The cause by which two inputs differ, each without and with dropout; None if they do not."""
    pair = Pair(side("pytorch", *one), side("jax", *other), Given({"out/kernel": KERNEL}, []))
    found = first_differing(pair)
    return found[1].what if found else None


def attended(seed: int, *shared: int, before: bool = False, positions: int = 12) -> tuple[Any, Any]:
    """What attention gives to its output's kernel, with dropout of its weights (samples, heads, queries, keys).

    ``shared`` are axes along which all have one mask; ``before`` says that what goes in has dropout too.
    """
    fixed, draw = np.random.default_rng(1), np.random.default_rng(seed)
    x = fixed.standard_normal((SAMPLES, positions, WIDTH))
    kernels = fixed.standard_normal((3, WIDTH, WIDTH)) / np.sqrt(WIDTH)

    def drop(array: Any, axes: tuple[int, ...] = ()) -> Any:
        shape = [1 if axis in axes else size for axis, size in enumerate(array.shape)]
        return array * (draw.random(shape) >= RATE) / (1 - RATE)

    def attend(*, dropping: bool) -> Any:
        inputs = drop(x) if dropping and before else x
        split = (SAMPLES, positions, HEADS, WIDTH // HEADS)
        query, key, value = ((inputs @ kernel).reshape(split).swapaxes(1, 2) for kernel in kernels)
        weights = softmax(query @ key.swapaxes(2, 3) / np.sqrt(WIDTH // HEADS))
        weights = drop(weights, shared) if dropping else weights
        return (weights @ value).swapaxes(1, 2).reshape(SAMPLES, positions, WIDTH)

    return attend(dropping=False), np.stack([attend(dropping=True) for _ in range(DRAWS)])


@pytest.mark.parametrize("positions", [12, 40])
@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("shared", [(0, 1), (1,)], ids=["samples-and-heads", "heads"])
def test_attention_dropout_that_is_shared_is_seen(shared: tuple[int, ...], before: bool, positions: int) -> None:
    """flax shares it over samples and heads, unless told otherwise."""
    make = partial(attended, before=before, positions=positions)
    own, other = make(2), make(3, *shared)
    assert cause(own, other) == "shared draws"
    assert cause(other, own) == "shared draws"
    assert cause(own, make(4)) is None
    assert cause(other, make(5, *shared)) is None


def test_chance_is_no_difference() -> None:
    found = [
        cause(attended(2 * seed, before=seed % 2 > 0), attended(2 * seed + 1, before=seed % 2 > 0))
        for seed in range(10, 40)
    ]
    assert found == [None] * 30


def test_last_bits_and_narrow_numbers_are_no_draws() -> None:
    """JAX gives a layer float32 that it was given, and threads add in any order; neither model has dropout."""
    plain = np.random.default_rng(0).standard_normal((SAMPLES, 12, WIDTH)).astype(np.float32)
    still = np.stack([plain.astype(np.float64)] * DRAWS)
    shaken = still * (1 + 1e-15 * np.random.default_rng(1).standard_normal(still.shape))
    shaken[1] = shaken[0]
    coarse = still * (1 + 1e-7 * np.random.default_rng(2).standard_normal(still.shape))
    for passes in (np.stack([plain] * DRAWS), shaken, coarse):
        assert cause((plain.astype(np.float64), still), (plain, passes)) is None


def test_one_seed_is_no_draw_of_each_pass() -> None:
    plain, passes = attended(2)
    assert cause((plain, passes), (plain, np.stack([passes[0]] * DRAWS))) == "shared draws"


def test_a_dropout_that_only_one_side_draws_is_missing() -> None:
    """Its place is known without draws of the other side, by the layer before."""
    plain, draw = np.random.default_rng(0).standard_normal((SAMPLES, WIDTH)), np.random.default_rng(1)
    kept = np.stack([plain * (draw.random(plain.shape) >= RATE) / (1 - RATE) for _ in range(DRAWS)])
    still = np.stack([plain] * DRAWS)
    assert cause((plain, kept), (plain, still)) == cause((plain, still), (plain, kept)) == "dropout missing"


def dropped_paths(seed: int, rate: float, samples: int, added: bool) -> tuple[Any, Any]:
    """What a residual branch gives that is left out for whole samples (stochastic depth), alone or ``added``."""
    fixed, draw = np.random.default_rng(1), np.random.default_rng(seed)
    branch, stem = fixed.standard_normal((2, samples, 12, WIDTH))
    kept = (draw.random((DRAWS, samples, 1, 1)) >= rate) / (1 - rate)
    return branch + added * stem, branch * kept + added * stem


@pytest.mark.parametrize("samples", [2, 8])
@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5])
@pytest.mark.parametrize("added", [False, True])
def test_samples_that_are_left_out_whole_draw_alike_by_chance(samples: int, rate: float, added: bool) -> None:
    make = partial(dropped_paths, rate=rate, samples=samples, added=added)
    assert [cause(make(2 * seed), make(2 * seed + 1)) for seed in range(10, 40)] == [None] * 30


def test_samples_that_are_left_out_whole_otherwise_are_seen() -> None:
    right, other, still = (dropped_paths(seed, rate, SAMPLES, True) for seed, rate in enumerate((0.1, 0.5, 0.0)))
    again = other[0], np.concatenate([other[1][:8]] * 4)
    assert None not in (cause(right, other), cause(right, still), cause(other, again))
