"""What some test samples show of an evaluation when evaluated again; in the model's place stands one of NumPy."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from suite.plan.cell import Cell
from suite.record.parts.evidence import Scored
from suite.worker.evidence.scored import Again
from suite.worker.launch.training import EVALUATION_BATCH, scores
from tests.frameworks import data
from workloads.data.augment import evaluation_batches
from workloads.spec import specification

SPEC = specification("cifar100_cnn", "small")
CLASSES = 100


class Linear:
    """Logits by one random matrix; ``best`` labels are right, and ``scale`` is that of the probabilities."""

    def __init__(self, seed: int = 0, best: int = 1, scale: float = 1.0) -> None:
        self.held = {"kernel": np.random.default_rng(seed).normal(0, 1e-3, (32 * 32 * 3, CLASSES))}
        self.best, self.scale = best, scale

    def evaluate(self, batch: Any) -> Any:
        inputs, labels = batch
        logits = inputs.reshape(len(inputs), -1).astype(np.float64) @ self.held["kernel"]
        own = np.take_along_axis(logits, labels[:, None].astype(int), 1)
        losses = np.log(np.exp(logits - own).sum(1)) * self.scale
        return losses, (logits > own).sum(1) < self.best

    def put(self, batch: Any) -> Any:
        return batch

    get = put

    def checkpoint(self) -> dict[str, Any]:
        return dict(self.held)

    def restore(self, state: dict[str, Any]) -> None:
        self.held = dict(state)


def scored(trained: Linear, shown: Linear | None = None, fresh: Linear | None = None, **of: Any) -> Scored:
    """What is found of a training whose last evaluation ``shown`` computed, and which ``fresh`` takes the state of."""
    held = data(SPEC.data)
    subject: Any = SimpleNamespace(cell=Cell("cifar100_cnn", "pytorch"), data=held, spec=SPEC, length=None, team=None)
    batches = evaluation_batches(held, EVALUATION_BATCH)
    again = Again.of(subject, trained, scores(shown or trained, batches), seed=3)
    assert again
    again.subject = SimpleNamespace(**vars(subject) | of)
    found = again.evidence(fresh or Linear(seed=1), trained.checkpoint())
    assert found
    return found


def test_an_evaluation_of_what_trained_is_its_own_again() -> None:
    found = scored(Linear())
    assert found == replace(found, samples=EVALUATION_BATCH // CLASSES, wrong=0, replayed=0.0, fp32=None)
    assert found.total < 1e-9


@pytest.mark.parametrize("best", [5, CLASSES])
def test_a_label_among_the_best_is_not_the_best(best: int) -> None:
    found = scored(Linear(best=best))
    assert found.wrong == found.samples


def test_the_evaluation_whose_accuracy_counts_is_that_of_the_same_weights() -> None:
    assert scored(Linear(), shown=Linear(seed=2)).wrong > 0


def test_every_test_sample_is_scored(monkeypatch: pytest.MonkeyPatch) -> None:
    losses, right = scores(Linear(), evaluation_batches(data(SPEC.data), EVALUATION_BATCH))
    monkeypatch.setattr(f"{__name__}.scores", lambda *_: (losses[: len(losses) // 2], right[: len(right) // 2]))
    found = scored(Linear())
    assert found.wrong == found.samples


class Averaged(Linear):
    """Evaluates other weights than those it trained, which its state does not tell."""

    def evaluate(self, batch: Any) -> Any:
        return Linear(seed=9).evaluate(batch)


def test_what_is_evaluated_is_what_trained() -> None:
    assert scored(Averaged()).replayed > 0.01


def test_losses_are_those_of_probabilities() -> None:
    assert scored(Linear(scale=0.9), fresh=Linear(scale=0.9)).total > 0.1


def test_an_evaluation_in_bf16_is_checked_by_one_in_fp32() -> None:
    cell = Cell("cifar100_cnn", "pytorch", precision="bf16")
    of = {"cell": cell, "timed": SPEC, "dropout": True, "rates": None}
    exact = scored(Linear(), **of, training=lambda *_, **__: Linear(seed=5))
    assert exact.fp32 == pytest.approx(0.0, abs=1e-12)
    assert scored(Linear(), **of, training=lambda *_, **__: Linear(scale=2.0)).fp32 == pytest.approx(0.5)


def test_nothing_is_said_where_the_number_of_labels_is_not_known() -> None:
    held = data(SPEC.data)
    spec = SimpleNamespace(tensors=())
    subject: Any = SimpleNamespace(cell=Cell("cifar100_cnn", "pytorch"), data=held, spec=spec, length=None, team=None)
    assert Again.of(subject, Linear(), (np.zeros(1), np.zeros(1)), seed=3) is None
