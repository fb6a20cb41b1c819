"""The matrix that the names after ``--matrix`` stand for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from suite.plan.matrix import Matrix, MatrixError, matrix, union
from suite.plan.sweeps import sweep_file
from suite.plan.sweeps.sweep import usual


def union_of_names(texts: Sequence[str], gpu: bool) -> Matrix:
    """The union of the matrices in comma lists of names, TOML files and Python functions. Raises `MatrixError`."""
    return union([_one(name, gpu) for text in texts for name in _split(text)])


def _split(text: str) -> Iterable[str]:
    """The names in a comma list; a file's path may have commas in it."""
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

    def base(names: Sequence[str]) -> Matrix:
        if inner := next((each for each in names if each.endswith(".toml")), ""):
            raise MatrixError(f"matrix names {inner!r}; a TOML file can name no other one")
        return union_of_names(names, gpu) if names else usual(gpu)

    return sweep_file.read(Path(name), base)
