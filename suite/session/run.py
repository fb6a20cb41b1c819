"""One run of the suite: its data, its journal, its launches in order, and the lines that it prints."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from suite.plan.cell import Cell
from suite.plan.command.common import LOCAL
from suite.plan.measuring import CONTROL, REPEAT, REPEATS
from suite.record.record import Record
from suite.record.retry import last_tries, may_pass
from suite.session.eta import Eta, durations, is_lean
from suite.session.hosts.cluster import Cluster, open_cluster
from suite.session.hosts.dispatch import Dispatch, RunOnMainThread, key_of
from suite.session.hosts.group import HostGroup
from suite.session.launches import batch_finder, settings
from suite.session.launches.launch import LaunchError
from suite.session.launches.launcher import Host, Launcher
from suite.session.launches.machine import Machine
from suite.session.launches.settings import Settings
from suite.session.observers import Observers
from suite.session.outlook import BudgetError, Costs, Due, Outlook, TooSlowError, warm_up
from suite.session.resume import open_journal, say_resumed
from suite.session.stopping import Stopping, has_control, is_due_again, is_tested
from suite.session.terminal import describe_launch, duration


@dataclass
class Run:
    """The launches of a session. ``say`` prints a line, ``say_end`` that of a launch; ``show`` a passing state."""

    settings: Settings
    planned: list[Due]  # every launch, in the order in which it is to run
    say: Callable[[str], None]
    show: Callable[[str], None]
    say_end: Callable[[str, str], None] | None = None
    background: dict[str, Any] = field(default_factory=dict)  # the load before the first launch
    observers: Observers = field(default_factory=Observers)
    records: list[Record] = field(default_factory=list)  # of the launches that are done, in their order
    repeats: bool = False  # whether disturbed launches may be measured again
    costs: Costs | None = None  # what launches cost here, once the run has warmed up
    _open: ExitStack = field(default_factory=ExitStack)
    _unended: str = ""  # the launch that has begun and has no record
    _ended_s: float = field(default_factory=time.monotonic)  # when the launch before ended
    _warmed: int = 0  # how often it has warmed up
    _warming_s: float = 0.0  # what warming up took, until a record says so

    def __post_init__(self) -> None:
        cells = [cell for cell, _ in self.planned]
        locks = self._build(cells)
        self._machine: Machine | None = None
        self._cluster: Cluster | None = None  # else
        try:
            host = self._open_host(cells)
            self.repeats = self.repeats and not self._cluster and is_tested(self.settings)
            known = {"locks": locks, "background": self.background, REPEATS: self.repeats}
            self.journal = open_journal(self.settings, cells, known)
        except BaseException:
            self._open.close()
            raise
        self.planned = [each for each in self.planned if each[1] < CONTROL or has_control(self.journal.run)]
        # The file's name is the id: what a journal says of itself names no folder.
        self.repeats |= bool(self.journal.run.get(REPEATS))
        self.info = self.journal.run | {"id": self.journal.path.stem} | ({REPEATS: True} if self.repeats else {})
        self.info |= {"launches": self.settings.launches, "planned": self.total}
        self.info |= {"background": self.background} if self.background else {}
        self.info |= {"locks": self.info.get("locks", {}) | locks} if locks else {}
        last = last_tries(self.journal.records)
        self._journalled = {key: record for key, record in last.items() if not may_pass(record.outcome)}
        self._fits = batch_finder.fits_by_cell(self._journalled.values())
        self.on_cpu = not host.about.gpu
        self._outlook = Outlook(Eta(self.settings.plan, self.on_cpu), self._fits, self.side_by_side)
        self._outlook.eta.learn(self._journalled.values())
        self._launcher = self._make_launcher(host)
        self._dispatch: Dispatch | None = None
        self._stopping = Stopping(self.settings.budget_s, self.say) if self.settings.budget_s else None
        self.info |= {"driver": self.info.get("driver", host.about.driver)} if host.about.driver else {}
        if last:
            self.say(say_resumed(str(self.info["id"]), last.values(), self.settings))
            self.info["resumed"] = 1 + max(record.resumed for record in last.values())

    def _open_host(self, cells: Sequence[Cell]) -> Host:
        own = self.settings
        if own.on == LOCAL:
            self._machine = Machine(own.device, own.data, own.data_directory, self.say, self._open)
            return self._machine
        self._cluster = open_cluster(own, cells, self.say, self._open)
        return self._cluster.groups[0]

    def _make_launcher(self, host: Host) -> Launcher:
        return Launcher(self.settings, self.info, host, self.say, self.show, self.observers.tell, self._fits)

    @property
    def total(self) -> int:
        return len(self.planned)

    @property
    def done(self) -> int:
        return len(self.records)

    @property
    def failed(self) -> list[Record]:
        return [record for record in self.records if not record.outcome.ok]

    def launch(self, cell: Cell, number: int) -> Record:
        """Run one launch and write it to the journal before anything else happens, or take it from there."""
        if self._unended:
            raise LaunchError(f"the launch before, {self._unended}, ended in the error that pytest shows")
        if self.planned[self.done : self.done + 1] != [(cell, number)]:
            raise LaunchError(
                f"launch {number} of {cell.id} is not the next one of its block: something changes the order of tests; "
                "find it with `pytest --trace-config` and leave it out with -p no:NAME"
            )
        if record := self._journalled.get(key_of(cell, number)):
            self.records.append(record)
            return record
        counter = self._counter(self.done)
        self._unended = key_of(cell, number)
        if self._dispatch:
            record = self._dispatch.wait(key_of(cell, number))
        else:
            record, searching_s = self._launcher.launch(cell, number, counter, self.done)
            took_s = time.monotonic() - self._ended_s  # with what happens between two launches
            self._ended_s += took_s
            record = self._keep(record, took_s, searching_s)
        self.records.append(record)
        self._unended = ""
        line = f"{counter} {describe_launch(record)}  {duration(record.run['took_s'])}{self._say_left()}"
        self.say_end(line, record.outcome.status) if self.say_end else self.say(line)
        self.observers.tell("end", record, self._left_s() if self._outlook.eta.known else None)
        return record

    def next(self, cell: Cell, number: int) -> Record:
        """Run a launch that a search has just decided on, or take it from the journal."""
        if locks := self._build([cell]):
            self.info["locks"] = self.info.get("locks", {}) | locks
        self.planned[self.done :] = [(cell, number)]
        self.ahead([(cell, number)])
        return self.launch(cell, number)

    def should_skip(self, cell: Cell, number: int) -> bool:
        """Whether the launch that would be next is not needed: then it is not planned any more.

        It is not if all is decided, or if the launch whose place it would take was not disturbed.
        """
        if number % REPEAT >= CONTROL and not has_control(self.journal.run):
            return True
        if number >= REPEAT:
            due = key_of(cell, number) in self._journalled
            if not due and not any(record.block > number % CONTROL for record in self._journalled.values()):
                due = is_due_again(cell, number, self.records, self.settings.budget_s)
            self.planned[self.done : self.done] = [(cell, number)] if due else []
            return not due
        due = self.planned[self.done : self.done + 1] == [(cell, number)]
        stopping = self._stopping if due and key_of(cell, number) not in self._journalled else None
        if not stopping or not stopping.should_skip(cell, number, self.records):
            return False
        del self.planned[self.done]
        return True

    @property
    def undecided(self) -> int:
        """How many comparisons a run left undecided when its budget or its blocks were used up."""
        return self._stopping.undecided(self.records) if self._stopping else 0

    @property
    def side_by_side(self) -> int:
        return len(self._cluster.groups) if self._cluster else 1

    @property
    def asked(self) -> set[str]:
        """The keys of launches that a cluster has begun or made ahead, and that nobody has asked for yet."""
        return self._dispatch.asked if self._dispatch else set()

    def ahead(self, block: Sequence[tuple[Cell, int]]) -> None:
        """Let a cluster begin with launches of one block that a search will ask for, if they are not there yet."""
        if self._dispatch and block:
            due = [each for each in block if key_of(*each) not in self._journalled]
            hosts = [record.host for record in self.records if record.launch == block[0][1]]
            planned = [(cell, number, self.done + at) for at, (cell, number) in enumerate(due)]
            self._dispatch.request(planned, hosts[-1] if hosts else "")

    def expected_s(self, cell: Cell) -> float:
        """How long a launch of this cell will take, from the launches so far; with the search for its batch."""
        return self._outlook.estimate_s([(cell, 0)])

    def close(self) -> None:
        """End what runs elsewhere, release the driver, close the journal, and let those who watched the run finish."""
        self.info["planned"] = self.total
        if self._dispatch:
            self._dispatch.close()
        self._open.close()
        self.journal.close()
        for line in self.observers.close():
            self.say(line)

    def discard(self) -> None:
        """Close the run, and remove the journal that it has begun if it has launched nothing."""
        self.close()
        if not self.journal.records and not self.settings.resume:
            self.journal.path.unlink(missing_ok=True)

    def prepare(self, costs: Costs | None = None, *, may_shrink: bool = False) -> None:
        """Get all ready, warm up unless ``costs`` are known, and say how long the run takes.

        Raises `TooSlowError` or `BudgetError` where no plan or block fits the budget, as the run ``may_shrink`` or not.
        """
        cells = [cell for cell, _ in self.planned]
        remaining, workloads = self._remaining(), sorted({cell.workload for cell in cells})
        if self._cluster:  # whose hosts answer for themselves
            self._cluster.prepare(workloads)
        elif self._machine:
            settings.check_interpreters(cells, self.settings.device, self.say)
            self._machine.gather(workloads, cells)
        if remaining and self.repeats:
            self._warm_up([cell for cell, _ in remaining], costs)
        if remaining:
            self.say(self._say_plan(remaining, may_shrink))
        journalled = [self._journalled[key] for each in self.planned if (key := key_of(*each)) in self._journalled]
        self.observers.tell("begin", self.journal.path, self.info, self.total, journalled)
        self._begin()

    def _warm_up(self, cells: Sequence[Cell], costs: Costs | None) -> None:
        if costs is None:
            self.say("warming up: environments, data and compilers are read once; nothing of it is recorded")
            costs = warm_up(cells, self._launcher.warm_up)
            self.show("")
            self._warmed += 1
        self._warming_s += costs.took_s
        self.costs = replace(costs, took_s=self._warming_s)  # of a run that takes its place, too
        if not self._journalled:
            self._outlook.learn(costs, cells)

    def _say_plan(self, remaining: Sequence[Due], may_shrink: bool) -> str:
        """What the run will do and how long that takes, in a line; a run with a budget chooses its plan here."""
        if not self._stopping or any(cell.recipe for cell, _ in remaining):
            return self._outlook.say(remaining, search=bool(self.settings.search))
        if self._journalled:
            left_s = self._stopping.left_s(self._journalled.values())
            self._launcher.whole_blocks = self._outlook.find_whole_blocks(self._journalled.values())
            return f"until all is decided, for about {duration(left_s)} at most"
        cells, budget_s = list(dict.fromkeys(cell for cell, _ in remaining)), self._stopping.budget_s
        try:
            if not may_shrink and (self.settings.typed.get("budget") or self.settings.commands):
                self._outlook.refuse_overrun(cells, budget_s, self._warming_s)
            return self._outlook.choose(cells, budget_s, self._warming_s, may_shrink=may_shrink)
        except (BudgetError, TooSlowError):
            if self._warmed != 1:  # else perhaps from a cold disk: before it is too slow, it warms up again
                raise
            self._warm_up(cells, None)
            return self._say_plan(remaining, may_shrink)
        finally:
            self._launcher.whole_blocks = self._outlook.whole_blocks

    def _build(self, cells: Sequence[Cell]) -> dict[str, str]:
        return settings.build_releases(cells, self.say) if self.settings.on == LOCAL else {}

    def _begin(self) -> None:
        """Start the launches: one after the other here, in blocks side by side on a cluster."""
        self._ended_s = time.monotonic()
        if hosts := self._cluster:
            groups, revive, counter = hosts.groups, hosts.revive, self._counter
            self._dispatch = Dispatch(groups, self._launcher_on, self._keep, self.say, revive, counter)
            if not self.settings.search:
                self._dispatch.add_blocks(self.planned, self._journalled)

    def _launcher_on(self, host: HostGroup, post: RunOnMainThread) -> Launcher:
        """What runs launches on a host of a cluster, and leaves it to ``post`` to tell of them."""

        def forward(call: Callable[..., object]) -> Callable[..., None]:
            return lambda *given: post(partial(call, *given))

        say, show, tell = forward(self.say), forward(self.show), forward(self.observers.tell)
        return Launcher(self.settings, self.info, host, say, show, tell, self._fits)

    def _keep(self, record: Record, took_s: float, searching_s: float) -> Record:
        self._outlook.eta.add(record.cell, took_s, searching_s, lean=is_lean(record))
        warming_s, self._warming_s = self._warming_s, 0.0
        took = durations(took_s, searching_s=searching_s, warming_s=warming_s)
        return self.journal.append(replace(record, run=record.run | took))

    def _counter(self, position: int) -> str:
        total = "" if self.settings.search or self._stopping else f"/{self.total}"
        return f"[{position + 1:{len(str(self.total))}}{total}]"

    def _remaining(self) -> list[Due]:
        return [each for each in self.planned[self.done :] if key_of(*each) not in self._journalled]

    def _left_s(self) -> float:
        budget_left_s = self._stopping.left_s(self.records) if self._stopping else None
        return self._outlook.left_s(self._remaining(), self.records, budget_left_s)

    def _say_left(self) -> str:
        known = self._outlook.eta.known and self._remaining()
        return f", {'at most' if self._stopping else 'about'} {duration(self._left_s())} left" if known else ""
