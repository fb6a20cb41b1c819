"""What others take of the CPU: before the first launch that counts, and while a worker trains, with their names.

Names are read in the parent, and only while other processes use much: a look at all processes of a machine takes
about 20 us for each.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from suite.monitor.host import Host, read_others
from suite.monitor.timeline import Sample, Span, cut
from suite.record.disturbance import NAME_MOST, NAMES_MOST, OTHERS_MOST, STALLS, TAKES, name_processes
from suite.record.parts.environment import core_limit, own_cores, redact
from suite.record.text import clean

#: Where Linux shows processes.
PROC = Path("/proc")
#: Between two looks at all processes, at least, and the share of a core that they take, at most.
LOOK_EVERY_S, LOOK_CORES_MOST = 2.0, 0.005
#: A launch that used a larger share of a quota is throttled by its own threads.
OWN_MOST = 0.9
#: A process that used fewer cores is not named.
NAMED_LEAST_CORES = 0.05

#: The counter that each share of a record is the growth of, by the share's name.
COUNTED = {name: f"{name.removesuffix('_share')}_s" for name in (*TAKES, *STALLS)} | {"others_share": "other_cpu_s"}

#: CPU seconds by process id and start, and the name of each.
Times = Mapping[tuple[int, int], tuple[str, float]]


class Others:
    """Watches who else uses the CPU, on so many ``cores``."""

    def __init__(self, cores: int) -> None:
        self._cores = cores
        self._last: tuple[float, Times] | None = None
        self._pause_s = LOOK_EVERY_S
        self._used: list[tuple[Span, Mapping[str, float]]] = []  # CPU seconds by name, of the largest

    def watch(self, samples: Sequence[Sample], ours: Collection[int]) -> None:
        """Look at all processes but ``ours`` if others used much since the sample before the last."""
        if len(samples) < 2 or _grown(samples[-2:], "other_cpu_s") <= OTHERS_MOST * self._cores:
            self._last = None
            return
        now_s = samples[-1].at_s
        if self._last and now_s - self._last[0] < self._pause_s:
            return
        begin_s = time.thread_time()
        times = read_times()
        self._pause_s = max(LOOK_EVERY_S, (time.thread_time() - begin_s) / LOOK_CORES_MOST)
        if self._last:
            used = find_users(self._last[1], times, ours)
            largest = sorted(used, key=lambda name: -used[name])[: 2 * NAMES_MOST]
            self._used.append((Span(self._last[0], now_s), {name: used[name] for name in largest}))
        self._last = now_s, times

    def describe(self, samples: Sequence[Sample], span: Span) -> dict[str, Any]:
        """What a record holds of disturbances: shares of the cores and of the time of the span, and names.

        A counter that was not read has no share.
        """
        within = _around(samples, span)
        shares: dict[str, Any] = {}
        for name, counter in COUNTED.items():
            if sum(counter in sample.values for sample in within) > 1:
                whole = self._cores if name in TAKES else 1
                shares[name] = round(min(1.0, max(0.0, _grown(within, counter) / whole)), 4)
        limit = core_limit()
        if limit and _grown(within, "cpu_s") > OWN_MOST * limit:
            shares.pop("throttled_share", None)  # by what the launch itself asked for
        if shares.get("others_share", 0.0) > OTHERS_MOST:
            used: dict[str, float] = defaultdict(float)
            for part, by_name in self._used:
                share = span.share(part.begin_s, part.end_s)
                for name, cpu_s in by_name.items():
                    used[name] += share * cpu_s
            shares["processes"] = name_busiest(used, span.seconds)
        return shares


def taken_cores(samples: Sequence[Sample], span: Span) -> float:
    """Cores that other processes and the host of a virtual machine took, on average over the span."""
    within = _around(samples, span)
    return sum(_grown(within, counter) for counter in ("other_cpu_s", "steal_s"))


def _around(samples: Sequence[Sample], span: Span) -> list[Sample]:
    """The samples within the span; if they are too few for a rate, those before and after it besides."""
    within = cut(samples, [span])
    if len(within) > 1:
        return within
    before = [sample for sample in samples if sample.at_s < span.begin_s]
    after = [sample for sample in samples if sample.at_s > span.end_s]
    return [*before[-1:], *within, *after[:1]]


def _grown(samples: Sequence[Sample], counter: str) -> float:
    """The growth of a counter per second; zero where it was not read twice.

    Two counters are read one after the other, so that their difference may go back a little.
    """
    read = [sample for sample in samples if counter in sample.values]
    if len(read) < 2:
        return 0.0
    return (read[-1].values[counter] - read[0].values[counter]) / (read[-1].at_s - read[0].at_s)


def read_times() -> Times:
    """The CPU time of every process so far, those of the kernel included; empty where the system does not tell."""
    times: dict[tuple[int, int], tuple[str, float]] = {}
    ticks_per_s = os.sysconf("SC_CLK_TCK")
    with contextlib.suppress(OSError), os.scandir(PROC) as entries:
        for entry in entries:
            if entry.name.isdecimal():
                with contextlib.suppress(OSError, ValueError, IndexError):  # it has ended, or is hidden
                    with open(f"{entry.path}/stat", "rb", buffering=0) as file:  # noqa: PTH123 - half as long as Path's
                        stat = file.read()
                    # A name may hold anything, brackets too. Fields after it: proc_pid_stat(5), from the third on.
                    before, _, after = stat.rpartition(b")")
                    fields = after.split()
                    name = before.partition(b"(")[2].decode(errors="replace")
                    cpu_s = (int(fields[11]) + int(fields[12])) / ticks_per_s
                    times[int(entry.name), int(fields[19])] = name, cpu_s
    return times


def find_users(before: Times, after: Times, ours: Collection[int]) -> dict[str, float]:
    """CPU seconds between two readings by the name of a process; processes of one name count together."""
    used: dict[str, float] = defaultdict(float)
    for process, (name, cpu_s) in after.items():
        if process[0] not in ours and (grown := cpu_s - before.get(process, ("", 0.0))[1]) > 0:
            used[name] += grown
    return used


def name_busiest(used: Mapping[str, float], over_s: float) -> list[str]:
    """The names of those that used most, without a path, a user or a host."""
    busy = sorted((name for name in used if used[name] > NAMED_LEAST_CORES * over_s), key=lambda name: -used[name])
    return [name for name in dict.fromkeys(map(_public, busy)) if name][:NAMES_MOST]


def _public(name: str) -> str:
    """The first part of a kernel thread's name, such as ``kworker/0:1``, and the last of a path."""
    return clean(redact(name.rpartition("/")[2] if name.startswith("/") else name.partition("/")[0]), NAME_MOST)


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
