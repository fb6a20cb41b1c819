"""The kinds of plots, one file each. A function that `kind` marks is drawn everywhere; nothing else lists it."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass

from matplotlib.figure import Figure

#: What a kind is drawn of: a table of throughput, a table of trainings to the end, or all tables of a comparison.
TIMED, TRAINED, COMPARISON = "timed", "trained", "comparison"

Draw = Callable[..., Figure | None]


@dataclass(frozen=True)
class Kind:
    """A kind of plot: its name in file names, a text for readers who cannot see it, and the function that draws it.

    A report has its plots by ``place``. The function gets what ``of`` says, and returns None where there is nothing to
    draw.
    """

    name: str
    words: str
    place: float
    of: str
    draw: Draw


_KINDS: dict[str, Kind] = {}


def kind(name: str, words: str, *, place: float, of: str = TIMED) -> Callable[[Draw], Draw]:
    """Declares the function below it as one that draws a kind of plot."""

    def declare(draw: Draw) -> Draw:
        _KINDS[name] = Kind(name, words, place, of, draw)
        return draw

    return declare


def find_kinds(of: str) -> list[Kind]:
    """Returns the kinds that are drawn ``of`` this, in the order of a report."""
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        importlib.import_module(module.name)
    return sorted((each for each in _KINDS.values() if each.of == of), key=lambda each: each.place)
