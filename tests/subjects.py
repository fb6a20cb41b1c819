"""Subjects of evidence at size small on synthetic data, and how far their fingerprints are apart."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from suite.plan.cell import Cell
from suite.record.parts.evidence import Trace
from suite.worker.evidence.fingerprint import take_own_fingerprint
from suite.worker.evidence.subject import EvidenceContext
from tests.frameworks import data, framework_of, module
from tests.isolation import in_own_process
from workloads.spec import specification

BATCH = 16


def subject(workload: str, framework: str, **spec_changes: Any) -> EvidenceContext:
    code = framework_of(framework)
    cell = Cell(workload, framework, batch=BATCH, size="small")
    code.prepare(cell, "cpu", 0)
    spec = replace(specification(workload, "small"), **spec_changes)
    return EvidenceContext(cell, code, module(workload, framework), "cpu", spec, spec.arrange(data(spec.data)))


@cache
@in_own_process
def proof(workload: str, framework: str) -> Trace:
    return take_own_fingerprint(subject(workload, framework))["own"]  # type: ignore[no-any-return]


def apart(one: Trace, other: Trace) -> tuple[float, float]:
    """The largest relative deviations of losses and of updates."""
    losses = max(abs(a / b - 1) for a, b in zip(one.losses, other.losses, strict=True))
    return losses, max(abs(one.updates[name] / other.updates[name] - 1) for name in one.updates)
