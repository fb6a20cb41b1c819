"""Reads archives member by member into memory, without extracting them to disk, and hashes them on the way."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from workloads.data.dataset import DataError
from workloads.data.files import regular
from workloads.data.progress import Advance, byte_progress

# Several times what the official archives unpack to, and far below what would fill a memory.
MAX_UNPACKED_BYTES = 2**30
MAX_MEMBERS = 250_000
# Between two contents; the official archives need 512 bytes, and tarfile reads 10 KiB ahead. It takes a header into
# memory as a whole, and searches it in quadratic time.
MAX_HEADER_BYTES = 2**15
CHUNK_BYTES = 2**20

REPLACE = "replace it by the official one, or remove it to have it downloaded"
REPORT = "its MD5 is that of the official archive, so this program is at fault: please report it"


class BrokenSourceError(DataError):
    """An archive or a folder that is not what it should be; ``reason`` is the message without the way out."""

    def __init__(self, reason: str, way_out: str = REPLACE) -> None:
        super().__init__(f"{reason}; {way_out}")
        self.reason = reason


@dataclass(frozen=True)
class Archive:
    """An official archive: where it is downloaded, and the ``bytes`` and ``md5`` that it must then have."""

    url: str
    bytes: int
    md5: str

    @property
    def file(self) -> str:
        return self.url.rpartition("/")[2]


class Members:
    """Name and content of each regular file in a gzipped tar archive that is ``wanted``, in the archive's order.

    Nothing is written, so nothing can be written outside a folder; an archive that tries to (absolute names, ``..``,
    links, devices) or that holds a name twice is refused all the same, since no official one does. So is one that
    unpacks to more than ``limit_bytes``, or in which a wanted file has more than ``largest_bytes``. The content is not
    verified: that is the caller's part, who may ask `is_official` after the last member. Raises `DataError` and nothing
    else, whatever the archive holds.
    """

    def __init__(
        self,
        path: Path,
        wanted: Callable[[str], bool] = lambda _: True,
        largest_bytes: int = MAX_UNPACKED_BYTES,
        limit_bytes: int = MAX_UNPACKED_BYTES,
    ) -> None:
        self.path, self.wanted, self.largest_bytes, self.limit_bytes = path, wanted, largest_bytes, limit_bytes
        self._read: tuple[int, str] | None = None

    def is_official(self, archive: Archive) -> bool:
        """Whether the bytes that were read, all of them, are the authors' own archive."""
        return self._read == (archive.bytes, archive.md5)

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        try:
            with open(str(self.path), "rb", opener=regular) as file:
                size = os.fstat(file.fileno()).st_size
                with byte_progress(f"reading {self.path.name}", 0, size) as advance:
                    hashed = _Hashed(file, advance)
                    yield from self._members(hashed)
                    while hashed.read(CHUNK_BYTES):  # tarfile stops at the end mark, and the checksum goes on
                        pass
            self._read = hashed.count, hashed.md5.hexdigest()
        except DataError:
            raise
        except Exception as error:  # a broken header makes tarfile raise nearly anything, RecursionError included
            raise describe_broken(self.path, error) from error

    def _members(self, packed: _Hashed) -> Iterator[tuple[str, bytes]]:
        seen: set[str] = set()
        with (
            gzip.GzipFile(fileobj=packed, mode="rb") as file,
            _Limited(file, self.path, self.limit_bytes) as limited,
            tarfile.open(fileobj=limited, mode="r|") as archive,
        ):
            for member in archive:
                self._refuse_unsafe(member)
                if member.name in seen or len(seen) >= MAX_MEMBERS:
                    raise BrokenSourceError(f"{self.path}: member {member.name!r} is there twice, or too many")
                seen.add(member.name)
                if not 0 <= member.size <= archive.offset <= self.limit_bytes:  # tarfile seeks to offset, step by step
                    raise BrokenSourceError(f"{self.path} claims to unpack to more than {self.limit_bytes} bytes")
                limited.expect(member.size)
                if member.isfile() and self.wanted(member.name):
                    yield member.name, self._content(archive, member)

    def _content(self, archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
        if member.size > self.largest_bytes:
            raise BrokenSourceError(
                f"{self.path}: member {member.name!r} has {member.size} bytes, the largest there may be "
                f"{self.largest_bytes}"
            )
        file = archive.extractfile(member)
        return file.read() if file else b""

    def _refuse_unsafe(self, member: tarfile.TarInfo) -> None:
        name = PurePosixPath(member.name)
        if name.is_absolute() or ".." in name.parts:
            raise BrokenSourceError(f"{self.path}: member {member.name!r} points outside the archive")
        if not (member.isfile() or member.isdir()):
            raise BrokenSourceError(f"{self.path}: member {member.name!r} is a link or a device")
        if member.issparse():  # in a sparse file whose map has a gap, tarfile looks for the data for ever
            raise BrokenSourceError(f"{self.path}: member {member.name!r} is a sparse file")


def describe_broken(path: Path, error: Exception) -> DataError:
    """The error, in one line, for a file that is truncated, not regular, or no archive at all."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return BrokenSourceError(f"{path} cannot be read: {' '.join(reason.split()) or type(error).__name__}")


def md5_of(path: Path) -> str:
    """The MD5 of a regular file, hex; OSError if it cannot be read or is none."""
    with (
        open(str(path), "rb", opener=regular) as file,
        byte_progress(f"hashing {path.name}", 0, os.fstat(file.fileno()).st_size) as advance,
    ):
        hashed = _Hashed(file, advance)
        while hashed.read(CHUNK_BYTES):
            pass
    return hashed.md5.hexdigest()


class _Hashed(io.RawIOBase):
    """A file whose bytes are hashed as they are read, so that what was hashed is what was read."""

    def __init__(self, file: BinaryIO, advance: Advance) -> None:
        super().__init__()
        self.file, self.advance = file, advance
        self.count, self.md5 = 0, hashlib.md5(usedforsecurity=False)

    def read(self, count: int = -1) -> bytes:
        content = self.file.read(count)
        self.md5.update(content)
        self.count += len(content)
        self.advance(len(content))
        return content


class _Limited(io.RawIOBase):
    """A file as tarfile needs it, up to a limit, whatever sizes the archive claims."""

    def __init__(self, file: gzip.GzipFile, path: Path, limit_bytes: int) -> None:
        super().__init__()
        self.file, self.path, self.limit_bytes = file, path, limit_bytes
        self.count, self.next_content = 0, MAX_HEADER_BYTES

    def expect(self, content_bytes: int) -> None:
        """Expect a content of this size after a header."""
        self.next_content = self.count + content_bytes + MAX_HEADER_BYTES

    def read(self, count: int = -1) -> bytes:
        content = self.file.read(count)
        self.count += len(content)
        if self.count > self.limit_bytes:
            raise BrokenSourceError(f"{self.path} unpacks to more than {self.limit_bytes} bytes")
        if self.count > self.next_content:
            raise BrokenSourceError(f"{self.path} has a header of more than {MAX_HEADER_BYTES} bytes")
        return content
