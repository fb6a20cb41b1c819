"""A loaded data set: two splits of memory-mapped arrays with a name, a kind and a digest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads.data.files import DataError as DataError  # noqa: PLC0414 - imported from here

Array = NDArray[Any]

KINDS = ("real", "synthetic")

#: What a batch is made of: cropped and mirrored images, the last tokens of each row, or samples as they are.
FORMS = ("images", "tokens", "plain")


@dataclass(frozen=True)
class Split:
    """``inputs`` are uint8 images ``(n, 32, 32, 3)`` or uint16 tokens ``(n, 500)``; ``labels`` are int32 ``(n,)``.

    Those that a workload arranges itself, or that are from outside, may have other shapes and types.
    """

    inputs: Array
    labels: Array

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, indices: Any) -> tuple[Array, Array]:
        """The samples of these indices, or of one index."""
        return self.inputs[indices], self.labels[indices]

    @property
    def files(self) -> list[Path]:
        """The files that it is read from; none if it lies in memory."""
        names = [getattr(array, "filename", None) for array in (self.inputs, self.labels)]
        return [Path(name) for name in names if name]

    def __reduce__(self) -> tuple[Any, ...]:
        """Memory-mapped arrays travel to loader processes by name, or each would get a copy of its own."""
        if len(self.files) == 2:
            return _open_split, tuple(str(file) for file in self.files)
        return Split, (self.inputs, self.labels)


def _open_split(inputs: str, labels: str) -> Split:
    return Split(np.load(inputs, mmap_mode="r"), np.load(labels, mmap_mode="r"))


@dataclass(frozen=True)
class DataSet:
    """A data set with its provenance: ``kind`` is ``real`` or ``synthetic``, ``digest`` is over all four arrays.

    ``form`` is one of `FORMS`; left empty it follows from the inputs. ``augment`` is a function of inputs ``(b, ...)``
    and ``draws`` uniform numbers for each, ``(b, draws)``.
    """

    name: str
    kind: str
    digest: str
    train: Split
    test: Split
    form: str = ""
    augment: Callable[[Array, Array], Array] | None = None
    draws: int = 0

    @property
    def batch_form(self) -> str:
        return self.form or ("images" if self.train.inputs.ndim == 4 else "tokens")


ARRAYS = ("train_inputs", "train_labels", "test_inputs", "test_labels")


def arrays(data: DataSet) -> dict[str, Array]:
    """The four arrays by the names under which they are cached and digested, in that order."""
    splits = (data.train.inputs, data.train.labels, data.test.inputs, data.test.labels)
    return dict(zip(ARRAYS, splits, strict=True))


def contiguous_bytes(array: Array) -> memoryview:
    """The array's bytes, little-endian and in C order, without a copy where it is so already."""
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return np.ascontiguousarray(little).data.cast("B") if little.size else memoryview(b"")  # NumPy has none to cast
