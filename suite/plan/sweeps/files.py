"""The matrices that ``--matrix`` names: by their names, in TOML files, and in users' Python files.

The keys of a TOML file are names of options.

For example::

    workload = "imdb_lstm"
    framework = ["jax", "pytorch"]
    batch = [32, 64, "auto"]
    launches = 6
"""

from __future__ import annotations

import importlib.util
import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from suite.catalog.setting import Count
from suite.catalog.settings import SETTINGS
from suite.catalog.suggest import unknown
from suite.plan.cell import Cell
from suite.plan.matrix import Matrix, MatrixError, matrix, union, with_windows
from suite.plan.sweeps.sweep import AXES, parse_values, swept, usual
from workloads.data.files import read_regular
from workloads.faults import FAULTS, describe_fault

#: Keys besides the axes.
OTHERS = ("matrix", "launches", "min-window", "name")

BYTES_MOST = 1 << 20

#: A name that can be part of a file's name.
NAME_LONGEST = 100
NAME = re.compile(rf"[\w.+-]{{1,{NAME_LONGEST}}}")


def union_of_names(texts: Sequence[str], gpu: bool) -> Matrix:
    """The union of the matrices in comma lists of names, TOML files and Python functions. Raises `MatrixError`."""
    return union([_one(name, gpu) for text in texts for name in _split(text)])


def _split(text: str) -> Iterable[str]:
    if text.endswith(".toml") and Path(text).is_file():
        return [text]
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise MatrixError(f"--matrix is {text!r}; write names with commas between them, such as precision,batch")
    return names


def _one(name: str, gpu: bool) -> Matrix:
    if not name.endswith(".toml"):
        return matrix(name)
    if not Path(name).is_file():
        raise MatrixError(f"no file {name!r} for --matrix")
    return read_sweep(Path(name), gpu)


def read_sweep(path: Path, gpu: bool) -> Matrix:
    """The matrix in a TOML file. Raises `MatrixError`."""
    try:
        data = tomllib.loads(read_regular(path, BYTES_MOST).decode("utf-8-sig"))
    except RecursionError:
        raise MatrixError(f"{path} has brackets within brackets too deep to read") from None
    except OSError as error:
        raise MatrixError(f"{path}: {error.strerror or error}") from None
    except ValueError as error:  # a TOMLDecodeError or UnicodeDecodeError
        raise MatrixError(f"{path} is not valid TOML: {error}") from None
    for key in data:
        if key not in (*AXES, *OTHERS):
            raise MatrixError(f"{path}: {unknown('key', key, (*AXES, *OTHERS))}")
    try:
        base = _base(data, gpu)
        axes = {axis: parse_values(axis, ",".join(_values(axis, data[axis]))) for axis in AXES if axis in data}
        chosen = swept(base, axes)
        return replace(chosen, **_rest(data, chosen, path))
    except MatrixError as error:
        raise MatrixError(f"{path}: {str(error).removeprefix('--')}") from None


def _base(data: dict[str, Any], gpu: bool) -> Matrix:
    names = [_text("matrix", each) for each in _list("matrix", data["matrix"])] if "matrix" in data else []
    if inner := next((each for each in names if each.endswith(".toml")), ""):
        raise MatrixError(f"matrix names {inner!r}; a TOML file can name no other one")
    return union_of_names(names, gpu) if names else usual(gpu)


def _rest(data: dict[str, Any], matrix: Matrix, path: Path) -> dict[str, Any]:
    """The name, the launches and the windows that the file asks for; launches that it names are fixed."""
    name = data.get("name", _name_of(path))
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise MatrixError(f"name is {name!r}; use letters, digits and . + - _ only")
    launches = data.get("launches", matrix.launches)
    if type(launches) is not int or launches < 1:
        raise MatrixError(f"launches is {launches!r}; it must be a whole number of at least 1")
    plan = with_windows(matrix.plan, data["min-window"], "min-window") if "min-window" in data else matrix.plan
    budget_s = None if "launches" in data else matrix.budget_s
    return {"name": name, "launches": launches, "plan": plan, "budget_s": budget_s}


def _name_of(path: Path) -> str:
    return re.sub(r"[^\w.+-]+", "-", path.stem).strip("-")[:NAME_LONGEST] or "sweep"


def _values(axis: str, value: Any) -> list[str]:
    numbers = isinstance(SETTINGS[axis], Count)
    return [str(each) if numbers and type(each) is int else _text(axis, each) for each in _list(axis, value)]


def _list(key: str, value: Any) -> list[Any]:
    values = value if isinstance(value, list) else [value]
    if not values:
        raise MatrixError(f"{key} is an empty list; write its values or leave the key out")
    return values


def _text(key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise MatrixError(f"{key} is {value!r}; write text in quotes, or a list of such texts")
    return value


def read_function(name: str) -> Matrix:
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
    made = returned
    if not isinstance(made, Matrix):
        if not isinstance(returned, (list, tuple)) or not all(isinstance(cell, Cell) for cell in returned):
            kind = type(returned).__name__
            raise MatrixError(f"{name} returned {kind}; it must return a Matrix or a list of cells")
        made = Matrix(function, tuple(dict.fromkeys(returned)))
    if not made.cells:
        raise MatrixError(f"{name} has no cells; return at least one")
    return made
