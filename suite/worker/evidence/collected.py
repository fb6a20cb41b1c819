"""The evidence of identity in every record: what this launch computes, and that it is what the launch times.

Two kinds. What the *code* of a cell computes is set beside the other frameworks': the cell's first launch has it, and
later ones say by a digest that they run the same code. That what is *timed* is this code is shown by every launch:
batches at random positions are the reference's, and steps after the last window are taken again by a fresh model, to
the last bit. None of it runs inside or between windows, and none of it counts in the record's memory, which is read
before what comes after the windows.
"""

from __future__ import annotations

import gc
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

from suite.record.evidence import Identity, Last, Trace
from suite.worker.evidence.draws import draws
from suite.worker.evidence.explained import explained
from suite.worker.evidence.fingerprint import BATCH, OWN_STEPS, fixed_batches, movement, proof
from suite.worker.evidence.recomputed import recomputed
from suite.worker.evidence.replay import FP16_STEPS, LAST_STEPS, Replay
from suite.worker.evidence.scored import Again
from suite.worker.evidence.subject import Subject
from suite.worker.frameworks import UnsupportedError
from suite.worker.launch.counted import Counted
from suite.worker.launch.outcome import check
from suite.worker.launch.probe import LSTM_TENSORS, lstm_error
from suite.worker.launch.training import evaluate
from workloads.data.augment import Batches, batches_digest
from workloads.data.dataset import Array, Split
from workloads.weights import weights_digest

#: Steps and batch in float64, for which XLA has no fast convolution on a CPU: a step of two images of the full
#: `cifar100_cnn` took as long as one of 32 in float32.
FLOAT64_STEPS, FLOAT64_BATCH = 3, 2
#: How the programs of a part are compiled, where it is not ``soon``: see `Subject.programs_kept`.
COMPILED = {"replay": "exact", "dropout": "quickly", "float64": "quickly"}
#: Test samples of the evaluation in a record, and how many of them at a time.
EVALUATED, EVALUATED_BATCH = 12, 8


class Evidence:
    """Collects the parts of a record's `Identity`, and sends the parts so far after each.

    ``program`` is a digest of all that decides what the launch computes; only a ``whole`` one shows it.
    """

    def __init__(self, subject: Subject, send: Callable[..., None], program: str = "", whole: bool = True) -> None:
        self.subject, self.send, self.whole = subject, send, whole
        self.parts: dict[str, Any] = {"program": program}
        self.seconds: dict[str, float] = {}
        self.replay: Replay | None = None
        self.again: Again | None = None
        self.fresh: Any = None  # the replayed model with its first state, where it can take the fingerprint's steps

    @contextmanager
    def _part(self, name: str) -> Iterator[None]:
        """Time a part, and send all that is known when it succeeds."""
        self.send(progress=f"evidence: {name}")
        start = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - start
        self.send(part={"identity": asdict(Identity(**self.parts, seconds=self.seconds))})

    def delivered(self, batches: list[tuple[Array, Array]]) -> None:
        """The loader's first batches, as they reached the device."""
        with self._part("batches"):
            team = self.subject.team
            self.parts["batches"] = batches_digest([team.whole(each) for each in batches] if team else batches)

    def fingerprint(self) -> dict[str, float]:
        """The fingerprint at a small batch, where the evidence is whole; the errors of the LSTM's logits."""
        if not self.whole:
            return {}
        with self.subject.programs_kept(), self._part("fingerprint"), only_new_collected():
            fingerprint, errors = fingerprint_of(self.subject)
            self.parts |= fingerprint
        return errors

    def last(self, training: Any, loader: Counted, source: Batches) -> None:
        """After the last window: the steps to replay, and whether the batches kept and these are the reference's."""
        with self._part("last"):
            number = loader.delivered
            count = FP16_STEPS if self.subject.cell.precision == "fp16" else LAST_STEPS
            batches = [next(loader) for _ in range(count)]
            self.replay = replay = Replay.of(training, batches)
            check(replay.losses, training, "the last steps")
            host = {index: training.get(batch) for index, batch in loader.kept.items()}
            host |= dict(enumerate(replay.batches, number))
            wrong = sorted(
                index for index, batch in host.items() if batches_digest([batch]) != batches_digest([source[index]])
            )
            loader.kept.clear()
            if self.subject.team:  # of any process
                wrong = sorted(index for own in self.subject.team.ranks.gather(wrong) for index in own)
            first = wrong[0] if wrong else number
            updates = movement(replay.before, replay.after)
            self.parts["last"] = Last(first, not wrong, updates, checked=tuple(sorted(host)))

    def scored(self, training: Any, evaluated: tuple[Array, Array] | None, seed: int) -> None:
        """After the last evaluation, whose losses and right answers these are: some of it again."""
        if evaluated is not None:  # else a kill came after it, and its scores are gone
            self.again = Again.of(self.subject, training, evaluated, seed)

    def afterwards(self) -> None:
        """What needs models of its own. What does not fit into memory beside the data is left out; the log says so."""
        gc.collect()  # of what was timed, its memory included
        parts: dict[str, Callable[[], dict[str, Any]]] = {"replay": self._replayed} if self.replay else {}
        if self.whole:
            parts["own"] = self._own
            if self.subject.draws:
                parts["dropout"] = lambda: {"dropout": draws(self.subject)}
            if self.subject.cell.checkpointing == "on":
                parts["checkpointing"] = lambda: {"recomputed": recomputed(self.subject)}
            parts["float64"] = lambda: float64(self.subject)
        for name, compute in parts.items():
            how = COMPILED.get(name, "soon")
            try:
                with self.subject.programs_kept(how), self._part(name), only_new_collected():
                    self.parts |= compute()
                continue
            except Exception as error:
                no_memory = not self.subject.team and self.subject.framework.out_of_memory(error)
                if not (isinstance(error, UnsupportedError) or no_memory):  # where others would wait for this process
                    raise
                traceback.print_exc()
            gc.collect()  # what failed, now that no traceback holds it; the next part would keep it

    def _replayed(self) -> dict[str, Any]:
        """The last steps of what was timed, taken again by a fresh model."""
        assert self.replay
        fresh = self.subject.fresh()
        digest = weights_digest(fresh.weights())
        start = {name: array.copy() for name, array in fresh.checkpoint().items()}
        fresh.compile(fresh.put(self.replay.batches[0]))
        scored = self.again and self.again.evidence(fresh, self.replay.state)
        off, again = self.replay.deviation(fresh)
        self.replay = self.again = None
        if self.whole and self.subject.switchable:
            self.fresh = fresh, start
        last = replace(self.parts["last"], replayed=off, again=again)
        return {"weights": digest, "last": last, "scored": scored}

    def _own(self) -> dict[str, Any]:
        """What the replayed model computes from the beginning, without its dropout; or another one, where it cannot."""
        if not self.fresh:
            return own(self.subject)
        (fresh, start), self.fresh = self.fresh, None
        fresh.restore(start)
        if self.subject.draws:
            self.subject.tools.without_dropout(fresh)
        return own(self.subject, fresh)


@contextmanager
def only_new_collected() -> Iterator[None]:
    """A context at whose end the models that were made in it are collected.

    What was there before is not looked through: a framework's objects are so many that it takes a quarter of a second.
    """
    gc.freeze()
    try:
        yield
        gc.collect()
    finally:
        gc.unfreeze()


def fingerprint_of(subject: Subject) -> tuple[dict[str, Any], dict[str, float]]:
    """Digest of the weights, losses and updates at a small batch; and the error of an LSTM's logits."""
    training = subject.training(subject.cell.but(batch=BATCH, accumulate=1), proof(subject.spec))
    host_batches = [subject.mine(batch) for batch in fixed_batches(subject.data, subject.length)]
    batches = [training.put(batch) for batch in host_batches]
    before = training.weights()
    errors = {}
    if before.keys() == LSTM_TENSORS:
        errors["lstm"] = lstm_error(subject.cell, before, host_batches[0][0], training.logits(batches[0]))
    training.compile(batches[0])
    losses = check([training.step(batch) for batch in batches], training, "the fingerprint")
    parts = {"weights": weights_digest(before), "losses": tuple(losses)}
    return parts | {"updates": movement(before, training.weights())}, errors


def own(subject: Subject, replayed: Any = None) -> dict[str, Any]:
    """A fingerprint at the cell's own batch size, and how far the optimizer is off its formula there.

    The formula follows the framework's own gradients at the workload's own rate, or the recipe's.
    """
    cell, training = subject.cell, replayed
    host = fixed_batches(subject.data, subject.length, cell.effective_batch, OWN_STEPS)
    batches = [subject.mine(batch, cell.accumulate) for batch in host]
    if training is None:
        training = subject.training(cell, proof(subject.spec))
        training.compile(training.put(batches[0]))
    before = training.weights()
    pending = [training.step(training.put(batch)) for batch in batches]
    losses = check(pending, training, "the fingerprint at the cell's batch")
    trace = Trace(tuple(losses), movement(before, training.weights()))
    training = subject.training(cell, subject.timed, rates=subject.rates)
    *_, off = explained(subject, training, subject.timed.optimizer, batches, subject.rates)
    return {"own": trace, "own_optimizer": off}


def float64(subject: Subject) -> dict[str, Any]:
    """A fingerprint in float64 on the host, and how far the optimizer is off its formula there.

    Where the cell trains to its end, by its recipe, and with an evaluation after it.
    """
    cell = subject.cell.but(precision="fp64", batch=FLOAT64_BATCH, accumulate=1, kernel="auto")
    spec, parts = subject.recipe or proof(subject.spec), dict[str, Any]()
    batches = fixed_batches(subject.data, subject.length, FLOAT64_BATCH, FLOAT64_STEPS)
    with subject.tools.on_host():
        training = subject.training(cell, spec, "cpu", rates=subject.rates)
        mine = [subject.mine(batch) for batch in batches]
        trace, after, off = explained(subject, training, spec.optimizer, mine, subject.rates)
        if subject.recipe:
            if subject.draws:  # what is evaluated has dropout, which an evaluation must switch off
                training = subject.training(cell, spec, "cpu", weights=after, dropout=True)
            parts["evaluation"] = evaluation(subject, training)
    return parts | {"float64": trace, "optimizer": off}


def evaluation(subject: Subject, training: Any) -> Trace:
    """The loss and the share of right answers of the first test samples, the last batch of which is not full."""
    test = subject.data.test
    subset = Split(test.inputs[:EVALUATED], test.labels[:EVALUATED])
    data = replace(subject.data, test=subset)
    return Trace(evaluate(training, data, subject.length, EVALUATED_BATCH, subject.team), {})
