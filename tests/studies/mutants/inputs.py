"""Data that is not the spec's: its order, its draws, its numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from tests.studies.mutants.mutant import Plant, Target, mutants
from workloads.data import augment
from workloads.data.augment import Batches, Epoch
from workloads.data.dataset import Array, Split

CNN, LSTM = "cifar100_cnn", "imdb_lstm"
MIDDLE = 20  # batches after which a loader changes its ways
A_WHILE = range(12, 20)  # batches of one that then finds back

Host = tuple[Array, Array]


def planned(change: Callable[[Batches, int], Epoch]) -> Plant:
    """The loader follows another plan of its epochs."""

    class Changed(Batches):
        def plan(self, number: int) -> Epoch:
            return change(Batches(self.data, self.batch, self.seed, self.length), number)

    def plant(target: Target) -> None:
        def started(batches: Any) -> Any:
            def start(cell: Any, source: Batches, *rest: Any) -> Any:
                return batches(cell, Changed(source.data, source.batch, source.seed, source.length), *rest)

            return start

        target.wrap(target.loaders, "batches", started)

    return plant


def fed(change: Callable[[Split], Split]) -> Plant:
    """The loader has another training split."""

    def plant(target: Target) -> None:
        def started(batches: Any) -> Any:
            def start(cell: Any, source: Batches, *rest: Any) -> Any:
                data = replace(source.data, train=change(source.split))
                return batches(cell, Batches(data, source.batch, source.seed, source.length), *rest)

            return start

        target.wrap(target.loaders, "batches", started)

    return plant


class Changed:
    """A loader that delivers something else: ``change`` is given a batch's number and all host batches until then."""

    def __init__(self, loader: Any, put: Any, change: Callable[[int, list[Host]], Host]) -> None:
        self.loader, self.put, self.change = loader, put, change
        self.settings, self.close = loader.settings, loader.close
        self.seen: list[Host] = []

    def __iter__(self) -> Changed:
        return self

    def __next__(self) -> Any:
        self.seen.append(self.put.__self__.get(next(self.loader)))
        return self.put(self.change(len(self.seen) - 1, self.seen))


def delivered(change: Callable[[int, list[Host]], Host]) -> Plant:
    def plant(target: Target) -> None:
        def started(batches: Any) -> Any:
            return lambda cell, source, device, put: Changed(batches(cell, source, device, put), put, change)

        target.wrap(target.loaders, "batches", started)

    return plant


def unshuffled(source: Batches, number: int) -> Epoch:
    return replace(source.plan(number), order=np.arange(len(source.split)))


def not_augmented(source: Batches, number: int) -> Epoch:
    plan, middle = source.plan(number), np.full(len(source.split), augment.PAD, np.int32)
    return replace(plan, rows=middle, columns=middle, flips=np.zeros(len(source.split), bool))


def drawn_anew(source: Batches, number: int) -> Epoch:
    other = augment.epoch(source.seed + 1, number, len(source.split))
    return replace(other, order=source.plan(number).order)


def not_flipped(source: Batches, number: int) -> Epoch:
    return replace(source.plan(number), flips=np.zeros(len(source.split), bool))


def first_epoch_again(source: Batches, number: int) -> Epoch:
    return source.plan(0)


def first_words(split: Split) -> Split:
    """Reviews that are cut at their end, so that the last words are lost and not the first."""
    return Split(np.roll(split.inputs, 20, axis=1), split.labels)


def labels_shifted(split: Split) -> Split:
    return Split(split.inputs, np.roll(np.asarray(split.labels), 1))


def labels_turned(split: Split) -> Split:
    return Split(split.inputs, 1 - np.asarray(split.labels))


def unmean(target: Target) -> None:
    """Images are not divided by their deviation, only by 255."""
    target.patch.setattr(target.workload, "DEVIATION", (255.0, 255.0, 255.0))


def swapped_channels(target: Target) -> None:
    """The channels' means are taken for blue, green, red."""
    target.patch.setattr(target.workload, "MEAN", target.workload.MEAN[::-1])


def rest_kept(target: Target) -> None:
    """The samples that fill no batch at an epoch's end come with the first of the next."""

    class Whole(Batches):
        def choose(self, number: int) -> Array:
            size, start = len(self.split), number * self.batch
            flat = np.arange(start, start + self.batch)
            return np.array([self.plan(int(at // size)).order[at % size] for at in flat])

    def started(batches: Any) -> Any:
        def start(cell: Any, source: Batches, *rest: Any) -> Any:
            return batches(cell, Whole(source.data, source.batch, source.seed, source.length), *rest)

        return start

    target.wrap(target.loaders, "batches", started)


KIND, RUN = "data", "data in the middle of a run"
MUTANTS = [
    *mutants(KIND, "not divided by the deviation", CNN, unmean, "fingerprint", of=["pytorch", "tensorflow"]),
    *mutants(KIND, "means of the channels reversed", CNN, swapped_channels, "fingerprint", of=["tensorflow"]),
    *mutants(KIND, "not shuffled", LSTM, planned(unshuffled), "batches", of=["pytorch", "tensorflow"]),
    *mutants(KIND, "not augmented", CNN, planned(not_augmented), "batches", of=["pytorch", "tensorflow"]),
    *mutants(KIND, "not flipped", CNN, planned(not_flipped), "batches", of=["tensorflow"]),
    *mutants(KIND, "augmented by other draws", CNN, planned(drawn_anew), "batches", of=["pytorch"]),
    *mutants(KIND, "labels of the sample before", CNN, fed(labels_shifted), "batches"),
    *mutants(KIND, "cut at the other end", LSTM, fed(first_words), "batches", of=["jax"]),
    *mutants(KIND, "every batch twice", LSTM, delivered(lambda number, seen: seen[number // 2]), "batches", of=["jax"]),
    *mutants(
        KIND,
        "samples of a batch in another order",
        LSTM,
        delivered(lambda number, seen: tuple(part[::-1].copy() for part in seen[number])),
        "batches",
        of=["pytorch"],
    ),
    *mutants(RUN, "the first epoch's plan in all", LSTM, planned(first_epoch_again), "last"),
    *mutants(
        RUN,
        f"one batch again and again after {MIDDLE}",
        LSTM,
        delivered(lambda number, seen: seen[min(number, MIDDLE)]),
        "last",
        of=["pytorch", "jax"],
    ),
    *mutants(
        RUN,
        f"late by one batch after {MIDDLE}",
        LSTM,
        delivered(lambda number, seen: seen[number - (number > MIDDLE)]),
        "last",
        of=["tensorflow"],
    ),
    *mutants(
        RUN,
        f"one batch again and again from {A_WHILE.start} to {A_WHILE.stop}",
        LSTM,
        delivered(lambda number, seen: seen[A_WHILE.start if number in A_WHILE else number]),
        of=["jax"],
        survives="none of the four positions that this launch's seed draws lies in these eight batches; another's may",
    ),
    *mutants(
        RUN, "an epoch's last batch filled with the next one's first samples", LSTM, rest_kept, "last", of=["pytorch"]
    ),
]
