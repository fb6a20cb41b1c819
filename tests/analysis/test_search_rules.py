"""What each setting brought, from races with known effects."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from suite.analysis.search import significance
from suite.analysis.search.effects import effects, place
from suite.analysis.search.significance import LEVEL, all_tie, find_dominated, find_eliminated, share, spent
from suite.analysis.search.state import figure_of, format_value, score, value, why_none
from suite.analysis.statistics.noise import fit
from suite.plan.cell import Cell
from suite.plan.objective import KINDS, Question, objectives
from tests.records import record, timed, trained
from tests.studies.tune import rates
from tests.studies.tune_worlds import worlds

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
        assert ratio.blocks == 4
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
    for _ in range(30):
        table = draws.normal(0, 0.05, (3, len(CELLS)))
        wrong += any(each.depends_on for each in effects(CELLS, table, fit(table)))
    assert wrong <= 3


def test_one_block_shows_no_effect() -> None:
    table = scores(0.01, blocks=1)
    assert not effects(CELLS, table, fit(table))


def test_the_usual_compile_modes_are_one_value() -> None:
    assert place(CELLS[0], "compile") == place(CELLS[-1], "compile") == "usual"
    assert place(CELLS[0].but(compile="compile"), "compile") == "compile"


EVERY = np.ones(3, dtype=bool)


def test_the_fit_takes_out_the_blocks_whatever_is_missing() -> None:
    cells, blocks = np.array([0.0, -0.3, -0.1]), np.array([1.0, 0.7, 2.0])
    scores = blocks[:, None] + cells
    scores[1, 2] = scores[2, 2] = math.nan
    fitted = fit(scores)
    assert np.allclose(fitted.means - fitted.means[0], cells)
    assert fitted.counts.tolist() == [3, 3, 1]
    assert fitted.freedom == 7 - 3 - 3 + 1
    assert fitted.deviation == pytest.approx(0, abs=1e-12)


def test_the_noise_is_that_of_a_complete_table() -> None:
    scores = np.random.default_rng(0).normal(0, 0.05, (6, 5))
    rest = scores - scores.mean(axis=0) - scores.mean(axis=1, keepdims=True) + scores.mean()
    assert fit(scores).deviation == pytest.approx(math.sqrt((rest**2).sum() / 20))


def test_a_fit_of_one_block_knows_no_noise_and_of_none_nothing() -> None:
    fitted = fit(np.array([[0.0, 1.0, math.nan]]))
    assert fitted.freedom == 0
    assert math.isnan(fitted.deviation)
    assert math.isnan(fitted.means[2])
    assert math.isinf(fitted.reach(0.05))


def test_the_looks_together_spend_the_level() -> None:
    assert sum(share(look) for look in range(1, 200)) == pytest.approx(1)
    assert spent(3) == pytest.approx(LEVEL * sum(share(look) for look in range(1, 4)))
    assert spent(0) == 0


def test_after_one_block_nothing_goes_however_far_behind() -> None:
    assert not find_eliminated(np.log([[1.0, 0.69, 0.2]]), EVERY, 0.02).any()
    assert not find_dominated([np.log([[1.0, 0.69, 0.2]])] * 2, EVERY, 0.02).any()


def test_what_is_significant_but_within_the_margin_stays_and_ties() -> None:
    scores = np.log([[1.0, 0.99, 0.97]] * 3) + np.array([[0.0], [0.1], [-0.2]])
    assert find_eliminated(scores, EVERY, 0.02).tolist() == [False, False, True]
    assert not all_tie(scores, EVERY, 0.02)
    assert all_tie(scores, np.array([True, True, False]), 0.02)


def test_noise_drops_nothing_and_shows_no_tie() -> None:
    scores = np.random.default_rng(1).normal(0, 0.05, (3, 3))
    assert not find_eliminated(scores, EVERY, 0.02).any()
    assert not all_tie(scores, EVERY, 0.02)


def test_a_cell_goes_that_another_beats_in_one_objective_and_matches_in_the_other() -> None:
    noise = np.random.default_rng(2).normal(0, 0.001, (2, 4, 3))
    speed, memory = np.log([1.0, 0.8, 0.8]) + noise[0], np.log([1.0, 1.0, 1.5]) + noise[1]
    assert find_dominated([speed, memory], EVERY, 0.02).tolist() == [False, True, False]


@pytest.mark.parametrize("name", ["0005 cnn, drift 20 %", "0003 lstm, two speeds"])
def test_simulated_searches_recommend_a_good_cell_with_few_launches(name: str) -> None:
    """A short version of ``python -m tests.studies.tune``, whose tables are in docs/lab/search.md."""
    found = rates(worlds()[name], searches=20)
    assert found.found >= 0.95
    assert found.launches <= 0.40
    assert found.recommended < 8


def test_slow_launches_drop_the_best_cell_no_more_often_than_the_stated_risk() -> None:
    """A screen after one launch dropped it in 9 % of these searches."""
    assert rates(worlds()["0010 cnn, every tenth half as fast"], searches=60).dropped <= LEVEL


def test_a_race_of_equal_cells_seldom_drops_the_best() -> None:
    draws, dropped = np.random.default_rng(3), 0
    for _ in range(100):
        scores, alive = draws.normal(0, 0.04, (6, 8)), np.ones(8, dtype=bool)
        for blocks in range(1, 7):
            known = np.where(alive, scores[:blocks], scores[:blocks])
            alive &= ~significance.find_eliminated(known, alive, 0.02)
        dropped += not alive[0]
    assert dropped <= 5


QUESTION = Question(price_hour=3.6)
LAUNCH = timed(0.1, batch=50, memory={"rss_peak_bytes": 10, "allocator_peak_bytes": 7})
JOULES = {"gpus": [{"energy_j_per_sample": 0.5}]}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("samples/s", 500.0),
        ("step-latency", 0.1),
        ("memory", 7.0),
        ("cost", 2.0),
        ("joules/sample", None),
        ("seconds-to-accuracy", None),
    ],
)
def test_a_quantity_is_that_of_the_record(name: str, expected: float | None) -> None:
    found = value(LAUNCH, name, QUESTION)
    assert found == (expected and pytest.approx(expected))


def test_energy_and_its_price_are_those_of_the_gpu() -> None:
    launch = replace(LAUNCH, metrics=JOULES)
    assert value(launch, "joules/sample", QUESTION) == 0.5
    assert value(launch, "cost", Question(price_kwh=0.36)) == pytest.approx(0.05)
    assert value(LAUNCH, "cost", Question(price_kwh=0.36)) is None


def test_energy_of_several_devices_is_their_sum_and_nothing_if_one_is_missing() -> None:
    cell = replace(LAUNCH.cell, devices=2)
    both = {"gpus": [{"energy_j_per_sample": 0.5}, {"energy_j_per_sample": 0.25}, {"energy_j_per_sample": 9.0}]}
    one = {"gpus": [{"energy_j_per_sample": 0.5}, {"energy_j_per_sample": None}]}
    assert value(replace(LAUNCH, cell=cell, metrics=both), "joules/sample", QUESTION) == 0.75
    assert value(replace(LAUNCH, cell=cell, metrics=one), "joules/sample", QUESTION) is None
    assert value(replace(LAUNCH, cell=cell, metrics=JOULES), "joules/sample", QUESTION) is None


def test_without_an_allocator_the_memory_is_that_of_the_process() -> None:
    assert value(record(memory={"rss_peak_bytes": 10}), "memory", QUESTION) == 10


def test_an_accuracy_is_reached_after_seconds_of_training_or_not_at_all() -> None:
    launch = trained()
    assert launch.course
    assert value(launch, "seconds-to-accuracy", QUESTION) == 5.0
    missed = replace(launch, course=replace(launch.course, target=0.9))
    assert value(missed, "seconds-to-accuracy", QUESTION) is None
    asked = Question(objectives("seconds-to-accuracy=.9"))
    assert why_none(missed, asked) == "did not reach 0.9 in 2 epochs (it ended at 0.600)"
    assert why_none(LAUNCH, Question(objectives("joules/sample"))) == "its launch measured no joules/sample"
    assert why_none(LAUNCH, QUESTION) == ""


@pytest.mark.parametrize("name", KINDS)
def test_more_of_a_score_is_better_and_gives_the_quantity_back(name: str) -> None:
    assert (score(2.0, name) > score(1.0, name)) == KINDS[name].more
    assert figure_of(score(3.0, name), name) == pytest.approx(3.0)
    assert math.isnan(score(None, name))


def test_quantities_are_shown_with_their_units() -> None:
    told = [
        format_value(1234.4, "samples/s"),
        format_value(0.0123, "step-latency"),
        format_value(3 * 2**30, "memory"),
        format_value(None, "cost"),
    ]
    assert told == ["1,234 samples/s", "12.3 ms", "3.00 GiB", "\u2013"]
