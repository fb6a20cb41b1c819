"""The environment variables with which each framework's process starts."""

from __future__ import annotations

from collections.abc import Mapping

from suite.catalog.frameworks import FRAMEWORKS, MEMORY_FRACTION
from suite.plan.cell import Cell

__all__ = ("MEMORY_FRACTION", "VARIABLES", "variables_of")

#: Environment variables that must be set before the framework is imported.
VARIABLES: dict[str, Mapping[str, str]] = {name: each.variables for name, each in FRAMEWORKS.items()}


def variables_of(cell: Cell) -> dict[str, str]:
    """The variables of a cell's framework, its threads, and with Keras its backend, which it reads at import."""
    framework = FRAMEWORKS[cell.framework]
    backend = {"KERAS_BACKEND": framework.keras_backend} if cell.interface.startswith("keras") else {}
    threads = dict.fromkeys(framework.thread_variables, str(cell.threads)) if cell.threads else {}
    return {**framework.variables, **backend, **threads}
