"""The frameworks themselves, launched: what a record of a real worker holds, and that the three computed the same."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from suite.analysis.identity import verdicts
from suite.plan.cell import FRAMEWORKS, Cell
from suite.plan.measuring import Plan
from suite.record.job import Job
from suite.record.record import PHASES, Record
from suite.session.launch import ROOT, launch
from tests.processes import assert_public
from workloads.data.cache import folder_of
from workloads.spec import specification

WORKLOADS = ("cifar100_cnn", "imdb_lstm")  # one of each kind of data; every launch of a framework takes its time


@pytest.fixture(scope="session")
def launched(
    twins: Path, programs: str, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str, str], tuple[Record, set[str]]]:
    """A small cell's record and the modules that its worker had loaded at the end; each cell is launched once."""
    done: dict[tuple[str, str], tuple[Record, set[str]]] = {}

    def of(workload: str, framework: str) -> tuple[Record, set[str]]:
        if (workload, framework) in done:
            return done[workload, framework]
        folder = tmp_path_factory.mktemp(framework)
        code = (
            "import sys; from pathlib import Path; from suite.worker import process as worker\n"
            "worker.main(*sys.argv[3:])\n"
            f"Path({str(folder / 'modules')!r}).write_text(' '.join(sys.modules))"
        )
        (folder / "listing_worker.py").write_text(code)
        (folder / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "{folder}/listing_worker.py" "$@"\n')
        (folder / "python").chmod(0o755)
        data = folder_of(twins, specification(workload).data, "synthetic")
        cell, plan = Cell(workload, framework, batch=16, size="small"), Plan(0.02, 2, 0.2)
        job = Job(cell, str(data), device="cpu", plan=plan, programs=programs)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(f"SUITE_PYTHON_{framework.upper()}", str(folder / "python"))
            record = launch(job, folder / "log", 120.0)
        modules = (folder / "modules").read_text().split() if (folder / "modules").exists() else []
        done[workload, framework] = record, {name.partition(".")[0] for name in modules}
        return done[workload, framework]

    return of


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_framework_is_launched_measured_and_described(launched: Any, workload: str, framework: str) -> None:
    record, modules = launched(workload, framework)
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
    assert modules & {"torch", "tensorflow", "keras", "jax"} <= ours[framework]


@pytest.mark.parametrize("workload", WORKLOADS)
def test_the_frameworks_computed_the_same(launched: Any, workload: str) -> None:
    found = [launched(workload, framework)[0] for framework in FRAMEWORKS]
    told = [record.identity for record in found if record.identity]
    if len(told) < 2:
        pytest.skip("fewer than two frameworks are installed")
    assert len({identity.weights for identity in told}) == 1
    assert len({identity.batches for identity in told}) == 1
    assert len({record.workload["digest"] for record in found if record.identity}) == 1
    for identity in told[1:]:
        assert identity.losses == pytest.approx(told[0].losses, rel=1e-5)
        assert identity.updates.keys() == told[0].updates.keys()


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_launch_holds_all_evidence_of_identity(launched: Any, workload: str, framework: str) -> None:
    record, _ = launched(workload, framework)
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
    records = {framework: launched(workload, framework)[0] for framework in FRAMEWORKS}
    told = verdicts({name: [record] for name, record in records.items() if record.identity})
    if len(told) < 2:
        pytest.skip("fewer than two frameworks are installed")
    assert {verdict.kind for verdict in told.values()} == {"same"}, {name: str(each) for name, each in told.items()}


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_record_can_be_published_as_it_is(launched: Any, framework: str) -> None:
    text = json.dumps(launched("imdb_lstm", framework)[0].to_json())
    assert_public(text)
    for private in ("/home", "/root", "/tmp", "/usr", str(ROOT)):
        assert private not in text
