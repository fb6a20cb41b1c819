"""Whether the answers of inference that were timed are the trained model's, and each that of its own request.

They are held against the evaluation, whose numbers the rest of the evidence proves: some samples are evaluated with
several labels by a fresh model that has the trained state, and the losses that follow from an answer by the formula in
NumPy must be the evaluation's.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from suite.record.parts.evidence import Answered, Trace
from suite.record.parts.history import NUMBER_MOST
from suite.worker.evidence.replay import restore_state
from suite.worker.launch.inference import CONTINUED, Answers, continue_prompts, model_of
from suite.worker.launch.training import scores
from workloads.data.augment import evaluation_batches
from workloads.data.dataset import Array, Split

if TYPE_CHECKING:
    from suite.worker.evidence.subject import Subject
    from workloads.spec import WorkloadSpec

#: Labels that each sample is evaluated with, and samples of each batch that are evaluated.
LABELS, SAMPLES = 4, 8
#: Losses that differ by less may be the same sample's: in the precisions named here, and in coarser ones.
CLEAR, EXACT, COARSE = 1e-5, ("fp32", "fp64"), 1e-2
#: How far decoding with a cache may be off passes without one in float64, relative.
CACHED = 1e-9


def evidence(answers: Answers, fresh: Any, state: dict[str, Array], precision: str, spec: WorkloadSpec) -> Answered:
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


def losses_of_server(subject: Subject, training: Any) -> Trace:
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
    """The places of some samples, from the first of a batch to its last."""
    return [int(at) for at in np.unique(np.linspace(0, count - 1, SAMPLES).astype(int))]


def _distance(losses: Array, expected: Array) -> float:
    with np.errstate(invalid="ignore"):
        apart = float(np.max(np.abs(losses - expected) / np.maximum(1.0, np.abs(expected))))
    return apart if np.isfinite(apart) else NUMBER_MOST  # which a record can hold
