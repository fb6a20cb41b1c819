"""Where raw data is looked for, and how archives are read: member by member into memory, never extracted to disk.

A data directory is only ever read. In it, and in each folder directly below it, a data set is looked for as its
official archive first (one file, so complete or broken as a whole), then as the folder that the archive unpacks to.
The data directory may also be that folder itself.
"""

from __future__ import annotations

import gzip
import io
import tarfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import ClassVar

from workloads.data.dataset import DataError, DataSet

# Several times what the official archives unpack to, and far below what would fill a memory.
MAX_UNPACKED_BYTES = 2**30
MAX_MEMBERS = 250_000


@dataclass(frozen=True)
class Archive:
    """An official archive: where it is downloaded, and the ``bytes`` and ``md5`` that it must then have."""

    url: str
    bytes: int
    md5: str

    @property
    def file(self) -> str:
        return self.url.rpartition("/")[2]


@dataclass(frozen=True)
class Source(ABC):
    """A data set as its authors publish it, with all that it is verified by.

    ``digest`` is that of the parsed data set; an empty one is not checked. The official values are the defaults of the
    subclasses.
    """

    name: ClassVar[str]
    folder: ClassVar[str]  # what the archive unpacks to

    archive: Archive
    digest: str

    @abstractmethod
    def read(self, path: Path) -> DataSet:
        """Verify and parse the archive or the folder at ``path``; `DataError` if it is not what it should be."""

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

    def checked(self, data: DataSet, path: Path) -> DataSet:
        """``data`` itself if its digest is the expected one."""
        if self.digest and data.digest != self.digest:
            raise DataError(
                f"{path}: parsed to digest {data.digest[:16]}..., expected {self.digest[:16]}...; "
                "this Python or NumPy reads the data differently, or the code and its digest have parted"
            )
        return data


def read_file(path: Path) -> bytes:
    """A file's bytes; `DataError` in one line if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise broken(path, error) from error


def members(path: Path, limit_bytes: int = MAX_UNPACKED_BYTES) -> Iterator[tuple[str, bytes]]:
    """Name and content of each regular file in a gzipped tar archive, in the archive's order.

    Nothing is written, so nothing can be written outside a folder; an archive that tries to (absolute names, ``..``,
    links, devices) or that holds a name twice is refused all the same, since no official one does. So is one that
    unpacks to more than ``limit_bytes``. The content is not verified: that is the caller's part.
    """
    seen: set[str] = set()
    try:
        with gzip.open(path) as file, tarfile.open(fileobj=_Limited(file, path, limit_bytes), mode="r|") as archive:
            for member in archive:
                _refuse_unsafe(member, path)
                if member.name in seen or len(seen) >= MAX_MEMBERS:
                    raise DataError(f"{path}: member {member.name!r} is there twice, or too many; {REPLACE}")
                seen.add(member.name)
                content = archive.extractfile(member) if member.isfile() else None
                if content is not None:
                    yield member.name, content.read()
    except (OSError, EOFError, tarfile.TarError, zlib.error) as error:
        raise broken(path, error) from error


REPLACE = "replace it by the official one, or remove it to have it downloaded"


def broken(path: Path, error: Exception) -> DataError:
    """One line for a file that cannot be read to its end, be it truncated, unreadable or no archive at all."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return DataError(f"{path} cannot be read: {reason}; {REPLACE}")


class _Limited(io.RawIOBase):
    """What tarfile needs of a file, up to a limit, whatever sizes the archive claims."""

    def __init__(self, file: gzip.GzipFile, path: Path, limit_bytes: int) -> None:
        super().__init__()
        self.file, self.path, self.limit_bytes, self.left = file, path, limit_bytes, limit_bytes

    def read(self, count: int = -1) -> bytes:
        content = self.file.read(count)
        self.left -= len(content)
        if self.left < 0:
            raise DataError(f"{self.path} unpacks to more than {self.limit_bytes} bytes; {REPLACE}")
        return content


def _refuse_unsafe(member: tarfile.TarInfo, path: Path) -> None:
    name = PurePosixPath(member.name)
    if name.is_absolute() or ".." in name.parts:
        raise DataError(f"{path}: member {member.name!r} points outside the archive; {REPLACE}")
    if not (member.isfile() or member.isdir()):
        raise DataError(f"{path}: member {member.name!r} is a link or a device; {REPLACE}")


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # in a folder below that is closed to us, so not ours to use
        return False
