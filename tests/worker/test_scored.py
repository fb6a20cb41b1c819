"""What some test samples show of an evaluation when evaluated again; in the model's place stands one of NumPy."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from suite.plan.cell import Cell
from suite.record.parts.evidence import Scored
from suite.worker.evidence.answered import Reevaluation
from suite.worker.launch.training import scores
from tests.frameworks import data
from workloads.data.augment import evaluation_batches
from workloads.data.dataset import Split
from workloads.spec import specification

SPEC = specification("cifar100_cnn", "small")
CLASSES = 100
EVALUATION_BATCH = SPEC.evaluation_batch


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
    again = Reevaluation.of(subject, trained, scores(shown or trained, batches), seed=3)
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


class Text(Linear):
    """Of each position's word its next one by a random matrix, for labels at every position."""

    def __init__(self, seed: int = 0, scale: float = 1.0, shift: int = 0) -> None:
        self.held = {"kernel": np.random.default_rng(seed).normal(0, 1, (WORDS, WORDS))}
        self.scale, self.shift = scale, shift

    def evaluate(self, batch: Any) -> Any:
        inputs, labels = batch
        counted = labels != -1
        labels = np.where(counted, (labels + self.shift) % WORDS, 0)
        logits = self.held["kernel"][inputs]
        losses = np.log(np.exp(logits).sum(-1)) - np.take_along_axis(logits, labels[..., None], 2)[..., 0]
        right = (logits.argmax(-1) == labels) & counted
        count = counted.sum(1)
        return (losses * counted).sum(1) / count * self.scale, right.sum(1) / count


#: Words of a vocabulary that is larger than a batch, samples, and positions of each.
WORDS, TEXTS, POSITIONS = 30, 40, 7


def read(trained: Text, shown: Text | None = None, fresh: Text | None = None) -> Scored:
    """The same of texts, of which 20 are evaluated at once."""
    words = np.random.default_rng(5).integers(0, WORDS, (TEXTS, POSITIONS + 1), np.int32)
    split = Split(words[:, :-1], words[:, 1:])
    held = replace(data(SPEC.data), train=split, test=split, form="plain")
    spec = SimpleNamespace(label_count=WORDS, ignored_label=-1, evaluation_batch=20)
    subject: Any = SimpleNamespace(cell=Cell("cifar100_cnn", "pytorch"), data=held, spec=spec, length=None, team=None)
    again = Reevaluation.of(subject, trained, scores(shown or trained, evaluation_batches(held, 20)), seed=3)
    assert again
    assert [len(inputs) for inputs, _, _ in again.batches] == [20, 20, 20], "every word, then 20 texts with their own"
    found = again.evidence(fresh or Text(seed=1), trained.checkpoint())
    assert found
    return found


def test_where_each_position_has_a_label_the_last_one_s_are_all_tried() -> None:
    found = read(Text())
    assert found == replace(found, samples=1 + 20, wrong=0, replayed=0.0, fp32=None)
    assert found.total < 1e-9
    assert read(Text(scale=0.9), fresh=Text(scale=0.9)).total > 0.1
    assert read(Text(), fresh=Text(scale=1.1)).replayed > 0.05


def test_labels_of_other_positions_are_noticed() -> None:
    assert read(Text(), shown=Text(shift=1)).wrong > 10


def test_nothing_is_said_where_the_number_of_labels_is_not_known() -> None:
    held = data(SPEC.data)
    spec = SimpleNamespace(label_count=0, ignored_label=None)
    subject: Any = SimpleNamespace(cell=Cell("cifar100_cnn", "pytorch"), data=held, spec=spec, length=None, team=None)
    assert Reevaluation.of(subject, Linear(), (np.zeros(1), np.zeros(1)), seed=3) is None
