"""The comparison at the end of a session: right, short, and never wider or longer than the screen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from suite.record.parts.history import Epoch, TrainingHistory
from suite.report.screen.short import ROWS_MOST, short
from tests.records import HOSTILE, everything, failed, launches, record


def told(held: list, columns: int = 120) -> list[str]:
    return short(held, "run-a", columns).splitlines()


def test_a_row_per_cell_with_its_ratio_and_below_it_the_answer() -> None:
    lines = told(launches(n=3))
    title, header, _, torch, tensorflow, jax, _, *_, answer = lines
    assert answer.startswith("CIFAR-100 CNN: TensorFlow ran fastest: 1.25x PyTorch, ")
    assert answer.endswith("(n = 3, not tested)")
    assert title.startswith("cifar100_cnn, size full, real data: run run-a, fp32")
    assert header.split() == ["framework", "compile", "n", "samples/s", "to", "pytorch", "memory", "MiB", "bottleneck"]
    assert torch.split()[:3] == ["pytorch", "eager", "3"]
    assert "1.00" in torch
    assert float(tensorflow.split()[5]) > 1 > float(jax.split()[5])


def test_it_says_what_stands_in_parentheses_and_what_flags_mean() -> None:
    """A range is not taken for an interval; the flag is explained where there is one."""
    said = {
        (n, flags): " ".join(told([replace(each, flags=flags) for each in launches(n=n)], 500))
        for n, flags in ((1, ()), (3, ()), (8, ()), (3, ("contaminated",)))
    }
    assert ["lowest to highest" in each for each in said.values()] == [False, True, True, True]
    assert ["95 % interval" in each for each in said.values()] == [False, False, True, False]
    assert ["contaminated: " in each for each in said.values()] == [False, False, False, True]
    assert "contaminated: " in " ".join(told([replace(launches(n=1)[0], flags=("contaminated",))], 500))


def test_a_base_that_nothing_is_compared_with_has_no_ratio() -> None:
    shown = {names: told(launches(names, n=3)) for names in (("pytorch",), ("pytorch", "jax"))}
    assert [any("1.00" in line for line in lines) for lines in shown.values()] == [False, True]


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_nothing_is_wider_than_the_screen_or_cut(columns: int) -> None:
    shown = told([*everything(), *launches(workload="imdb_lstm")], columns)
    assert max(map(len, shown)) < columns
    assert not any("…" in line for line in shown)


def test_of_a_large_table_the_rest_is_counted() -> None:
    shown = told([each for batch in range(1, 41) for each in launches(n=1, batch=batch)])
    assert len(shown) < ROWS_MOST + 20
    assert f"… and {120 - ROWS_MOST} more rows: training-suite compare" in shown


def test_a_worker_s_words_cannot_reach_the_terminal_as_they_are() -> None:
    held = [*launches(n=1), failed(record(launch=1), "crashed", HOSTILE)]
    held.append(record("jax", 2, flags=(HOSTILE,)))
    text = short(held, HOSTILE, 120)
    assert all(character.isprintable() or character == "\n" for character in text)


def test_trainings_to_the_end_show_their_accuracy() -> None:
    course = TrainingHistory("modern", 1, 0.5, (Epoch(4, 1.5, 2.0, 1.4, 0.4321, 0.5),), (1.6, 1.5, 1.5, 1.4))
    lines = told([record(name, recipe="modern", course=course) for name in ("pytorch", "jax")])
    assert lines[-2].endswith("accuracy .432 (n = 1, not tested)")
    assert "test accuracy" in lines[1]
    assert "0.4321" in lines[3]
