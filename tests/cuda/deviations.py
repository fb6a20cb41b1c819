"""How far two fingerprints lie apart, as `suite.analysis.identity.verdicts` and `tests.studies.tolerances` count it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from suite.record.parts.evidence import Identity
from suite.record.record import Record


def deviation(one: Identity, other: Identity) -> dict[str, Any]:
    """Relative deviations of the first loss, of the worst loss, and of the worst tensor's update with its name."""
    assert len(one.losses) == len(other.losses)
    assert one.updates.keys() == other.updates.keys()
    losses = [_relative(a, b) for a, b in zip(one.losses, other.losses, strict=True)]
    updates = {name: _relative(one.updates[name], other.updates[name]) for name in one.updates}
    worst = max(updates, key=lambda name: updates[name])
    return {"first_loss": losses[0], "losses": max(losses), "updates": updates[worst], "worst_tensor": worst}


def pairs(records: Mapping[str, Record]) -> dict[str, dict[str, Any]]:
    """The deviation of every two of the records, by their names."""
    told = {name: record.identity for name, record in records.items() if record.identity}
    return {f"{one} / {other}": deviation(told[one], told[other]) for one, other in combinations(told, 2)}


def largest(found: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The largest of each kind."""
    return {kind: max(each[kind] for each in found) for kind in ("first_loss", "losses", "updates")}


def _relative(one: float, other: float) -> float:
    return abs(one - other) / max(abs(one), abs(other), 1e-12)
