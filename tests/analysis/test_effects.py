"""What each setting brought, from races with known effects."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from suite.analysis.search.effects import effects, place
from suite.analysis.statistics.noise import fit
from suite.plan.cell import Cell

CELLS = [
    Cell("imdb_lstm", framework, precision=precision, batch=batch)
    for framework, precision, batch in product(("pytorch", "jax"), ("fp32", "bf16"), (32, 128))
]


def scores(noise: float, interaction: float = 0.0, dropped: int = 0, blocks: int = 4) -> np.ndarray:
    """Batch 128 is 1.2 times as good, JAX 0.8 times; bf16 1.1 times, in JAX by ``interaction`` less."""
    draws = np.random.default_rng(0)
    table = np.zeros((blocks, len(CELLS)))
    for at, cell in enumerate(CELLS):
        table[:, at] += math.log(1.2) * (cell.batch == 128) + math.log(0.8) * (cell.framework == "jax")
        table[:, at] += (math.log(1.1) - interaction * (cell.framework == "jax")) * (cell.precision == "bf16")
    table += draws.normal(0, noise, table.shape) + draws.normal(0, 0.3, (blocks, 1))
    table[1:, :dropped] = math.nan
    return table


@pytest.mark.parametrize("dropped", [0, 3])
def test_effects_without_interaction_are_found_from_pairs_of_unequal_length(dropped: int) -> None:
    table = scores(0.01, dropped=dropped)
    found = {each.setting: each for each in effects(CELLS, table, fit(table))}
    assert set(found) == {"framework", "precision", "batch"}
    for setting, truth in (("framework", 0.8), ("precision", 1.1), ("batch", 1.2)):
        ratio = found[setting].ratio
        assert ratio.low < truth < ratio.high
        assert ratio.high / ratio.low < 1.06
        assert ratio.pairs == 4
        assert not found[setting].depends_on
    assert (found["precision"].value, found["precision"].base) == ("bf16", "fp32")


def test_an_interaction_is_named_with_the_effect_at_each_value() -> None:
    table = scores(0.01, interaction=0.5)
    found = {each.setting: each for each in effects(CELLS, table, fit(table))}
    assert found["precision"].depends_on == "framework"
    assert found["precision"].by_value is not None
    assert found["precision"].by_value["pytorch"].value == pytest.approx(1.1, rel=0.03)
    assert found["precision"].by_value["jax"].value == pytest.approx(1.1 * math.exp(-0.5), rel=0.03)
    assert not found["batch"].depends_on


def test_noise_is_seldom_called_an_interaction() -> None:
    draws = np.random.default_rng(1)
    wrong = 0
    for _ in range(100):
        table = draws.normal(0, 0.05, (3, len(CELLS)))
        wrong += any(each.depends_on for each in effects(CELLS, table, fit(table)))
    assert wrong <= 10


def test_one_block_shows_no_effect() -> None:
    table = scores(0.01, blocks=1)
    assert not effects(CELLS, table, fit(table))


def test_the_usual_compile_modes_are_one_value() -> None:
    assert place(CELLS[0], "compile") == place(CELLS[-1], "compile") == "usual"
    assert place(CELLS[0].but(compile="compile"), "compile") == "compile"
