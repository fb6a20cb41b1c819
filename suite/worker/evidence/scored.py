"""The accuracy of a training to its end: who was evaluated, and what was taken for right.

Some samples are evaluated again, each with every label there is: so the probabilities of all labels are known, and
which of them is the best, without asking the framework for more than the two numbers that it reports.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from suite.plan.cell import USUAL_COMPILE
from suite.record.parts.evidence import Scored
from suite.worker.evidence.replay import restore_state
from suite.worker.evidence.subject import Subject
from suite.worker.launch.training import EVALUATION_BATCH, scores
from workloads.data.augment import evaluation_batches
from workloads.data.dataset import Array, Split

#: What counts as a clear difference between two losses of a sample: of the best and second label, which else may change
#: places; and of two evaluations of it among other neighbours.
CLEAR, NEIGHBOURS = 1e-5, 1e-2
#: Precisions that an evaluation in fp32 checks. In fp16 the state also holds a scale, which fp32 has no place for.
COARSE = ("tf32", "bf16")


@dataclass
class Again:
    """Some samples of the last evaluation with every label, evaluated by what trained: one batch of the same shape."""

    subject: Subject
    batch: tuple[Array, Array]
    losses: Array
    right: Array
    wrong: int

    @classmethod
    def of(cls, subject: Subject, training: Any, evaluated: tuple[Array, Array], seed: int) -> Again | None:
        """Evaluate them; None where their number is not known, or too large."""
        test, classes = subject.data.test, labels_of(subject)
        if not 2 <= classes <= EVALUATION_BATCH:
            return None
        size = EVALUATION_BATCH * subject.cell.devices
        draw = random.Random(seed)  # noqa: S311 - no secret is drawn
        drawn = draw.sample(range(len(test)), min(size // classes, len(test)))
        pairs = np.repeat(drawn, classes)
        split = Split(test.inputs[pairs], np.tile(np.arange(classes), len(drawn)).astype(test.labels.dtype))
        data = replace(subject.data, test=split)
        ((inputs, labels, _),) = evaluation_batches(data, size, subject.length)
        losses, right = scores(training, [(inputs, labels, len(pairs))], subject.team)
        again = cls(subject, (inputs, labels), losses, right, 0)
        if again._has_all:
            again.wrong = again._wrong(drawn, evaluated)
        return again

    @property
    def _has_all(self) -> bool:
        """Of several processes, only the first has the scores of all."""
        return not self.subject.team or not self.subject.team.ranks.rank

    def _table(self, losses: Array) -> Array:
        return losses.reshape(-1, labels_of(self.subject))

    def _wrong(self, drawn: list[int], evaluated: tuple[Array, Array]) -> int:
        """Samples whose right label is not the one with the least loss, or that were scored otherwise before."""
        losses, right = self._table(self.losses.astype(np.float64)), self._table(self.right).astype(bool)
        if len(evaluated[0]) != len(self.subject.data.test):
            return len(drawn)
        labels, rows = self.subject.data.test.labels[drawn], np.arange(len(drawn))
        best, second = np.sort(losses, axis=1)[:, :2].T
        clear = second - best > CLEAR * np.maximum(1.0, np.abs(second))
        expected = losses.argmin(1)[:, None] == np.arange(losses.shape[1])
        then, right_then = (np.asarray(each)[drawn] for each in evaluated)
        moved = np.abs(then - losses[rows, labels]) > NEIGHBOURS * np.maximum(1.0, np.abs(then))
        other = right_then.astype(bool) != expected[rows, labels]
        near = second - best > NEIGHBOURS * np.maximum(1.0, np.abs(second))
        return int(np.count_nonzero((clear & (right != expected).any(1)) | moved | (near & other)))

    def evidence(self, fresh: Any, state: dict[str, Array]) -> Scored | None:
        """By a fresh model with the ``state`` of what was evaluated, and once in fp32; None without all scores."""
        restore_state(fresh, state)
        losses, _ = self._scores(fresh)
        if not self._has_all:
            return None
        subject, coarse = self.subject, None
        off = float(np.max(np.abs(losses - self.losses) / np.maximum(1.0, np.abs(self.losses))))
        if subject.cell.precision in COARSE and not subject.team:
            cell = subject.cell.but(precision="fp32", compile=USUAL_COMPILE[subject.cell.framework])
            exact = subject.training(cell, subject.timed, dropout=subject.dropout, rates=subject.rates)
            restore_state(exact, state)
            mean = float(np.mean(self._scores(exact)[0], dtype=np.float64))
            coarse = abs(float(np.mean(self.losses, dtype=np.float64)) / mean - 1)
        sums = np.exp(-self._table(self.losses.astype(np.float64))).sum(1)
        return Scored(len(sums), float(np.max(np.abs(sums - 1))), self.wrong, off, coarse)

    def _scores(self, training: Any) -> tuple[Array, Array]:
        return scores(training, [(*self.batch, len(self.losses))], self.subject.team)


def labels_of(subject: Subject) -> int:
    """How many labels a sample may have: as many as there are logits, or two where there is one; 0 if not known."""
    logits = [tensor.shape[-1] for tensor in subject.spec.tensors if tensor.name == "logits/bias"]
    return max(2, *logits) if logits else 0
