"""The comparison at the end of a session: right, short, and never wider or longer than the screen."""

from __future__ import annotations

import pytest

from suite.record.parts.history import Epoch, TrainingHistory
from suite.report.screen.short import REST, short
from tests.records import HOSTILE, everything, failed, launches, mixed, record


def told(held: list, columns: int = 120, lines: int = 40) -> list[str]:
    return short(held, "run-a", columns, lines).splitlines()


def test_a_row_per_cell_with_its_ratio_below_the_answer() -> None:
    lines = told(launches(n=3))
    assert lines[0].startswith("CIFAR-100 CNN (3 launches, not tested): TensorFlow ran fastest: 1.25x PyTorch (")
    title, header, torch, tensorflow, jax = lines[lines.index("") + 1 :]
    assert title.startswith("cifar100_cnn, size full, real data: run run-a, fp32")
    assert header.split() == ["framework", "compile", "n", "samples/s", "to", "pytorch", "bottleneck"]
    assert torch.split()[:3] == ["pytorch", "eager", "3"]
    assert "1.00" in torch
    assert float(tensorflow.split()[5]) > 1 > float(jax.split()[5])


def test_from_six_launches_on_there_are_verdicts_and_no_caveat() -> None:
    lines = told(launches(n=6))
    table = lines[lines.index("") + 1 :]
    assert "verdict" in table[1].split()
    assert "slower" in table[4].split()
    assert not any("not" in line and "tested" in line for line in lines)


def test_what_failed_keeps_its_row() -> None:
    text = "\n".join(told(mixed()))
    assert "out-of-memory" in text
    assert "2/3" in text
    assert "throttled" in text


@pytest.mark.parametrize(("columns", "lines"), [(80, 24), (40, 24), (120, 50), (100, 14)])
def test_it_fits_the_screen_and_says_what_it_leaves_out(columns: int, lines: int) -> None:
    held = [*everything(), *launches(workload="imdb_lstm")]
    shown = told(held, columns, lines)
    assert len(shown) <= max(lines - REST, 6)
    assert max(map(len, shown)) < columns
    if lines < 40 and columns > 40:
        assert any("training-suite compare" in line for line in shown)


def test_a_worker_s_words_cannot_reach_the_terminal_as_they_are() -> None:
    held = [*launches(n=1), failed(record(launch=1), "crashed", HOSTILE)]
    held.append(record("jax", 2, flags=(HOSTILE,)))
    text = short(held, HOSTILE, 120, 40)
    assert all(character.isprintable() or character == "\n" for character in text)


def test_trainings_to_the_end_show_their_accuracy() -> None:
    course = TrainingHistory("modern", 1, 0.5, (Epoch(4, 1.5, 2.0, 1.4, 0.4321, 0.5),), (1.6, 1.5, 1.5, 1.4))
    lines = told([record(name, recipe="modern", course=course) for name in ("pytorch", "jax")])
    assert lines[0].endswith("test accuracy after 1 epoch (1 seed, not tested): PyTorch .432, JAX .432")
    table = lines[lines.index("") + 1 :]
    assert "test accuracy" in table[1]
    assert "0.4321" in table[2]


def test_what_is_unsupported_goes_last_and_is_cut_first() -> None:
    held = [failed(x, "unsupported", "no such mode") for x in launches(["pytorch"], compile="max")] + launches(n=3)
    table = [line for line in told(held) if line.startswith(("pytorch", "tensorflow", "jax"))]
    assert ["unsupported" in line for line in table] == [False, False, False, True]


def test_columns_that_decide_least_yield_on_a_narrow_screen() -> None:
    assert "bottleneck" in "\n".join(told(launches(n=6), 120))
    narrow = "\n".join(told(launches(n=6), 80))
    assert "bottleneck" not in narrow
    assert "verdict" in narrow
