"""One launch whose ranks are on several hosts, from their agents to the record."""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from suite.monitor.sampler import Monitor
from suite.plan.strategies import not_measured
from suite.record.environment import machine, recorded
from suite.record.job import Job
from suite.record.order import Order
from suite.record.record import Outcome, Record
from suite.session.engines import Hear
from suite.session.engines.gathered import Agent, Remote, assignments
from suite.session.instruments import Instruments
from suite.session.launch import LaunchError, recorded_launch, variables
from suite.session.ranks import Team, log_of

#: Makes the agents of a launch ready, given how many ranks it has. Raises `LaunchError`.
Gather = Callable[[int], Sequence[Agent]]


def launch(
    order: Order, log: Path, hear: Hear, gather: Gather, *, token: str, data: str, instruments: Instruments
) -> Record:
    """Run one launch on the hosts of the agents; ``data`` is the kind of data that each host gets ready."""
    job = order.job
    if reason := not_measured(job.cell):
        return unsuccessful(job, Outcome("unsupported", reason))
    deadline = time.monotonic() + order.deadline_s
    parts: dict[str, Any] = {
        "cell": job.cell.to_json(),
        "launch": job.launch,
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    with contextlib.ExitStack() as opened:
        try:
            agents = gather(job.cell.processes)
            for each in agents:
                opened.enter_context(each.connection)  # whose end ends the worker
            own = assignments(job.cell, agents, job.device, job.cores, token)
        except LaunchError as error:
            return unsuccessful(job, Outcome("error", str(error)))
        for each, variables_of_it in zip(agents, own, strict=True):
            with contextlib.suppress(OSError):  # it is gone, which is noticed when it is listened to
                message = {"job": job.dumps(), "variables": variables_of_it, "data": data}
                each.connection.send_bytes(json.dumps(message).encode())
        team = Team(parts, hear.progress, hear.tick)
        _listened(team, agents, log)
        _spawned(team, deadline)
        monitor = opened.enter_context(_monitor(team, instruments, hear))
        log = team.listen(deadline - time.monotonic()).log
        if "outcome" not in parts:
            parts["outcome"] = vars(Outcome("timeout", f"no end after {order.deadline_s:g} s"))
    return instruments.annotated(recorded_launch(job, parts, log, monitor))


def unsuccessful(job: Job, outcome: Outcome) -> Record:
    """The record of a launch that could not begin."""
    environment = {"machine": machine(), "variables": recorded(variables(job, ""))}
    return Record(job.cell, outcome, job.launch, environment=environment)


def _listened(team: Team, agents: Sequence[Agent], log: Path) -> None:
    """Let the team listen to all agents, whose ranks print into logs beside one another here."""
    log.parent.mkdir(parents=True, exist_ok=True)
    for rank, each in enumerate(agents):
        log_of(log, rank).write_bytes(b"")
        team.add(partial(Remote, agent=each), log_of(log, rank))


def _members(team: Team) -> list[Remote]:
    return [member for member in team.members if isinstance(member, Remote)]


def _spawned(team: Team, deadline: float) -> None:
    """Wait until each rank has been spawned or has failed; on a new host that begins with getting the data."""
    with contextlib.ExitStack() as opened:
        selector = opened.enter_context(selectors.DefaultSelector())
        for member in _members(team):
            opened.enter_context(member.watched(selector))
        while any(not (member.spawned or member.ended) for member in _members(team)) and time.monotonic() < deadline:
            ready = {key.fd for key, _ in selector.select(1.0)}
            for member in _members(team):
                member.take(ready, selector)
            if not ready:
                team.tick()
            if any(member.ended for member in _members(team)):
                return


@contextlib.contextmanager
def _monitor(team: Team, instruments: Instruments, hear: Hear) -> Any:
    """A monitor of those ranks that are on this host; None if there are none."""
    here = [
        member.spawned
        for member in _members(team)
        if member.spawned and member.agent.hello["host"] == socket.gethostname()
    ]
    if not here:
        yield None
        return
    pids = [int(each["pid"]) for each in here]
    monitor: Monitor = instruments.monitor(pids, min(int(each["spawned_ns"]) for each in here) / 1e9, len(here))
    hear.watched(monitor)
    with monitor:
        yield monitor
