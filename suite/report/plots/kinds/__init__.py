"""The kinds of plots. A function that `kind` marks is drawn everywhere; nothing else lists it."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass

from suite.report.plots.traces import Chart

#: What a kind is drawn of: a table of throughput, a table of trainings to the end, or all tables of a comparison.
TIMED, TRAINED, COMPARISON = "timed", "trained", "comparison"

Make = Callable[..., Chart | None]
_KINDS: dict[str, Kind] = {}


@dataclass(frozen=True)
class Kind:
    """A kind of plot: ``chart`` gets what ``of`` says, and returns None where there is nothing to draw.

    Files have the function's name; readers who cannot see the plot get the first line of its docstring.
    """

    place: float
    of: str
    chart: Make

    @property
    def name(self) -> str:
        return self.chart.__name__.replace("_", "-")

    @property
    def words(self) -> str:
        return (self.chart.__doc__ or "").partition(".\n")[0].removesuffix(".")


def kind(place: float, of: str = TIMED) -> Callable[[Make], Make]:
    """Declares the function below it as one that makes a kind of plot; a report has its plots by ``place``."""

    def declare(chart: Make) -> Make:
        _KINDS[chart.__name__] = Kind(place, of, chart)
        return chart

    return declare


def find_kinds(of: str) -> list[Kind]:
    """Returns the kinds that are drawn ``of`` this, in the order of a report."""
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        importlib.import_module(module.name)
    return sorted((each for each in _KINDS.values() if each.of == of), key=lambda each: each.place)
