"""Is the precision that was asked for the one that is used, and do the frameworks compute the same in each?"""

from __future__ import annotations

from typing import Any

import pytest

from suite.analysis.identity.tolerances import TOLERANCE
from suite.analysis.identity.verdicts import verdicts
from suite.plan.cell import Cell
from suite.worker.launch.probe import BANDS
from tests.cuda.cells import COMPARED, GROWN_OF, compared, grown
from tests.cuda.deviations import largest, pairs
from tests.cuda.launcher import Alike, Launched

CELLS = [cell for group in COMPARED for cell in compared(*group)]
#: Tolerances that are asserted, though they were found on a CPU and are provisional; all others are recorded only.
ASSERTED = ("fp32", "fp64")


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.id)
def test_a_launch_ends_well_and_computes_in_the_precision_asked_for(
    cell: Cell, launched: Launched, figures: dict[str, Any]
) -> None:
    record = launched(cell)
    errors = record.settings["precision_errors"]
    name = f"{cell.framework}/{cell.precision}/{cell.workload}/{cell.size}"
    figures[f"precision_errors/{name}"] = errors
    figures[f"denormals/{name}"] = record.settings["denormals"]
    figures[f"kernels/{name}"] = record.settings["kernels"]
    assert errors.keys() == {"product", "convolution"} | ({"lstm"} if cell.workload == "imdb_lstm" else set())
    for probed in ("product", "convolution"):
        assert errors[probed] in BANDS[cell.precision]
    assert record.settings["peak_flops_per_s"] > 0
    assert record.phases.keys() == {"train", "compute", "input"}


@pytest.mark.parametrize("cells", [compared(*group) for group in COMPARED], ids=["-".join(group) for group in COMPARED])
def test_the_frameworks_compute_the_same(cells: tuple[Cell, ...], alike: Alike, figures: dict[str, Any]) -> None:
    records = {record.cell.framework: record for record in alike(cells).values()}
    one = cells[0]
    name, found = f"{one.workload}/{one.precision}/{one.size}", pairs(records)
    verdict = verdicts({framework: [record] for framework, record in records.items()})
    figures[f"deviation/{name}"] = {"largest": largest(list(found.values())), **found}
    figures[f"verdict/{name}"] = {framework: str(each) for framework, each in verdict.items()}
    identities = [record.identity for record in records.values() if record.identity]
    assert len({each.weights for each in identities}) == 1
    assert len({each.batches for each in identities}) == 1
    if one.precision in ASSERTED:
        assert (one.workload, one.precision) in TOLERANCE
        assert {each.kind for each in verdict.values()} == {"same"}, {k: str(v) for k, v in verdict.items()}


@pytest.mark.parametrize("cells", [grown(framework) for framework in GROWN_OF], ids=GROWN_OF)
def test_two_launches_of_one_framework_compute_the_same(
    cells: tuple[Cell, ...], alike: Alike, figures: dict[str, Any]
) -> None:
    """Their batches differ, but not those of the fingerprint: what is left is the device's own order of sums."""
    (found,) = pairs(alike(cells)).values()
    figures[f"deviation/{cells[0].workload}/fp32/{cells[0].size}/between launches of {cells[0].framework}"] = found
    tolerance = TOLERANCE[cells[0].workload, "fp32"]
    assert found["first_loss"] <= tolerance.first_loss
    assert found["losses"] <= tolerance.losses
    assert found["updates"] <= tolerance.updates
