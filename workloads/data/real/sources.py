"""Where raw data is searched for, and how it is verified.

A data directory is only ever read. In it, and in each folder directly below it, a data set is looked for as its
official archive first (one file, so complete or broken as a whole), then as the folder that the archive unpacks to.
The data directory may also be that folder itself.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import ClassVar

from workloads.data.cache import with_digest
from workloads.data.dataset import DataError, DataSet, Split
from workloads.data.files import read_regular
from workloads.data.progress import progress
from workloads.data.real.archive import MAX_UNPACKED_BYTES, Archive, md5_of, read_archive

REPLACE = "replace it by the official one, or remove it to have it downloaded"
REPORT = "its MD5 is that of the official archive, so this program is at fault: please report it"


@dataclass(frozen=True)
class Source(ABC):
    """A data set as its authors publish it, with the values that verify it.

    ``patterns`` are the names of its files below ``folder``, which the archive unpacks to, of at most ``largest_bytes``
    each. ``content`` is their `content_digest`, and ``digest`` that of the parsed data set, not checked if it is empty.
    """

    name: ClassVar[str]
    folder: ClassVar[str]
    patterns: ClassVar[tuple[str, ...]]
    largest_bytes: ClassVar[int]

    archive: Archive
    digest: str
    content: str

    @abstractmethod
    def parse(self, files: dict[str, bytes]) -> tuple[Split, Split]:
        """Training and test split from the files by their names; raises anything if they are not the official ones."""

    def read(self, path: Path) -> DataSet:
        """Verify and parse the archive or the folder at ``path``; `DataError` if it is not what it should be."""
        try:
            data = self._read(path)
        except MemoryError as error:
            raise DataError(f"{path} is too large for the memory that is free; end other programs") from error
        except Exception as error:
            place, reason = getattr(error, "filename", None) or path, getattr(error, "strerror", None) or str(error)
            words = " ".join(reason.split()) or type(error).__name__
            way_out = REPORT if self._is_official(path) else REPLACE
            raise DataError(f"{place} cannot be used: {words}; {way_out}") from error
        if not self.digest or data.digest == self.digest:
            return data
        raise DataError(
            f"{path}: parsed to digest {data.digest[:16]}..., expected {self.digest[:16]}...; "
            "this Python or NumPy reads the data differently, or the code changed without its digest"
        )

    def find(self, directory: Path) -> Path | None:
        """The archive or folder of this data set in a data directory, or None; see the module's text for the places."""
        try:
            below = sorted(path for path in directory.iterdir() if path.is_dir())
        except OSError as error:
            raise DataError(f"data directory {directory} cannot be read: {error.strerror}") from error
        if directory.name == self.folder:
            return directory
        places = (place / name for place in (directory, *below) for name in (self.archive.file, self.folder))
        return next(filter(_exists, places), None)

    def _read(self, path: Path) -> DataSet:
        files = self._read_files(path)
        if (actual := content_digest(files)) != self.content:
            digests = f"{actual[:16]}..., the official ones {self.content[:16]}..."
            raise ValueError(f"its {len(files)} files have the digest {digests}")
        data = with_digest(self.name, "real", *self.parse(files))
        if not len(data.train) or not len(data.test):
            raise ValueError("a split has no samples")
        return data

    def _read_files(self, path: Path) -> dict[str, bytes]:
        if not path.is_dir():
            return read_archive(path, self._wants, self.largest_bytes)
        places = [place for pattern in self.patterns for place in path.glob(pattern)]
        files, left = {}, MAX_UNPACKED_BYTES
        for place in progress(places, f"{self.name}: reading", "file"):
            content = read_regular(place, min(left, self.largest_bytes))
            files[place.relative_to(path).as_posix()] = content
            left -= len(content)
        return files

    def _wants(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self.patterns)

    def _is_official(self, path: Path) -> bool:
        try:
            return path.stat().st_size == self.archive.bytes and md5_of(path) == self.archive.md5
        except OSError:
            return False


def content_digest(files: Mapping[str, bytes]) -> str:
    """SHA-256, hex, in the order of `in_order`: of each file its name, NUL, its decimal length, NUL, its bytes."""
    digest = hashlib.sha256()
    for name in in_order(files):
        digest.update(_encode(name) + b"\0%d\0" % len(files[name]))
        digest.update(files[name])
    return digest.hexdigest()


def in_order(names: Iterable[str]) -> list[str]:
    """The names of files, those of the training split first, as byte strings."""
    return sorted(names, key=lambda name: (not name.startswith("train"), _encode(name)))


def _encode(name: str) -> bytes:
    """A name's bytes as tar archives and file systems have them, also if they are not UTF-8, on any machine."""
    return name.encode("utf-8", "surrogateescape")


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # in a folder below without access
        return False
