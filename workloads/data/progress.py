"""Progress bars on stderr for what takes longer than a few seconds, where there is a terminal and tqdm."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

Item = TypeVar("Item")


def progress(items: Iterable[Item], description: str, unit: str) -> Iterable[Item]:
    """The same items, with a bar; without one where stderr is no terminal or tqdm is not installed."""
    try:
        from tqdm import tqdm
    except ImportError:
        return items
    bar: Iterable[Item] = tqdm(items, description, unit=f" {unit}s", leave=False, disable=None)
    return bar


@contextmanager
def byte_progress(description: str, done: int, total: int) -> Iterator[Callable[[int], object]]:
    """A bar of ``total`` bytes of which ``done`` are there; gives the function that advances it."""
    try:
        from tqdm import tqdm
    except ImportError:
        yield lambda _: None
        return
    with tqdm(desc=description, initial=done, total=total, unit="B", unit_scale=True, leave=False, disable=None) as bar:
        yield bar.update
