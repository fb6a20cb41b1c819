"""NVTX ranges, which Nsight Systems and Nsight Compute show; nothing where NVIDIA's library is not found."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

#: The names of NVIDIA's library, the newer one first.
LIBRARIES = ("libnvtx3interop.so", "libnvToolsExt.so.1")


@contextmanager
def nvtx_range(name: str) -> Iterator[None]:
    """A range with this name around what runs inside, on this thread."""
    library = _library()
    if library is None:
        yield
        return
    library.nvtxRangePushA(name.encode())
    try:
        yield
    finally:
        library.nvtxRangePop()


@cache
def _library() -> ctypes.CDLL | None:
    for name in LIBRARIES:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None
