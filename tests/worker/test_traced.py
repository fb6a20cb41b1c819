"""`torch.jit.trace` as a compile mode: the same losses as eagerly, and a graph that runs is what is read back."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

from suite.plan.cell import Cell
from suite.worker.frameworks import UnsupportedError
from tests.frameworks import batches, framework_of, module, narrow, needs_frameworks, switches_restored

pytestmark = [
    needs_frameworks("pytorch"),
    pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning"),
]


def made(workload: str, mode: str, dropout: bool = False, **settings: Any) -> Any:
    """A training in float64, or as the settings say."""
    code, cell = (
        framework_of("pytorch"),
        Cell(workload, "pytorch", batch=4, size="small", compile=mode, **({"precision": "fp64"} | settings)),
    )
    code.prepare(cell, "cpu", 0)
    spec = narrow(workload)
    return code.Training(cell, spec, module(workload, "pytorch"), spec.reference_weights(0), "cpu", dropout=dropout)


@pytest.mark.parametrize(
    "workload", ["cifar100_cnn", "cifar100_resnet18", "imdb_lstm", "imdb_transformer", "gpt_small"]
)
def test_a_traced_training_has_the_losses_of_an_eager_one(workload: str) -> None:
    source, losses = batches(narrow(workload), 4), []
    with switches_restored("pytorch"):
        for mode in ("eager", "trace"):
            training = made(workload, mode)
            assert training.compile(training.put(source[0])) == (mode == "trace")
            losses.append(training.read([training.step(training.put(source[step])) for step in range(4)]))
            losses[-1] += training.evaluate(training.put(source[4]))[0].tolist()
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-9)


def test_tracing_draws_no_random_numbers_of_the_training_and_moves_no_statistics() -> None:
    import torch

    with switches_restored("pytorch"):
        training = made("cifar100_resnet18", "trace", dropout=True)
        state, before = training.checkpoint(), torch.get_rng_state()
        training.compile(training.put(batches(narrow("cifar100_resnet18"), 4)[0]))
        after = training.checkpoint()
    assert torch.equal(before, torch.get_rng_state())
    assert all(np.array_equal(state[name], after[name]) for name in state)


def test_a_step_after_the_first_draws_dropout_as_that_of_a_fresh_training() -> None:
    """So a replay from a checkpoint is the same to the last bit."""
    source = batches(narrow("cifar100_cnn"), 4)
    with switches_restored("pytorch"):
        training = made("cifar100_cnn", "trace", dropout=True)
        for step in range(3):
            training.step(training.put(source[step]))
        state = {name: array.copy() for name, array in training.checkpoint().items()}
        losses = training.read([training.step(training.put(source[3]))])
        fresh = made("cifar100_cnn", "trace", dropout=True)
        fresh.restore(state)
        assert training.read([fresh.step(fresh.put(source[3]))]) == losses


def test_a_graph_that_ran_is_read_back_and_a_plain_function_is_not() -> None:
    evidence = import_module("suite.worker.frameworks.pytorch.evidence")
    with switches_restored("pytorch"):
        training = made("imdb_lstm", "trace")
        assert evidence.read_process(training)["compile"] != "trace"
        training.compile(training.put(batches(narrow("imdb_lstm"), 4)[0]))
        assert evidence.read_process(training)["compile"] == "trace"
        training.loss.graphs = dict.fromkeys(training.loss.graphs, training.loss.function)  # as PYTORCH_JIT=0 has it
        assert evidence.read_process(training)["compile"] != "trace"


@pytest.mark.parametrize("settings", [{"precision": "bf16"}, {"checkpointing": "on", "precision": "fp32"}])
def test_what_a_trace_does_not_hold_is_unsupported(settings: dict[str, str]) -> None:
    with switches_restored("pytorch"), pytest.raises(UnsupportedError, match=r"torch\.jit\.trace is measured in one"):
        made("imdb_transformer", "trace", **settings)
