"""The accuracy of a training to its end: who was evaluated, and what was taken for right.

Some samples are evaluated again, each with every label there is: so the probabilities of all labels are known, and
which of them is the best, without asking the framework for more than the two numbers that it reports. Where each
position of a sample has a label, it is the last position's, and others are evaluated again with their own labels.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from suite.plan.cell import USUAL_COMPILE
from suite.record.parts.evidence import Scored
from suite.worker.evidence.answers import label_samples
from suite.worker.evidence.replay import restore_state
from suite.worker.evidence.subject import Subject
from suite.worker.launch.training import scores
from workloads.data.augment import evaluation_batches
from workloads.data.dataset import Array, Split

#: What counts as a clear difference between two losses of a sample: of the best and second label, which else may change
#: places; and of two evaluations of it among other neighbours.
CLEAR, NEIGHBOURS = 1e-5, 1e-2
#: By how much the share of right labels of a sample may change among other neighbours, where some labels are close.
SHARE = 0.05
#: Labels that a sample is evaluated with, at most.
LABELS = 10_000
#: Precisions that an evaluation in fp32 checks. In fp16 the state also holds a scale, which fp32 has no place for.
COARSE = ("tf32", "bf16")


@dataclass
class Again:
    """Some samples of the last evaluation with every label, evaluated by what trained, in batches of the same shape.

    ``drawn`` are their numbers, ``evaluated`` the losses and right answers of all samples in that evaluation. Where
    positions have labels, samples with ``own`` labels come after those with every label.
    """

    subject: Subject
    batches: list[tuple[Array, Array, int]]
    drawn: list[int]
    own: list[int]
    evaluated: tuple[Array, Array]
    losses: Array
    right: Array

    @classmethod
    def of(cls, subject: Subject, training: Any, evaluated: tuple[Array, Array], seed: int) -> Again | None:
        """Evaluate them; None where the number of labels is not known, or too large."""
        test, classes, ignored = subject.data.test, subject.spec.label_count, subject.spec.ignored_label
        if not 2 <= classes <= LABELS:
            return None
        size = subject.spec.evaluation_batch * subject.cell.devices
        draw = random.Random(seed)  # noqa: S311 - no secret is drawn
        drawn = draw.sample(range(len(test)), min(max(1, size // classes), len(test)))
        own = [] if ignored is None else draw.sample(range(len(test)), min(size, len(test)))
        chosen = np.concatenate([np.repeat(drawn, classes), np.array(own, int)])
        labels = label_samples(np.tile(np.arange(classes), len(drawn)), test.labels.shape[-1], ignored)
        split = Split(test.inputs[chosen], np.concatenate([labels.astype(test.labels.dtype), test.labels[own]]))
        batches = [*evaluation_batches(replace(subject.data, test=split), size, subject.length)]
        return cls(subject, batches, drawn, own, evaluated, *scores(training, batches, subject.team))

    def evidence(self, fresh: Any, state: dict[str, Array]) -> Scored | None:
        """By a fresh model with the ``state`` of what was evaluated, and once in fp32; None without all scores."""
        restore_state(fresh, state)
        subject, losses, coarse = self.subject, self._losses(fresh), None
        if subject.team and subject.team.ranks.rank:  # of several processes, only the first has the scores of all
            return None
        off = float(np.max(np.abs(losses - self.losses) / np.maximum(1.0, np.abs(self.losses))))
        if subject.cell.precision in COARSE and not subject.team:
            cell = subject.cell.but(precision="fp32", compile=USUAL_COMPILE[subject.cell.framework])
            exact = subject.training(cell, subject.timed, dropout=subject.dropout, rates=subject.rates)
            restore_state(exact, state)
            mean = float(np.mean(self._losses(exact), dtype=np.float64))
            coarse = abs(float(np.mean(self.losses, dtype=np.float64)) / mean - 1)
        sums = np.exp(-self._by_label(self.losses.astype(np.float64))).sum(1)
        samples = len(self.drawn) + len(self.own)
        return Scored(samples, float(np.max(np.abs(sums - 1))), self._wrong(), off, coarse, self._right(losses))

    def _right(self, losses: Array) -> float:
        """The share of right answers by these losses, or where positions have labels, of their own."""
        if self.own:
            return float(np.mean(self.right[-len(self.own) :], dtype=np.float64))
        return float(np.mean(self._by_label(losses).argmin(1) == self.subject.data.test.labels[self.drawn]))

    def _losses(self, training: Any) -> Array:
        return scores(training, self.batches, self.subject.team)[0]

    def _by_label(self, scored: Array) -> Array:
        """Of the samples that have every label, (samples, labels)."""
        return scored[: len(scored) - len(self.own)].reshape(len(self.drawn), -1)

    def _wrong(self) -> int:
        """Samples whose right label is not the one with the least loss, or that were scored otherwise before."""
        losses, right = self._by_label(self.losses.astype(np.float64)), self._by_label(self.right).astype(bool)
        if len(self.evaluated[0]) != len(self.subject.data.test):
            return len(self.drawn) + len(self.own)
        best, second = np.sort(losses, axis=1)[:, :2].T
        lead, scale = second - best, np.maximum(1.0, np.abs(second))
        expected = losses.argmin(1)[:, None] == np.arange(losses.shape[1])
        wrong = (lead > CLEAR * scale) & (right != expected).any(1)
        then, right_then = (np.asarray(each)[self.own or self.drawn] for each in self.evaluated)
        if self.own:
            now, right_now = self.losses[-len(self.own) :], self.right[-len(self.own) :]
            moved = _has_moved(then, now) | (np.abs(right_then - right_now) > SHARE)
            return int(np.count_nonzero(wrong) + np.count_nonzero(moved))
        rows, labels = np.arange(len(losses)), self.subject.data.test.labels[self.drawn]
        other = (lead > NEIGHBOURS * scale) & (right_then.astype(bool) != expected[rows, labels])
        return int(np.count_nonzero(wrong | _has_moved(then, losses[rows, labels]) | other))


def _has_moved(then: Array, now: Array) -> Array:
    return np.asarray(np.abs(then - now) > NEIGHBOURS * np.maximum(1.0, np.abs(then)))
