"""Is the machine busy before the first launch that counts? By the CPU time that other processes and its host take."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from suite.monitor.host import Host, read_others
from suite.monitor.others import find_users, name_busiest, read_times
from suite.record.disturbance import OTHERS_MOST, name_processes
from suite.record.parts.environment import own_cores

#: CPU time is counted in steps of 10 ms, so one second measures a core to 1 %.
OVER_S = 1.0
#: What others take of the cores.
TAKEN = ("other_cpu_s", "steal_s")
#: Less steal is not said: it is one or two of the steps in which it is counted.
SAID_LEAST_PERCENT = 2.0


@dataclass(frozen=True)
class Background:
    """How many of the cores that a worker may use are busy with other processes, and the seconds waited for them.

    ``steal_cores`` is what the host of a virtual machine gave to others meanwhile, ``processes`` names the largest.
    """

    busy_cores: float
    cores: int
    waited_s: float = 0.0
    steal_cores: float = 0.0
    processes: tuple[str, ...] = ()

    @property
    def busy(self) -> bool:
        """Whether launches would be flagged as contaminated."""
        return self.busy_cores + self.steal_cores > OTHERS_MOST * self.cores

    def __str__(self) -> str:
        names = name_processes(self.processes)
        steal = 100 * self.steal_cores / self.cores
        stolen = f"; the host steals {steal:.0f} %" if steal >= SAID_LEAST_PERCENT else ""
        return f"other processes use {self.busy_cores:.1f} of {self.cores} cores{names}{stolen}"

    @property
    def mend(self) -> str:
        """What a user can do about most of it."""
        if self.steal_cores > self.busy_cores:
            return "measure when other virtual machines of this host are idle, or on a machine with cores of its own"
        return "end them, or let --wait-idle 600 wait up to 10 minutes"

    def to_json(self) -> dict[str, Any]:
        """The numbers alone: a run does not tell which programs its machine ran before it."""
        numbers = {name: value for name, value in asdict(self).items() if name != "processes"}
        return {name: round(value, 2) for name, value in numbers.items()}


def measure(over_s: float = OVER_S) -> Background:
    """The background load over ``over_s`` seconds; takes as long."""
    host = Host(os.getpid())
    before, times, begin_s = host.read(), read_times(), time.monotonic()
    time.sleep(over_s)
    after, over_s = host.read(), time.monotonic() - begin_s
    used = find_users(times, read_times(), host.pids)
    return _load(before, after, over_s, tuple(name_busiest(used, over_s)))


def watch() -> Callable[[], Background]:
    """Begin to watch the load; what is returned tells it from then on, without names.

    Children of this process count as its own once they have ended.
    """
    before, begin_s = _read(), time.monotonic()
    return lambda: _load(before, _read(), time.monotonic() - begin_s, ())


def _read() -> dict[str, float]:
    own = os.times()
    return read_others(own_cores(), own.user + own.system + own.children_user + own.children_system)


def _load(
    before: Mapping[str, float], after: Mapping[str, float], over_s: float, processes: tuple[str, ...]
) -> Background:
    busy, steal = (max(0.0, (after.get(name, 0.0) - before.get(name, 0.0)) / over_s) for name in TAKEN)
    return Background(busy, len(own_cores()), 0.0, steal, processes)


def settle(
    wait_s: float | None, say: Callable[[str], None], show: Callable[[str], None],
    measure: Callable[[], Background] = measure,
) -> Background:  # fmt: skip
    """The background load, after waiting up to ``wait_s`` seconds for an idle machine.

    ``say`` gets a line if the machine is busy, and one when the wait begins; ``show`` gets the state while it waits.
    """
    begin_s = time.monotonic()
    background = measure()
    if background.busy and wait_s:
        say(f"busy machine: {background}; waiting up to {wait_s:.0f} s for it to become idle")
    while background.busy and (left_s := (wait_s or 0.0) - (time.monotonic() - begin_s)) > 0:
        show(f"waiting for an idle machine, {left_s:.0f} s left: {background}")
        background = measure()
    if wait_s is not None:
        waited_s = time.monotonic() - begin_s
        background = replace(background, waited_s=waited_s)
    if background.busy and wait_s is None:
        say(f"busy machine: {background}. Results will be too low and noisy; {background.mend}")
    elif background.busy:
        say(f"warning: still busy after {background.waited_s:.0f} s: {background}. Measuring anyway")
    return background
