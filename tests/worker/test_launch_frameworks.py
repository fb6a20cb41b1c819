"""The frameworks themselves, launched: what a record of a real worker holds, and that the three computed the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from suite.analysis.identity import verdicts
from suite.plan.cell import FRAMEWORKS
from suite.record.record import PHASES
from suite.session.launch import ROOT
from tests.launches import Launched, Launches
from tests.processes import assert_public

#: One of each kind of data, and whether it is launched with a profile, which other tests look at: what a record holds
#: besides must be there with one and without.
WORKLOADS = {"cifar100_cnn": True, "imdb_lstm": False}


@pytest.fixture(scope="session")
def launched(launches: Launches) -> Callable[[str, str], Launched]:
    return lambda workload, framework: launches(workload, framework, profile=WORKLOADS[workload])


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_framework_is_launched_measured_and_described(launched: Any, workload: str, framework: str) -> None:
    one = launched(workload, framework)
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
    assert record.environment["packages"].keys() >= {"numpy"}
    # TensorFlow imports JAX by itself where it finds it.
    ours = {"pytorch": {"torch"}, "tensorflow": {"tensorflow", "keras", "jax"}, "jax": {"jax"}}
    assert one.modules & {"torch", "tensorflow", "keras", "jax"} <= ours[framework]


@pytest.mark.parametrize("workload", WORKLOADS)
def test_the_frameworks_computed_the_same(launched: Any, workload: str) -> None:
    records = [launched(workload, framework).record for framework in FRAMEWORKS]
    identities = [record.identity for record in records if record.identity]
    if len(identities) < 2:
        pytest.skip("fewer than two frameworks are installed")
    assert len({identity.weights for identity in identities}) == 1
    assert len({identity.batches for identity in identities}) == 1
    assert len({record.workload["digest"] for record in records if record.identity}) == 1
    for identity in identities[1:]:
        assert identity.losses == pytest.approx(identities[0].losses, rel=1e-5)
        assert identity.updates.keys() == identities[0].updates.keys()


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_launch_holds_all_evidence_of_identity(launched: Any, workload: str, framework: str) -> None:
    record = launched(workload, framework).record
    if record.outcome.status == "unsupported":
        pytest.skip(record.outcome.reason)
    identity = record.identity
    assert identity
    assert identity.traces.keys() == {"own", "float64", "timed"}
    assert [len(trace.losses) for trace in identity.traces.values()] == [2, 3, 2]
    assert identity.early_updates.keys() == identity.updates.keys()
    assert identity.optimizer is not None
    assert identity.optimizer < 1e-9
    # Every batch but those before and after was delivered inside of the phases: the count is that of the loader.
    assert identity.last
    assert identity.last.equal
    assert identity.last.batch >= sum(window.steps for window in record.phases["train"].windows)
    assert all(identity.last.updates.values())
    assert (identity.dropout is None) == (workload != "cifar100_cnn")
    parts = {"batches", "timed", "fingerprint", "last", "own", "float64"} | ({"dropout"} if identity.dropout else set())
    assert identity.seconds.keys() == parts


@pytest.mark.parametrize("workload", WORKLOADS)
def test_the_launches_get_the_verdict_that_they_are_the_same(launched: Any, workload: str) -> None:
    records = {framework: launched(workload, framework).record for framework in FRAMEWORKS}
    judged = verdicts({name: [record] for name, record in records.items() if record.identity})
    if len(judged) < 2:
        pytest.skip("fewer than two frameworks are installed")
    assert {verdict.kind for verdict in judged.values()} == {"same"}, {name: str(each) for name, each in judged.items()}


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_record_can_be_published_as_it_is(launched: Any, framework: str) -> None:
    text = json.dumps(launched("imdb_lstm", framework).record.to_json())
    assert_public(text)
    for private in ("/home", "/root", "/tmp", "/usr", str(ROOT)):
        assert private not in text
