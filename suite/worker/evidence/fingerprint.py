"""Fingerprints: a few training steps that all frameworks take from the same weights on the same batches.

They use a fixed small batch or the cell's own, and no dropout (no two frameworks draw the same mask), so that the
fingerprints of all cells of a workload and precision can be compared.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from suite.plan.cell import USUAL_COMPILE
from suite.record.parts.evidence import Draws, Trace
from suite.worker.evidence.answered import losses_of_server
from suite.worker.evidence.layers import owners
from suite.worker.evidence.updates import FP16_STEPS, Formula, deviation
from suite.worker.launch.description import check
from suite.worker.launch.probe import LSTM_TENSORS, lstm_error
from suite.worker.launch.training import evaluate
from workloads.data.augment import Batches
from workloads.data.dataset import Array, DataSet, Split
from workloads.data.tokenizer import FIRST_WORD, VOCABULARY
from workloads.lengths import FIXED
from workloads.spec import WorkloadSpec
from workloads.weights import weights_digest

if TYPE_CHECKING:
    from suite.worker.evidence.subject import EvidenceContext

STEPS = 2  # after which momentum counts, and rounding is not yet amplified
BATCH = 8
SEED = 20210501  # of weights and batches; the same in all runs, so that fingerprints of different runs compare

#: How many of the measured loader's first batches go into the record's digest.
DIGESTED_BATCHES = 3

#: Steps and batch in float64, for which XLA has no fast convolution on a CPU: a step of two images of the full
#: `cifar100_cnn` took as long as one of 32 in float32.
FLOAT64_STEPS, FLOAT64_BATCH = 3, 2
#: Test samples of the evaluation in a record, and how many of them at a time.
EVALUATED, EVALUATED_BATCH = 12, 8
#: What counts the steps in a framework's state, by the ends of the names.
COUNTS = re.compile(r"(step|steps|count|iteration|iterations)$")


def at_proof_rate(spec: WorkloadSpec) -> WorkloadSpec:
    """The spec at the rate at which fingerprints train."""
    return replace(spec, optimizer=replace(spec.optimizer, learning_rate=spec.proof_learning_rate))


def fixed_batches(
    data: DataSet, length: int | None, batch: int = BATCH, steps: int = STEPS, lengths: str = FIXED
) -> list[tuple[Array, Array]]:
    """The batches that every fingerprint trains on."""
    source = Batches(data, batch, SEED, length, lengths=lengths)
    return [source[number] for number in range(steps)]


def dropout_batch(data: DataSet, length: int | None, batch: int) -> tuple[Array, Array]:
    """The batch on which dropout is drawn: noise, so that the spread is the same with any data.

    Of images it is any; of reviews, so many words as there are, each as likely as another. Of inputs from outside noise
    may be none, so it is a batch of theirs.
    """
    labels = np.zeros((batch, *data.train.labels.shape[1:]), np.int32)
    if data.batch_form == "images":
        shape = (batch, *data.train.inputs.shape[1:])
        noise = np.random.default_rng(SEED).integers(0, 256, shape, dtype=np.uint8)
        return noise, labels
    if data.name == "imdb":
        words = np.random.default_rng(SEED).integers(FIRST_WORD, VOCABULARY, (batch, length or 0), dtype=np.int32)
        return words, labels
    return fixed_batches(data, length, batch, 1)[0]


def movement(before: Mapping[str, Array], after: Mapping[str, Array], frozen: Sequence[str] = ()) -> dict[str, float]:
    """How far every tensor moved: ``|after - before| / |before|``, or the plain norm where it started at zero.

    Those that are ``frozen`` are left out; `deviation` sees whether they stay.
    """
    moved = {}
    for name, array in ((name, array) for name, array in before.items() if name not in frozen):
        start = array.astype(np.float64)
        distance, norm = (float(np.linalg.norm(each)) for each in (after[name] - start, start))
        moved[name] = distance / norm if norm else distance
    return moved


def run_steps(subject: EvidenceContext, training: Any, batches: list[tuple[Array, Array]], where: str) -> Trace:
    """Steps of a compiled training on these batches; ``where`` is for an error."""
    before = training.weights()
    losses = check([training.step(training.put(batch)) for batch in batches], training, where)
    return Trace(tuple(losses), movement(before, training.weights(), subject.spec.frozen))


def take_fingerprint(subject: EvidenceContext) -> tuple[dict[str, Any], dict[str, float]]:
    """Digest of the weights, losses and updates at a small batch; and the error of an LSTM's logits."""
    training = subject.training(subject.cell.but(batch=BATCH, accumulate=1), at_proof_rate(subject.spec))
    batches = subject.batches(BATCH, FP16_STEPS if subject.cell.precision == "fp16" else STEPS)
    before, errors = training.weights(), {}
    first = training.put(batches[0])
    if before.keys() == LSTM_TENSORS:
        errors["lstm"] = lstm_error(subject.cell, before, batches[0][0], training.logits(first))
    training.compile(first)
    trace = run_steps(subject, training, batches, "the fingerprint")
    return {"weights": weights_digest(before), "losses": trace.losses, "updates": trace.updates}, errors


def take_own_fingerprint(subject: EvidenceContext, replayed: Any = None) -> dict[str, Any]:
    """A fingerprint at the cell's own batch size, and how far the optimizer is off its formula there.

    The first is what the ``replayed`` model computes from its beginning, without its dropout, or another one where it
    cannot. The formula follows the framework's own gradients at the workload's own rate, or the recipe's.
    """
    cell, training = subject.cell, replayed
    batches = subject.batches(cell.effective_batch, STEPS, cell.accumulate)
    if training is None:
        training = subject.training(cell, at_proof_rate(subject.spec))
        training.compile(training.put(batches[0]))
    elif subject.draws:
        subject.tools.without_dropout(training)
    trace = run_steps(subject, training, batches, "the fingerprint at the cell's batch")
    training = subject.training(cell, subject.timed, rates=subject.rates)
    return {"own": trace, "own_optimizer": check_formula(subject, training, subject.timed, batches)[-1]}


def take_float64_fingerprint(subject: EvidenceContext) -> dict[str, Any]:
    """A fingerprint in float64 on the host, and how far the optimizer is off its formula there.

    Where the cell trains to its end, by its recipe, and with an evaluation after it; where it serves, with inference.
    What is timed on a GPU is not compiled for the host: which says nothing of it, and took 74 s beside six others.
    """
    cell = subject.cell.but(precision="fp64", batch=FLOAT64_BATCH, accumulate=1, kernel="auto")
    if subject.device != "cpu":
        cell = cell.but(compile=USUAL_COMPILE[cell.framework])
    spec, parts = subject.recipe or at_proof_rate(subject.spec), dict[str, Any]()
    with subject.tools.on_host():
        training = subject.training(cell, spec, "cpu", rates=subject.rates)
        batches = subject.batches(FLOAT64_BATCH, FLOAT64_STEPS)
        trace, after, off = check_formula(subject, training, spec, batches)
        if (subject.recipe or subject.serves) and subject.draws:  # what is evaluated must switch its dropout off
            training = subject.training(cell, spec, "cpu", weights=after, dropout=True)
        if subject.recipe:
            parts["evaluation"] = evaluation(subject, training)
        elif subject.serves:
            parts["inference"] = losses_of_server(subject, training)
    return parts | {"float64": trace, "optimizer": off}


def evaluation(subject: EvidenceContext, training: Any) -> Trace:
    """The loss and the share of right answers of the first test samples, the last batch of which is not full."""
    test = subject.data.test
    subset = Split(test.inputs[:EVALUATED], test.labels[:EVALUATED])
    data = replace(subject.data, test=subset)
    return Trace(evaluate(training, data, subject.length, EVALUATED_BATCH, subject.team), {})


def check_formula(
    subject: EvidenceContext, training: Any, spec: WorkloadSpec, batches: list[tuple[Array, Array]]
) -> tuple[Trace, dict[str, Array], float]:
    """Steps on these batches; the weights after them, and how far their movement is off the formula's.

    The formula is computed in float64 from the framework's own gradients. With a table of rates the first step is the
    first of a training, the last its last, and those between are from its middle: the state's counts of steps are moved
    there.
    """
    formula, losses = Formula(spec.optimizer, subject.rates, spec.decays), []
    rates = 0 if subject.rates is None else len(subject.rates)
    planned = rates - FP16_STEPS if rates > FP16_STEPS else rates
    before = expected = {name: array.astype(np.float64) for name, array in training.weights().items()}
    for number, batch in enumerate(batches):
        if planned:
            _move_to(training, formula, number * (planned - 1) // max(1, len(batches) - 1))
        loss, gradients = subject.tools.explain_step(training, training.put(batch))
        losses.append(loss)
        if all(np.isfinite(each).all() for each in gradients.values()):  # in fp16 such a step changes nothing
            expected = formula.step(expected, {name: each.astype(np.float64) for name, each in gradients.items()})
    after = training.weights()
    moved = movement(before, after, spec.frozen)
    return Trace(tuple(losses), moved), after, deviation(before, after, expected, len(batches))


def _move_to(training: Any, formula: Formula, step: int) -> None:
    missing = step - formula.steps
    if missing > 0:
        formula.steps += missing
        state = training.checkpoint()
        training.restore(
            {name: np.asarray(each + missing) if COUNTS.search(name) else each for name, each in state.items()}
        )


#: Forward passes with dropout, and samples in each, every one with masks of its own. Of the spread that images show,
#: one standard deviation is 0.6 % (n = 26 groups of 16 passes of the small CNN). Texts are fewer, since the full
#: Transformer takes a tenth of a second for one.
DRAWS, DRAWS_OF_TEXTS = (20, 32), (10, 8)
#: Spreads of a layer's input below this are of rounding: there is nothing drawn before it.
LEAST_SPREAD = 1e-4
#: Steps on one batch of so many images, whose losses must differ.
DRAWN_STEPS, DRAWN_BATCH = 2, 4


def draws(subject: EvidenceContext) -> Draws:
    """Dropout by its draws, on noise: masks cannot match between frameworks, but how far they scatter layers must."""
    spec = subject.spec
    frozen = replace(spec, optimizer=replace(spec.optimizer, learning_rate=0.0))
    compile_mode = USUAL_COMPILE[subject.cell.framework]
    cell = subject.cell.but(batch=DRAWN_BATCH, accumulate=1, compile=compile_mode, checkpointing="off", devices=1)
    training = subject.training(cell, frozen, dropout=True)
    passes, samples = DRAWS_OF_TEXTS if subject.data.batch_form == "tokens" else DRAWS
    noise, labels = dropout_batch(subject.data, subject.length, samples)
    logits, inputs = subject.tools.draws(training, training.put((noise, labels)), passes)
    layers = _by_tensor(inputs, subject.tools.parameters_by_layer(training), training.weights()) if inputs else {}
    drawn = noise[:DRAWN_BATCH], labels[:DRAWN_BATCH]
    if subject.team:  # every device takes the same samples, and no two of them draw the same masks either
        devices = subject.cell.devices
        training = subject.training(cell.but(devices=devices, strategy=subject.cell.strategy), frozen, dropout=True)
        drawn = subject.take_share((np.concatenate([drawn[0]] * devices), np.concatenate([drawn[1]] * devices)))
    batch = training.put(drawn)
    training.compile(batch)
    pending = [training.step(batch) for _ in range(DRAWN_STEPS)]
    losses = check(pending, training, "the steps with dropout")
    if subject.team:
        losses = training.each(pending)
    whole = [each for each in (*inputs.values(), logits) if each.shape[1] == samples]
    return Draws(spread(logits), tuple(losses), max(map(share_of_variance, whole)), spec.size, layers)


def _by_tensor(inputs: dict[str, Array], owned: dict[str, list[Array]], weights: dict[str, Array]) -> dict[str, float]:
    """The spread of each layer's input (draws, b, ...) by the name of its kernel, relative to the input itself.

    It is seen before a residual addition too, where nothing is zero.
    """
    kernels = {name: array for name, array in weights.items() if array.ndim > 1}  # those of biases are alike
    called = [(path, None, None) for path in inputs]
    found = {}
    for path, names in owners(owned, kernels, called).items():
        drawn = inputs[path].astype(np.float64)
        size = float(np.sqrt(np.mean(drawn**2)))
        relative = spread(drawn) / size if size else 0.0
        found[names[0]] = relative if relative > LEAST_SPREAD else 0.0
    return found


def spread(logits: Array) -> float:
    """The standard deviation of each number over draws, (draws, b, ...), as root mean square over all of them."""
    return float(np.sqrt(np.var(logits, axis=0, ddof=1).mean()))


def share_of_variance(drawn: Array) -> float:
    """The variance of a batch's mean over draws, (draws, b, ...), in shares of that of independent masks.

    That is 1, and b where all samples of a batch share one mask. 0 where nothing is drawn.
    """
    drawn = drawn.astype(np.float64)
    single = float(np.var(drawn, axis=0, ddof=1).mean())
    mean = float(np.var(drawn.mean(axis=1), axis=0, ddof=1).mean())
    return mean * drawn.shape[1] / single if single else 0.0
