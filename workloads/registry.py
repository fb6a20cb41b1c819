"""Workloads from outside of this repository: folders that a user names, each a package under ``workloads``.

A folder ``my_model`` with a ``spec.py`` and one file per framework becomes the workload ``own_my_model`` and the
package ``workloads.own_my_model``; so everything that imports a workload by its name imports this one too. Nothing is
added to ``sys.path``. Only what a user named on this command line is registered: a name in a stored file imports
nothing.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from framework_training_suite import CommandError
from workloads.faults import FAULTS, describe_fault

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

PREFIX = "own_"
GROUP = "framework_training_suite.workloads"
NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
#: The suite's own workloads: the folders beside this file that have a spec.
WORKLOADS = tuple(sorted(path.parent.name for path in Path(__file__).parent.glob("*/spec.py")))
FRAMEWORK_FILES = ("pytorch", "tensorflow", "jax")

_FOLDERS: dict[str, Path] = {}


class RegistryError(CommandError, ValueError):
    """A folder that is no workload; one line that names the way out."""


def register(place: str | Path) -> list[str]:
    """Make the workload in this folder known, or all in the folders below it; returns their names.

    ``place`` may also be the name of an installed package's entry point in the group `GROUP`, whose value is a package
    with a ``spec.py``. Raises `RegistryError`.
    """
    folder = _folder(str(place))
    found = [folder] if (folder / "spec.py").is_file() else sorted(path.parent for path in folder.glob("*/spec.py"))
    if not found:
        raise RegistryError(
            f"{folder} has no spec.py, nor has a folder in it; `training-suite new workload NAME` writes a workload"
        )
    return [_register(path) for path in found]


def names() -> tuple[str, ...]:
    """The names of all that was registered, in that order."""
    return tuple(_FOLDERS)


def folder_of(workload: str) -> str:
    """The folder of a workload from outside; empty for one of the suite's own."""
    return str(_FOLDERS.get(workload, ""))


def frameworks_of(workload: str) -> tuple[str, ...]:
    """The frameworks that a workload has a file for; one of the suite's own has all.

    Raises `RegistryError` for one from outside that was not registered.
    """
    folder = _FOLDERS.get(workload)
    if folder is None and workload.startswith(PREFIX):
        raise RegistryError(f"unknown workload {workload!r}; name its folder with --workloads PATH")
    return tuple(name for name in FRAMEWORK_FILES if not folder or (folder / f"{name}.py").is_file())


def has_file(workload: str, name: str) -> bool:
    """Whether a workload from outside has this file besides those that it must have."""
    return workload in _FOLDERS and (_FOLDERS[workload] / name).is_file()


def files_digest(workload: str) -> str:
    """SHA-256 over the names and bytes of a workload's own Python files; empty for one of the suite's own.

    The files of folders within it count where Python can import them.
    """
    if workload not in _FOLDERS:
        return ""
    digest = hashlib.sha256()
    for path in _sources(_FOLDERS[workload]):
        name = path.relative_to(_FOLDERS[workload]).as_posix()
        digest.update(f"{name}\n".encode(errors="surrogateescape") + path.read_bytes())
    return digest.hexdigest()


def _sources(folder: Path) -> Iterator[Path]:
    """The Python files of a package: its own by name, then those of the folders in it that an import can reach."""
    yield from sorted(path for path in folder.glob("*.py") if path.is_file())
    for inner in sorted(folder.iterdir()):
        if inner.name.isidentifier() and inner.name != "__pycache__" and inner.is_dir() and not inner.is_symlink():
            yield from _sources(inner)


def installed() -> dict[str, EntryPoint]:
    """The workloads of installed packages, by name."""
    from importlib.metadata import entry_points  # here, since importing it takes longer than all else in this file

    return {entry.name: entry for entry in entry_points(group=GROUP)}


def _folder(place: str) -> Path:
    path = Path(place).expanduser().absolute()
    named = {} if os.sep in place else installed()
    if path.is_dir():
        if place in named:
            raise RegistryError(f"{place} is an installed workload and a folder here; write ./{place} for the folder")
        return path.resolve()
    if place in named:
        return _find_installed(named[place])
    if place in WORKLOADS:
        raise RegistryError(f"{place} is no workload from outside; choose it with --workload {place}")
    known = f"; installed ones: {', '.join(sorted(named))}" if named else ""
    raise RegistryError(f"there is no folder {place!r}{known}; name a folder with a spec.py")


def _find_installed(entry: EntryPoint) -> Path:
    """The folder of an entry point's package, found without importing it."""
    parts = entry.value.partition(":")[0].split(".")
    located = [Path(str(entry.dist.locate_file("/".join(parts))))] if entry.dist else []
    located += [Path(place, *parts) for place in sys.path]
    for path in located:
        if path.is_dir():
            return path.resolve()
    raise RegistryError(f"the installed workload {entry.name!r} names {entry.value!r}, which is no package here")


def _register(folder: Path) -> str:
    if not NAME.fullmatch(folder.name):
        raise RegistryError(
            f"{folder.name!r} is no name for a workload; rename the folder: small letters, digits and underscores, "
            "at most 40, first a letter"
        )
    name = PREFIX + folder.name
    if _FOLDERS.get(name, folder) != folder:
        raise RegistryError(f"{_FOLDERS[name]} and {folder} are both named {folder.name}; rename one of them")
    if name not in _FOLDERS:
        package = f"workloads.{name}"
        _FOLDERS[name] = folder
        try:
            sys.modules[package] = _package(package, folder)
        except FAULTS as error:
            del _FOLDERS[name], sys.modules[package]
            raise RegistryError(f"{folder.name}: {describe_fault(error, folder)}") from error
    return name


def _package(name: str, folder: Path) -> ModuleType:
    """The package in a folder, of which only an ``__init__.py`` is run, if there is one."""
    start = folder / "__init__.py"
    if start.is_file():
        spec = spec_from_file_location(name, start, submodule_search_locations=[str(folder)])
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        return module
    spec = ModuleSpec(name, None, is_package=True)
    spec.submodule_search_locations = [str(folder)]
    return module_from_spec(spec)
