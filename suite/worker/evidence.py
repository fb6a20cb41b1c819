"""The evidence of identity in every record: what this launch computes, taken from the program that it times.

Before the windows come the digests, the fingerprint and the first steps of the timed object; after the last window its
next batch and step, and then all that needs a model of its own, with that object gone but for what another training of
the same program takes over from it. None of it runs inside or between windows, and none of it counts in the record's
memory, which is read before what comes after the windows.
"""

from __future__ import annotations

import gc
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

from suite.plan.cell import USUAL_COMPILE
from suite.record.evidence import Identity, Last, Trace
from suite.record.record import Window
from suite.worker.counted import Counted
from suite.worker.draws import draws
from suite.worker.fingerprint import BATCH, EARLY, STEPS, fixed_batches, movement, proof
from suite.worker.frameworks import UnsupportedError
from suite.worker.optimizer import Formula, deviation
from suite.worker.outcome import check
from suite.worker.probe import lstm_error
from suite.worker.ranks import Ranks
from suite.worker.recomputed import recomputed
from suite.worker.replay import Replay
from suite.worker.subject import Subject
from suite.worker.training import evaluate
from workloads.data.augment import Batches, batches_digest
from workloads.data.dataset import Array, Split
from workloads.spec import WORKLOADS, specification, weights_digest

#: First steps of the timed object, and steps of the fingerprint at its batch size.
TIMED_STEPS = OWN_STEPS = EARLY
#: Steps after the last window: where a fresh model takes them again, where none can, and in fp16, where some may
#: overflow and change nothing.
REPLAYED_STEPS, LAST_STEPS, FP16_STEPS = 2, 1, 4
#: Steps, batch and size in float64, for which XLA has no fast convolution on a CPU (a step of two images of the full
#: `cifar100_cnn` took as long as one of 32 in float32). The small size has the same code, layers and optimizer.
FLOAT64_STEPS, FLOAT64_BATCH, FLOAT64_SIZE = 3, 2, "small"
#: The parts whose programs are small and run a few times, and those of a launch that trains to its end.
SMALL, SMALL_OF_RECIPE = ("dropout", "float64"), ("dropout",)
#: Test samples of the evaluation in a record, and how many of them at a time.
EVALUATED, EVALUATED_BATCH = 12, 8


class Evidence:
    """Collects the parts of a record's `Identity`, and sends the parts so far after each."""

    def __init__(self, subject: Subject, send: Callable[..., None]) -> None:
        self.subject, self.send = subject, send
        self.parts: dict[str, Any] = {}
        self.seconds: dict[str, float] = {}
        self.replay: Replay | None = None
        self.after: dict[str, Array] = {}

    @contextmanager
    def _part(self, name: str) -> Iterator[None]:
        """Time a part, and send all that is known when it succeeds."""
        self.send(progress=f"evidence: {name}")
        start = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - start
        if "losses" in self.parts:
            self.send(part={"identity": asdict(Identity(**self.parts, seconds=self.seconds))})

    def delivered(self, batches: list[tuple[Array, Array]]) -> None:
        """The loader's first batches, as they reached the device."""
        with self._part("batches"):
            team = self.subject.team
            self.parts["batches"] = batches_digest([team.whole(each) for each in batches] if team else batches)

    def first_steps(self, training: Any, losses: list[float], batches: list[Any], seed: int, ranks: Ranks) -> Window:
        """The steps of the timed object after its first one, which has given ``losses``; ``seed`` is its weights'.

        Returns them as a window, since they are the first that warm it up; so their time is not that of the evidence.
        """
        with self._part("timed"):
            ranks.barrier()
            start = time.perf_counter_ns()
            pending = [training.step(batch) for batch in batches]
            training.fence(pending[-1])
            window = Window(len(batches), ranks.slowest(max(time.perf_counter_ns() - start, 1) / 1e9))
            losses = losses + check(pending, training, "the first steps")
            updates = movement(self.subject.spec.reference_weights(seed), training.weights())
            self.parts["timed"] = Trace(tuple(losses), updates)
        self.seconds["timed"] -= window.seconds
        return window

    def fingerprint(self) -> dict[str, float]:
        """The fingerprint at a small batch; the errors of the LSTM's logits, where it is one."""
        with self.subject.programs_kept(), self._part("fingerprint"), only_new_collected():
            fingerprint, errors = fingerprint_of(self.subject)
            self.parts |= fingerprint
        return errors

    def last(self, training: Any, loader: Counted, source: Batches) -> None:
        """After the last window: are kept batches and the next ones the reference's, and how far do the steps move.

        Where a fresh model can take the steps again, their start is remembered.
        """
        with self._part("last"):
            number, before = loader.delivered, training.weights()
            count = REPLAYED_STEPS if self.subject.proves_itself else LAST_STEPS
            batches = [next(loader) for _ in range(FP16_STEPS if self.subject.cell.precision == "fp16" else count)]
            if self.subject.proves_itself:
                self.replay = Replay.of(training, batches)
            check([training.step(batch) for batch in batches], training, "the last steps")
            self.after = training.weights()
            checked = loader.kept | dict(enumerate(batches, number))
            digests = {index: batches_digest([training.get(batch)]) for index, batch in checked.items()}
            mismatched = [index for index, digest in digests.items() if digest != batches_digest([source[index]])]
            loader.kept.clear()
            first = min(mismatched, default=number)
            if self.subject.team:  # of any process
                wrong = [each for each in self.subject.team.ranks.gather([first, bool(mismatched)]) if each[1]]
                first, mismatched = min(wrong, default=(number,))[0], [each[0] for each in wrong]
            self.parts["last"] = Last(first, not mismatched, movement(before, self.after))

    def afterwards(self, timed: Any = None) -> None:
        """What needs models of its own. ``timed`` is the timed object where `Subject.adoptable`.

        What does not fit into memory beside the data is left out; the log says so.
        """
        gc.collect()  # of what was timed, its memory included
        parts: dict[str, Callable[[], dict[str, Any]]] = {"own": lambda: self._own(timed)}
        if self.subject.draws:
            parts["dropout"] = lambda: {"dropout": draws(self.subject)}
        if self.subject.cell.checkpointing == "on":
            parts["checkpointing"] = lambda: {"recomputed": recomputed(self.subject)}
        parts["float64"] = lambda: float64(self.subject)
        small = SMALL_OF_RECIPE if self.subject.recipe else SMALL
        for name, compute in parts.items():
            try:
                with self.subject.programs_kept(name in small), self._part(name), only_new_collected():
                    self.parts |= compute()
                continue
            except Exception as error:
                no_memory = not self.subject.team and self.subject.framework.out_of_memory(error)
                if not (isinstance(error, UnsupportedError) or no_memory):  # where others would wait for this process
                    raise
                traceback.print_exc()
            gc.collect()  # what failed, now that no traceback holds it; the next part would keep it

    def _own(self, timed: Any) -> dict[str, Any]:
        """The fingerprint at the cell's batch; its model then takes the timed object's last steps again."""
        trace, training = own(self.subject, timed)
        if timed is None or self.replay is None:
            return {"own": trace}
        replay_deviation = self.replay.deviation(training, self.after)
        return {"own": trace, "last": replace(self.parts["last"], replayed=replay_deviation)}


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
    if subject.cell.workload == "imdb_lstm":
        errors["lstm"] = lstm_error(subject.cell, before, host_batches[0][0], training.logits(batches[0]))
    training.compile(batches[0])
    losses = [training.step(batch) for batch in batches[:EARLY]]
    early_updates = movement(before, training.weights())
    losses = check(losses + [training.step(batch) for batch in batches[EARLY:STEPS]], training, "the fingerprint")
    parts = {"weights": weights_digest(before), "losses": tuple(losses), "early_updates": early_updates}
    return parts | {"updates": movement(before, training.weights())}, errors


def own(subject: Subject, timed: Any = None) -> tuple[Trace, Any]:
    """A fingerprint at the cell's own batch size, and the model that made it.

    With what ``timed`` has compiled, where that is the same program; it draws masks, but drops nothing.
    """
    cell, dropout = subject.cell, timed is not None and subject.draws
    training = subject.training(cell, proof(subject.spec), dropout=dropout)
    host_batches = fixed_batches(subject.data, subject.length, cell.effective_batch, OWN_STEPS)
    batches = [training.put(subject.mine(batch, cell.accumulate)) for batch in host_batches]
    if timed is None:
        training.compile(batches[0])
    else:
        subject.tools.adopt(training, timed)
        if dropout:
            subject.tools.without_dropout(training)
    before = training.weights()
    losses = check([training.step(batch) for batch in batches], training, "the fingerprint at the cell's batch")
    return Trace(tuple(losses), movement(before, training.weights())), training


def float64(subject: Subject) -> dict[str, Any]:
    """A fingerprint in float64 on the host, and how far the optimizer is off its formula there.

    Where the cell trains to its end, by its recipe at its own size, and with an evaluation after it.
    """
    compile_mode = USUAL_COMPILE[subject.cell.framework]
    cell = subject.cell.but(precision="fp64", batch=FLOAT64_BATCH, accumulate=1, kernel="auto", compile=compile_mode)
    spec, losses = subject.recipe or proof(subject.spec), []
    parts: dict[str, Any] = {}
    if not subject.recipe and spec.size != FLOAT64_SIZE and spec.name in WORKLOADS:
        spec, cell = proof(specification(spec.name, FLOAT64_SIZE)), cell.but(size=FLOAT64_SIZE)
        parts["float64_size"] = FLOAT64_SIZE
    length = getattr(spec, "length", None)
    with subject.tools.on_host():
        training = subject.training(cell, spec, "cpu", rates=subject.rates)
        formula = Formula(spec.optimizer, subject.rates)
        before = expected = training.weights()
        for batch in fixed_batches(subject.data, length, FLOAT64_BATCH, FLOAT64_STEPS):
            loss, gradients = subject.tools.explained_step(training, training.put(subject.mine(batch)))
            expected = formula.step(expected, gradients)
            losses.append(loss)
        after = training.weights()
        if subject.recipe:
            if subject.draws:  # what is evaluated has dropout, which an evaluation must switch off
                training = subject.training(cell, spec, "cpu", weights=after, dropout=True)
            parts["evaluation"] = evaluation(subject, training)
    parts["float64"] = Trace(tuple(losses), movement(before, after))
    return parts | {"optimizer": deviation(before, after, expected)}


def evaluation(subject: Subject, training: Any) -> Trace:
    """The loss and the share of right answers of the first test samples, the last batch of which is not full."""
    test = subject.data.test
    subset = Split(test.inputs[:EVALUATED], test.labels[:EVALUATED])
    data = replace(subject.data, test=subset)
    return Trace(evaluate(training, data, subject.length, EVALUATED_BATCH, subject.team), {})
