"""Reads archives into memory, without extracting them to disk."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from workloads.data.files import regular
from workloads.data.progress import Advance, byte_progress

# Several times what the official archives unpack to, and far below what would fill a memory.
MAX_UNPACKED_BYTES = 2**30
MAX_MEMBERS = 250_000
# Between two contents; the official archives need 512 bytes, and tarfile reads 10 KiB ahead. It takes a header into
# memory as a whole, and searches it in quadratic time.
MAX_HEADER_BYTES = 2**15


@dataclass(frozen=True)
class Archive:
    """An official archive: where it is downloaded, and the ``bytes`` and ``md5`` that it must then have."""

    url: str
    bytes: int
    md5: str

    @property
    def file(self) -> str:
        return self.url.rpartition("/")[2]


def read_archive(path: Path, wanted: Callable[[str], bool], largest_bytes: int) -> dict[str, bytes]:
    """The wanted files of a gzipped tar archive by their names below its folder.

    Nothing is written, and nothing verified: that is the caller's part. Raises ValueError for an archive that unpacks
    to more than `MAX_UNPACKED_BYTES` or has a wanted file of more than ``largest_bytes``. A broken one makes tarfile
    raise nearly anything, RecursionError included.
    """
    with _opened(path, "reading") as packed:
        return dict(_members(packed, wanted, largest_bytes))


def md5_of(path: Path) -> str:
    """The MD5 of a regular file, hex; OSError if it cannot be read or is none."""
    with _opened(path, "hashing") as file:
        return hashlib.file_digest(file, partial(hashlib.md5, usedforsecurity=False)).hexdigest()


def _members(packed: _Counted, wanted: Callable[[str], bool], largest_bytes: int) -> Iterator[tuple[str, bytes]]:
    with (
        gzip.GzipFile(fileobj=packed, mode="rb") as file,
        _Limited(file) as limited,
        tarfile.open(fileobj=limited, mode="r|") as archive,
    ):
        for count, member in enumerate(archive):
            if count >= MAX_MEMBERS:
                raise ValueError(f"it has more than {MAX_MEMBERS} members")
            if not 0 <= member.size <= archive.offset <= MAX_UNPACKED_BYTES:  # tarfile seeks to offset, step by step
                raise ValueError(f"it claims to unpack to more than {MAX_UNPACKED_BYTES} bytes")
            limited.expect(member.size)
            name = member.name.partition("/")[2]
            if not member.isfile() or not wanted(name):
                continue
            if member.issparse():  # in one whose map has a gap, tarfile looks for the data for ever
                raise ValueError(f"member {member.name!r} is a sparse file")
            if member.size > largest_bytes:
                raise ValueError(f"member {member.name!r} has {member.size} bytes, more than {largest_bytes}")
            content = archive.extractfile(member)
            yield name, content.read() if content else b""


@contextmanager
def _opened(path: Path, what: str) -> Iterator[_Counted]:
    with (
        open(str(path), "rb", opener=regular) as file,
        byte_progress(f"{what} {path.name}", 0, os.fstat(file.fileno()).st_size) as advance,
    ):
        yield _Counted(file, advance)


class _Counted(io.RawIOBase):
    def __init__(self, file: BinaryIO, advance: Advance) -> None:
        super().__init__()
        self.file, self.advance = file, advance

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self.file.readinto(buffer)  # type: ignore[attr-defined]
        self.advance(count)
        return int(count)


class _Limited(io.RawIOBase):
    """A file as tarfile needs it, up to a limit, whatever sizes the archive claims."""

    def __init__(self, file: gzip.GzipFile) -> None:
        super().__init__()
        self.file, self.count, self.next_content = file, 0, MAX_HEADER_BYTES

    def expect(self, content_bytes: int) -> None:
        """Expect a content of this size after a header."""
        self.next_content = self.count + content_bytes + MAX_HEADER_BYTES

    def read(self, count: int = -1) -> bytes:
        content = self.file.read(count)
        self.count += len(content)
        if self.count > MAX_UNPACKED_BYTES:
            raise ValueError(f"it unpacks to more than {MAX_UNPACKED_BYTES} bytes")
        if self.count > self.next_content:
            raise ValueError(f"it has a header of more than {MAX_HEADER_BYTES} bytes")
        return content
