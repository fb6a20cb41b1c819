"""What a mutant is: one difference, planted in one framework, and the evidence that must notice it."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest

from suite.plan.cell import FRAMEWORKS, Cell
from suite.worker.frameworks import import_framework

#: What notices a launch that ends by itself, as by a probe of its precision.
REFUSED = "refused"


@dataclass(frozen=True)
class Target:
    """The files of one framework in which a difference is planted until ``patch`` is undone."""

    patch: pytest.MonkeyPatch
    name: str
    framework: ModuleType
    workload: ModuleType
    loaders: ModuleType

    def wrap(self, owner: Any, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        """Replace a function or method by what ``make`` makes of it."""
        self.patch.setattr(owner, name, make(getattr(owner, name)))

    def overlay(self, name: str, **changes: Any) -> None:
        """Show the workload's file a module with other members, as in ``overlay("nn", relu=gelu)``.

        Those of the framework, of which the file takes what it has not itself, see the same.
        """
        for module in (self.workload, import_module(f"workloads.defaults.{self.name}")):
            if hasattr(module, name):
                self.patch.setattr(module, name, Overlay(getattr(module, name), **changes))


class Overlay:
    """A module in which some members are others."""

    def __init__(self, module: Any, **changes: Any) -> None:
        self.__dict__.update(changes)
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


Plant = Callable[[Target], None]


@dataclass(frozen=True)
class Mutant:
    """``plant`` puts the difference in; ``noticed_by`` are the parts of a record that must notice it.

    ``settings`` are those of the cell that are not usual; its launches also infer where it ``serves``. ``survives``
    says why nothing in a record notices it, where that is so; it is then the study's finding, and no failure.
    """

    kind: str
    name: str
    framework: str
    workload: str
    plant: Plant
    noticed_by: tuple[str, ...]
    settings: dict[str, Any] = field(default_factory=dict)
    survives: str = ""
    serves: bool = False

    @property
    def id(self) -> str:
        return f"{self.framework}: {self.name}"

    @property
    def key(self) -> str:
        """Which mutant this is, in a journal."""
        return f"{self.kind}: {self.id}: {self.cell.id}"

    def __hash__(self) -> int:
        return hash(self.key)

    def problem(self, noticed: Container[str], killed: bool, failed: bool = False) -> str:
        """What is wrong with what became of it, in words. One that ``failed`` never ran: it was planted wrong."""
        if failed:
            return "planted wrong"
        if self.survives:
            return "no longer survives" if killed else ""
        if (
            REFUSED in noticed
        ):  # of a launch that ends, such as by a loss that is no number, there is nothing to compare
            return ""
        missed = [part for part in self.noticed_by if part not in noticed]
        return "survives" if not killed else f"not noticed by {', '.join(missed)}" if missed else ""

    @property
    def cell(self) -> Cell:
        """The cell whose launches have the difference."""
        return Cell(self.workload, self.framework, **{"batch": 16, "size": "small", **self.settings})

    @contextmanager
    def planted(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            name = self.framework
            files = (f"workloads.{self.workload}.{name}", f"suite.worker.loaders.{name}")
            self.plant(Target(patch, name, import_framework(name), *(import_module(file) for file in files)))
            yield


def mutants(
    kind: str, name: str, workload: str, plant: Plant, *noticed_by: str,
    of: Sequence[str] = FRAMEWORKS, survives: str = "", serves: bool = False, **settings: Any,
) -> list[Mutant]:  # fmt: skip
    """The same difference in each of some frameworks, one mutant for each."""
    return [Mutant(kind, name, each, workload, plant, noticed_by, settings, survives, serves) for each in of]
