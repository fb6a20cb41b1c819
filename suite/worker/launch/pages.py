"""The page cache of the files that a loader reads: dropped without being root, and how much of it is there."""

from __future__ import annotations

import ctypes
import mmap
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from suite.plan.cell import Cell
from suite.worker.frameworks import UnsupportedError


class PagesError(RuntimeError):
    """Files stayed in the page cache."""


#: The share of the files' pages that may be there while they are called cold: a loader reads on in its own threads.
RESIDENT_MOST = 0.02
#: So often they are dropped, this long after each other, until a loader has filled its queues.
TRIES, WAIT_S = 20, 0.1


def read(cell: Cell, loader: Any) -> str:
    """Whether the pages of the loader's files are as the cell asks for, which are dropped for it."""
    if cell.pages != "cold":
        return "warm"
    share = drop(loader.files)
    return "cold" if share <= RESIDENT_MOST else f"warm ({share:.0%} of the files)"


def drop_for(loader: Any, phase: str) -> float:
    """Drop the loader's files before a phase; the share of their pages that is left. Raises `PagesError`."""
    share = drop(loader.files)
    if share > RESIDENT_MOST:
        raise PagesError(f"asked for cold pages, but {share:.0%} of the files were there before the phase {phase}")
    return share


def drop(files: Iterable[Path]) -> float:
    """Drop the pages of these files, and return the share of them that is in the page cache afterwards.

    Other processes that map a file keep its pages. Raises `UnsupportedError` where the system cannot drop any.
    """
    if not hasattr(os, "posix_fadvise"):
        raise UnsupportedError("this system has no posix_fadvise, which drops files from the page cache")
    share, places = 1.0, [path.resolve() for path in files]
    for _ in range(TRIES):
        _release({str(place) for place in places})
        for place in places:
            _drop(place)
        share = resident(places)
        if share <= RESIDENT_MOST:
            break
        time.sleep(WAIT_S)
    return share


def resident(files: Iterable[Path]) -> float:
    """The share of the pages of these files that is in the page cache, by mincore(2)."""
    there = pages = 0
    for file in files:
        found = _list_resident(file)
        there, pages = there + int(np.count_nonzero(found & 1)), pages + len(found)
    return there / max(pages, 1)


def _drop(file: Path) -> None:
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.fdatasync(descriptor)  # a page that is not yet written stays
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def _release(files: set[str]) -> None:
    """Unmap the pages of these files from this process, which read them again when they are touched."""
    libc = ctypes.CDLL(None)
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        span, rights, *rest = line.split(maxsplit=5)
        if "w" in rights or len(rest) < 4 or rest[3] not in files:
            continue
        begin, end = (int(each, 16) for each in span.split("-"))
        libc.madvise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), mmap.MADV_DONTNEED)


def _list_resident(file: Path) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """A byte for each page, whose lowest bit says that it is there."""
    size = file.stat().st_size
    found = np.zeros(-(-size // mmap.PAGESIZE), np.uint8)
    if size:
        with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            view = np.frombuffer(mapped, np.uint8)
            address, answer = ctypes.c_void_p(view.ctypes.data), ctypes.c_void_p(found.ctypes.data)
            refused = ctypes.CDLL(None).mincore(address, ctypes.c_size_t(size), answer)
            del view
        if refused:
            raise UnsupportedError("this system does not say which pages are in the page cache (mincore)")
    return found
