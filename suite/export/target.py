"""What every target has in common: its functions, its place, its library, and the errors that end in one line."""

from __future__ import annotations

import os
import pkgutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from framework_training_suite import CommandError
from suite.catalog.suggest import unknown
from suite.export import targets
from suite.record.scratch import scratch
from suite.record.text import clean

if TYPE_CHECKING:
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

    def begin(self, place: str, origin: Origin) -> Any:
        """Open the place for a run, once. Raises `ExportError`."""

    def add(self, session: Any, record: Record) -> bool:
        """Add a launch; False if it was there already, as after an earlier export. Raises `ExportError`."""

    def attach(self, session: Any, files: Sequence[Path]) -> int:
        """Add the files of a report, and return how many the target takes."""

    def end(self, session: Any) -> str:
        """Close the session, and return one line that says where the launches are and how to look at them."""


def require_folder(place: str) -> str:
    """The place, which is a folder or not there yet. Raises `ExportError`."""
    if Path(place).exists() and not Path(place).is_dir():
        raise ExportError(f"{clean(place)} is a file; give a folder with --to")
    return place


@dataclass(frozen=True)
class TargetInfo:
    """What a target's file says of it, as ``ABOUT``. ``takes`` is its line in a list, ``to`` the help of ``--to``.

    ``library`` is the module that it needs, and ``extra`` that of this project which installs it. Without ``--to``, the
    place is that of the ``variable`` of the environment, else ``default``; ``check`` returns it, or raises
    `ExportError` for what cannot be one. With ``follows``, `run --track` sends to it while a run goes on.
    """

    takes: str
    to: str
    library: str
    extra: str
    default: str
    variable: str = ""
    check: Callable[[str], str] = require_folder
    follows: bool = True

    def place(self, given: str | None) -> str:
        """Where launches go. Raises `ExportError`."""
        return self.check(given or os.environ.get(self.variable) or self.default)


def abouts() -> dict[str, TargetInfo]:
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


@dataclass
class RunFolder:
    """The session of a target that writes files: the folder, and the id of the run."""

    path: Path
    run: str


@contextmanager
def writing(path: object, library: str = "") -> Iterator[None]:
    """Turn a file system that refuses to be written, and any error of a ``library``, into one line."""
    try:
        yield
    except ExportError:
        raise
    except OSError as error:
        raise ExportError(f"cannot write {clean(path)}: {error.strerror or error}; give a folder with --to") from None
    except Exception as error:
        if not library:
            raise
        raise ExportError(f"{library} failed in {clean(path)}: {clean(error, 200) or type(error).__name__}") from None


def write_whole(file: Path, content: bytes) -> None:
    """Write the file, in place of one of this name, at once; a kill leaves the old one. Raises `ExportError`."""
    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        with scratch(file.parent, ".partial-") as folder:
            (folder / "whole").write_bytes(content)
            (folder / "whole").replace(file)
