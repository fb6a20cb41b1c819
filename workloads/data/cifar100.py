"""CIFAR-100 (Krizhevsky 2009, *Learning Multiple Layers of Features from Tiny Images*): 50,000 + 10,000 images.

The official files are pickles of Python 2, and a pickle can run code. So each is verified by its published MD5 before
it is opened, and then opened by an unpickler that knows three names only and resolves them to stand-ins in this file:
the bytes are taken as data, and neither NumPy's constructors nor anything else is called at the pickle's wish.
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
from workloads.data.dataset import Array, DataError, DataSet, Split
from workloads.data.sources import REPLACE, Archive, Source, members, read_file

SIDE, CHANNELS = 32, 3

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

    def read(self, path: Path) -> DataSet:
        """Images uint8 ``(n, 32, 32, 3)`` in the order of the files, fine labels int32 ``(n,)``.

        Raises `DataError` if a file is missing or is not the official one.
        """
        contents: dict[str, bytes] = {}
        if path.is_dir():
            contents = {name: read_file(path / name) for name in self.md5}
        else:
            wanted = {f"{self.folder}/{name}": name for name in self.md5}
            contents = {wanted[member]: content for member, content in members(path) if member in wanted}
        for name, md5 in self.md5.items():
            if name not in contents:
                raise DataError(f"{path} has no file {self.folder}/{name}; {REPLACE}")
            found = hashlib.md5(contents[name], usedforsecurity=False).hexdigest()
            if found != md5:
                raise DataError(f"{path}: {name} has MD5 {found}, the official one has {md5}; {REPLACE}")
        train, test = parse(contents.pop("train"), "train"), parse(contents.pop("test"), "test")
        return self.checked(with_digest(self.name, "real", train, test), path)


def parse(content: bytes, name: str) -> Split:
    """One verified pickle as a split; its rows of 3,072 bytes are a red, a green and a blue plane of 32x32."""
    try:
        batch = _Unpickler(io.BytesIO(content), encoding="bytes").load()
        rows, labels = batch[b"data"].pixels(), np.array(batch[b"fine_labels"], dtype=np.int32)
    except (pickle.UnpicklingError, AttributeError, EOFError, LookupError, TypeError, ValueError) as error:
        raise DataError(f"CIFAR-100 file {name} is not the pickle that it should be: {error}; {REPLACE}") from error
    if len(rows) != len(labels):
        raise DataError(f"CIFAR-100 file {name} has {len(rows)} images but {len(labels)} labels; {REPLACE}")
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
