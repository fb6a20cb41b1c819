"""One sample order and one set of augmentation draws per epoch, for every framework.

The draws belong to samples, not to positions: whatever the batch size, the loader or its number of workers, sample i
of epoch e is cropped and flipped in the same way. NumPy only; `crop_and_flip` is the reference that every loader must
equal bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workloads.data.dataset import Array, DataSet

PAD = 4
ORDER, DRAWS = 0, 1


@dataclass(frozen=True)
class Epoch:
    """What one epoch does to the training split.

    ``order`` holds sample indices, int64 ``(n,)``. ``rows`` and ``columns`` are crop offsets into the image padded by
    `PAD`, int32 ``(n,)`` in ``[0, 2 * PAD]``, and ``flips`` says which samples are mirrored, bool ``(n,)``, all three
    indexed by sample.
    """

    order: Array
    rows: Array
    columns: Array
    flips: Array

    def batches(self, batch: int) -> Array:
        """The order cut into batches, int64 ``(n // batch, batch)``; the rest of the epoch is dropped."""
        count = len(self.order) // batch
        return self.order[: count * batch].reshape(count, batch)


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


def reference_batch(data: DataSet, plan: Epoch, indices: Array, length: int | None = None) -> tuple[Array, Array]:
    """The batch that every loader must deliver for these samples of the training split.

    For images: uint8 ``(b, 32, 32, 3)``, cropped and flipped. For tokens: int32 ``(b, length)``, the last ``length`` of
    each review. Labels are int32 ``(b,)``.
    """
    inputs, labels = data.train.inputs[indices], data.train.labels[indices]
    if inputs.ndim == 4:
        return crop_and_flip(inputs, plan.rows[indices], plan.columns[indices], plan.flips[indices]), labels
    return inputs[:, -length:].astype(np.int32) if length else inputs.astype(np.int32), labels


def _generator(seed: int, number: int, use: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=[seed, 2 * number + use]))
