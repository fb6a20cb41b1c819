"""Runs blocks of launches on the hosts of a cluster: each block on one, and on each one block at a time.

Each host has a thread here, which takes a block and runs its launches in their order. A launch is in the journal before
the next one of that host starts. The thread of the run waits for one launch after the other, prints, and tells the
observers. When a host is lost, what it has not done goes to another one.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from suite.plan.cell import Cell
from suite.plan.measuring import CONTROL
from suite.record.record import Outcome, Record
from suite.session.hosts.group import HostGroup
from suite.session.hosts.remote import HostLostError, StoppedError
from suite.session.launches.launch import LaunchError
from suite.session.launches.launcher import Launcher

#: How often a launch may lose its host before that is its result.
LOST_MOST = 3

#: How long hosts may take to end their launches when the run ends.
ENDING_S = 20.0

#: A launch and the number that it has among those of the run.
Planned = tuple[Cell, int, int]

#: Leaves a call to the thread of the run, which alone prints and tells observers.
RunOnMainThread = Callable[[Callable[[], object]], None]


def key_of(cell: Cell, number: int) -> str:
    return f"{cell.id}#{number}"


@dataclass
class Block:
    """Launches that belong together. ``host`` has begun them already; ``lost`` counts how often a host was lost."""

    launches: deque[Planned]
    host: str = ""
    lost: int = 0


@dataclass
class Dispatch:
    """``make`` makes the launcher of a host; ``keep`` writes a record to the journal, with the seconds it took.

    ``revive`` gets a host that is lost going again, or raises `HostLostError`.
    """

    hosts: Sequence[HostGroup]
    make: Callable[[HostGroup, RunOnMainThread], Launcher]
    keep: Callable[[Record, float, float], Record]
    say: Callable[[str], None]
    revive: Callable[[HostGroup, Callable[[], None]], HostGroup]
    counter: Callable[[int], str]
    _blocks: deque[Block] = field(default_factory=deque)
    asked: set[str] = field(default_factory=set)  # the keys of launches that nobody has waited for yet
    _done: dict[str, Record] = field(default_factory=dict)
    _posted: queue.SimpleQueue[Callable[[], object]] = field(default_factory=queue.SimpleQueue)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _problem: BaseException | None = None
    _ending: bool = False
    _threads: list[threading.Thread] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._names = {host.about.name for host in self.hosts}  # of those that live or may come back
        for host in self.hosts:
            thread = threading.Thread(target=self._serve, args=(host,), name=host.about.name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def add(self, launches: Iterable[Planned], host: str = "") -> None:
        """Add a block, which ``host`` goes on with if it has begun it and is there."""
        with self._changed:
            self._blocks.append(Block(deque(launches), host if host in self._names else ""))
            self._changed.notify_all()

    def add_blocks(self, planned: Sequence[tuple[Cell, int]], done: Mapping[str, Record]) -> None:
        """Add all blocks of a run, without the launches that are ``done``, by their keys; their hosts go on."""
        blocks: dict[int, list[Planned]] = {}
        begun: dict[int, str] = {}
        for position, (cell, number) in enumerate(planned):
            if record := done.get(key_of(cell, number)):
                begun[number % CONTROL] = record.host
            else:
                blocks.setdefault(number % CONTROL, []).append((cell, number, position))
        for number, launches in blocks.items():
            self.add(launches, begun.get(number, ""))

    def request(self, launches: Sequence[Planned], host: str = "") -> None:
        """Add those that are not asked for already, as a block, which ``host`` goes on with."""
        new = [each for each in launches if key_of(*each[:2]) not in self.asked]
        if new:
            self.asked |= {key_of(*each[:2]) for each in new}
            self.add(new, host)

    def wait(self, key: str) -> Record:
        """The record of a launch, once it is there; prints meanwhile. Raises what ended the run."""
        while True:
            with self._changed:
                record = self._done.pop(key, None)
                if record is None and self._problem:
                    raise self._problem
            if record:
                self.asked.discard(key)
                while not self._posted.empty():
                    self._posted.get()()
                return record
            try:
                self._posted.get(timeout=0.2)()
            except queue.Empty:
                continue

    def close(self) -> None:
        with self._changed:
            self._ending = True
            self._changed.notify_all()
        until_s = time.monotonic() + ENDING_S
        for thread in self._threads:
            thread.join(max(0.0, until_s - time.monotonic()))

    def stop(self) -> None:
        """Called about once a second in a launch: ends it when the run ends."""
        if self._ending:
            raise StoppedError

    def _serve(self, host: HostGroup) -> None:
        launcher = self.make(host, self._posted.put)
        launcher.stop = self.stop
        try:
            while block := self._next(host.about.name):
                try:
                    self._run(launcher, block)
                except HostLostError as error:
                    self._posted.put(partial(self.say, f"{error}; its launches run again"))
                    self._give_back(launcher, block)
                    launcher.host = host = self._replace_host(host)
        except HostLostError as error:
            self._lose(host.about.name, error)
        except StoppedError:
            pass
        except BaseException as error:  # the thread that waits must end with it
            with self._changed:
                self._problem = self._problem or error

    def _next(self, name: str) -> Block | None:
        """The next block for this host, waiting for one; None when the run ends."""
        with self._changed:
            while not self._ending and not self._problem:
                own = [block for block in self._blocks if block.host == name]
                for block in own or [block for block in self._blocks if not block.host]:
                    self._blocks.remove(block)
                    return block
                self._changed.wait()
        return None

    def _run(self, launcher: Launcher, block: Block) -> None:
        while block.launches:
            cell, number, position = block.launches[0]
            begin_s = time.monotonic()
            record, searching_s = launcher.launch(cell, number, self.counter(position), position)
            self._keep(block, record, begin_s, searching_s)

    def _keep(self, block: Block, record: Record, begin_s: float, searching_s: float) -> None:
        with self._changed:
            if self._ending:
                raise StoppedError
            record = self.keep(record, time.monotonic() - begin_s, searching_s)
            block.launches.popleft()
            block.lost = 0
            self._done[record.key] = record

    def _give_back(self, launcher: Launcher, block: Block) -> None:
        with self._changed:
            block.lost, block.host = block.lost + 1, ""
            if block.lost >= LOST_MOST:
                cell, number, position = block.launches[0]
                outcome = Outcome("crashed", f"its host was lost {block.lost} times while it ran")
                record = self.keep(launcher.add_run(Record(cell, outcome, number), position), 0.0, 0.0)
                self._done[record.key] = record
                block.launches.popleft()
                block.lost = 0
            self._blocks.appendleft(block)
            self._changed.notify_all()

    def _replace_host(self, lost: HostGroup) -> HostGroup:
        """The host in place of one that is lost, with the blocks that waited for it. Raises `HostLostError`."""
        host = self.revive(lost, self.stop)
        with self._changed:
            for block in self._blocks:
                block.host = host.about.name if block.host == lost.about.name else block.host
            self._names = self._names - {lost.about.name} | {host.about.name}
        return host

    def _lose(self, name: str, error: HostLostError) -> None:
        with self._changed:
            self._names.discard(name)
            for block in self._blocks:
                block.host = "" if block.host == name else block.host
            if not self._names:
                self._problem = LaunchError(f"no host is left ({error}); what was measured is kept")
            self._changed.notify_all()
        self._posted.put(partial(self.say, f"{error}; {len(self._names)} left"))
