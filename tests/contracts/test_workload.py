"""A workload is one folder: what its ``spec.py`` declares is found wherever workloads are listed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from suite.analysis.identity.tolerances import TOLERANCE, tolerance_of
from suite.new.__main__ import main as new
from suite.plan.cell import KERNELS_OF, WORKLOADS, Cell
from suite.plan.matrix import MatrixError
from suite.plan.settings.strategies import has_local_statistics, why_not_measured
from suite.plan.sweeps.sweep import parse_values, swept, usual
from suite.report.format import names
from suite.worker.frameworks import UnsupportedError, check
from tests.prove.mistakes import forget
from workloads import registry
from workloads.recipes import recipe
from workloads.spec import WorkloadSpec, read_declaration, specification

NAME = "own_fake"

DECLARED = """
    title = "Fake"
    kernels = ("fused",)
    stages = batch_normalised = True
    one_block = "own_fake is one block"
    bounds: ClassVar = {"fp32": Bounds(1e-6, 1e-6, 1e-6, 1e-6, 1e-6)}
    dropout_bounds = DropoutBounds(apart=0.01)

    @property
    def modern(self) -> Training:
        return Training(self.optimizer, epochs=7, target=0.9)
"""


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[str]:
    """The template's folder, with declarations in its spec."""
    assert new(["workload", "fake", "--into", str(tmp_path)]) == 0
    spec = tmp_path / "fake" / "spec.py"
    text = spec.read_text(encoding="utf-8").replace("import Sgd,", "import Bounds, DropoutBounds, Sgd, Training,")
    head, tail = text.split("    features: int\n", 1)
    text = f"{head}{DECLARED}\n    features: int\n{tail}".replace(
        "import dataclass\n", "import dataclass\nfrom typing import ClassVar\n"
    )
    spec.write_text(text, encoding="utf-8")
    assert registry.register(spec.parent) == [NAME]
    try:
        yield NAME
    finally:
        forget(NAME)


def test_what_it_declares_is_used(fake: str) -> None:
    cell = Cell(fake, "pytorch", kernel="fused")
    check(cell, "cpu")
    with pytest.raises(UnsupportedError, match="own_fake has no layer whose kernel could be scan"):
        check(cell.but(kernel="scan"), "cpu")
    with pytest.raises(UnsupportedError, match="own_fake is one block"):
        check(cell.but(checkpointing="on"), "cpu")
    assert not why_not_measured(Cell(fake, "pytorch", devices=2, strategy="split"))
    assert has_local_statistics(Cell(fake, "pytorch", devices=2))
    bounds = tolerance_of(fake, "fp32", cuda=False)
    assert bounds
    assert (bounds.losses, bounds.provisional) == (1e-6, False)
    assert read_declaration(fake).dropout_bounds.apart == 0.01
    assert (chosen := recipe("modern", specification(fake))).epochs == 7
    assert chosen.decay


def test_it_is_an_option_an_id_and_a_name_in_tables(fake: str) -> None:
    assert parse_values("workload", fake) == (fake,)
    cells = swept(usual(gpu=False), {"workload": (fake,), "kernel": ("auto", "fused", "scan")}).cells
    assert {cell.kernel for cell in cells} == {"auto", "fused"}
    assert cells[0].id.startswith("own_fake-pytorch-")
    assert names.workload_title(fake) == "Fake"


def test_without_its_folder_it_is_unknown_and_its_records_are_read() -> None:
    assert read_declaration(NAME) is WorkloadSpec
    bounds = tolerance_of(NAME, "fp32", cuda=False)
    assert bounds
    assert bounds.provisional
    assert names.workload_title(NAME) == NAME
    with pytest.raises((MatrixError, ValueError)):
        parse_values("workload", NAME)


def test_the_suite_s_own_declare_what_is_listed() -> None:
    folders = sorted(path.parent.name for path in Path(registry.__file__).parent.glob("*/spec.py"))
    assert list(WORKLOADS) == folders
    for name in WORKLOADS:
        declared = read_declaration(name)
        assert declared.title
        assert KERNELS_OF.get(name, ()) == declared.kernels
        assert {precision for workload, precision in TOLERANCE if workload == name} >= declared.bounds.keys() | {"fp64"}
