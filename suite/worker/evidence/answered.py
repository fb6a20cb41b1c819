"""What a trained model answers: the answers of inference that were timed, and the accuracy of a training to its end.

Both are held against an evaluation by a fresh model that has the trained state. For inference, some samples are
evaluated with several labels, and the losses that follow from a timed answer by the formula in NumPy must be the
evaluation's. For the accuracy, some samples are evaluated with every label: so the probabilities of all labels are
known, and which of them is the best, without asking the framework for more than the two numbers that it reports. Where
each position of a sample has a label, it is the last position's, and others are evaluated again with their own labels.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from suite.plan.cell import USUAL_COMPILE
from suite.record.parts.evidence import Answered, Scored, Trace
from suite.record.parts.history import NUMBER_MOST
from suite.worker.evidence.updates import restore_state
from suite.worker.launch.inference import CONTINUED, Answers, continue_prompts, model_of
from suite.worker.launch.training import scores
from workloads.data.augment import evaluation_batches
from workloads.data.dataset import Array, Split

if TYPE_CHECKING:
    from suite.worker.evidence.subject import EvidenceContext
    from workloads.spec import WorkloadSpec

#: Labels that each sample is evaluated with, and samples of each batch that are evaluated.
LABELS, SAMPLES = 4, 8
#: Losses that differ by less may be the same sample's: in the precisions named here, and in coarser ones.
CLEAR, EXACT, COARSE = 1e-5, ("fp32", "fp64"), 1e-2
#: How far decoding with a cache may be off passes without one in float64, relative.
CACHED = 1e-9


def check_answers(
    answers: Answers, fresh: Any, state: dict[str, Array], precision: str, spec: WorkloadSpec
) -> Answered:
    """Evaluates the samples again by a fresh model with the ``state`` of what was timed."""
    restore_state(fresh, state)
    of_requests = [at for at, _, _ in answers.kept]
    before = sorted({at for _, at, _ in answers.kept} - {*of_requests})
    pool = [*dict.fromkeys(of_requests), *before]
    labels = labels_of(answers.kept[0][2].size)
    clear = CLEAR if precision in EXACT else COARSE
    spread = [(inputs[at], logits[at]) for inputs, logits in answers.batches for at in _spread(len(inputs))]
    rows = np.stack([logits for _, logits in spread])
    again = losses_of_evaluation(
        fresh, np.concatenate([answers.inputs[pool], [inputs for inputs, _ in spread]]), labels, spec
    )
    expected = dict(zip(pool, again, strict=False))
    off, wrong = 0.0, 0
    for at, _, row in answers.kept:
        found = losses(row.reshape(1, -1), labels)[0]
        apart = {other: _distance(found, expected[other]) for other in pool}
        nearest = min((value for other, value in apart.items() if other != at), default=np.inf)
        off = max(off, apart[at])
        wrong += apart[at] > clear and nearest < apart[at] / 2
    off = max([off, *map(_distance, losses(rows.reshape(len(rows), -1), labels), again[len(pool) :])])
    return Answered(len(answers.kept), off, wrong, answers.gradient, answers.cached)


def losses_of_server(subject: EvidenceContext, training: Any) -> Trace:
    """The mean losses of some test samples by the function that serves a training, for each of some labels.

    Of a workload that decodes, also the words that follow the first halves of some.
    """
    split = subject.data.test
    data = replace(subject.data, test=Split(split.inputs[:SAMPLES], split.labels[:SAMPLES]))
    ((inputs, _, count),) = evaluation_batches(data, min(SAMPLES, len(data.test)), subject.length)
    model = model_of(subject.cell).Model(training)
    try:
        batch, _ = training.put((inputs, np.zeros(len(inputs), np.int32)))
        logits = model.on_host(model.predict(batch)).reshape(len(inputs), -1)[:count].astype(np.float64)
        found = losses(logits, labels_of(logits.shape[1])).mean(0)
        if subject.spec.decodes:
            words, off = continue_prompts(model, training, inputs[:CONTINUED, : inputs.shape[1] // 2], inputs.shape[1])
            found = np.append(found, words if off < CACHED else [NUMBER_MOST])
    finally:
        model.close()
    return Trace(tuple(found.tolist()), {})


def labels_of(outputs: int) -> Array:
    """Some of the labels that a model of so many outputs tells apart: both, where there is one output."""
    classes = max(2, outputs)
    return np.array(sorted(random.Random(0).sample(range(classes), min(LABELS, classes))))  # noqa: S311 - no secret


def losses(logits: Array, labels: Array) -> Array:
    """The cross entropy of every sample with every label: (n, outputs) and (labels,) to (n, labels), in float64."""
    logits = np.asarray(logits, np.float64)
    if logits.shape[1] == 1:
        return np.asarray(np.logaddexp(0.0, logits) - logits * labels)
    with np.errstate(invalid="ignore"):  # what is no number stays none
        return np.asarray(np.logaddexp.reduce(logits, axis=1)[:, None] - logits[:, labels])


def losses_of_evaluation(training: Any, inputs: Array, labels: Array, spec: WorkloadSpec) -> Array:
    """The same by the evaluation of a training; where each position has a label, of the last one.

    In batches of one size, which is at most that of the workload's evaluation; the last is filled up.
    """
    count = len(inputs) * len(labels)
    parts = -(-count // spec.evaluation_batch)
    size = -(-count // parts)
    at = np.arange(parts * size) % count
    samples, each = np.repeat(inputs, len(labels), axis=0)[at], np.tile(labels, len(inputs))[at]
    targets = label_samples(each, inputs.shape[-1], spec.ignored_label)
    counts = [min(size, count - begin) for begin in range(0, parts * size, size)]
    batches = [(samples[n * size :][:size], targets[n * size :][:size], held) for n, held in enumerate(counts)]
    found, _ = scores(training, batches)
    return found.reshape(len(inputs), len(labels)).astype(np.float64)


def label_samples(labels: Array, positions: int, ignored: int | None) -> Array:
    """Labels (n,) as samples have them; where an `ignored_label` says that each position has one, at the last alone."""
    labels = labels.astype(np.int32)
    if ignored is None:
        return labels
    each = np.full((len(labels), positions), ignored, np.int32)
    each[:, -1] = labels
    return each


def _spread(count: int) -> list[int]:
    return [int(at) for at in np.unique(np.linspace(0, count - 1, SAMPLES).astype(int))]


def _distance(losses: Array, expected: Array) -> float:
    with np.errstate(invalid="ignore"):
        apart = float(np.max(np.abs(losses - expected) / np.maximum(1.0, np.abs(expected))))
    return apart if np.isfinite(apart) else NUMBER_MOST  # which a record can hold


#: How far two evaluations of a sample among other neighbours may be apart.
NEIGHBOURS = 1e-2
#: By how much the share of right labels of a sample may change among other neighbours, where some labels are close.
SHARE = 0.05
#: Labels that a sample is evaluated with, at most.
MOST_LABELS = 10_000
#: Precisions that an evaluation in fp32 checks. In fp16 the state also holds a scale, which fp32 has no place for.
CHECKED_IN_FP32 = ("tf32", "bf16")


@dataclass
class Reevaluation:
    """Some samples of the last evaluation with every label, evaluated by what trained, in batches of the same shape.

    ``drawn`` are their numbers, ``evaluated`` the losses and right answers of all samples in that evaluation. Where
    positions have labels, samples with ``own`` labels come after those with every label.
    """

    subject: EvidenceContext
    batches: list[tuple[Array, Array, int]]
    drawn: list[int]
    own: list[int]
    evaluated: tuple[Array, Array]
    losses: Array
    right: Array

    @classmethod
    def of(
        cls, subject: EvidenceContext, training: Any, evaluated: tuple[Array, Array], seed: int
    ) -> Reevaluation | None:
        """Evaluate them; None where the number of labels is not known, or too large."""
        test, classes, ignored = subject.data.test, subject.spec.label_count, subject.spec.ignored_label
        if not 2 <= classes <= MOST_LABELS:
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
        if subject.cell.precision in CHECKED_IN_FP32 and not subject.team:
            cell = subject.cell.but(precision="fp32", compile=USUAL_COMPILE[subject.cell.framework])
            exact = subject.training(cell, subject.timed, dropout=subject.dropout, rates=subject.rates)
            restore_state(exact, state)
            mean = float(np.mean(self._losses(exact), dtype=np.float64))
            coarse = abs(float(np.mean(self.losses, dtype=np.float64)) / mean - 1)
        sums = np.exp(-self._by_label(self.losses.astype(np.float64))).sum(1)
        samples = len(self.drawn) + len(self.own)
        return Scored(samples, float(np.max(np.abs(sums - 1))), self._wrong(), off, coarse, self._right(losses))

    def _right(self, losses: Array) -> float:
        if self.own:
            return float(np.mean(self.right[-len(self.own) :], dtype=np.float64))
        return float(np.mean(self._by_label(losses).argmin(1) == self.subject.data.test.labels[self.drawn]))

    def _losses(self, training: Any) -> Array:
        return scores(training, self.batches, self.subject.team)[0]

    def _by_label(self, scored: Array) -> Array:
        return scored[: len(scored) - len(self.own)].reshape(len(self.drawn), -1)

    def _wrong(self) -> int:
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
