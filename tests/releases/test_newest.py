"""``tox run -e newest``: the newest releases run the small CNN and LSTM, agree, and warn of nothing that will go."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path

import pytest

from suite.catalog.frameworks import FRAMEWORKS
from suite.plan.cell import Cell
from suite.plan.measuring import Plan
from suite.record.job import Job
from suite.record.record import Record
from suite.releases.environments import prepare
from suite.releases.index import resolve
from suite.session.launches.launch import launch
from workloads.data.cache import folder_of
from workloads.spec import specification

pytestmark = pytest.mark.skipif(
    not os.environ.get("SUITE_TEST_NEWEST"), reason="builds environments of several GB: tox run -e newest"
)

WORKLOADS = ("cifar100_cnn", "imdb_lstm")
#: Warnings that a worker must not give, and what TensorFlow, which gives none, writes into its log instead.
GOING = ("DeprecationWarning", "PendingDeprecationWarning", "FutureWarning")
IN_LOG = "is deprecated and will be removed"

#: Modules of others that give such warnings, and why the suite cannot mend it.
THEIRS = {"gast.astn": "TensorFlow's AutoGraph makes syntax trees with fields that Python 3.15 will refuse"}


@pytest.fixture(scope="module")
def newest() -> dict[str, str]:
    """The newest release of each framework, with its environment built."""
    found = [each.partition("=") for each in resolve(f"{name}=newest" for name in FRAMEWORKS)]
    releases = {name: version for name, _, version in found}
    prepare(releases.items(), print)
    return releases


@dataclass(frozen=True)
class Tried:
    """A launch, and what its worker printed."""

    record: Record
    log: str


Try = Callable[[str, str], Tried]  # a workload on a framework


@pytest.fixture(scope="module")
def tried(newest: dict[str, str], twins: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Try]:
    """Launches each workload and framework once; a warning of what will go ends a launch as an error."""
    ignored = [f"ignore::{kind}:{module}" for module, kind in product(THEIRS, GOING)]

    @cache
    def launched(workload: str, name: str) -> Tried:
        data = str(folder_of(twins, specification(workload).data, "synthetic"))
        cell = Cell(workload, name, batch=16, size="small", release=newest[name])
        log = tmp_path_factory.mktemp("newest") / "log"
        record = launch(Job(cell, data, device="cpu", plan=Plan(0.02, 2, 0.2)), log, 500.0)
        return Tried(record, log.read_text(errors="replace"))

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONWARNINGS", ",".join([*(f"error::{kind}" for kind in GOING), *ignored]))
        yield launched


@pytest.mark.parametrize(("workload", "framework"), list(product(WORKLOADS, FRAMEWORKS)))
def test_the_newest_release_runs_and_warns_of_nothing_that_will_go(tried: Try, workload: str, framework: str) -> None:
    one = tried(workload, framework)
    assert one.record.outcome.ok, (one.record.cell.id, one.record.outcome, one.record.log)
    assert IN_LOG not in one.log


@pytest.mark.parametrize("workload", WORKLOADS)
def test_the_newest_releases_compute_the_same(tried: Try, workload: str) -> None:
    first, *others = (tried(workload, name).record.identity for name in FRAMEWORKS)
    assert first
    for each in others:
        assert each
        assert (each.weights, each.batches) == (first.weights, first.batches)
        assert each.losses == pytest.approx(first.losses, rel=1e-5)
        assert each.updates == pytest.approx(first.updates, rel=1e-4)
