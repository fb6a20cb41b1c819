"""The environment variables with which each framework's process starts, and which releases are supported."""

from __future__ import annotations

from collections.abc import Mapping

from suite.catalog.frameworks import FRAMEWORKS, MEMORY_FRACTION
from suite.catalog.versions import version_key
from suite.plan.cell import Cell

__all__ = ("MEMORY_FRACTION", "VARIABLES", "cache_variables", "interpreter_variable", "too_old", "variables_of")

#: Environment variables that must be set before the framework is imported.
VARIABLES: dict[str, Mapping[str, str]] = {name: each.variables for name, each in FRAMEWORKS.items()}


def variables_of(cell: Cell) -> dict[str, str]:
    """The variables of a cell's framework, its threads, and with Keras its backend, which it reads at import."""
    framework = FRAMEWORKS[cell.framework]
    backend = {"KERAS_BACKEND": framework.keras_backend} if cell.interface.startswith("keras") else {}
    threads = dict.fromkeys(framework.thread_variables, str(cell.threads)) if cell.threads else {}
    return {**framework.variables, **backend, **threads}


def cache_variables(cell: Cell, folder: str, environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that keep the framework's compiled programs in a folder; flags are added to those that are set."""
    own = {name: value.format(folder) for name, value in FRAMEWORKS[cell.framework].cache_variables.items() if folder}
    flags = {name: f"{environment[name]} {own[name]}" for name in own if name in environment and name.endswith("FLAGS")}
    return own | flags


def interpreter_variable(framework: str, release: str = "") -> str:
    """The variable that names the interpreter of a framework, or of one release: ``SUITE_PYTHON_JAX_0_9_2``."""
    return "_".join(filter(None, ["SUITE_PYTHON", framework, release.replace(".", "_")])).upper()


def too_old(framework: str, release: str) -> str:
    """Why the suite does not support a release, in words; empty if it does."""
    oldest = FRAMEWORKS[framework].oldest
    if not release or not oldest or version_key(release) >= version_key(oldest):
        return ""
    return f"{framework} {release} is older than {oldest}, the oldest release that the suite supports"
