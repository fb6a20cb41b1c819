"""CIFAR-100 (Krizhevsky 2009, *Learning Multiple Layers of Features from Tiny Images*): 50,000 + 10,000 images.

The official files are pickles of Python 2, and a pickle can run code. So each is verified by its published MD5, or by
that of the archive it comes in, before it is opened, and then opened by an unpickler that knows three names only and
resolves them to stand-ins in this file: the bytes are taken as data, and neither NumPy's constructors nor anything else
is called at the pickle's wish.
"""

from __future__ import annotations

import hashlib
import io
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from workloads.data.cache import with_digest
from workloads.data.dataset import Array, DataSet, Split
from workloads.data.progress import progress
from workloads.data.real.archive import Archive, BrokenSourceError, Members
from workloads.data.real.sources import Source, read_file

SIDE, CHANNELS, CLASSES = 32, 3, 100
LARGEST_BYTES = 2**29  # of one pickle; the largest official one has 155,249,918

ARCHIVE = Archive(
    url="https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
    bytes=169_001_437,
    md5="eb9058c3a382ffc7106e4002c42a8d85",
)


@dataclass(frozen=True)
class Cifar100(Source):
    """The official archive, or its folder ``cifar-100-python`` with the files ``train`` and ``test``.

    ``md5`` holds the checksums of the two pickles. The archive, the checksums and the format are described at
    https://www.cs.toronto.edu/~kriz/cifar.html.
    """

    name: ClassVar[str] = "cifar100"
    folder: ClassVar[str] = "cifar-100-python"

    archive: Archive = ARCHIVE
    digest: str = "2a692ece3508eaa2f7a14b37424b7241b020cb402ecb757430ab3caeb920987c"
    md5: Mapping[str, str] = field(
        default_factory=lambda: {
            "train": "16019d7e3df5f24257cddd939b257f8d",
            "test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
        }
    )

    def _read(self, path: Path) -> DataSet:
        """Images uint8 ``(n, 32, 32, 3)`` in the order of the files, fine labels int32 ``(n,)``.

        Raises `DataError` if a file is missing or is not the official one.
        """
        contents, official = self._contents(path)
        for name, md5 in progress(self.md5.items(), "cifar100: checking", "file"):
            if name not in contents:
                raise BrokenSourceError(f"{path} has no file {self.folder}/{name}")
            actual = hashlib.md5(contents[name], usedforsecurity=False).hexdigest()
            if actual != md5 and not official:  # the official archive's own MD5 covers what is in it
                raise BrokenSourceError(f"{path}: {name} has MD5 {actual}, the official one has {md5}")
        train, test = (
            parse(contents.pop(name), name) for name in progress(("train", "test"), "cifar100: parsing", "file")
        )
        return self.check(with_digest(self.name, "real", train, test), path, official)

    def _contents(self, path: Path) -> tuple[dict[str, bytes], bool]:
        """The pickles, and whether they are from the official archive."""
        if path.is_dir():
            names = progress(tuple(self.md5), "cifar100: reading", "file")
            return {name: read_file(path / name, LARGEST_BYTES) for name in names}, False
        wanted = {f"{self.folder}/{name}": name for name in self.md5}
        members = Members(path, wanted.__contains__, LARGEST_BYTES)
        contents = {wanted[member]: content for member, content in members}
        return contents, members.is_official(self.archive)


def parse(content: bytes, name: str) -> Split:
    """One verified pickle as a split; its rows of 3,072 bytes are a red, a green and a blue plane of 32x32."""
    try:
        batch = _Unpickler(io.BytesIO(content), encoding="bytes").load()
        rows, labels = batch[b"data"].pixels(), np.array(batch[b"fine_labels"], dtype=np.int32)
    except MemoryError:
        raise
    except Exception as error:  # a broken pickle makes the unpickler raise nearly anything
        reason = " ".join(str(error).split())
        raise BrokenSourceError(f"CIFAR-100 file {name} is not the pickle that it should be: {reason}") from error
    if labels.shape != (len(rows),):
        raise BrokenSourceError(f"CIFAR-100 file {name} has {len(rows)} images but {labels.size} labels")
    if not labels.size:
        raise BrokenSourceError(f"CIFAR-100 file {name} holds no images")
    if not 0 <= labels.min() <= labels.max() < CLASSES:
        raise BrokenSourceError(f"CIFAR-100 file {name} has labels from {labels.min()} to {labels.max()}")
    planes = rows.reshape(-1, CHANNELS, SIDE, SIDE)
    return Split(np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), labels)


class _Type:
    """Stands in for ``numpy.ndarray`` and ``numpy.dtype``; keeps what the pickle says of itself."""

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def pixels(self) -> Array:
        """The pickled array, uint8 ``(n, 3072)``; its state is version, shape, dtype, Fortran order and bytes."""
        _, (count, width), dtype, fortran, content = self.state
        if dtype.arguments[0] not in (b"u1", "u1") or fortran or width != CHANNELS * SIDE * SIDE:
            raise ValueError(f"expected rows of {CHANNELS * SIDE * SIDE} bytes")
        return np.frombuffer(content, dtype=np.uint8).reshape(count, width)


def _reconstruct(subtype: type, shape: Any, typecode: Any) -> _Type:
    return _Type(subtype, shape, typecode)


class _Unpickler(pickle.Unpickler):
    NAMES: ClassVar[Mapping[tuple[str, str], Callable[..., _Type]]] = {
        ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
        ("numpy", "ndarray"): _Type,
        ("numpy", "dtype"): _Type,
    }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.NAMES:
            raise pickle.UnpicklingError(f"it names {module}.{name}")
        return self.NAMES[module, name]
