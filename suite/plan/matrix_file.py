"""A matrix in a user's Python file, for ``--matrix path/to/file.py:function``."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from suite.plan.cell import Cell
from suite.plan.matrix import Matrix, MatrixError
from workloads.faults import FAULTS, describe_fault


def read(name: str) -> Matrix:
    """The matrix that ``path/to/file.py:function`` returns. Raises `MatrixError`."""
    file, _, function = name.rpartition(":")
    path = Path(file)
    if not path.is_file():
        raise MatrixError(f"no file {file!r} for the matrix {name!r}; write --matrix path/to/file.py:name")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise MatrixError(f"{file} is not a Python file; write --matrix path/to/file.py:name")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        returned: Any = getattr(module, function)()
    except FAULTS as error:
        raise MatrixError(f"{name}: {describe_fault(error, path)}") from error
    matrix = returned if isinstance(returned, Matrix) else Matrix(function, _cells(name, returned))
    if not matrix.cells:
        raise MatrixError(f"{name} has no cells; return at least one")
    return matrix


def _cells(name: str, returned: Any) -> tuple[Cell, ...]:
    if not isinstance(returned, (list, tuple)) or not all(isinstance(cell, Cell) for cell in returned):
        raise MatrixError(f"{name} returned {type(returned).__name__}; it must return a Matrix or a list of cells")
    return tuple(dict.fromkeys(returned))
