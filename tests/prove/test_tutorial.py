"""The tutorial of `docs/port.md`: its port has two mistakes, which `prove` finds one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from suite.new.__main__ import main
from suite.prove.compare import checks
from suite.prove.numbers import Given, Numbers
from suite.prove.output import explanation, verdict
from tests.documents import blocks
from tests.frameworks import needs_frameworks
from tests.isolation import in_own_process
from tests.prove.mistakes import forget, numbers
from workloads import registry

pytestmark = needs_frameworks("pytorch", "jax")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    assert main(["workload", "flowers", "--framework", "pytorch", "--into", str(tmp_path)]) == 0
    yield tmp_path / "flowers"
    forget("own_flowers")


@in_own_process
def numbers_of(framework: str, folder: Path, port: str) -> tuple[Numbers, Given]:
    """What the folder's workload computes with this port as its file for JAX."""
    (folder / "jax.py").write_text(port, encoding="utf-8")
    forget("own_flowers")
    registry.register(folder)
    return numbers("own_flowers", framework)


@pytest.mark.slow
def test_prove_finds_both_mistakes_of_the_tutorial(folder: Path) -> None:
    (text,) = (block.text for block in blocks() if block.page.name == "port.md" and block.file == "jax.py")
    page = (Path(__file__).parents[2] / "docs" / "port.md").read_text(encoding="utf-8")
    registry.register(folder)
    one, given = numbers_of("pytorch", folder, text)
    for old, new in ((".sum()", ".mean()"), ("nn.Dropout(keep", "nn.Dropout(self.spec.dropout[0]"), ("", "")):
        other, _ = numbers_of("jax", folder, text)
        if old:
            found = checks(one, other, given)
            assert not all(check.same for check in found)
            for line in explanation(one, other, given, found):
                assert line in page, line
            assert old in text
            text = text.replace(old, new)
    lines, same = verdict(one, [other], given)
    assert same, "\n".join(lines)
