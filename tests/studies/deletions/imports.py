"""Which tests are nearest to a file: by how many imports they reach it."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOMS = ("suite", "workloads", "tests")
#: The distance of tests that reach a file by no import, such as one that is found by its name.
FAR = 99


def rank_tests(root: Path, path: Path) -> list[str]:
    """Returns all files of tests, the nearest to the file at ``path`` first; of equally near ones those of its name."""
    importers = _importers(root)
    distances, wave = {_module(path): 0}, [_module(path)]
    while wave:
        further = {name for module in wave for name in importers.get(module, ())} - distances.keys()
        distances |= dict.fromkeys(further, distances[wave[0]] + 1)
        wave = sorted(further)
    parts = {*path.with_suffix("").parts[1:]}

    def key(test: Path) -> tuple[int, int, str]:
        words = {*test.parent.parts, *test.stem.removeprefix("test_").split("_"), test.stem.removeprefix("test_")}
        return distances.get(_module(test), FAR), -len(parts & words), str(test)

    tests = (each.relative_to(root) for each in (root / "tests").rglob("test_*.py"))
    return [str(each) for each in sorted(tests, key=key)]


@cache
def _importers(root: Path) -> dict[str, set[str]]:
    """By module, those that import it or something from it."""
    paths = [path.relative_to(root) for room in ROOMS for path in (root / room).rglob("*.py")]
    known = {_module(path) for path in paths}
    found: dict[str, set[str]] = {}
    for path in paths:
        for node in ast.walk(ast.parse((root / path).read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            for name in names:
                module = name if name in known else name.rpartition(".")[0]
                found.setdefault(module, set()).add(_module(path))
    return found


def _module(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")
