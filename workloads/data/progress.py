"""Progress on stderr for work that may take longer than two seconds.

A terminal gets a bar, or a spinner where the end is not known; a log gets nothing for `QUIET_S` seconds, and then a
line every `EVERY_S` seconds.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress

QUIET_S = 2.0
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
    if bar := _bar():
        with bar:
            task = bar.add_task(description, total=None)
            yield lambda text: bar.update(task, description=text)
        return
    latest, ended, begin_s = [description], threading.Event(), time.monotonic()

    def tell() -> None:
        pause_s = QUIET_S
        while not ended.wait(pause_s):
            print_to_stderr(f"{latest[-1]}: {time.monotonic() - begin_s:.0f} s so far")
            pause_s = EVERY_S

    thread = threading.Thread(target=tell, name="waiting", daemon=True)
    thread.start()
    try:
        yield latest.append
    finally:
        ended.set()
        thread.join()


@contextmanager
def _meter(description: str, done: int, total: int | None, unit: str, scale: int) -> Iterator[Advance]:
    if bar := _bar(unit):
        with bar:
            task = bar.add_task(description, completed=done, total=total)
            yield lambda count: bar.advance(task, count)
        return
    of = "" if total is None else f" of {total // scale}"
    next_s = time.monotonic() + QUIET_S

    def advance(count: int) -> None:
        nonlocal done, next_s
        done += count
        if time.monotonic() >= next_s:
            next_s = time.monotonic() + EVERY_S
            print_to_stderr(f"{description}: {done // scale}{of}{' MiB' if unit == 'B' else unit}")

    yield advance


def _bar(unit: str = "") -> Progress | None:
    """A bar, or without a unit a spinner; None without a terminal that can move its cursor, or without rich."""
    if not sys.stderr.isatty():
        return None
    try:
        from rich import progress as rich
        from rich.console import Console
    except ImportError:
        return None
    console = Console(stderr=True)
    if console.is_dumb_terminal:
        return None
    columns: tuple[rich.ProgressColumn, ...] = (rich.SpinnerColumn(), rich.TimeElapsedColumn())
    if unit:
        count = (rich.DownloadColumn(),) if unit == "B" else (rich.MofNCompleteColumn(), rich.TextColumn(unit.strip()))
        columns = (rich.BarColumn(), *count, rich.TimeRemainingColumn())
    description = rich.TextColumn("{task.description}", markup=False)
    return rich.Progress(description, *columns, console=console, transient=True)
