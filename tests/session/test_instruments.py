"""A launch on several GPUs says how they are linked, and which driver it had."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

import pytest

from suite.monitor.gpu import Driver
from suite.record.ranks import Ranks
from suite.session.hosts import local
from suite.session.hosts.local import Instruments
from tests import records


def test_a_launch_on_several_gpus_says_how_they_are_linked(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus: Any = ["first", "second", "third"]
    monkeypatch.setattr(local, "open_nvml", lambda: contextlib.nullcontext((Driver("580.1", "13.0"), gpus)))
    monkeypatch.setattr(local, "idle", lambda _: None)
    monkeypatch.setattr(local, "links", lambda used: [f"GPUs: {', '.join(used)}"])
    with contextlib.ExitStack() as until:
        watching = Instruments("cuda", print, until)
        one = records.record("pytorch")
        ranks = Ranks(world=2, devices=2, strategy="ddp", backend="nccl", threads_per_rank=8)
        two = replace(one, cell=one.cell.but(devices=2), ranks=ranks)
        assert watching.annotated(one, 1).environment["driver"] == {"version": "580.1", "cuda": "13.0"}
        assert watching.annotated(one, 1).ranks is None
        linked = watching.annotated(two, 2).ranks
    assert linked
    assert linked.links == ("GPUs: first, second",), "only those in use"
