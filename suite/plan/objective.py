"""What a search looks for: objectives, constraints on others, and a budget; as the command line writes them."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from suite.catalog.suggest import unknown
from suite.plan.command.common import duration
from suite.plan.matrix import MatrixError
from suite.plan.measuring import LEAST_TESTED, MARGIN


@dataclass(frozen=True)
class Kind:
    """A quantity: its unit, whether more of it is better, and the suffixes that a limit may have, as factors."""

    unit: str
    more: bool
    words: str
    suffixes: tuple[tuple[str, float], ...] = ()


#: What can be searched for, by the name on the command line; all are positive.
KINDS = {
    "samples/s": Kind("samples/s", True, "training throughput"),
    "step-latency": Kind("s", False, "the time of a training step", (("ms", 1e-3), ("us", 1e-6), ("s", 1.0))),
    "joules/sample": Kind("J", False, "energy of the GPU per sample", (("mJ", 1e-3), ("J", 1.0))),
    "cost": Kind("", False, "the price of a million samples"),
    "memory": Kind("bytes", False, "peak memory: of the GPU's allocator, or of the process on a CPU",
        (("KiB", 2**10), ("MiB", 2**20), ("GiB", 2**30), ("TiB", 2**40), ("MB", 1e6), ("GB", 1e9), ("bytes", 1.0))),
    "seconds-to-accuracy": Kind("s", False, "seconds of training until the test accuracy is reached"),
}  # fmt: skip

#: Longest budget: a year, or more launches than a journal holds.
SECONDS_MOST, LAUNCHES_MOST = 366 * 86_400.0, 10**6

#: The share of the launches of the full matrix, with six launches of each cell, that a search may make by default, and
#: the same for trainings to an accuracy: nothing is dropped before three seeds.
SHARE, SHARE_TRAINED = 0.4, 0.7


@dataclass(frozen=True)
class Objective:
    """A quantity to make as large or as small as possible; ``target`` is the accuracy to reach, where it has one."""

    name: str
    target: float | None = None

    @property
    def kind(self) -> Kind:
        return KINDS[self.name]

    def __str__(self) -> str:
        return self.name if self.target is None else f"{self.name}={self.target:g}"


@dataclass(frozen=True)
class Limit:
    """A bound on a quantity: the least where more is better, else the most."""

    name: str
    value: float
    text: str

    @property
    def kind(self) -> Kind:
        return KINDS[self.name]

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Budget:
    """What a search may spend: seconds, or launches."""

    seconds: float | None = None
    launches: int | None = None


@dataclass(frozen=True)
class Question:
    """What a search is asked: one objective, or two for their Pareto front, within limits; and the margin."""

    objectives: tuple[Objective, ...] = (Objective("samples/s"),)
    limits: tuple[Limit, ...] = ()
    margin: float = MARGIN
    price_hour: float | None = None  # in any currency
    price_kwh: float | None = None
    upward: bool = False  # larger batches are tried until they are no faster, or do not fit

    @property
    def target(self) -> float | None:
        """The accuracy to reach; None if cells are not trained to the end."""
        return next((each.target for each in self.objectives if each.target is not None), None)

    @property
    def names(self) -> list[str]:
        """The quantities that the answer needs."""
        return list(dict.fromkeys([*(each.name for each in self.objectives), *(each.name for each in self.limits)]))

    def to_json(self) -> dict[str, Any]:
        """What a run must have been asked to be continued."""
        return {
            "objectives": [str(each) for each in self.objectives],
            "within": [str(each) for each in self.limits],
            "margin": self.margin,
            "price_hour": self.price_hour,
            "price_kwh": self.price_kwh,
            **({"upward": True} if self.upward else {}),
        }


def objectives(text: str) -> tuple[Objective, ...]:
    """One or two objectives from a comma list, such as ``samples/s,memory``. Raises `MatrixError`."""
    found = tuple(dict.fromkeys(_objective(part.strip()) for part in text.split(",")))
    if len(found) > 2:
        raise MatrixError(f"--objective has {len(found)} objectives; give one, or two for their Pareto front")
    return found


def _objective(text: str) -> Objective:
    name, equals, value = text.partition("=")
    if name not in KINDS:
        raise MatrixError(f"--objective: {unknown('objective', name, _show_kinds())}")
    if name != "seconds-to-accuracy":
        if equals:
            raise MatrixError(f"--objective {name} takes no value; a limit is --within {text}")
        return Objective(name)
    target = _number(value)
    if target is None or not 0 < target <= 1:
        raise MatrixError(f"--objective is {text!r}; write the accuracy to reach, such as {name}=.86")
    return Objective(name, target)


def limit(text: str) -> Limit:
    """A limit, such as ``memory=8GiB`` or ``samples/s=1000``. Raises `MatrixError`."""
    name, equals, value = text.partition("=")
    if name not in KINDS or not equals:
        problem = f"{text!r} has no value" if name in KINDS else unknown("quantity", name, KINDS)
        raise MatrixError(f"--within: {problem}; write a limit, such as memory=8GiB or samples/s=1000")
    for suffix, factor in KINDS[name].suffixes:
        if value.endswith(suffix) and (number := _number(value.removesuffix(suffix))):
            return Limit(name, number * factor, text)
    number = None if name == "memory" else _number(value)
    if not number:
        units = ", ".join(suffix for suffix, _ in KINDS[name].suffixes)
        raise MatrixError(
            f"--within is {text!r}; write a positive number" + (f" with one of: {units}" if units else "")
        )
    return Limit(name, number, text)


def budget(text: str) -> Budget:
    """A budget, such as ``30min``, ``2h`` or ``200launches``. Raises `MatrixError`."""
    if match := re.fullmatch(r"(\d{1,9})\s*launch(?:es)?", text.strip()):
        if 0 < int(match[1]) <= LAUNCHES_MOST:
            return Budget(launches=int(match[1]))
    else:
        with suppress(argparse.ArgumentTypeError):
            if 0 < (seconds := duration(text)) <= SECONDS_MOST:
                return Budget(seconds=seconds)
    raise MatrixError(f"--budget is {text!r}; write a time or a number of launches, such as 30min, 2h or 200launches")


def usual_budget(cells: int, trained: bool = False) -> int:
    """The launches that a search of so many cells may make by default; at least one of each."""
    return max(cells, math.floor((SHARE_TRAINED if trained else SHARE) * LEAST_TESTED * cells))


def needs_energy(question: Question) -> str:
    """The quantity that needs the energy of a GPU; empty if none does."""
    if "joules/sample" in question.names:
        return "joules/sample"
    return "cost with --price-kwh" if "cost" in question.names and question.price_kwh is not None else ""


def check(question: Question) -> None:
    """Raise `MatrixError` for a question that lacks something, whatever the machine."""
    if "cost" in question.names and question.price_hour is None and question.price_kwh is None:
        raise MatrixError("the cost of a million samples needs a price: add --price-hour, --price-kwh or both")
    if "seconds-to-accuracy" in (each.name for each in question.limits) and question.target is None:
        raise MatrixError("--within seconds-to-accuracy needs the accuracy: --objective seconds-to-accuracy=.86 too")
    if question.upward and question.names != ["samples/s"]:
        raise MatrixError("--batch up goes up until throughput no longer grows; for other objectives list the batches")
    if question.target is not None and needs_energy(question):
        raise MatrixError("a training to the end has no joules per sample; search for one of the two")


def _number(text: str) -> float | None:
    """A plain decimal number; None for anything else, such as ``nan`` and ``1e999``."""
    return float(text) if re.fullmatch(r"\d{0,12}\.?\d{0,12}", text.strip()) and re.search(r"\d", text) else None


def _show_kinds() -> Sequence[str]:
    return [f"{name}=.86" if name == "seconds-to-accuracy" else name for name in KINDS]
