"""The rule that all launches are of one run, one after the other in time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any

from suite.plan.cell import AUTO
from suite.plan.measuring import REPEATS
from suite.record.record import Record
from suite.verify.known import FIRST_DAY
from suite.verify.rule import AGAIN, FAILED, WARNING, Problem, Submission

#: Clocks are set while a machine runs, and times of start have no parts of a second. Published: 1.0 s at most.
SET_S = 7.0
#: What rounding may add to the seconds that a launch took.
ROUNDING_S = 0.01
#: This version is as old, whatever the clock here says.
THIS_DAY = datetime(2026, 11, 28, tzinfo=UTC)
#: What a run's description says otherwise when it goes on.
CHANGES = {"launches", "planned", "resumed", "background", "locks", "driver", REPEATS}


def one_run(run: Submission) -> Iterator[Problem]:
    """All launches are of one run, one after the other in time."""
    info, version = run.run, run.ended[0].run["suite"]
    for name in sorted((info.keys() | run.header.keys()) - CHANGES):
        if run.header.get(name) != info.get(name):
            yield Problem(FAILED, f"its journal and its run do not agree on {name}", AGAIN)
    for record in run.ended:
        seed = info["seed"] + (record.block if record.cell.recipe else 0)
        said = {"id": info["id"], "suite": version, "seed": seed, "plan": _plan(info["plan"])}
        found = record.run | {"plan": _plan(record.run["plan"])}
        for name in (name for name, value in said.items() if found[name] != value):
            mend = AGAIN if name == "id" else "measure all launches with one version and one plan"
            yield Problem(FAILED, f"{record.key} has another {name} than its run", mend)
    yield from _check_moments(run)
    for host in dict.fromkeys(record.host for record in run.ended):
        yield from _check_clock([record for record in run.ended if record.host == host], _moment(info["started"]))
    ranked = sorted(run.launches.values(), key=lambda record: (record.block, record.run["position"]))
    for block, records in groupby(ranked, key=lambda record: record.block):
        if len([*groupby(record.host for record in records)]) > 2:  # one may be lost
            yield Problem(FAILED, f"block {block} ran on several hosts by turns", AGAIN)


def _plan(plan: Mapping[str, Any]) -> Mapping[str, Any]:
    """How long a launch measures; its phases depend on its block."""
    return {name: value for name, value in plan.items() if name != "phases"}


def _check_moments(run: Submission) -> Iterator[Problem]:
    """A run began after the suite was there, its launches after that, and none of them in the future."""
    begun, latest = _moment(run.header["started"]), max(datetime.now(UTC), THIS_DAY) + timedelta(days=1)
    earliest = max(begun, FIRST_DAY) - timedelta(seconds=SET_S)
    wrong = next((each.key for each in run.ended if not earliest <= _moment(each.started) <= latest), "")
    if wrong := wrong or ("its run" if begun < FIRST_DAY else ""):
        yield Problem(FAILED, f"{wrong} started before its run or the suite, or in the future", "set the clock")


def _check_clock(records: Sequence[Record], begun: datetime) -> Iterator[Problem]:
    """The launches of a host start as late as those before them in their session took."""
    before: Record | None = None
    first_s = passed_s = late_s = 0.0  # of the session: its first start, what its launches took, and what was lost
    for record in records:
        begin_s, last_s = _begin_s(record), _begin_s(before) if before else begun.timestamp()
        if is_first := not before or before.resumed != record.resumed:
            first_s, passed_s, late_s = begin_s, 0.0, 0.0
        lag_s = begin_s - first_s - passed_s
        searching_s, warming_s = (float(record.run.get(name, 0.0)) for name in ("searching_s", "warming_s"))
        took_s, end_s = record.run["took_s"], searching_s + _find_end_s(record)
        if before and begin_s < last_s - SET_S:
            yield Problem(FAILED, f"{record.key} started before {before.key}, which ended before it", AGAIN)
        elif before and is_first and begin_s < last_s + before.run["took_s"] - SET_S:
            yield Problem(FAILED, f"{record.key} started while {before.key} of an earlier session ran", AGAIN)
        elif lag_s < -SET_S:
            why = f"the launches before {record.key} took {passed_s:.0f} s, and it started {-lag_s:.0f} s too early"
            yield Problem(FAILED, why, AGAIN)
        elif lag_s > late_s + SET_S and not record.host:  # a host of a cluster waits for its next block
            why = f"{lag_s - late_s:.0f} s before {record.key} are of no launch"
            yield Problem(WARNING, why, "bundle all launches, of a machine that did not sleep")
        if end_s > took_s + ROUNDING_S:
            yield Problem(FAILED, f"{record.key} measured for {end_s:.0f} s, and took {took_s:.0f} s", AGAIN)
        if searching_s and record.cell.batch != AUTO:
            yield Problem(FAILED, f"{record.key} searched for a batch, which it has", AGAIN)
        if warming_s > (begin_s - last_s + SET_S if is_first else 0.0):
            # A run that takes the small size by itself has warmed up before it began.
            kind = WARNING if not before and record.cell.size == "small" else FAILED
            yield Problem(kind, f"before {record.key} it warmed up for longer than passed", AGAIN)
        before, passed_s, late_s = record, passed_s + took_s, max(late_s, lag_s)


def _begin_s(record: Record) -> float:
    """When its launch began, with the search for its batch, in seconds."""
    return _moment(record.started).timestamp() - float(record.run.get("searching_s", 0.0))


def _find_end_s(record: Record) -> float:
    """Until when, after its start, a launch had windows."""
    return max((end for phase in record.phases.values() for _, end in phase.spans), default=0.0)


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)
