"""Plausible ranges of readings by the unit that ends their names: what lies outside was not measured.

They are wide: a sensor may round, and machines grow. They hold in the parts of a record that have no schema, whichever
version wrote it; the other parts have their ranges in their types.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from suite.plan.schema import step_into

#: The ends of names and the range of such a number; the first that fits counts. A sensor's percentage may round up.
UNITS: dict[str, tuple[float, float]] = {
    "_percent": (0, 110),
    "_cores": (0, 1e5),
    "_w": (0, 1e4),
    "_mhz": (0, 1e5),
    "_c": (-100, 300),
    "_bytes": (0, 2**62),
    "_share": (0, 100),  # of a time between two readings that were not taken at one moment
    "_j_per_sample": (0, 1e9),
    "_j_to_target": (0, 1e15),
    "_flops_per_s": (0, 1e21),
    "_per_s": (0, 1e16),
    "_per_sample": (0, 1e18),
}

#: Names without a unit.
NAMES: dict[str, tuple[float, float]] = {"cores": (1, 1e5), "threads": (0, 1e6), "parameters": (0, 1e15)}

#: The median of cores in use, over the cores that there are: clocks are read one after the other.
CORES_MOST = 2.0

#: How often something was read, beside the figures of a reading.
COUNT = "n"

Path = tuple[str | int, ...]


def outside(value: Any, path: Path = ()) -> Iterator[tuple[Path, float, float, float]]:
    """The path of each reading outside of its range, the number, and the range."""
    if isinstance(value, list):
        for at, each in enumerate(value):
            if isinstance(each, (dict, list)):
                yield from outside(each, (*path, at))
    elif isinstance(value, dict):
        cores = value.get("cores")
        for name, each in value.items():
            if limits := _range(name):
                wrong = (number for number in _numbers(each) if not limits[0] <= number <= limits[1])
                if (number := next(wrong, None)) is not None:
                    yield (*path, name), number, *limits
            elif name == "phases" and type(cores) is int and cores > 0:
                yield from _busier(each, CORES_MOST * cores, (*path, name))
                yield from outside(each, (*path, name))
            elif isinstance(each, (dict, list)):
                yield from outside(each, (*path, name))


def explain(problem: tuple[Path, float, float, float]) -> str:
    """One of these in words, such as ``.host.phases.train.cpu_cores is -7.5; it is from 0 to 4``."""
    path, number, least, most = problem
    place = "".join(f"[{step}]" if isinstance(step, int) else step_into(step) for step in path)
    return f"{place} is {number:g}; it can be from {least:g} to {most:g}"


def drop_outside(metrics: dict[str, Any]) -> dict[str, str]:
    """Take readings outside of their ranges out of the metrics; returns why each is absent, by its name.

    A driver that answers nonsense once must not make the record of a launch unreadable.
    """
    reasons: dict[str, str] = {}
    for problem in list(outside(metrics)):
        *way, name = problem[0]
        at: Any = metrics
        for step in way:
            at = at[step]
        if at.pop(name, None) is not None:
            reasons[str(name)] = f"it was read as {problem[1]:g}"
    return reasons


@lru_cache(maxsize=1024)
def _range(name: str) -> tuple[float, float] | None:
    return NAMES.get(name) or next((limits for unit, limits in UNITS.items() if name.endswith(unit)), None)


def _busier(phases: Any, most: float, path: Path) -> Iterator[tuple[Path, float, float, float]]:
    for phase, figures in phases.items() if isinstance(phases, dict) else ():
        for name in ("cpu_cores", "other_cpu_cores") if isinstance(figures, dict) else ():
            reading = figures.get(name)
            middle = reading.get("median") if isinstance(reading, dict) else None
            if isinstance(middle, (int, float)) and most < middle <= UNITS["_cores"][1]:
                yield (*path, phase, name), middle, 0, most


def _numbers(reading: Any) -> Iterable[float]:
    """The numbers of a reading: itself, its figures, or the least and the largest of a line."""
    if isinstance(reading, (int, float)):
        return (reading,)
    if isinstance(reading, list):
        plain = set(map(type, reading)) <= {int, float}
        numbers = reading if plain else [each for each in reading if isinstance(each, (int, float))]
        return {min(numbers), max(numbers)} if numbers else ()
    if not isinstance(reading, dict):
        return ()
    if type(power := reading.get("e")) is int:  # as `suite.record.saved` stores it
        scale = math.pow(10, power) if abs(power) < 100 else 0
        return [number * scale for number in _numbers(reading.get("n"))]
    figures = [each for name, each in reading.items() if name != COUNT]
    plain = set(map(type, figures)) <= {int, float}
    return figures if plain else [number for each in figures for number in _numbers(each)]
