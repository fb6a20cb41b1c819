"""What was learnt, compared: known answers for verdicts, tables and the numbers behind the plots."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from suite.analysis.records.load import Launch
from suite.analysis.rows.groups import group
from suite.analysis.statistics.accuracy import (
    compare_accuracies,
    difference,
    epochs,
    trains_to_the_end,
    verdict,
)
from suite.compare.__main__ import main
from suite.record.parts.history import Epoch, TrainingHistory
from suite.record.record import Phase, Record, Window
from suite.report.plots import draw
from suite.report.plots.kinds.learning import accuracies, losses
from suite.report.tables.accuracy import view
from tests.records import HOSTILE, digest, failed, record, save
from tests.shown import grouped, in_markdown, terminal


def course(final: float, seed: int = 0, count: int = 3, target: float = 0.8) -> TrainingHistory:
    """Accuracies that rise evenly to ``final``, two seconds an epoch."""
    made = [
        Epoch(10, 1.5 + 0.01 * seed if n == 1 else 1.0 / n, 2.0, 1.1 / n, final - 0.1 * (count - n), 0.5)
        for n in range(1, count + 1)
    ]
    return TrainingHistory("modern", count, target, tuple(made), tuple(np.linspace(2, 1, 240) + 0.01 * seed))


def trained(framework: str, seed: int, final: float, **changes: Any) -> Record:
    made = record(framework, seed, workload="imdb_lstm", batch=64, recipe="modern", **changes)
    history = course(final, seed)
    windows = Phase(tuple(Window(epoch.steps, epoch.train_s) for epoch in history.epochs))
    held: dict[str, Any] = {"phases": {"train": windows}, "course": history}
    described = made.workload | {"digest": digest("recipe")}
    return replace(made, workload=described, run=made.run | {"seed": seed}, first_step_s=None, **held)


def seeds(accuracies):
    return [
        trained(framework, seed, value) for framework, held in accuracies.items() for seed, value in enumerate(held)
    ]


def by_seed(*accuracies):
    return dict(enumerate(accuracies))


SAME = {"pytorch": (0.870, 0.872, 0.871), "tensorflow": (0.871, 0.870, 0.872), "jax": (0.850, 0.851, 0.849)}


def test_difference_against_known_figures():
    # By hand: differences .002, .003 and .004, standard error .001 / sqrt(3), Student with 2 degrees of freedom.
    found = difference(by_seed(0.870, 0.871, 0.872), by_seed(0.868, 0.868, 0.868))
    error = 0.001 / 3**0.5
    assert found.value == pytest.approx(0.003)
    assert found.found.high - found.value == pytest.approx(4.302653 * error, rel=1e-4)
    assert found.p_differs == pytest.approx(0.0351, abs=1e-3)
    assert found.p_same == pytest.approx(0.0034, abs=1e-3)
    assert verdict(found) == "same", "significant, and within what would matter"


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ((0.870, 0.871, 0.872), (0.840, 0.841, 0.842), "higher"),
        ((0.840, 0.841, 0.842), (0.870, 0.871, 0.872), "lower"),
        ((0.87, 0.88, 0.86), (0.86, 0.88, 0.87), "undecided"),
        ((0.87, 0.87, 0.87), (0.87, 0.87, 0.87), "same"),
        ((0.87, 0.87, 0.87), (0.80, 0.80, 0.80), "higher"),
    ],
)
def test_verdicts(one, other, expected):
    assert verdict(difference(by_seed(*one), by_seed(*other))) == expected


def test_two_seeds_are_no_evidence():
    assert difference(by_seed(0.8, 0.8), by_seed(0.8, 0.8)) is None


def test_what_is_left_of_a_training_that_diverges_is_not_the_same():
    records = seeds({"pytorch": (0.870, 0.871, 0.872, 0.8705), "jax": (0.870, 0.871, 0.872, 0.1)})
    records[-1] = failed(replace(records[-1], course=None), "diverged", "the loss is nan")
    table = compare_accuracies(grouped(records), "pytorch")
    assert table.frame["verdict"].tolist() == ["", "undecided"]
    assert table.frame["difference_seeds"].tolist()[1] == 3
    assert view(table).grid.rows[1][-4].startswith("3 of 4 reached it")


def test_rows_are_timed_to_one_target():
    other = [replace(each, course=replace(each.course, target=0.75)) for each in seeds({"jax": (0.87, 0.87, 0.87)})]
    table = compare_accuracies(grouped([*seeds({"pytorch": (0.87, 0.87, 0.87)}), *other]), "pytorch")
    assert table.frame["target"].tolist() == [0.8, 0.8]
    assert table.frame["epochs_to_target"].tolist() == [3, 3]


def test_a_target_above_one_is_a_loss():
    held = [replace(each, course=replace(each.course, target=1.05)) for each in seeds({"jax": (0.87, 0.87, 0.87)})]
    table = compare_accuracies(grouped(held), "jax")
    assert table.frame["epochs_to_target"].tolist() == [2], "the loss is 1.1 after one epoch, and 0.55 after two"
    assert {"epochs to loss 1.05", "seconds to loss 1.05"} <= {*view(table).grid.headers}
    both = compare_accuracies(grouped([*held, *seeds({"pytorch": (0.87, 0.87, 0.87)})]), "jax")
    assert both.frame["target"].tolist() == [0.8, 0.8], "an accuracy, where any is timed to one"


def test_seeds_are_compared_with_themselves_and_one_that_failed_is_left_out():
    one, other = by_seed(0.1, 0.9, 0.5, 0.7), {3: 0.702, 1: 0.903, 0: 0.101}
    found = difference(one, other)
    assert found.value == pytest.approx(-0.002)
    assert verdict(found) == "same", "what seeds share is no scatter"


def test_the_table_of_a_group():
    found = grouped(seeds(SAME))
    assert trains_to_the_end(found)
    table = compare_accuracies(found, "pytorch")
    assert table.frame["verdict"].tolist() == ["", "same", "lower"]
    assert table.frame["accuracy"].tolist() == pytest.approx([0.871, 0.871, 0.850])
    # .770 after the second epoch is under the target of .8, so that all three epochs are needed.
    assert table.frame["epochs_to_target"].tolist() == [3, 3, 3]
    assert table.frame["seconds_to_target"].tolist() == [6, 6, 6]
    assert all(identity.startswith("same") for identity in table.frame["identity"])
    text = in_markdown(table)
    assert "test accuracy" in text
    assert ".875" in text, "the study's figures stand beside"
    assert max(map(len, terminal(table).splitlines())) <= 120


def test_a_target_that_was_missed_says_so():
    table = compare_accuracies(grouped(seeds({"pytorch": (0.7, 0.9, 0.9)})), "pytorch")
    assert table.frame["seconds_to_target"].isna().all()
    assert any("2 of 3 reached it" in cell for cell in view(table).grid.rows[0])


def test_a_failed_seed_keeps_its_row():
    records = seeds(SAME)
    records[0] = failed(records[0], "diverged", f"the loss is nan {HOSTILE}")
    table = compare_accuracies(grouped(records), "pytorch")
    row = table.frame.iloc[0]
    assert (row["seeds"], row["seeds_ok"]) == (3, 2)
    assert "\x1b" not in terminal(table)
    assert "<script>" not in in_markdown(table)


def test_precisions_are_held_against_float32():
    records = [
        trained(framework, seed, 0.87 + 0.001 * seed - apart, precision=precision)
        for precision, apart in (("fp32", 0.0), ("bf16", 0.05))
        for framework in ("pytorch", "jax")
        for seed in range(3)
    ]
    table = compare_accuracies(grouped(records), "pytorch")
    assert table.frame["fp32_verdict"].tolist() == ["", "", "lower", "lower"]
    assert table.frame["verdict"].tolist() == ["", "same", "", "same"]


def test_the_numbers_behind_the_plots(tmp_path):
    table = compare_accuracies(grouped(seeds(SAME)), "pytorch")
    curve = accuracies(table)[0]
    assert list(curve.x) == [1, 2, 3]
    assert curve.middle == pytest.approx([0.671, 0.771, 0.871])
    assert sorted(seed[-1] for seed in curve.seeds) == [0.870, 0.871, 0.872]
    assert accuracies(table, seconds=True)[0].x == [2, 4, 6]
    loss = losses(table)[0]
    assert len(loss.x) == 120
    assert loss.x[0] == 1.5
    drawn = draw([], [table, table], tmp_path, [])
    assert len(drawn) == 7, "three kinds of each table and the overview"


def test_along_sizes_what_was_timed_and_what_was_trained_stay_apart():
    timed = [record(framework, 0, workload="imdb_lstm") for framework in ("pytorch", "jax")]
    held = [Launch(each, "run-a", "file") for each in [*seeds(SAME), *timed]]
    assert sorted(len(found.rows) for found in group(held, by="size")) == [2, 3]


def test_one_row_per_epoch():
    columns = epochs(Launch(each, "run-a", "file") for each in seeds({"pytorch": (0.8, 0.9)}))
    assert columns["seed"] == [0, 0, 0, 1, 1, 1]
    assert columns["epoch"] == [1, 2, 3, 1, 2, 3]


@pytest.mark.usefixtures("undrawn")
def test_the_command_writes_the_tables_of_trainings_to_their_end(tmp_path, capsys):
    run = save(tmp_path / "0001_accuracy.json", seeds(SAME))
    assert main([str(run), "--output", str(tmp_path / "out")]) == 0
    names = {each.name for each in (tmp_path / "out").iterdir()}
    assert {"accuracy.csv", "epochs.csv", "table.md", "report.html", "launches.csv"} <= names
    assert "cells.csv" not in names
    assert "trained to the end" in capsys.readouterr().out
