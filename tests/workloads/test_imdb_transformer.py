"""What only the Transformer has: words moved to the front, a mask, kernels of its attention."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from suite.plan.cell import FRAMEWORKS, Cell
from suite.record.job import Job
from suite.worker.launch.description import classify
from tests.frameworks import batches, distance, each_framework, framework_of, module, narrow, needs_frameworks, training
from workloads.spec import Numbers, UnavailableKernelError, specification

pytestmark = [needs_frameworks, pytest.mark.usefixtures("unoptimized")]

NAME = "imdb_transformer"
#: Reviews of five places, padded on the left: whole, of two words, of one that is unknown, and of none.
TOKENS = np.array([[7, 8, 9, 4, 5], [0, 0, 0, 3, 2], [0, 0, 0, 0, 1], [0, 0, 0, 0, 0]], np.int32)
WORDS = [[7, 8, 9, 4, 5], [3, 2], [1], [0]]


def moved(framework: str, positions: int) -> tuple[np.ndarray, np.ndarray]:
    """Tokens and where there are words, as a framework moves `TOKENS` to so many positions."""
    code: Any = module(NAME, framework)
    if framework == "pytorch":
        import torch

        tokens, words = code.move_to_front(torch.from_numpy(TOKENS), positions)
    elif framework == "tensorflow":
        import tensorflow as tf

        spec = replace(narrow(NAME), length=TOKENS.shape[1], positions=positions)
        tokens, words = code.Moved(spec)(tf.constant(TOKENS))
    else:
        tokens, count = code.move_to_front(TOKENS, positions)
        words = np.arange(positions) < np.asarray(count)[:, None]
    return np.asarray(tokens), np.asarray(words, bool)


@each_framework
@pytest.mark.parametrize("positions", [5, 8])
def test_words_come_to_the_front(framework: str, positions: int) -> None:
    tokens, words = moved(framework, positions)
    assert tokens.shape == words.shape == (len(TOKENS), positions)
    assert [row[here].tolist() for row, here in zip(tokens, words, strict=True)] == WORDS
    assert all(here[: len(row)].all() for row, here in zip(WORDS, words, strict=True))


@pytest.mark.parametrize(
    ("framework", "layers"),
    [("pytorch", 1), ("tensorflow", 1), *(pytest.param(name, 2, marks=pytest.mark.slow) for name in FRAMEWORKS)],
)
def test_what_lies_behind_the_last_word_changes_nothing(framework: str, layers: int) -> None:
    """More positions without words leave the logits and every gradient as they are."""
    spec = replace(narrow(NAME), layers=layers)
    longer = replace(spec, positions=spec.positions + 8)
    weights = longer.reference_weights(0)
    table = "positions/table"
    shorter = weights | {table: weights[table][: spec.positions]}
    found = []
    for each, start in ((spec, shorter), (longer, weights)):
        with training(NAME, framework, "fp64", spec=each, weights=start) as running:
            batch = running.put(batches(each, 8)[0])
            found.append((running.logits(batch), *running.gradients(batch)))
    (logits, loss, gradients), (more_logits, more_loss, more) = found
    assert not np.any(more[table][spec.length :]), "a position without a word has no gradient"
    more[table] = more[table][: spec.positions]
    assert distance(logits, more_logits) < 1e-13
    assert distance(loss, more_loss) < 1e-13
    assert max(distance(gradients[name], more[name]) for name in gradients) < 1e-12


@each_framework
@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("compute", ["float32", "bfloat16", "float16", "float64"])
def test_the_kernel_in_a_record_is_the_one_that_runs(framework: str, device: str, compute: str) -> None:
    spec, code = specification(NAME, "small"), module(NAME, framework)
    fused = {
        "pytorch": device == "cpu" or compute != "float64",
        "tensorflow": False,
        "jax": device == "cuda" and compute in ("bfloat16", "float16"),
    }[framework]
    numbers = Numbers(compute)
    assert code.kernels(spec, numbers, device, "plain") == {"attention": "plain"}
    assert code.kernels(spec, numbers, device, "auto") == {"attention": "fused" if fused else "plain"}
    if fused:
        assert code.kernels(spec, numbers, device, "fused") == {"attention": "fused"}
        return
    with pytest.raises(UnavailableKernelError, match=r"has (no fused|fused attention on CUDA).*use plain"):
        code.kernels(spec, numbers, device, "fused")


@needs_frameworks("tensorflow")
def test_a_kernel_that_is_not_there_ends_the_launch_as_unsupported() -> None:
    cell = Cell(NAME, "tensorflow", size="small", kernel="fused")
    code, spec = framework_of("tensorflow"), specification(NAME, "small")
    code.prepare(cell, "cpu", 0)
    with pytest.raises(UnavailableKernelError) as raised:
        code.Training(cell, spec, module(NAME, "tensorflow"), spec.reference_weights(0), "cpu")
    status, reason = classify(raised.value, Job(cell, data="nowhere"), code)
    assert (status, reason) == ("unsupported", str(raised.value))
