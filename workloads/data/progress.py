"""Progress on stderr for work that may take longer than two seconds.

A terminal gets a bar, or a spinner where the end is not known; a log gets a line every ten seconds.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

QUIET_S = 2.0  # shorter work leaves no lines in a log
EVERY_S = 10.0

Item = TypeVar("Item")
Advance = Callable[[int], object]
Describe = Callable[[str], None]


def print_to_stderr(text: str) -> None:
    """Print a line at once, apart from the results on stdout."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - this is the function that prints


def progress(items: Iterable[Item], description: str, unit: str) -> Iterator[Item]:
    """Yield the items, and show how many of them are done."""
    total = len(items) if isinstance(items, Sized) else None
    with _meter(description, 0, total, f" {unit}s", 1) as advance:
        for item in items:
            yield item
            advance(1)


def byte_progress(description: str, done: int, total: int) -> AbstractContextManager[Advance]:
    """Progress over ``total`` bytes of which ``done`` are done; yields the function that advances it."""
    return _meter(description, done, total, "B", 2**20)


@contextmanager
def waiting(description: str) -> Iterator[Describe]:
    """Show that the work inside goes on, and for how long; yields a function that changes the description."""
    bar = _bar() if sys.stderr.isatty() else None
    if bar is None:
        line = _Waiting(description)
        try:
            yield line.describe
        finally:
            line.end()
        return
    with bar:
        task = bar.add_task(description, total=None)
        yield lambda text: bar.update(task, description=text)


@contextmanager
def _meter(description: str, done: int, total: int | None, unit: str, scale: int) -> Iterator[Advance]:
    bar = _bar(unit) if sys.stderr.isatty() else None
    if bar is None:
        yield _Lines(description, done, total, " MiB" if unit == "B" else unit, scale).advance
        return
    with bar:
        task = bar.add_task(description, completed=done, total=total)
        yield lambda count: bar.advance(task, count)


def _bar(unit: str = "") -> Progress | None:
    """A bar, or without a unit a spinner, which disappears at the end; None where `_console` is."""
    if not (console := _console()):
        return None
    from rich import progress as rich

    columns: tuple[rich.ProgressColumn, ...] = (rich.SpinnerColumn(), rich.TimeElapsedColumn())
    if unit:
        count = (rich.DownloadColumn(),) if unit == "B" else (rich.MofNCompleteColumn(), rich.TextColumn(unit.strip()))
        columns = (rich.BarColumn(), *count, rich.TimeRemainingColumn())
    description = rich.TextColumn("{task.description}", markup=False)
    return rich.Progress(description, *columns, console=console, transient=True)


def _console() -> Console | None:
    """The terminal; None without rich, or where the terminal cannot move its cursor."""
    try:
        from rich.console import Console
    except ImportError:
        return None
    console = Console(stderr=True)
    return None if console.is_dumb_terminal else console


class _Lines:
    """Stands for a bar in a log: nothing for `QUIET_S` seconds, then a line every `EVERY_S` seconds."""

    def __init__(self, description: str, done: int, total: int | None, unit: str, scale: int) -> None:
        self.description, self.done, self.total, self.unit, self.scale = description, done, total, unit, scale
        self.next = time.monotonic() + QUIET_S

    def advance(self, count: int) -> None:
        self.done += count
        if time.monotonic() >= self.next:
            self.next = time.monotonic() + EVERY_S
            of = "" if self.total is None else f" of {self.total // self.scale}"
            print_to_stderr(f"{self.description}: {self.done // self.scale}{of}{self.unit}")


class _Waiting:
    """Stands for a spinner in a log: nothing for `QUIET_S` seconds, then a line every `EVERY_S` seconds."""

    def __init__(self, description: str) -> None:
        self.description = description
        self._ended = threading.Event()
        self._begin_s = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="waiting", daemon=True)
        self._thread.start()

    def describe(self, text: str) -> None:
        self.description = text

    def end(self) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        pause_s = QUIET_S
        while not self._ended.wait(pause_s):
            print_to_stderr(f"{self.description}: {time.monotonic() - self._begin_s:.0f} s so far")
            pause_s = EVERY_S
