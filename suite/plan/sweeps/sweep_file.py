"""A sweep in a TOML file, for ``--matrix sweep.toml``; its keys are names of options.

For example::

    workload = "imdb_lstm"
    framework = ["jax", "pytorch"]
    batch = [32, 64, "auto"]
    launches = 6
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from suite.catalog.setting import Count
from suite.catalog.settings import SETTINGS
from suite.catalog.suggest import unknown
from suite.plan.matrix import Matrix, MatrixError, with_windows
from suite.plan.sweeps.sweep import AXES, parse_values, swept
from workloads.data.files import read_regular

#: Keys besides the axes.
OTHERS = ("matrix", "launches", "min-window", "name")

BYTES_MOST = 1 << 20

#: A name that can be part of a file's name.
NAME_LONGEST = 100
NAME = re.compile(rf"[\w.+-]{{1,{NAME_LONGEST}}}")


def read(path: Path, base: Callable[[Sequence[str]], Matrix]) -> Matrix:
    """The matrix in a TOML file; ``base`` returns the matrix of the names under its key ``matrix``.

    Raises `MatrixError`.
    """
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
        names = [_text("matrix", each) for each in _list("matrix", data["matrix"])] if "matrix" in data else []
        axes = {axis: parse_values(axis, ",".join(_values(axis, data[axis]))) for axis in AXES if axis in data}
        matrix = swept(base(names), axes)
        return replace(matrix, **_rest(data, matrix, path))
    except MatrixError as error:
        raise MatrixError(f"{path}: {str(error).removeprefix('--')}") from None


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
    """The name of a file without one: that of the file, with a hyphen for what a name cannot have."""
    return re.sub(r"[^\w.+-]+", "-", path.stem).strip("-")[:NAME_LONGEST] or "sweep"


def _values(axis: str, value: Any) -> list[str]:
    """The values of an axis as text: the file has one value or a list of them."""
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
