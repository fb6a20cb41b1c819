"""Events of a profiler, and what each of them had of the wall clock. Knows no framework.

Events of one thread lie within one another, as calls do: an event's own time is what its inner ones leave. What several
threads do at the same moment shares that moment, so that the times of all events and of the gaps add up to the time
that passed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from statistics import median
from typing import NamedTuple

#: Times are whole nanoseconds of the profiler's clock.
Nanoseconds = int

OVERHEAD, INPUT, IDLE, OTHER = "host and launch overhead", "input pipeline", "idle", "other"

#: Names of the spans that the suite itself puts into a trace: all steps with the fence after them, and parts of a step.
STEPS, STEP, LOADING = "suite: steps", "suite: step", "suite: input"
FORWARD, BACKWARD, UPDATE = "suite: forward", "suite: backward", "suite: update"

#: The names of NVIDIA's library, the newer one first.
LIBRARIES = ("libnvtx3interop.so", "libnvToolsExt.so.1")

#: So many threads work at once if they do so for this share of the time.
AT_ONCE = 0.01


class Event(NamedTuple):
    """Something that a profiler saw. ``category`` is empty where it is no operation, such as a span of the suite's own.

    ``device`` is "cuda" for a kernel, ``bytes`` what one call moves, ``holds`` what a fused kernel holds. One that
    ``continues`` another is the same call.
    """

    name: str
    start: Nanoseconds
    end: Nanoseconds
    thread: str
    category: str
    device: str = "cpu"
    holds: tuple[str, ...] = ()
    bytes: int | None = None
    continues: bool = False


class Piece(NamedTuple):
    """A stretch of a thread's time in which one event was the innermost."""

    start: Nanoseconds
    end: Nanoseconds
    event: Event


@dataclass
class Spent:
    """What all calls of an operation had of the wall clock in nanoseconds, and what they moved."""

    nanoseconds: float = 0.0
    calls: int = 0
    bytes: int | None = None


@dataclass(frozen=True)
class Shares:
    """The wall clock of some steps: ``spent`` by (name, category, device, holds); gaps are events named in brackets."""

    nanoseconds: int
    spent: dict[tuple[str, str, str, tuple[str, ...]], Spent]
    threads: int
    idle: float | None  # the share of the time in which the device ran no kernel, where kernels were seen
    gap_s: float | None  # the median between two kernels


def pieces(events: Iterable[Event]) -> Iterator[Piece]:
    """The stretches of one thread in which each event was the innermost. An event that outlasts its outer one is cut.

    An event without a category is left out: its time belongs to the operation around it.
    """
    stack: list[Event] = []
    ends: list[Nanoseconds] = []
    at = 0
    for event in sorted((each for each in events if each.category), key=lambda each: (each.start, -each.end)):
        while stack and ends[-1] <= event.start:
            if ends[-1] > at:
                yield Piece(at, ends[-1], stack[-1])
                at = ends[-1]
            stack.pop()
            ends.pop()
        if stack and event.start > at:
            yield Piece(at, event.start, stack[-1])
        at = max(at, event.start)
        stack.append(event)
        ends.append(min(event.end, ends[-1]) if ends else event.end)
    while stack:
        if ends[-1] > at:
            yield Piece(at, ends[-1], stack[-1])
            at = ends[-1]
        stack.pop()
        ends.pop()


def shares(events: Iterable[Event], begin: Nanoseconds, end: Nanoseconds) -> Shares:
    """What each event had of the wall clock between two moments; what is outside of them is left out.

    Kernels go first where there are any: what the host does meanwhile is hidden. A moment in which nothing ran is the
    input pipeline's if the thread that trains waited for it; else it is the host's overhead, and on CUDA `idle` where
    the host did nothing either.
    """
    inside = [event for event in events if event.end > begin and event.start < end]
    on_cuda = any(event.device == "cuda" for event in inside)
    spent = _calls(inside, on_cuda)
    at_once: dict[int, int] = {}  # nanoseconds in which so many operations ran
    gaps: list[int] = []
    gap = 0
    for passed, running in _moments(inside, begin, end):
        working = [event for event in running if event.device == "cuda" or not on_cuda]
        if working and gap:
            gaps.append(gap)
        gap = 0 if working else gap + passed
        working = [event for event in working if event.category != INPUT] or working
        at_once[len(working)] = at_once.get(len(working), 0) + passed
        for event in working or [_gap(running, on_cuda)]:
            spent.setdefault(_key(event), Spent()).nanoseconds += passed / max(len(working), 1)
    many = [count for count, passed in at_once.items() if passed >= AT_ONCE * (end - begin)]
    idle = at_once.get(0, 0) / (end - begin) if on_cuda else None
    return Shares(end - begin, spent, max([1, *many]), idle, median(gaps) / 1e9 if on_cuda and gaps else None)


def _key(event: Event) -> tuple[str, str, str, tuple[str, ...]]:
    return event.name, event.category, event.device, event.holds


def _calls(events: Iterable[Event], on_cuda: bool) -> dict[tuple[str, str, str, tuple[str, ...]], Spent]:
    spent: dict[tuple[str, str, str, tuple[str, ...]], Spent] = {}
    for event in events:
        if event.category and not event.continues and (event.device == "cuda" or not on_cuda):
            total = spent.setdefault(_key(event), Spent())
            total.calls += 1
            if event.bytes is not None:
                total.bytes = (total.bytes or 0) + event.bytes
    return spent


def _moments(events: list[Event], begin: Nanoseconds, end: Nanoseconds) -> Iterator[tuple[int, list[Event]]]:
    """The time between two moments in stretches in which nothing changes, and what each thread then was in."""
    threads: dict[str, list[Event]] = {}
    for event in events:
        threads.setdefault(event.thread, []).append(event)
    edges: list[tuple[Nanoseconds, bool, int, Event]] = []  # an end goes before a beginning at the same moment
    for number, thread in enumerate(threads.values()):
        for piece in pieces(thread):
            start, stop = max(piece.start, begin), min(piece.end, end)
            if stop > start:
                edges += [(start, True, number, piece.event), (stop, False, number, piece.event)]
    edges.sort(key=lambda edge: edge[:2])
    running: dict[int, Event] = {}
    at = begin
    for moment, starts, number, event in edges:
        if moment > at:
            yield moment - at, [*running.values()]
            at = moment
        if starts:
            running[number] = event
        else:
            del running[number]
    if end > at:
        yield end - at, []


def _gap(running: Iterable[Event], on_cuda: bool) -> Event:
    categories = {event.category for event in running}
    if INPUT in categories:
        return Event("(the step waits for its batch)", 0, 0, "", INPUT)
    if on_cuda and not categories:
        return Event("(nothing ran)", 0, 0, "", IDLE)
    return Event("(no operation ran)", 0, 0, "", OVERHEAD)


@contextmanager
def nvtx_range(name: str) -> Iterator[None]:
    """An NVTX range of this thread, which Nsight Systems shows; nothing where NVIDIA's library is not found."""
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
