"""The trained model serves on the device: its answers are right, its requests are timed to their end, it decodes."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from suite.analysis.identity.verdicts import verdicts
from suite.analysis.records.ledger import problems
from suite.record.job import Job
from suite.record.record import Record
from tests.cuda.cells import DEVICE, SERVED, SERVED_BY, SERVING, served
from tests.cuda.launcher import Launches, NotRunError
from workloads.spec import specification

_records: dict[tuple[str, str], Record] = {}


def record_of(launches: Launches, workload: str, framework: str) -> Record:
    """The record of a launch that had the device to itself, once."""
    if (workload, framework) not in _records:
        cell = served(workload, framework)
        data = str(launches.data[specification(workload).data])
        job = Job(cell, data, device=DEVICE, plan=SERVING)
        _records[workload, framework] = launches.alone(job, f"served-{cell.id}")
    record = _records[workload, framework]
    if record.outcome.status == "unsupported":
        pytest.skip(record.outcome.reason)
    assert record.outcome.ok, "\n".join([f"{record.outcome.status}: {record.outcome.reason}", *record.log])
    return record


@pytest.mark.parametrize("framework", SERVED_BY)
@pytest.mark.parametrize("workload", SERVED)
def test_requests_are_answered_and_timed(
    workload: str, framework: str, launches: Launches, figures: dict[str, Any]
) -> None:
    record = record_of(launches, workload, framework)
    served, identity = record.inference, record.identity
    assert served
    assert identity
    assert identity.answered
    figures[f"inference/{workload}/{framework}"] = asdict(served)
    figures[f"answered/{workload}/{framework}"] = asdict(identity.answered)
    figures[f"ledger/{workload}/{framework}"] = problems(record)
    assert served.requests == SERVING.requests
    # A batch of several samples takes no less than one of them, as far as the device has computed both.
    assert served.median_s > 0.2 * record.phases["infer"].step_s / record.effective_batch
    assert (identity.answered.wrong, identity.answered.gradient) == (0, False)
    assert not [each for each in problems(record) if "highest rate" in each or "windows of" in each]
    if DEVICE == "cuda" and framework != "jax":  # whose peak is that of training too
        assert served.memory_bytes
        assert served.memory_bytes < record.memory["allocator_peak_bytes"]


@pytest.mark.parametrize("workload", SERVED)
def test_the_frameworks_serve_the_same(workload: str, launches: Launches, figures: dict[str, Any]) -> None:
    records = {}
    for framework in SERVED_BY:
        try:
            records[framework] = [record_of(launches, workload, framework)]
        except NotRunError:
            continue
    if len(records) < 2:
        raise NotRunError(f"{len(records)} of {len(SERVED_BY)} frameworks served")
    found = verdicts(records)
    figures[f"verdict of serving/{workload}"] = {name: str(each) for name, each in found.items()}
    assert {each.kind for each in found.values()} <= {"same", "unaccounted"}, figures


@pytest.mark.parametrize("framework", SERVED_BY)
def test_words_are_decoded_with_a_cache(framework: str, launches: Launches, figures: dict[str, Any]) -> None:
    record = record_of(launches, "gpt_small", framework)
    assert record.inference
    assert record.identity
    assert record.identity.answered
    assert record.identity.answered.cached is not None
    decoded = record.inference.decoded
    figures[f"words per second/{framework}"] = {each.batch: each.batch * each.words / each.decode_s for each in decoded}
    assert [each.batch for each in decoded] == [1, 8]
    assert all(each.prefill_s > 0 and each.decode_s > 0 for each in decoded)
