"""The frameworks themselves, launched: what a record of a real worker holds, and that the three computed the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from suite.analysis.identity.tolerances import OWN_OPTIMIZER
from suite.analysis.identity.verdicts import verdicts
from suite.plan.cell import FRAMEWORKS, Cell
from suite.plan.measuring import WHOLE_BLOCKS, Plan
from suite.record.job import Job
from suite.record.parts.environment import own_cores
from suite.record.record import PHASES
from suite.session.launches.launch import ROOT, launch
from suite.worker.evidence.updates import LAST_STEPS
from suite.worker.loaders import BATCHES_KEPT
from tests.launches import Launches, launched_cells
from tests.processes import assert_public
from workloads.data.cache import folder_of
from workloads.spec import specification

#: Those of a workload's launches that are compared: two of each, unless slow tests run.
compared = pytest.mark.parametrize(
    ("workload", "frameworks"),
    [
        ("cifar100_cnn", FRAMEWORKS[:2]),
        pytest.param("cifar100_cnn", FRAMEWORKS, marks=pytest.mark.slow),
        ("imdb_lstm", ("pytorch", "jax")),
        pytest.param("imdb_lstm", FRAMEWORKS, marks=pytest.mark.slow),
    ],
)


@launched_cells()
def test_a_framework_is_launched_measured_and_described(launches: Launches, workload: str, framework: str) -> None:
    one = launches(workload, framework)
    record = one.record
    if record.outcome.status == "unsupported":
        pytest.skip(record.outcome.reason)
    assert record.outcome.ok, (record.outcome, record.log)
    assert record.phases.keys() == set(PHASES)
    for phase in record.phases.values():
        assert len(phase.windows) == 2
    assert record.startup.keys() == {"interpreter_s", "import_s", "data_s", "build_s", "first_batch_s"}
    assert 0 < record.startup["import_s"] <= sum(record.startup.values()) < 120
    assert record.first_step_s is not None
    assert (record.compile_s is None) == (framework == "pytorch"), "in their usual modes"
    assert record.first_step_s >= (record.compile_s or 0)
    assert record.data["kind"] == "synthetic"
    assert record.workload["size"] == "small"
    assert record.memory["rss_peak_bytes"] > 2**26
    assert record.settings["applied"]["cores"] == len(own_cores())
    assert record.settings["applied"]["threads"] >= 1
    assert record.environment["packages"].keys() >= {"numpy"}
    ours = {"pytorch": {"torch"}, "tensorflow": {"tensorflow", "keras"}, "jax": {"jax"}}
    assert one.modules & {"torch", "tensorflow", "keras", "jax"} <= ours[framework]


@compared
def test_the_frameworks_computed_the_same(launches: Launches, workload: str, frameworks: tuple[str, ...]) -> None:
    records = [launches(workload, framework).record for framework in frameworks]
    identities = [record.identity for record in records if record.identity]
    if len(identities) < 2:
        pytest.skip("fewer than two frameworks are installed")
    assert len({identity.weights for identity in identities}) == 1
    assert len({identity.initial for identity in identities}) == 1
    assert len({identity.batches for identity in identities}) == 1
    assert len({record.workload["digest"] for record in records if record.identity}) == 1
    for identity in identities[1:]:
        assert identity.losses == pytest.approx(identities[0].losses, rel=1e-5)
        assert identity.updates.keys() == identities[0].updates.keys()
    judged = verdicts({name: [record] for name, record in zip(frameworks, records, strict=True) if record.identity})
    # Tests beside it may disturb the clocks of the only launch; the rest of the ledger holds.
    clocks = ("a step takes", "windows of")
    kinds = {each.kind for each in judged.values() if not each.detail.startswith(clocks)}
    assert kinds <= {"same"}, {name: str(each) for name, each in judged.items()}


@launched_cells()
def test_a_launch_holds_all_evidence_of_identity(launches: Launches, workload: str, framework: str) -> None:
    record = launches(workload, framework).record
    if record.outcome.status == "unsupported":
        pytest.skip(record.outcome.reason)
    identity = record.identity
    assert identity
    assert identity.traces.keys() - {"dropout"} == {"own", "float64", "fingerprint"}
    assert [len(trace.losses) for trace in (identity.own, identity.float64) if trace] == [2, 3]
    assert identity.program
    assert identity.optimizer is not None
    assert identity.optimizer < 1e-9
    assert identity.own_optimizer is not None
    assert identity.own_optimizer < OWN_OPTIMIZER
    # Every batch but those before and after was delivered inside of the phases: the count is that of the loader.
    assert identity.last
    assert identity.last.equal
    assert identity.last.batch >= sum(window.steps for window in record.phases["train"].windows)
    assert all(identity.last.updates.values())
    assert (identity.last.replayed, identity.last.again) == (0.0, None)
    assert len(identity.last.checked) == BATCHES_KEPT + LAST_STEPS
    assert (identity.dropout is None) == (workload != "cifar100_cnn")
    parts = {"initial", "batches", "fingerprint", "last", "replay", "own", "float64"}
    assert identity.seconds.keys() == parts | ({"dropout"} if identity.dropout else set())


def test_a_launch_that_times_training_alone_rests_on_one_with_the_whole_evidence(
    launches: Launches, tmp_path: Path
) -> None:
    cell, plan = Cell("imdb_lstm", "pytorch", batch=16, size="small"), Plan(0.02, 2, 0.2)
    data = str(folder_of(launches.data, specification(cell.workload).data, "synthetic"))
    n, whole = WHOLE_BLOCKS, launches("imdb_lstm", "pytorch").record
    job = Job(cell, data, n, device="cpu", plan=plan.of_launch(n), programs=launches.programs, full_evidence=False)
    lean = launch(job, tmp_path / "log", 500.0)
    assert lean.outcome.ok, (lean.outcome, lean.log)
    assert whole.identity
    assert lean.identity
    assert lean.identity.seconds.keys() == {"initial", "batches", "last"}
    assert lean.identity.last
    assert lean.identity.last.replayed is None
    assert lean.identity.initial == whole.identity.initial
    assert verdicts({"row": [lean]})["row"].kind == "no evidence"
    assert verdicts({"row": [whole, lean]})["row"].kind != "no evidence"


@pytest.mark.parametrize(
    ("workload", "framework"), [("imdb_lstm", "pytorch"), ("cifar100_cnn", "tensorflow"), ("imdb_lstm", "jax")]
)
def test_a_record_can_be_published_as_it_is(launches: Launches, workload: str, framework: str) -> None:
    text = json.dumps(launches(workload, framework).record.to_json())
    assert_public(text)
    for private in ("/home", "/root", "/tmp", "/usr", str(ROOT)):
        assert private not in text
