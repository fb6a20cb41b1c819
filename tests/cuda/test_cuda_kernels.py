"""What is chosen and makes a difference in speed only: the LSTM's kernel and compile modes."""

from __future__ import annotations

from typing import Any

import pytest

from suite.analysis.identity.tolerances import TOLERANCE
from suite.plan.cell import Cell
from tests.cuda.cells import COMPILED, KERNELS, KERNELS_OF, REHEARSAL, SIZE, compiled, kernels
from tests.cuda.deviations import pairs
from tests.cuda.launcher import Launched


@pytest.mark.parametrize("cells", [kernels(framework) for framework in KERNELS_OF], ids=KERNELS_OF)
def test_the_lstm_of_cudnn_computes_what_a_loop_does(
    cells: tuple[Cell, ...], launched: Launched, figures: dict[str, Any]
) -> None:
    records = {cell.id: launched(cell) for cell in cells}
    (found,) = pairs(records).values()
    named = [record.settings["kernels"]["lstm"] for record in records.values()]
    figures[f"deviation/imdb_lstm/fp32/{SIZE}/{cells[0].framework} {' / '.join(named)}"] = found
    if not REHEARSAL:
        assert named == list(KERNELS)
    _assert_within(found, "imdb_lstm", "fp32")


@pytest.mark.parametrize("cells", [compiled(*each) for each in COMPILED], ids=["-".join(each) for each in COMPILED])
def test_a_compiled_step_computes_what_the_usual_one_does(
    cells: tuple[Cell, ...], launched: Launched, figures: dict[str, Any]
) -> None:
    """`max` replays CUDA graphs, whose outputs the next replay overwrites."""
    usual, other = cells
    record = launched(other)
    (found,) = pairs({cell.id: launched(cell) for cell in cells}).values()
    name = f"cifar100_cnn/{other.precision}/{other.size}/{other.framework} {usual.compile} / {other.compile}"
    figures[f"deviation/{name}"] = found
    figures[f"first_step_s/{name}"] = record.first_step_s
    if other.precision == "fp32":
        _assert_within(found, "cifar100_cnn", "fp32")


def _assert_within(found: dict[str, Any], workload: str, precision: str) -> None:
    """The bounds between frameworks, found on a CPU and provisional, serve within one."""
    tolerance = TOLERANCE[workload, precision]
    for kind in ("first_loss", "losses", "updates"):
        assert found[kind] <= getattr(tolerance, kind), f"{kind} by {found[kind]:.1e}: {found}"
