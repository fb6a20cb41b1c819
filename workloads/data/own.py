"""Data of a workload from outside of the repository: the ``data.py`` in its folder.

``data.py`` has a function ``splits`` that returns `OwnSplits`: arrays or memory-mapped files. Its arrays are copied
into the cache under their digest, so that every launch opens the same bytes. With a function ``augment`` the training
batches are augmented, in NumPy: it gets inputs ``(b, ...)`` and draws ``(b, DRAWS)``, uniform in [0, 1), and returns
inputs. Draws belong to samples, so that every loader and batch size sees the same ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from workloads import registry
from workloads.data import cache as caches
from workloads.data.dataset import FORMS, KINDS, Array, DataError, DataSet, Split
from workloads.data.prepare import cache_directory, writing
from workloads.faults import FAULTS, describe_fault

#: What a spec's ``data`` says where the data is that of its own folder.
OWN = "own"


@dataclass(frozen=True)
class OwnSplits:
    """The two splits; ``kind`` is ``real`` or ``synthetic``.

    ``form`` says what a batch is made of them: ``plain`` leaves samples as they are, ``images`` crops and flips uint8
    ``(n, height, width, channels)``, ``tokens`` takes the last ``length`` of each row as int32.
    """

    train: Split
    test: Split
    kind: str = "real"
    form: str = "plain"


def synthetic(
    shape: tuple[int, ...], dtype: str = "float32", *, classes: int = 2, train: int = 2048, test: int = 512,
    largest: int = 256, seed: int = 20211,
) -> OwnSplits:  # fmt: skip
    """Data from a shape and a type: normal draws, or integers below ``largest``; labels int32 ``(n,)``.

    Labels follow from a random projection of the inputs, so that there is something to learn.
    """
    generator = np.random.Generator(np.random.Philox(key=[seed, 0]))
    count = train + test
    if np.issubdtype(np.dtype(dtype), np.integer):
        inputs = generator.integers(0, largest, (count, *shape)).astype(dtype)
    else:
        inputs = generator.standard_normal((count, *shape)).astype(dtype)
    flat = inputs.reshape(count, -1).astype(np.float64)
    scores = (flat - flat.mean()) @ generator.standard_normal((flat.shape[1], classes))
    labels = scores.argmax(1).astype(np.int32)
    form = "tokens" if len(shape) == 1 and np.issubdtype(np.dtype(dtype), np.integer) else "plain"
    return OwnSplits(
        Split(inputs[:train], labels[:train]), Split(inputs[train:], labels[train:]), "synthetic", form
    )  # fmt: skip


def pack(*inputs: Array) -> Array:
    """Several inputs (n, ...) of a model as one, uint8 (n, bytes), for a `Split`; the defaults' `unpack` undoes it."""
    flat = [np.ascontiguousarray(each).reshape(len(each), -1).view(np.uint8) for each in inputs]
    return np.concatenate(flat, axis=1)


def data_of(workload: str) -> DataSet:
    """The data of a registered workload's own folder, without a digest. Raises `DataError`."""
    folder = registry.folder_of(workload)
    if not registry.has_file(workload, "data.py"):
        raise DataError(f"the spec of {workload} says data={OWN!r}, and {folder or workload} has no data.py")
    try:
        splits = import_module(f"workloads.{workload}.data").splits()
        problem = _problem(splits)
    except FAULTS as error:
        raise DataError(f"{workload}: {describe_fault(error, Path(folder))}") from error
    if problem:
        raise DataError(f"{folder}/data.py: {problem}")
    return DataSet(workload, splits.kind, "", splits.train, splits.test, form=splits.form)


def prepare_own(workload: str, source: str, cache: Path | str | None, say: Callable[[str], None]) -> Path:
    """The cache folder of this data, with its digest; written anew where the data changed. Raises `DataError`."""
    data = data_of(workload)
    if source not in ("auto", data.kind):
        raise DataError(f"the data of {workload} is {data.kind}, not {source}; leave out --data, or write --data auto")
    data = replace(data, digest=caches.digest(data))
    folder = caches.folder_of(cache_directory(cache), data.name, data.kind)
    try:
        if caches.verify(folder).digest == data.digest and caches.open_cached(folder).form == data.form:
            return folder
    except DataError:
        pass  # nothing there, damaged, or of an older program
    say(f"{workload}: storing its data in {folder}")
    with writing(folder.parent, folder, say):
        return caches.write(data, folder.parent)


def add_augmentation(data: DataSet, workload: str) -> DataSet:
    """The data with the function that augments it, where the workload's own folder has one."""
    if not registry.has_file(workload, "data.py"):
        return data
    try:
        module = import_module(f"workloads.{workload}.data")
    except FAULTS as error:
        raise DataError(f"{workload}: {describe_fault(error, Path(registry.folder_of(workload)))}") from error
    augment = getattr(module, "augment", None)
    return replace(data, augment=augment, draws=int(getattr(module, "DRAWS", 1))) if augment else data


def _problem(splits: Any) -> str:  # noqa: PLR0911 -- a list of checks
    if not isinstance(splits, OwnSplits):
        return f"splits() returned {type(splits).__name__}; return workloads.data.own.OwnSplits"
    if splits.kind not in KINDS:
        return f"kind is {splits.kind!r}; it is one of {', '.join(KINDS)}"
    if splits.form not in FORMS:
        return f"form is {splits.form!r}; it is one of {', '.join(FORMS)}"
    for name, split in (("train", splits.train), ("test", splits.test)):
        if not len(split.labels) or len(split.inputs) != len(split.labels):
            return f"{name} has {len(split.inputs)} inputs and {len(split.labels)} labels"
        if array := next((a for a in (split.inputs, split.labels) if not _plain(a)), None):
            return f"{name} has an array of {array.dtype}; numbers of up to 8 bytes can be cached"
    if splits.form == "images" and (splits.train.inputs.ndim != 4 or splits.train.inputs.dtype != np.uint8):
        return "form 'images' is for uint8 (n, height, width, channels)"
    return ""


def _plain(array: Array) -> bool:
    return array.dtype.kind in "uifb" and array.dtype.itemsize <= 8
