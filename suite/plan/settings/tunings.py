"""Allocator and denormal settings on a CPU, which change speed and no code of a training.

``recommended`` sets what helps, alike in all frameworks, and is the usual value, so that each framework gets its best
honest chance. ``default`` sets nothing: it is what a reader has who changes nothing. The others make one setting each:
``memory`` keeps freed memory, ``arenas`` chooses how many heaps glibc has, ``denormals`` flushes denormal numbers to
zero, and ``tcmalloc`` takes the place of glibc's allocator, with denormal numbers flushed. ``hugepages`` is
``recommended`` on huge pages, of which one workload is measured (docs/lab/studies.md), so that it is not usual.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from platform import libc_ver
from typing import Any

from suite.plan.cell import Cell

#: How glibc keeps the memory of tensors that were freed, so that the next step does not fault every page in again. By
#: default it maps every block above 32 MiB anew, in each step, and so it does above the heap of any thread but the
#: first. JAX's full CNN took 281,000 page faults a step (batch 32, two cores) and 0.6 s of 1.7 s of processor time in
#: the kernel, PyTorch's full LSTM 57,000 faults (batch 64); with these settings there are next to none in any
#: framework. The user's own values stand. For the memory of a GPU see `suite.plan.settings.allocators`.
KEPT_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(64 << 30)}

#: The number of glibc's heaps. In TensorFlow's LSTM two threads run some 24,700 small operations a step, each of which
#: allocates. With one arena, whose lock they probably wait for, a step takes longer: 166 against 134 ms (batch 32,
#: medians of five processes each, two cores), 199 against 159 (64). Its CNN is as fast or faster with one (406 against
#: 447 ms), and JAX's CNN needs it (609 against 860 ms with two arenas, two processes each).
ARENAS = "MALLOC_ARENA_MAX"
ONE_ARENA, ARENAS_OF = "1", {("tensorflow", "imdb_lstm"): "8"}

#: Found by the system's loader wherever it is installed; the worker looks whether it is loaded.
TCMALLOC = "libtcmalloc_minimal.so.4"

#: glibc asks for transparent huge pages, where the kernel gives them to those that ask.
HUGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
HUGE_PAGES_OF_KERNEL = Path("/sys/kernel/mm/transparent_hugepage/enabled")
GLIBC_WITH_HUGE_PAGES = (2, 35)

#: How the names of variables begin that set glibc's allocator.
ALLOCATOR = ("MALLOC_", "GLIBC_TUNABLES")

#: What a launch has that started without the variables of its tuning, as all did that were made before there were any.
OTHER = "other"

#: The tunings with all that helps.
RECOMMENDED = ("recommended", "hugepages")
#: The tunings under which PyTorch flushes denormal numbers. TensorFlow and XLA do so by themselves on a CPU.
FLUSHING = (*RECOMMENDED, "denormals", "tcmalloc")


def host_memory(cell: Cell) -> dict[str, str]:
    """The variables of the host's memory with which the cell's process starts, by its tuning."""
    kept = KEPT_MEMORY if cell.tuning in (*RECOMMENDED, "memory") else {}
    arenas = ARENAS_OF.get((cell.framework, cell.workload), ONE_ARENA)
    chosen = {ARENAS: arenas} if cell.tuning in (*RECOMMENDED, "arenas") else {}
    loaded = {"LD_PRELOAD": TCMALLOC} if cell.tuning == "tcmalloc" else {}
    return kept | chosen | loaded | (HUGE_PAGES if cell.tuning == "hugepages" else {})


def in_force(cell: Cell, variables: Mapping[str, Any]) -> str:
    """The tuning of a launch of this cell that started with these variables."""
    kept = KEPT_MEMORY.keys() & host_memory(cell).keys()
    return cell.tuning if kept <= variables.keys() else OTHER


def flushes(cell: Cell) -> bool:
    """Whether PyTorch is told to flush denormal numbers to zero."""
    return cell.tuning in FLUSHING


def lacking(cell: Cell) -> str:
    """Why this process, which is to train the cell, cannot have its tuning; empty if it can."""
    if cell.tuning == "denormals" and cell.framework != "pytorch":
        return "only PyTorch has a switch for denormal numbers; TensorFlow and XLA flush them by themselves on a CPU"
    if cell.tuning == "tcmalloc" and TCMALLOC not in Path("/proc/self/maps").read_text(encoding="utf-8"):
        return f"{TCMALLOC} is not loaded: install libtcmalloc-minimal4 (Debian, Ubuntu), and leave LD_PRELOAD unset"
    return _why_no_huge_pages() if cell.tuning == "hugepages" else ""


def _why_no_huge_pages() -> str:
    name, version = libc_ver()
    if name != "glibc" or tuple(map(int, version.split(".")[:2])) < GLIBC_WITH_HUGE_PAGES:
        return f"huge pages need glibc 2.35 or newer; this is {name or 'another C library'} {version}".rstrip()
    held = HUGE_PAGES_OF_KERNEL.read_text(encoding="utf-8") if HUGE_PAGES_OF_KERNEL.exists() else ""
    if "[madvise]" not in held:  # with "always" all tunings have them, and glibc asks for nothing
        said = held.strip() or "nothing"
        return f"glibc asks for huge pages only where {HUGE_PAGES_OF_KERNEL} says madvise; it says {said}"
    ((variable, value),) = HUGE_PAGES.items()
    asked = value in os.environ.get(variable, "").split(":")
    return "" if asked else f"{variable} has a value of your own, which stands; unset it, or add {value}"
