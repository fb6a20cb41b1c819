"""The models of `docs/lab/port-examples.md`, in what `training-suite new` writes, are the same in all frameworks."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from suite.new.__main__ import main
from suite.prove.numbers import Given, Numbers
from suite.prove.output import verdict
from tests.documents import blocks
from tests.frameworks import needs_frameworks
from tests.isolation import in_own_process
from tests.prove.mistakes import forget, numbers
from workloads import registry

pytestmark = [needs_frameworks, pytest.mark.usefixtures("unoptimized")]


def put_in(file: Path, block: str) -> None:
    """Definitions take the place of those of the same name; what is none goes behind the imports of the file."""
    text = file.read_text(encoding="utf-8").splitlines()
    named = {each.name: each for each in ast.parse(block).body if isinstance(each, ast.ClassDef | ast.FunctionDef)}
    parts = {name: ast.get_source_segment(block, each) for name, each in named.items()}
    first = min(min(d.lineno for d in (*each.decorator_list, each)) for each in named.values())
    body = ast.parse("\n".join(text)).body
    for each in reversed(body):
        if isinstance(each, ast.ClassDef | ast.FunctionDef) and each.name in parts:
            text[each.lineno - 1 : each.end_lineno] = (parts.pop(each.name) or "").splitlines()
    last = max(each.end_lineno or 0 for each in body if isinstance(each, ast.Import | ast.ImportFrom))
    added = [*block.splitlines()[: first - 1], *"\n\n".join(part or "" for part in parts.values()).splitlines()]
    file.write_text("\n".join([*text[:last], *added, *text[last:]]), encoding="utf-8")


@pytest.fixture(params=["attention"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    assert main(["workload", request.param, "--into", str(tmp_path)]) == 0
    for block in blocks():
        named = re.match(r"# (\w+)/(\w+\.py)\n", block.text)
        if block.page.name == "port-examples.md" and named and named[1] == request.param:
            put_in(tmp_path / request.param / named[2], block.text)
    yield tmp_path / request.param
    forget(f"own_{request.param}")


@in_own_process
def numbers_of(framework: str, folder: Path) -> tuple[Numbers, Given]:
    registry.register(folder)
    return numbers(f"own_{folder.name}", framework)


def test_the_models_of_the_page_are_the_same_in_all_frameworks(folder: Path) -> None:
    registry.register(folder)
    one, given = numbers_of("pytorch", folder)
    others = [numbers_of(framework, folder)[0] for framework in ("tensorflow", "jax")]
    lines, same = verdict(one, others, given)
    assert same, "\n".join(lines)
