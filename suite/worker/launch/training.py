"""Training to the end: epoch after epoch over the whole split, the test split after each, a checkpoint after that.

Runs in the worker, on the same step, loader and batches that are timed elsewhere. Knows no framework.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import re
import sys
import time
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from suite.record.parts.history import Epoch, Ledger, TrainingHistory
from suite.record.record import Phase, Window
from suite.worker.distributed.process_group import ProcessGroup
from suite.worker.distributed.ranks import ALONE, Ranks
from suite.worker.launch.description import DivergedError
from workloads.data.augment import Batches, evaluation_batches
from workloads.data.dataset import Array, DataSet
from workloads.recipes import Recipe

#: Losses of so many steps are read together. Kept, they lie between the buffers that steps free, which then do not fit
#: there again: the GPT needed 5 MB more with each step, in PyTorch on a CPU that keeps freed memory.
LOSSES_READ = 16

Say = Callable[..., None]
Report = Callable[[TrainingHistory, Phase], None]
Check = Callable[[list[Any], Any, str], list[float]]


class Saved:
    """The checkpoint of a launch; without a path nothing is read or written.

    Several ``ranks`` share one, which rank 0 writes. All read it, and begin anew unless all of them have read the same.
    ``own_step_s`` are the seconds of a step in each epoch, by this process's own clock.
    """

    def __init__(self, path: str, key: dict[str, Any], ranks: Ranks = ALONE) -> None:
        self.path, self.key, self.ranks = Path(path) if path else None, ranks.gather(key)[0], ranks
        self.epochs: list[Epoch] = []
        self.curve: list[float] = []
        self.resumed_at: list[int] = []
        self.arrays: dict[str, Any] = {}
        self.scores: tuple[Array, Array] | None = None  # of each test sample in the last evaluation
        try:
            contents = read_checkpoint(self.path, self.key) if self.path else None
        except CheckpointError as error:
            sys.stderr.write(f"{error}; training starts anew\n")  # into the log
            contents = None
        progresses = ranks.gather(contents[0] if contents else None)
        if contents and all(progress == progresses[0] for progress in progresses):
            progress, arrays = contents
            self.arrays = of_rank(arrays, ranks.rank)
            self.epochs = [Epoch(**fields) for fields in progress["epochs"]]
            self.curve, self.resumed_at = progress["curve"], [*progress["resumed_at"], len(self.epochs)]
        self.own_step_s = [epoch.train_s / epoch.steps for epoch in self.epochs]

    def course(self, name: str, recipe: Recipe) -> TrainingHistory:
        history = (tuple(self.epochs), tuple(self.curve), tuple(self.resumed_at))
        return TrainingHistory(name, recipe.epochs, recipe.target, *history)

    def phase(self, span: tuple[float, float]) -> Phase:
        return Phase(tuple(Window(epoch.steps, epoch.train_s) for epoch in self.epochs), spans=(span,))

    def add(self, epoch: Epoch, losses: list[float], training: Any, own_s: float) -> None:
        """Add an epoch and write the checkpoint at once. Only the losses of the first epoch are kept.

        All ranks call it; this one's training took ``own_s``.
        """
        self.epochs.append(epoch)
        self.own_step_s.append(own_s / epoch.steps)
        self.curve = self.curve or losses
        if self.path:
            progress = {
                "epochs": [asdict(epoch) for epoch in self.epochs],
                "curve": self.curve,
                "resumed_at": self.resumed_at,
            }
            arrays = of_all(training.checkpoint(), self.ranks)
            if not self.ranks.rank:
                write_checkpoint(self.path, self.key, progress, arrays)


def follow(
    name: str, recipe: Recipe, training: Any, loader: Any, *,
    source: Batches, data: DataSet, evaluation_batch: int, compiled_s: float, saved: Saved, say: Say, check: Check,
    report: Report, tools: Any, team: ProcessGroup | None = None,
) -> None:  # fmt: skip
    """Train the remaining epochs; ``report`` gets the course and its train phase after each.

    ``loader`` delivers the batches of ``source`` from the first epoch that is not in ``saved``, and counts them;
    ``tools`` know what the optimizer counts itself. ``compiled_s`` is the time that compiling took before; it counts
    with the first epoch of this process, as some frameworks compile in the first step anyway.
    ``check`` reads losses and raises if one is not finite. ``say`` gets the progress. The processes of a ``team`` begin
    each epoch together, and it lasts as long as the slowest of them takes; each evaluates its share of the test split.
    """
    ranks = team.ranks if team else ALONE
    if saved.arrays:
        training.restore(saved.arrays)
        saved.arrays = {}
    begin = time.perf_counter()
    if len(saved.epochs) == recipe.epochs:  # a kill came between the last checkpoint and the end
        report(saved.course(name, recipe), saved.phase((begin, begin)))
    for number in range(len(saved.epochs), recipe.epochs):
        epoch_label = f"epoch {number + 1}/{recipe.epochs}"
        say(progress=epoch_label)
        ranks.barrier()
        say(begin="train")
        start = time.perf_counter() - compiled_s
        compiled_s = 0.0
        values: list[float] = []
        for first in range(0, source.per_epoch, LOSSES_READ):
            losses = [training.step(next(loader)) for _ in range(min(LOSSES_READ, source.per_epoch - first))]
            training.fence(losses[-1])
            values += check(losses, training, f"{epoch_label}, after {first} steps")
        end = time.perf_counter()
        train_s = ranks.slowest(end - start)
        say(took="epoch")
        size = evaluation_batch * (team.cell.devices if team else 1)
        saved.scores = scores(training, evaluation_batches(data, size, source.length), team)
        loss, accuracy = means(saved.scores, team)
        if not math.isfinite(loss):
            raise DivergedError(f"the test loss is {loss} after {epoch_label}")
        evaluation_s = ranks.slowest(time.perf_counter() - end)
        say(took="evaluated")
        epoch = Epoch(source.per_epoch, float(np.mean(values)), train_s, loss, accuracy, evaluation_s)
        saved.add(epoch, values, training, end - start)
        rate = source.per_epoch * source.global_batch / train_s
        say(progress=f"{epoch_label}: accuracy {accuracy:.4f}", samples_per_s=rate)
        say(part={"ledger": asdict(Ledger(loader.delivered, tools.updates(training)))})
        report(saved.course(name, recipe), saved.phase((begin, time.perf_counter())))


def evaluate(
    training: Any, data: DataSet, length: int | None, batch: int, team: ProcessGroup | None = None
) -> tuple[float, float]:
    """Mean loss and accuracy over the whole test split: no augmentation, no dropout.

    ``batch`` is that of each device. The processes of a ``team`` evaluate a share of each batch; all get the result.
    """
    batches = evaluation_batches(data, batch * (team.cell.devices if team else 1), length)
    return means(scores(training, batches, team), team)


def means(scored: tuple[Array, Array], team: ProcessGroup | None) -> tuple[float, float]:
    """Mean loss and accuracy, the same in all processes of a ``team``."""
    losses, correct = scored
    result = float(np.mean(losses, dtype=np.float64)), float(np.mean(correct))
    return tuple(team.ranks.gather(result)[0]) if team else result


def scores(
    training: Any, batches: Iterable[tuple[Array, Array, int]], team: ProcessGroup | None = None
) -> tuple[Array, Array]:
    """Of every sample the loss and whether its label is the best, or the share of its labels that are.

    Of a ``team`` the first process has them all.
    """
    outputs = []
    for inputs, labels, count in batches:
        own = team.take_share((inputs, labels)) if team else (inputs, labels)
        outputs.append((training.evaluate(training.put(own)), count))
    scored = [(training.get(each), count) for each, count in outputs]
    whole = [(team.join_shares(each) if team else each, count) for each, count in scored]
    losses, correct = (
        np.concatenate(arrays) for arrays in zip(*([a[:count] for a in each] for each, count in whole), strict=True)
    )
    return losses, correct


DESCRIPTION = "description.json"

#: How the names of arrays begin that another rank than 0 has otherwise.
OF_RANK = "rank{}/"
_RANKED = re.compile(r"rank\d+/")


class CheckpointError(ValueError):
    """A file that is no checkpoint of this training; one line that says why."""


def write_checkpoint(path: Path, key: dict[str, Any], progress: dict[str, Any], arrays: dict[str, Array]) -> None:
    """Save ``arrays`` and ``progress``; ``key`` identifies the training. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    text = json.dumps({"key": key, "told": progress}, sort_keys=True)
    try:
        with partial.open("wb") as file:
            entries: dict[str, Any] = {DESCRIPTION: np.frombuffer(text.encode(), np.uint8), **arrays}
            np.savez(file, **entries)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def read_checkpoint(path: Path, key: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Array]] | None:
    """Returns the progress and the arrays, or None if there is no file.

    Raises `CheckpointError` if the file is broken or belongs to another training.
    """
    if not path.exists():
        return None
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        description = json.loads(arrays.pop(DESCRIPTION).tobytes())
        saved_key, progress = description["key"], description["told"]
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise CheckpointError(f"{path.name} cannot be read: {error}") from None
    own_key = json.loads(json.dumps(key))
    if saved_key != own_key:
        differing = sorted(name for name in {*saved_key, *own_key} if saved_key.get(name) != own_key.get(name))
        raise CheckpointError(f"{path.name} is of another training: {', '.join(differing)} differ")
    return progress, arrays


def of_all(arrays: dict[str, Array], ranks: Ranks) -> dict[str, Array]:
    """On rank 0 the arrays of all ranks: its own, and of each other rank those that differ from them.

    Elsewhere this rank's own. All ranks call it.
    """
    if ranks.world == 1:
        return arrays
    digests = ranks.gather(digests_of(arrays))
    differing = {name: arrays[name] for name in arrays if digests[ranks.rank].get(name) != digests[0].get(name)}
    text = io.BytesIO()
    np.savez(text, **differing)  # type: ignore[arg-type]
    for rank, other in enumerate(ranks.gather_bytes(text.getvalue())):
        with np.load(io.BytesIO(other), allow_pickle=False) as archive:
            arrays = arrays | {OF_RANK.format(rank) + name: archive[name] for name in archive.files}
    return arrays


def of_rank(arrays: dict[str, Array], rank: int) -> dict[str, Array]:
    """Undoes `of_all` for one rank."""
    prefix = OF_RANK.format(rank)
    shared = {name: array for name, array in arrays.items() if not _RANKED.match(name)}
    return shared | {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def digests_of(arrays: dict[str, Array]) -> dict[str, str]:
    """A digest of each array, its type and shape included."""
    return {name: hashlib.sha256(_bytes(array)).hexdigest() for name, array in arrays.items()}


def _bytes(array: Array) -> bytes:
    return f"{array.dtype.str}{array.shape}".encode() + np.ascontiguousarray(array).tobytes()
