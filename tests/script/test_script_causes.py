"""What holds a script's steps back beside its loader is named, and nothing else."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from suite.plan.measuring import Plan
from suite.script import answer
from suite.script.seen import Seen


def seen(**found: Any) -> SimpleNamespace:
    """A row of two launches in which this was seen."""
    nothing = {"waits": 0.0, "lines": {}, "grows_bytes_per_s": 0.0, "ranks_own_s": [], "threads": 2, "workers": 0}
    settings = {"device": "cpu", "watched": nothing | found}
    record = SimpleNamespace(settings=settings, metrics={"host": {"cores": 2}})
    return SimpleNamespace(ok=[record, record], cell=SimpleNamespace(variant=""))


@pytest.mark.parametrize(
    ("found", "named"),
    [
        ({}, ""), ({"waits": 0.4}, "40%"), ({"lines": {"a.py:3": 0.3}}, "a.py:3"), ({"threads": 1}, "OMP_NUM_THREADS"),
        ({"grows_bytes_per_s": 2.0 * 2**20}, "2 MiB/s"), ({"ranks_own_s": [0.01, 0.05]}, "rank 1"),
        ({"ranks_own_s": [0.01, 0.011]}, ""), ({"waits": 0.1, "lines": {"a.py:3": 0.1}}, ""),
    ],
)  # fmt: skip
def test_each_cause_is_named_and_nothing_else(found: dict[str, Any], named: str) -> None:
    said = " ".join(answer._causes(seen(**found)))  # type: ignore[arg-type]
    assert named in said
    assert bool(said) == bool(named)


def test_ranks_are_told_apart_by_their_time_beside_the_backward_pass() -> None:
    of = Seen(Plan(0.1, 3, 2.0), 0.0, lambda _: None)
    for rank, backward in ((0, 0.9), (1, 0.2)):
        of.take_rank(rank, {"window": [10, 1.0, 2.0, 0], "phase": "train", "backward": backward})
    assert of._watched()["ranks_own_s"] == pytest.approx([0.01, 0.08])
