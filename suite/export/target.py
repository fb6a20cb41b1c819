"""What every target has in common: its functions, its library, and the errors that end in one line."""

from __future__ import annotations

import pkgutil
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, cast

from framework_training_suite import CommandError
from suite.catalog.suggest import unknown
from suite.export import targets
from suite.record.record import Record

#: Where metrics of a run are served, unless the command line says otherwise.
HOST = "127.0.0.1"


class ExportError(CommandError, RuntimeError):
    """Something could not be exported; one line that says what and the way out."""


@dataclass(frozen=True)
class Origin:
    """The run that launches belong to: its id, and what the file says about it. Both may come from a stranger."""

    run: str
    description: dict[str, Any]


class Target(Protocol):
    """The functions of a target, in this order in each of the files; ``session`` is what `begin` returned."""

    def place(self, given: str | None) -> str:
        """Where launches go: what was given, or the default. Raises `ExportError` for a place that cannot be one."""

    def begin(self, place: str, origin: Origin) -> Any:
        """Open the place for a run, once. Raises `ExportError`."""

    def add(self, session: Any, record: Record) -> bool:
        """Add a launch; False if it was there already, as after an earlier export. Raises `ExportError`."""

    def attach(self, session: Any, files: Sequence[Path]) -> int:
        """Add the files of a report, and return how many the target takes."""

    def end(self, session: Any) -> str:
        """Close the session, and return one line that says where the launches are and how to look at them."""


@dataclass(frozen=True)
class About:
    """What a target's file says of it, as ``ABOUT``. ``takes`` is its line in a list, ``to`` the help of ``--to``.

    ``library`` is the module that it needs, and ``extra`` that of this project which installs it; with ``follows``,
    `pytest suite --track` sends to it while a run goes on.
    """

    takes: str
    to: str
    library: str
    extra: str
    follows: bool = True


def abouts() -> dict[str, About]:
    """What all targets say of themselves, by name: each is a file in `suite.export.targets` with an ``ABOUT``."""
    modules = {each.name: _module(each.name) for each in pkgutil.iter_modules(targets.__path__)}
    return {name: module.ABOUT for name, module in modules.items() if hasattr(module, "ABOUT")}


def target(name: str) -> Target:
    """The target of this name. Raises `ExportError` if there is none, or its library is not installed."""
    if not (about := abouts().get(name)):
        raise ExportError(unknown("target", name, abouts()))
    if find_spec(about.library) is None:
        raise ExportError(
            f"{about.library} is not installed; it comes with the extra framework-training-suite[{about.extra}]. In a "
            f"checkout: pip install -e '.[{about.extra}]'"
        )
    return cast("Target", _module(name))


def _module(name: str) -> Any:
    return import_module(f"{targets.__name__}.{name}")
