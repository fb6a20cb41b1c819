"""Whether a framework's release is the one that the cell asks for, and has what the suite needs."""

from __future__ import annotations

import re
import sys
from typing import Any

from suite.catalog.frameworks import FRAMEWORKS
from suite.catalog.setting import VERSION, version_key
from suite.plan.cell import Cell


class ReleaseError(RuntimeError):
    """The interpreter has another release than the one that was asked for."""


def in_force(cell: Cell) -> dict[str, Any]:
    """What a record of a cell with a release says of it, once the framework is imported; nothing without one.

    Raises `ReleaseError` for another one than the cell's. A build's own mark (``+cpu``) does not count.
    """
    if not cell.release:
        return {}
    version = str(getattr(sys.modules.get(FRAMEWORKS[cell.framework].package), "__version__", "none"))
    public = version.partition("+")[0]
    if not re.fullmatch(VERSION, public) or version_key(public) != version_key(cell.release):
        raise ReleaseError(
            f"asked for {cell.framework} {cell.release}, but {version} is installed there; build it anew: "
            f"python -m suite.releases {cell.framework} --remove {cell.release}"
        )
    return {"release": version}


def lacking(cell: Cell, error: BaseException) -> str:
    """What a release lacks that the suite's files need, in words; empty where the error says nothing of the kind."""
    package = FRAMEWORKS[cell.framework].package
    if not cell.release:
        return ""
    if isinstance(error, AttributeError):
        place = getattr(error.obj, "__name__", "")
    else:
        place = (error.name or "") if isinstance(error, ImportError) else ""
    if str(place).partition(".")[0] != package:
        return ""
    return f"{cell.framework} {cell.release} lacks what the suite needs ({error})"
