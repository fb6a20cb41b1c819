"""One sample order and one set of augmentation draws per epoch, for every framework.

The draws belong to samples, not to positions: whatever the batch size, the loader or its number of workers, sample i
of epoch e is cropped and flipped in the same way. NumPy only; `crop_and_flip` is the reference that every loader must
equal bit for bit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from workloads.data.dataset import Array, DataError, DataSet, Split, contiguous_bytes
from workloads.lengths import BUCKETS, FIXED, FREE, ROUND, buckets

PAD = 4
ORDER, DRAWS = 0, 1
#: Of an augmentation from outside: its draws have generators of their own.
OWN_DRAWS = 2**40


@dataclass(frozen=True)
class Epoch:
    """The order and the augmentation draws of one epoch of the training split.

    ``order`` holds sample indices, int64 ``(n,)``. ``rows`` and ``columns`` are crop offsets into the image padded by
    `PAD`, int32 ``(n,)`` in ``[0, 2 * PAD]``, and ``flips`` says which samples are mirrored, bool ``(n,)``, all three
    indexed by sample.
    """

    order: Array
    rows: Array
    columns: Array
    flips: Array


def epoch(seed: int, number: int, samples: int) -> Epoch:
    """The plan of epoch ``number``: the same for the same seed, number and sample count, on any machine."""
    order = _generator(seed, number, ORDER).permutation(samples)
    draws = _generator(seed, number, DRAWS)
    rows = draws.integers(0, 2 * PAD + 1, samples, dtype=np.int32)
    columns = draws.integers(0, 2 * PAD + 1, samples, dtype=np.int32)
    flips = draws.integers(0, 2, samples, dtype=np.int32).astype(bool)
    return Epoch(order, rows, columns, flips)


def crop_and_flip(images: Array, rows: Array, columns: Array, flips: Array) -> Array:
    """Zero-pad by `PAD`, crop to the old size at the given offsets, mirror where ``flips``.

    ``images`` are uint8 ``(b, h, w, c)``, the draws ``(b,)``; the result has the images' shape and type.
    """
    count, height, width, _ = images.shape
    padded = np.pad(images, ((0, 0), (PAD, PAD), (PAD, PAD), (0, 0)))
    row = rows[:, None] + np.arange(height)
    column = columns[:, None] + np.where(flips[:, None], np.arange(width)[::-1], np.arange(width))
    cropped: Array = padded[np.arange(count)[:, None, None], row[:, :, None], column[:, None, :]]
    return cropped


@dataclass(frozen=True)
class Share:
    """What one process of several gets of each global batch: the samples of its devices.

    A global batch is cut as one device would take it: into ``parts`` (the batches that are accumulated to one update),
    and each part into equal slices, one for each of ``devices``. A process has ``own`` devices, from ``first`` on; its
    samples come device by device, and in each device part by part.
    """

    devices: int = 1
    parts: int = 1
    first: int = 0
    own: int = 1

    def of(self, array: Array, batches: int = 1) -> Array:
        """The share of an array whose first axis is the samples of so many global batches."""
        b = len(array) // (batches * self.parts * self.devices)
        cut = array.reshape(batches, self.parts, self.devices, b, *array.shape[1:]).swapaxes(1, 2)
        chosen: Array = cut[:, self.first : self.first + self.own].reshape(-1, *array.shape[1:])
        return chosen

    def whole(self, shares: list[Array]) -> Array:
        """The global batch of the shares of all processes, in the order of their devices: undoes `of`."""
        joined = np.concatenate(shares)
        b = len(joined) // (self.parts * self.devices)
        cut = joined.reshape(self.devices, self.parts, b, *joined.shape[1:])
        whole: Array = cut.swapaxes(0, 1).reshape(joined.shape)
        return whole


class Batches:
    """The training batches of a seed, numbered from 0 on through all epochs: the reference for every loader.

    A batch is ``(inputs, labels)``: uint8 images ``(b, 32, 32, 3)``, cropped and flipped, or int32 tokens
    ``(b, length)``, the last ``length`` of each review; labels int32 ``(b,)``. Data from outside may also stay as it
    is, or have a function of its own that augments it. The rest of an epoch that fills no batch is dropped. With
    ``first_epoch`` the numbers start with that epoch, to continue from a checkpoint. With a ``share`` the batches are
    one process's share of global batches of ``batch`` samples. Raises `DataError` if the split does not fill a batch.

    With other ``lengths`` than fixed ones, a batch is of texts of similar length, and padded to that of the longest or
    to its bucket. It is one of a `ROUND`, so that all rounds are about the same work; the rest of an epoch that fills
    no round is dropped.
    """

    def __init__(
        self, data: DataSet, batch: int, seed: int, length: int | None = None, first_epoch: int = 0,
        share: Share | None = None, lengths: str = FIXED,
    ) -> None:  # fmt: skip
        self.data, self.split, self.seed, self.length = data, data.train, seed, length
        self.form, self.augment = data.batch_form, data.augment
        self.first_epoch, self.share = first_epoch, share
        self.batch = batch // share.devices * share.own if share else batch
        self.global_batch, self.lengths = batch, lengths
        whole = self.in_round(lengths)
        self.per_epoch = len(self.split) // (whole * batch) * whole
        if not self.per_epoch:
            what = f"{whole} x batch" if self.varied else "batch"
            raise DataError(f"{what} {batch} is larger than {data.name}'s {len(self.split)} training samples")
        self._plan: tuple[int, Epoch] | None = None
        self._own_draws: tuple[int, Array] | None = None

    @staticmethod
    def in_round(lengths: str) -> int:
        """The fewest batches of an epoch."""
        return 1 if lengths == FIXED else len(ROUND)

    @property
    def varied(self) -> bool:
        """Whether batches have several lengths."""
        return self.lengths != FIXED

    @cached_property
    def words(self) -> Array:
        """How many words each sample has of those that the workload takes, one at least: (n,)."""
        counts: Array = np.count_nonzero(self.split.inputs[:, -(self.length or 0) :], axis=1)
        return np.maximum(counts, 1)

    @cached_property
    def paddings(self) -> Array:
        """The length of a batch by the words of its longest sample."""
        return paddings(self.lengths, self.length or self.split.inputs.shape[1])

    def length_of(self, number: int) -> int | None:
        """The length of a batch; None for all that there is."""
        return int(self.paddings[self.words[self.choose(number)].max()]) if self.varied else self.length

    def plan(self, number: int) -> Epoch:
        """The plan of epoch ``number`` after the first; the last plan is cached, as batches are requested in order."""
        last = self._plan
        if last is None or last[0] != number:
            plan = epoch(self.seed, self.first_epoch + number, len(self.split))
            if self.share:
                order = self.share.of(plan.order[: self.per_epoch * self.global_batch], self.per_epoch)
                plan = replace(plan, order=order)
            if self.varied:
                plan = replace(plan, order=self._by_length(plan.order[: self.per_epoch * self.batch]))
            self._plan = last = number, plan
        return last[1]

    def _by_length(self, order: Array) -> Array:
        """The samples of an epoch in rounds, in each part in their random order."""
        places = np.sort(np.argsort(self.words[order], kind="stable").reshape(len(ROUND), -1), axis=1)
        parts = order[places].reshape(len(ROUND), -1, self.batch)
        in_rounds: Array = parts[[*ROUND]].swapaxes(0, 1).ravel()
        return in_rounds

    def choose(self, number: int) -> Array:
        """Indices of the samples of a batch, in order: int64 ``(b,)``."""
        start = number % self.per_epoch * self.batch
        indices: Array = self.plan(number // self.per_epoch).order[start : start + self.batch]
        return indices

    def __getitem__(self, number: int) -> tuple[Array, Array]:
        plan, indices = self.plan(number // self.per_epoch), self.choose(number)
        inputs, labels = self.split.take(indices)
        if self.augment:
            inputs = self._augment(number, indices, inputs)
        if self.form == "images":
            return crop_and_flip(inputs, plan.rows[indices], plan.columns[indices], plan.flips[indices]), labels
        return _form(inputs, self.form, self.length_of(number)), labels

    def _augment(self, number: int, indices: Array, inputs: Array) -> Array:
        assert self.augment is not None
        which = self.first_epoch + number // self.per_epoch
        if self._own_draws is None or self._own_draws[0] != which:
            draws = _generator(self.seed, OWN_DRAWS + which, DRAWS).random((len(self.split), self.data.draws))
            self._own_draws = which, draws
        return np.ascontiguousarray(self.augment(inputs, self._own_draws[1][indices]))

    def sample(self, number: int, index: int) -> tuple[Array, Array]:
        """One sample of batch ``number``, by its index in the split, for loaders that work sample by sample."""
        plan = self.plan(number // self.per_epoch)
        image, label = self.split.take(index)
        if self.augment:
            image = self._augment(number, np.array([index]), image[None])[0]
        if self.form != "images":
            return _form(image[None], self.form, self.length_of(number))[0], label
        height, width, _ = image.shape
        row, column = plan.rows[index], plan.columns[index]
        cropped = np.pad(image, ((PAD, PAD), (PAD, PAD), (0, 0)))[row : row + height, column : column + width]
        return np.ascontiguousarray(cropped[:, ::-1] if plan.flips[index] else cropped), label

    def in_memory(self) -> Batches:
        """The same batches, from a copy of the training split in memory."""
        return self.read_from(Split(np.array(self.split.inputs), np.array(self.split.labels)))

    def read_from(self, split: Split) -> Batches:
        """The same batches, from another split with the same samples."""
        data = replace(self.data, train=split)
        return Batches(data, self.global_batch, self.seed, self.length, self.first_epoch, self.share, self.lengths)


def paddings(lengths: str, length: int) -> Array:
    """To which length a batch is padded whose longest sample has so many words: (length + 1,)."""
    words = np.maximum(np.arange(length + 1), 1)
    bounds = np.array(buckets(length) if lengths == BUCKETS else (length,))
    return words if lengths == FREE else bounds[np.searchsorted(bounds, words)]


def evaluation_batches(data: DataSet, batch: int, length: int | None = None) -> Iterable[tuple[Array, Array, int]]:
    """The whole test split in order, as it is; the last batch is filled up with its first sample.

    Yields inputs and labels as `Batches` does, and how many samples of the batch count.
    """
    split = data.test
    for start in range(0, len(split), batch):
        indices = np.arange(start, start + batch)
        count = int(np.count_nonzero(indices < len(split)))
        indices[count:] = start
        inputs = split.inputs[indices]
        inputs = _form(inputs, data.batch_form, length)
        yield inputs, split.labels[indices], count


def _form(inputs: Array, form: str, length: int | None) -> Array:
    """Inputs as a model takes them: the last ``length`` tokens as int32, everything else as it is."""
    return inputs[:, -(length or 0) :].astype(np.int32) if form == "tokens" else np.ascontiguousarray(inputs)


def batches_digest(batches: Iterable[tuple[Array, Array]]) -> str:
    """SHA-256 over types, shapes and bytes of the given batches."""
    digest = hashlib.sha256()
    for array in (array for batch in batches for array in batch):
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(contiguous_bytes(array))
    return digest.hexdigest()


def _generator(seed: int, number: int, use: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=[seed, 2 * number + use]))
