"""Races with a stand-in for the launcher: limits, failures, crashes, proofs, and what they recommend."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from suite.analysis.search.elimination import race
from suite.analysis.search.state import FAILED, LEARNED, LIMIT, UNPROVEN, WORSE
from suite.plan.cell import Cell
from suite.plan.matrix import MatrixError
from suite.plan.objective import Question, check, limit, objectives
from suite.record.parts.history import Epoch, TrainingHistory
from suite.record.record import Outcome, Record
from suite.record.retry import NOT_IMPORTABLE
from tests.records import identity
from tests.tuning import Launcher, cells, launched, raced, usual_rate

CELLS = cells()
BEST = Cell("imdb_lstm", "pytorch", precision="bf16", batch=128)
SECOND = BEST.but(batch=32)


def test_the_best_cell_is_found_and_bad_ones_are_launched_twice() -> None:
    launcher = Launcher(usual_rate)
    found = raced(CELLS, launcher)
    assert found.over
    assert found.recommended == [BEST]
    assert {gone.kind for gone in found.out.values()} == {WORSE}
    slow = BEST.but(framework="jax", batch=32)
    assert sum(cell == slow for cell, _ in launcher.made) == 2
    assert len(launcher.made) == found.launches < 0.4 * 6 * len(CELLS)
    assert [step.left for step in found.path] == sorted((step.left for step in found.path), reverse=True)


def test_blocks_are_in_a_random_order_that_the_seed_repeats() -> None:
    orders = [[cell.id for cell in race(CELLS, [], Question(), seed).due] for seed in (0, 0, 1)]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == sorted(cell.id for cell in CELLS)


def test_equal_cells_are_all_recommended_when_they_are_shown_to_be_equal() -> None:
    found = raced(CELLS[:3], Launcher(lambda *_: 1000.0), Question(margin=0.05))
    assert found.agreed
    assert len(found.recommended) == 3


def test_a_race_ends_after_so_many_blocks_undecided() -> None:
    found = raced(CELLS[:2], Launcher(lambda cell, _: 1000.0 if cell.batch == 32 else 1010.0), Question(margin=0.0001))
    assert found.over
    assert not found.agreed
    assert found.launches == 2 * 20


def test_a_limit_excludes_the_fastest_cell() -> None:
    question = Question(limits=(limit("memory=2GiB"),))
    launcher = Launcher(usual_rate, memory=lambda cell: 3 * 2**30 if cell == BEST else 1e9)
    found = raced(CELLS, launcher, question)
    assert found.recommended == [SECOND]
    assert found.out[BEST].kind == LIMIT
    assert found.out[BEST].reason == "3.00 GiB is beyond memory=2GiB"


def test_a_limit_that_noise_alone_would_break_is_judged_by_the_mean_at_the_end() -> None:
    question = Question(limits=(limit("step-latency=100ms"),))
    found = raced(CELLS, Launcher(usual_rate), question)  # the best takes 128 / 1560 s, 82 ms
    assert found.recommended == [BEST]
    tight = Question(limits=(limit("step-latency=60ms"),))
    assert raced(CELLS, Launcher(usual_rate), tight).recommended == [SECOND]


def test_out_of_memory_ends_a_cell_and_larger_batches_are_not_launched() -> None:
    def behave(cell: Cell, number: int) -> float | Outcome:
        return Outcome("out-of-memory", "no room") if cell.framework == "jax" else usual_rate(cell)

    launcher = Launcher(behave)
    found = raced(cells(batches=(32, 128, 512)), launcher)
    assert found.recommended == [BEST.but(batch=512)] or found.recommended[0].framework == "pytorch"
    out = {cell: gone for cell, gone in found.out.items() if cell.framework == "jax"}
    assert len(out) == 6
    assert all(gone.kind == FAILED and "out-of-memory: no room" in gone.reason for gone in out.values())
    assert all(number == 0 for cell, number in launcher.made if cell.framework == "jax")
    by_batch = [cell.batch for cell, gone in out.items() if not gone.launched]
    assert 32 not in by_batch


def test_what_a_framework_lacks_is_launched_once_whatever_the_batch() -> None:
    def behave(cell: Cell, number: int) -> float | Outcome:
        return Outcome("unsupported", "no bf16") if cell.precision == "bf16" else usual_rate(cell)

    launcher = Launcher(behave)
    found = raced(cells(batches=(32, 64, 128)), launcher)
    tried = [cell for cell, _ in launcher.made if cell.precision == "bf16"]
    assert sorted(cell.framework for cell in tried) == ["jax", "pytorch"]
    assert sum(not gone.launched for gone in found.out.values()) == 4


def test_a_framework_that_is_not_installed_is_launched_once() -> None:
    reason = f"jax {NOT_IMPORTABLE} (No module named 'jax')"

    def behave(cell: Cell, number: int) -> float | Outcome:
        return Outcome("unsupported", reason) if cell.framework == "jax" else usual_rate(cell)

    launcher = Launcher(behave)
    assert raced(CELLS, launcher).recommended == [BEST]
    assert sum(cell.framework == "jax" for cell, _ in launcher.made) == 1


@pytest.mark.parametrize("status", ["diverged", "timeout"])
def test_divergence_and_a_timeout_end_a_cell_at_once(status: str) -> None:
    def behave(cell: Cell, number: int) -> float | Outcome:
        return Outcome(status, "why") if cell == BEST else usual_rate(cell)  # type: ignore[arg-type]

    launcher = Launcher(behave)
    found = raced(CELLS, launcher)
    assert found.out[BEST].reason == f"{status}: why"
    assert [number for cell, number in launcher.made if cell == BEST] == [0]
    assert found.recommended == [SECOND]


def test_a_random_crash_is_tried_again_and_costs_one_launch() -> None:
    crashed: list[Cell] = []

    def behave(cell: Cell, number: int) -> float | Outcome:
        if cell == BEST and not crashed:
            crashed.append(cell)
            return Outcome("crashed", "ended by signal SIGSEGV")
        return usual_rate(cell)

    launcher = Launcher(behave)
    found = raced(CELLS, launcher)
    assert found.recommended == [BEST]
    assert [number for cell, number in launcher.made if cell == BEST][:2] == [0, 0]


def test_a_cell_that_crashes_twice_in_a_launch_is_out_with_its_reason() -> None:
    def behave(cell: Cell, number: int) -> float | Outcome:
        return Outcome("crashed", "ended by signal SIGSEGV") if cell == BEST and number else usual_rate(cell)

    found = raced([*CELLS, BEST.but(batch=100)], Launcher(behave))
    assert found.out[BEST].reason == "crashed: ended by signal SIGSEGV (tried twice)"
    assert found.recommended == [BEST.but(batch=100)] or BEST not in found.recommended


def test_a_cell_without_proof_is_not_recommended() -> None:
    other = replace(identity("pytorch", 128), weights="0" * 64)
    made: list[Record] = []
    while not (state := race(CELLS, made, Question())).over:
        cell = state.due[0]
        record = launched(cell, state.blocks, usual_rate(cell))
        made.append(replace(record, identity=other) if cell == BEST else record)
    assert state.out[BEST].kind == UNPROVEN
    assert state.out[BEST].reason == "differs: weights are not the others'"
    assert state.recommended == [SECOND]


def test_two_objectives_give_the_pareto_front() -> None:
    question = Question(objectives("samples/s,memory"))
    launcher = Launcher(usual_rate, memory=lambda cell: 1e7 * cell.batch)
    found = raced(CELLS, launcher, question, budget=60)
    assert set(found.recommended) == {BEST, SECOND}


def trained(cell: Cell, seed: int, accuracy: float, seconds: float) -> Record:
    """A training whose two epochs end at this accuracy, after so many seconds each."""
    epochs = (Epoch(4, 1.5, seconds, 1.4, accuracy - 0.05, 0.5), Epoch(4, 1.2, seconds, 1.1, accuracy, 0.5))
    record = launched(cell, seed, 1000.0, course=TrainingHistory("modern", 2, 0.8, epochs))
    return replace(record, run={"seed": seed})


@pytest.mark.parametrize(("fast_accuracy", "kind"), [(0.82, LEARNED), (0.70, FAILED), (0.871, "")])
def test_a_setting_that_learns_worse_is_out_by_test(fast_accuracy: float, kind: str) -> None:
    usual = [Cell("imdb_lstm", "pytorch", batch=batch, recipe="modern") for batch in (64, 32)]
    fast = usual[0].but(precision="bf16")
    question = Question(objectives("seconds-to-accuracy=.75"))
    made: list[Record] = []
    while not (state := race([*usual, fast], made, question)).over and len(made) < 40:
        cell, seed = state.due[0], state.blocks
        wobble = 0.001 * math.sin(7 * seed + cell.batch)
        accuracy, seconds = (fast_accuracy, 5.0) if cell == fast else (0.87, 6.0)
        made.append(trained(cell, seed, accuracy + wobble, seconds * (1 + wobble)))
    if kind:
        assert state.out[fast].kind == kind
        assert fast not in state.recommended
        assert kind == FAILED or "points below that of imdb_lstm-pytorch-fp32-b64" in state.out[fast].reason
    else:
        assert state.recommended == [fast]


def test_a_fast_cell_that_may_yet_break_a_limit_drops_no_other() -> None:
    question = Question(limits=(limit("step-latency=78ms"),))  # the best takes 82 ms, which one launch does not show
    found = raced(CELLS, Launcher(usual_rate), question)
    assert found.recommended == [SECOND]


UPWARD = [Cell("imdb_lstm", name, batch=2**power) for power in range(4, 12) for name in ("pytorch", "jax")]


@pytest.mark.parametrize("ending", ["", "out-of-memory", "timeout"])
def test_a_search_goes_up_until_batches_are_no_faster_or_do_not_fit(ending: str) -> None:
    """PyTorch is fastest at 128; JAX the faster the larger, up to 256, beyond which its launches end otherwise."""

    def behave(cell: Cell, _: int) -> float | Outcome:
        if cell.framework == "pytorch":
            return 1000.0 / (1 + abs(math.log2(cell.batch / 128)))
        return Outcome(ending, "too large") if ending and cell.batch > 256 else 1.5 * min(cell.batch, 256)

    launcher = Launcher(behave)
    found = raced(UPWARD, launcher, Question(upward=True))
    tried = {name: [cell.batch for cell, block in launcher.made if not block and cell.framework == name]
             for name in ("pytorch", "jax")}  # fmt: skip
    assert tried["pytorch"] == [16, 32, 64, 128, 256, 512]
    assert tried["jax"][:6] == [16, 32, 64, 128, 256, 512], "the first that does not fit, or is no faster"
    assert len(tried["jax"]) <= 7
    assert [cell.batch for cell in found.recommended] == [128]
    assert {gone.kind for cell, gone in found.out.items() if cell.batch > 1024} == {FAILED}, "which nothing was said of"


def test_another_order_is_another_search() -> None:
    assert Question(upward=True).to_json() != Question().to_json()
    with pytest.raises(MatrixError, match="throughput"):
        check(Question(objectives("memory"), upward=True))
