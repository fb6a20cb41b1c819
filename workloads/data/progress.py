"""Progress on stderr for work that may take longer than two seconds: a bar in a terminal, elsewhere regular lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress

QUIET_S = 2.0  # shorter work leaves no lines in a log
EVERY_S = 10.0

Item = TypeVar("Item")
Advance = Callable[[int], object]


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
def _meter(description: str, done: int, total: int | None, unit: str, scale: int) -> Iterator[Advance]:
    bar = _bar(unit) if sys.stderr.isatty() else None
    if bar is None:
        yield _Lines(description, done, total, " MiB" if unit == "B" else unit, scale).advance
        return
    with bar:
        task = bar.add_task(description, completed=done, total=total)
        yield lambda count: bar.advance(task, count)


def _bar(unit: str) -> Progress | None:
    """A bar that disappears at the end; None where rich is not installed, or the terminal cannot move its cursor."""
    try:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )
    except ImportError:
        return None
    console = Console(stderr=True)
    if console.is_dumb_terminal:
        return None
    count = (DownloadColumn(),) if unit == "B" else (MofNCompleteColumn(), TextColumn(unit.strip()))
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), *count, TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True)


class _Lines:
    """What a log gets in place of a bar: nothing for `QUIET_S` seconds, then a line every `EVERY_S` seconds."""

    def __init__(self, description: str, done: int, total: int | None, unit: str, scale: int) -> None:
        self.description, self.done, self.total, self.unit, self.scale = description, done, total, unit, scale
        self.next = time.monotonic() + QUIET_S

    def advance(self, count: int) -> None:
        self.done += count
        if time.monotonic() >= self.next:
            self.next = time.monotonic() + EVERY_S
            of = "" if self.total is None else f" of {self.total // self.scale}"
            print_to_stderr(f"{self.description}: {self.done // self.scale}{of}{self.unit}")
