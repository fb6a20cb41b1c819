"""Where raw data is searched for, and how it is verified.

A data directory is only ever read. In it, and in each folder directly below it, a data set is looked for as its
official archive first (one file, so complete or broken as a whole), then as the folder that the archive unpacks to.
The data directory may also be that folder itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from workloads.data.dataset import DataError, DataSet, Voucher
from workloads.data.files import read_regular
from workloads.data.real.archive import REPORT, Archive, BrokenSourceError, describe_broken, md5_of


@dataclass(frozen=True)
class Source(ABC):
    """A data set as its authors publish it, with the values that verify it.

    ``digest`` is that of the parsed data set; an empty one is not checked. The official values are the defaults of the
    subclasses.
    """

    name: ClassVar[str]
    folder: ClassVar[str]  # what the archive unpacks to

    archive: Archive
    digest: str

    @abstractmethod
    def _read(self, path: Path) -> DataSet:
        """As `read`; its errors name the way out for a file that is not the authors' own archive."""

    def read(self, path: Path) -> DataSet:
        """Verify and parse the archive or the folder at ``path``; `DataError` if it is not what it should be.

        The authors' own archive, known by its size and MD5, is the data set by definition. So it is taken even if its
        content is not what this program expects; the result then has a `Voucher`.
        """
        try:
            return self._read(path)
        except BrokenSourceError as error:
            if self._is_official(path):
                raise BrokenSourceError(error.reason, REPORT) from error
            raise
        except MemoryError as error:
            raise DataError(f"{path} is too large for the memory that is free; end other programs") from error

    def find(self, directory: Path) -> Path | None:
        """The archive or folder of this data set in a data directory, or None; see the module's text for the places."""
        try:
            below = sorted(path for path in directory.iterdir() if path.is_dir())
        except OSError as error:
            raise DataError(f"data directory {directory} cannot be read: {error.strerror}") from error
        if directory.name == self.folder:
            return directory
        for place in (directory, *below):
            if _exists(place / self.archive.file):
                return place / self.archive.file
            if _exists(place / self.folder):
                return place / self.folder
        return None

    def check(self, data: DataSet, path: Path, official: bool) -> DataSet:
        """``data`` if its digest is the expected one; with a voucher if it is not, but the archive is ``official``."""
        if not self.digest or data.digest == self.digest:
            return data
        if official:
            return replace(data, voucher=Voucher(self.archive.md5, self.digest))
        raise DataError(
            f"{path}: parsed to digest {data.digest[:16]}..., expected {self.digest[:16]}...; "
            "this Python or NumPy reads the data differently, or the code and its digest have parted"
        )

    def is_vouched(self, data: DataSet) -> bool:
        """Whether the authors' archive vouches for this data in place of the digest.

        What this guards against: a cache of other data, a damaged one, and one whose voucher is for another archive or
        from before the expectation changed. It does not guard against a user who writes a voucher into the meta.json of
        data of his own. He deceives only himself: his runs record the digest of that data, which is no other's.
        """
        return data.voucher == Voucher(self.archive.md5, self.digest)

    def _is_official(self, path: Path) -> bool:
        try:
            return path.stat().st_size == self.archive.bytes and md5_of(path) == self.archive.md5
        except OSError:
            return False


def read_file(path: Path, limit_bytes: int) -> bytes:
    """A file's bytes; `DataError` in one line if it cannot be read, or has more than ``limit_bytes``."""
    try:
        return read_regular(path, limit_bytes)
    except (OSError, MemoryError, ValueError) as error:  # ValueError: a name that no file can have
        raise describe_broken(path, error) from error


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # in a folder below without access
        return False
