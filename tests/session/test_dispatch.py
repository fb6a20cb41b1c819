"""Blocks over several hosts: each on one, what is lost runs again, and what is done is kept at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from suite.plan.cell import Cell
from suite.plan.measuring import Plan
from suite.record.job import Job
from suite.record.record import Outcome, Record
from suite.session.hosts import dispatch as dispatches
from suite.session.hosts.dispatch import Dispatch, RunOnMainThread, key_of
from suite.session.hosts.remote import HostLostError
from suite.session.launches.launch import LaunchError
from suite.session.launches.launcher import Host, Launcher
from suite.session.launches.machine import HostInfo, LaunchCallbacks
from suite.session.launches.settings import Settings

CELLS = [Cell("imdb_lstm", framework, batch=batch) for framework in ("jax", "pytorch") for batch in (16, 32)]


@dataclass
class Fake:
    """A host that does what ``behave`` says, given the host and the launch; None is a good launch."""

    name: str
    behave: Callable[[Fake, Job], Exception | None] = lambda *_: None
    made: list[str] = field(default_factory=list)

    @property
    def about(self) -> HostInfo:
        return HostInfo(self.name)

    def launch(self, job: Job, log: Path, deadline_s: float, hear: LaunchCallbacks) -> Record:
        self.made.append(key_of(job.cell, job.launch))
        hear.progress({"progress": "train"})
        if error := self.behave(self, job):
            raise error
        hear.tick()
        return Record(job.cell, Outcome("unsupported", "no such thing"), job.launch)


@dataclass
class Held:
    """A dispatch of fake hosts, what its journal holds, and what it said."""

    dispatch: Dispatch
    journal: list[Record]
    said: list[str]

    def all(self, blocks: int) -> list[Record]:
        """The records of so many blocks, as a run waits for them."""
        return [self.dispatch.wait(key_of(cell, block)) for block in range(blocks) for cell in CELLS]


Make = Callable[..., Held]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[Dispatch] = []

    def held(hosts: list[Fake], blocks: int, revive: Callable[..., Host] | None = None, begun: str = "") -> Held:
        journal: list[Record] = []
        said: list[str] = []

        def launcher(host: Host, post: RunOnMainThread) -> Launcher:
            settings = Settings("smoke", 1, Plan(), device="cpu", journals=tmp_path)
            return Launcher(settings, {"id": "x"}, host, said.append, said.append, lambda *_: post(lambda: None), {})

        def keep(record: Record, *_: float) -> Record:
            journal.append(record)
            return record

        def gone(host: Host, *_: object) -> Host:
            raise HostLostError(f"host {host.about.name} is gone")

        dispatch = Dispatch(hosts, launcher, keep, said.append, revive or gone, str)
        made.append(dispatch)
        for block in range(blocks):
            dispatch.add([(cell, block, block) for cell in CELLS], begun if not block else "")
        return Held(dispatch, journal, said)

    yield held
    for dispatch in made:
        dispatch.close()


def test_blocks_stay_whole_on_one_host_and_run_side_by_side(make: Make) -> None:
    both = threading.Barrier(2, timeout=30)

    def meet(host: Fake, job: Job) -> None:
        if not host.made[1:]:
            both.wait()

    hosts = [Fake("one", meet), Fake("two", meet)]
    held = make(hosts, 6)
    found = held.all(6)
    assert len({record.key for record in found}) == len(held.journal) == 24
    for block in range(6):
        on = {record.host for record in found if record.block == block}
        assert len(on) == 1
        (host,) = [each for each in hosts if each.name in on]
        own = [key for key in host.made if key.endswith(f"#{block}")]
        assert own == [key_of(cell, block) for cell in CELLS], "in their order"


def test_what_a_lost_host_has_not_done_runs_on_another_one_and_nothing_twice(make: Make) -> None:
    lost = threading.Event()

    def second(host: Fake, job: Job) -> Exception | None:
        if len(host.made) < 2:
            return None
        lost.set()
        return HostLostError("host one is lost")

    def later(host: Fake, job: Job) -> None:
        assert lost.wait(30), "or it would do all launches before the other one begins"

    hosts = [Fake("one", second), Fake("two", later)]
    held = make(hosts, 4)
    found = held.all(4)
    assert sorted(record.key for record in held.journal) == sorted(record.key for record in found)
    assert len(held.journal) == 16
    assert sum(record.host == "one" for record in found) == 1
    held.dispatch.close()
    assert "host one is lost; its launches run again" in held.said


def test_a_host_that_is_revived_goes_on_with_its_block(make: Make) -> None:
    lost: list[str] = []

    def revive(host: Host, *_: object) -> Host:
        lost.append(host.about.name)
        return Fake(host.about.name)

    held = make([Fake("one", lambda *_: HostLostError("host one is lost"))], 2, revive)
    assert len(held.all(2)) == 8
    assert lost == ["one"]


def test_blocks_that_wait_for_a_host_follow_the_one_in_its_place(make: Make) -> None:
    def revive(*_: object) -> Host:
        return Fake("two")

    held = make([Fake("one", lambda *_: HostLostError("host one is lost"))], 2, revive, begun="one")
    assert len(held.all(2)) == 8
    for block, host in ((2, "one"), (3, "two")):
        held.dispatch.add([(cell, block, block) for cell in CELLS], host)
        assert {held.dispatch.wait(key_of(cell, block)).host for cell in CELLS} == {"two"}


def test_a_launch_that_loses_its_host_every_time_is_a_result_and_the_others_run(make: Make) -> None:
    def worst(host: Fake, job: Job) -> Exception | None:
        return HostLostError("gone") if job.cell == CELLS[1] else None

    held = make([Fake("one", worst)], 1, lambda host, _: Fake(host.about.name, worst))
    found = held.all(1)
    assert [record.outcome.status for record in found] == ["unsupported", "crashed", "unsupported", "unsupported"]
    assert found[1].outcome.reason == f"its host was lost {dispatches.LOST_MOST} times while it ran"
    assert found[1].run["id"] == "x"


def test_without_a_host_the_run_ends_with_what_it_has(make: Make) -> None:
    held = make([Fake("one", lambda *_: HostLostError("host one is lost"))], 1)
    with pytest.raises(LaunchError, match="no host is left"):
        held.all(1)


def test_what_a_host_cannot_do_ends_the_run_with_its_reason(make: Make) -> None:
    refused = threading.Event()

    def refuse(host: Fake, job: Job) -> Exception:
        refused.set()
        return LaunchError("SUITE_PYTHON_JAX is not a program")

    held = make([Fake("one", lambda *_: None if refused.wait(30) else AssertionError("late")), Fake("two", refuse)], 4)
    with pytest.raises(LaunchError, match="SUITE_PYTHON_JAX"):
        held.all(4)


@pytest.mark.parametrize("host", ["two", "gone"])
def test_a_block_that_a_host_has_begun_goes_on_there_if_it_is_there(make: Make, host: str) -> None:
    found = make([Fake("one"), Fake("two")], 1, begun=host).all(1)
    assert {record.host for record in found} <= ({"two"} if host == "two" else {"one", "two"})


def test_the_end_of_a_run_ends_what_runs(make: Make) -> None:
    running = threading.Event()

    def long(host: Fake, job: Job) -> None:
        running.set()
        time.sleep(0.2)

    held = make([Fake("one", long)], 1)
    assert running.wait(30)
    held.dispatch.close()
    assert len(held.journal) <= 1
    assert not any(thread.is_alive() for thread in held.dispatch._threads)


def test_a_search_asks_for_a_launch_again_that_failed(make: Make) -> None:
    held = make([Fake("one")], 0)
    planned: Any = (CELLS[0], 0, 0)
    for _ in range(2):
        held.dispatch.request([planned])
        held.dispatch.request([planned])
        assert held.dispatch.wait(key_of(*planned[:2]))
    assert len(held.journal) == 2


def test_no_launch_takes_the_checkpoints_of_one_that_was_interrupted(tmp_path: Path) -> None:
    found: list[bool] = []

    def save(_: Fake, job: Job) -> Exception | None:
        folder = Path(job.checkpoint)
        found.append(folder.exists())
        (folder / "0" / "9").mkdir(parents=True)
        raise KeyboardInterrupt if len(found) == 1 else LaunchError("no more")

    settings = Settings("smoke", 1, Plan(phases=("train", "checkpoint")), device="cpu", journals=tmp_path)
    launcher = Launcher(settings, {"id": "x"}, Fake("a", save), print, print, lambda *_: None, {})
    left = launcher._checkpoint(CELLS[0], 0)
    (left / "0" / "3").mkdir(parents=True)  # of a process that was killed
    for error in (KeyboardInterrupt, LaunchError):
        with pytest.raises(error):
            launcher.launch(CELLS[0], 0, "[1]", 0)
        assert not left.exists()
    assert found == [False, False]
