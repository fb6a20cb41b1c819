"""The evidence of identity in every record: what this launch computes, and that it is what the launch times.

Two kinds. What the *code* of a cell computes is set beside the other frameworks': the cell's first launch and one that
the seed draws have it, and the others say by a digest that they run the same code. That what is *timed* is this code is
shown by digests of the weights that it starts from and of its batches, at random positions of the run too, and by steps
after the last window that a fresh model takes again, to the last bit. Launches that time training alone leave out the
fresh model, which took up to a quarter of their time. None of it runs inside or between windows, and what comes after
them does not count in the record's memory.
"""

from __future__ import annotations

import gc
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from suite.plan.cell import USUAL_COMPILE
from suite.record.job import Job
from suite.record.parts.evidence import Identity, Last, Recomputed
from suite.worker.evidence.answered import Reevaluation, check_answers
from suite.worker.evidence.fingerprint import (
    BATCH,
    SEED,
    at_proof_rate,
    draws,
    movement,
    take_fingerprint,
    take_float64_fingerprint,
    take_own_fingerprint,
)
from suite.worker.evidence.subject import EvidenceContext
from suite.worker.evidence.updates import FP16_STEPS, LAST_STEPS, Replay, deviation
from suite.worker.frameworks import UnsupportedError
from suite.worker.launch.description import check
from suite.worker.launch.inference import Answers
from suite.worker.loaders import CountingLoader
from workloads.data.augment import Batches, batches_digest
from workloads.data.dataset import Array
from workloads.weights import weights_digest

#: How the programs of a part are compiled, where it is not ``soon``: see `EvidenceContext.compile_cache`.
COMPILED = {"replay": "exact", "dropout": "quickly"}


class Evidence:
    """Collects the parts of a record's `Identity`, and sends the parts so far after each.

    ``program`` is a digest of all that decides what the launch computes; only a ``whole`` one shows it. With
    ``replays`` a fresh model takes the last steps again.
    """

    def __init__(
        self,
        subject: EvidenceContext,
        send: Callable[..., None],
        program: str = "",
        whole: bool = True,
        replays: bool = True,
    ) -> None:
        self.subject, self.send, self.whole, self.replays = subject, send, whole, whole or replays
        self.parts: dict[str, Any] = {"program": program}
        self.seconds: dict[str, float] = {}
        self.replay: Replay | None = None
        self.again: Reevaluation | None = None
        self.answers: Answers | None = None
        self.fresh: Any = None  # the replayed model in its first state, where it can take the fingerprint's steps

    @classmethod
    def begin(
        cls, subject: EvidenceContext, send: Callable[..., None], program: str, job: Job, training: Any
    ) -> Evidence:
        """The evidence that the job asks for, of what will be timed and has made no step yet."""
        evidence = cls(subject, send, program, job.full_evidence, bool(subject.cell.recipe) or not job.plan.lean)
        evidence.digest_initial(training)
        return evidence

    @contextmanager
    def _part(self, name: str) -> Iterator[None]:
        self.send(progress=f"evidence: {name}")
        start = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - start
        self.send(part={"identity": asdict(Identity(**self.parts, seconds=self.seconds))})

    def digest_initial(self, training: Any) -> None:
        """Digest the weights of what will be timed, read back out of it before its first step."""
        with self._part("initial"):
            self.parts["initial"] = weights_digest(training.weights())

    def digest_delivered(self, batches: list[tuple[Array, Array]]) -> None:
        """Digest the loader's first batches, as they reached the device."""
        with self._part("batches"):
            team = self.subject.team
            self.parts["batches"] = batches_digest([team.join_shares(each) for each in batches] if team else batches)

    def fingerprint(self) -> dict[str, float]:
        """The fingerprint at a small batch, where the evidence is whole; the errors of the LSTM's logits."""
        if not self.whole:
            return {}
        with self.subject.compile_cache(), self._part("fingerprint"), collect_new():
            fingerprint, errors = take_fingerprint(self.subject)
            self.parts |= fingerprint
        return errors

    def last(self, training: Any, loader: CountingLoader, source: Batches) -> None:
        """After the last window: some more steps, and whether the batches kept and theirs are the reference's."""
        with self._part("last"):
            number, kept = loader.delivered, dict(loader.kept)  # which the batches that follow would change
            steps = LAST_STEPS if self.replays else 1
            batches = [next(loader) for _ in range(FP16_STEPS if self.subject.cell.precision == "fp16" else steps)]
            replay = Replay.of(training, batches, self.replays)
            self.replay = replay if self.replays else None
            check(replay.losses, training, "the last steps")
            host = {index: training.get(batch) for index, batch in kept.items()}
            host |= dict(enumerate(replay.batches, number))
            wrong = sorted(
                index for index, batch in host.items() if batches_digest([batch]) != batches_digest([source[index]])
            )
            loader.kept.clear()
            if self.subject.team:  # of any process
                wrong = sorted(index for own in self.subject.team.ranks.gather(wrong) for index in own)
            first = wrong[0] if wrong else number
            updates = movement(replay.before, replay.after, self.subject.spec.frozen)
            self.parts["last"] = Last(first, not wrong, updates, checked=tuple(sorted(host)))

    def keep_scored(self, training: Any, evaluated: tuple[Array, Array] | None, seed: int) -> None:
        """After the last evaluation, whose losses and right answers these are: keep some, to compute it again."""
        if evaluated is not None:  # else a kill came after it, and its scores are gone
            self.again = Reevaluation.of(self.subject, training, evaluated, seed)

    def afterwards(self) -> None:
        """What needs models of its own. What does not fit into memory beside the data is left out; the log says so."""
        gc.collect()  # of what was timed, its memory included
        parts: dict[str, Callable[[], dict[str, Any]]] = {"replay": self._replay} if self.replay else {}
        if self.whole:
            parts["own"] = self._take_own
            if self.subject.draws:
                parts["dropout"] = lambda: {"dropout": draws(self.subject)}
            if self.subject.cell.checkpointing == "on":
                parts["checkpointing"] = lambda: {"recomputed": compare_checkpointing(self.subject)}
            parts["float64"] = lambda: take_float64_fingerprint(self.subject)
        for name, compute in parts.items():
            how = COMPILED.get(name, "soon")
            try:
                with self.subject.compile_cache(how), self._part(name), collect_new():
                    self.parts |= compute()
                continue
            except Exception as error:
                no_memory = not self.subject.team and self.subject.framework.out_of_memory(error)
                if not (isinstance(error, UnsupportedError) or no_memory):  # where others would wait for this process
                    raise
                traceback.print_exc()
            gc.collect()  # what failed, now that no traceback holds it; the next part would keep it

    def _replay(self) -> dict[str, Any]:
        assert self.replay
        fresh = self.subject.fresh()
        digest = weights_digest(fresh.weights())
        start = {name: array.copy() for name, array in fresh.checkpoint().items()}
        fresh.compile(fresh.put(self.replay.batches[0]))
        scored = self.again and self.again.evidence(fresh, self.replay.state)
        off, again = self.replay.deviation(fresh, self.subject.device)
        precision = self.subject.cell.precision
        spec = self.subject.spec
        answered = self.answers and check_answers(self.answers, fresh, self.replay.state, precision, spec)
        self.replay = self.again = self.answers = None
        if self.whole and self.subject.switchable:
            fresh.restore(start)
            self.fresh = fresh
        last = replace(self.parts["last"], replayed=off, again=again)
        return {"weights": digest, "last": last, "scored": scored, "answered": answered}

    def _take_own(self) -> dict[str, Any]:
        fresh, self.fresh = self.fresh, None  # after which nothing holds it
        return take_own_fingerprint(self.subject, fresh)


@contextmanager
def collect_new() -> Iterator[None]:
    """A context at whose end the models that were made in it are collected.

    What was there before is not looked through: a framework's objects are so many that it takes a quarter of a second.
    """
    gc.freeze()
    try:
        yield
        gc.collect()
    finally:
        gc.unfreeze()


def compare_checkpointing(subject: EvidenceContext) -> Recomputed:
    """What a forward pass keeps with and without gradient checkpointing, and whether the gradients stayed the same.

    Both models start from the same random state, so that other dropout masks in the second pass of a block would show.
    """
    (host,) = subject.batches(BATCH, 1)
    usual = subject.cell.but(batch=BATCH, accumulate=1, compile=USUAL_COMPILE[subject.cell.framework])
    kept, gradients = {}, {}
    for checkpointing in ("off", "on"):
        subject.tools.seed_draws(SEED)
        training = subject.training(
            usual.but(checkpointing=checkpointing), at_proof_rate(subject.spec), dropout=subject.dropout
        )
        batch = training.put(host)
        gradients[checkpointing] = training.gradients(batch)[1]
        kept[checkpointing] = subject.tools.count_kept_bytes(training, batch)
    start = {name: np.zeros_like(array) for name, array in gradients["off"].items()}
    return Recomputed(BATCH, kept["on"], kept["off"], deviation(start, gradients["on"], gradients["off"]))
