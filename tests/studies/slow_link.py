"""``python -m tests.studies.slow_link``: what does a slow link between two hosts cost, and does the verdict say so?

Two network namespaces stand for two hosts; a veth pair joins them, and ``tc tbf`` limits its rate. Each gets one core,
a host's process, and one rank of every launch, exactly as the hosts of a cluster do. The communication share must rise
as the link gets slower, and the verdict must become communication-bound. Needs root, ``ip`` and ``tc``.
"""

# ruff: noqa: T201 - a command that prints

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from suite.analysis.bottlenecks.bottleneck import bottleneck
from suite.analysis.records.load import Launch
from suite.analysis.rows.groups import Row, group
from suite.analysis.statistics.scaling import communication, exchange
from suite.plan.cell import Cell
from suite.plan.measuring import Plan
from suite.record.job import Job
from suite.record.parts.environment import machine, own_cores
from suite.record.record import Record
from suite.record.variables import INTERFACE
from suite.session.hosts.group import HostGroup
from suite.session.hosts.remote import COMMAND, Pipe, Remote
from suite.session.launches.machine import LaunchCallbacks

FRAMEWORKS = ("pytorch", "tensorflow", "jax")
#: The rates of the link in the words of tc; none for the veth pair as it is.
RATES = ("", "1gbit", "100mbit")
NAMES = {"": "unlimited", "1gbit": "1 Gbit/s", "100mbit": "100 Mbit/s"}
NETWORK = "10.203.77"
LINK = "suite-link"  # the interface in each namespace
#: Of the bucket: far less than a gradient, which would pass at once through a bucket of its size.
BURST = "32kb"
DEADLINE_S = 300.0

HEADER = """\
| framework | link | communication | one all-reduce | all-reduce MB/s | samples/s | verdict |
|:--|:--|--:|--:|--:|--:|:--|"""


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.studies.slow_link", description=(__doc__ or "").split("\n\n")[1]
    )
    parser.add_argument("--workload", default="imdb_lstm")
    parser.add_argument("--size", default="small")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--framework", default=",".join(FRAMEWORKS), help="with commas (default: all three)")
    parser.add_argument("--rates", default=",".join(RATES), help="as tc writes them; empty for no limit")
    parser.add_argument("--launches", type=int, default=4, help="of each cell and rate (default: 4)")
    parser.add_argument("--min-window", type=float, default=0.5, help="seconds (default: 0.5)")
    arguments = parser.parse_args()
    if reason := impossible():
        print(f"skipped: {reason}")
        return 0
    cells = [
        Cell(arguments.workload, name, batch=arguments.batch, size=arguments.size, devices=2)
        for name in arguments.framework.split(",")
    ]
    plan = Plan(arguments.min_window, 5, 5.0)
    print(f"{machine()['cpu']}, two of its cores, one for each rank; {arguments.launches} launches each", flush=True)
    found: list[tuple[str, Cell, list[Record]]] = []
    with hosts() as (site, limit), tempfile.TemporaryDirectory() as folder:
        site.prepare(arguments.workload)
        for rate in arguments.rates.split(","):
            limit(rate)
            records: dict[Cell, list[Record]] = {cell: [] for cell in cells}
            for launch in range(arguments.launches):
                for cell in cells:
                    job, log = Job(cell, "", launch, device="cpu", plan=plan), Path(folder, f"{launch}.log")
                    records[cell].append(site.launch(job, log, DEADLINE_S, LaunchCallbacks()))
                    print(f"{cell.id} {NAMES.get(rate, rate)}: {said(records[cell][-1])}", file=sys.stderr, flush=True)
            found += [(rate, cell, launches) for cell, launches in records.items()]
    return shown(found)


def impossible() -> str:
    """Why the study cannot run here; empty where it can."""
    if os.geteuid():
        return "network namespaces need root"
    if missing := [name for name in ("ip", "tc", "taskset") if not shutil.which(name)]:
        return f"{', '.join(missing)} is not installed (packages iproute2 and util-linux)"
    if len(own_cores()) < 2:
        return "two ranks need two cores"
    return ""


@contextlib.contextmanager
def namespaces() -> Iterator[tuple[str, str]]:
    """Two network namespaces of this process that a link joins; they are gone on exit."""
    names = (f"suite-left-{os.getpid()}", f"suite-right-{os.getpid()}")
    with ExitStack() as opened:
        for name in names:
            run("ip", "netns", "add", name)
            opened.callback(run, "ip", "netns", "del", name)
        left, right = names
        run("ip", "link", "add", LINK, "netns", left, "type", "veth", "peer", "name", LINK, "netns", right)
        for number, name in enumerate(names, 1):
            run("ip", "-n", name, "addr", "add", f"{NETWORK}.{number}/24", "dev", LINK)
            for device in ("lo", LINK):
                run("ip", "-n", name, "link", "set", device, "up")
        yield names


class Limit:
    """Sets the rate of the link, in both directions."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names, self.limited = names, False

    def __call__(self, rate: str) -> None:
        for name in self.names:
            if self.limited:
                run("tc", "-n", name, "qdisc", "del", "dev", LINK, "root")
            if rate:
                how = ("root", "tbf", "rate", rate, "burst", BURST, "latency", "100ms")
                run("tc", "-n", name, "qdisc", "add", "dev", LINK, *how)
        self.limited = bool(rate)


@contextlib.contextmanager
def hosts() -> Iterator[tuple[HostGroup, Limit]]:
    """The two hosts, each in its namespace with a core of its own, and what limits the link between them."""
    given = {"device": "cpu", "source": "auto", "directory": None}
    with namespaces() as names, ExitStack() as until:
        folder = Path(until.enter_context(tempfile.TemporaryDirectory()))
        found = []
        for name, core in zip(names, own_cores(), strict=False):
            inside = ["ip", "netns", "exec", name, "taskset", "-c", str(core)]
            wire = Pipe(name, os.environ | {INTERFACE: LINK}, [*inside, *COMMAND], folder / name)
            until.callback(wire.close)
            found.append(Remote(name, "", wire, print, given))
            found[-1].begin()
        yield HostGroup(found, "spread"), Limit(names)


def run(*command: str) -> None:
    subprocess.run(command, check=True)


def output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def said(record: Record) -> str:
    if not record.outcome.ok:
        return f"{record.outcome.status}: {record.outcome.reason}"
    return f"{record.samples_per_s:.0f} samples/s over {record.ranks.interface}" if record.ranks else "one rank"


def shown(found: Sequence[tuple[str, Cell, list[Record]]]) -> int:
    """Print the table; 1 if a launch failed."""
    print(HEADER)
    failed = False
    for rate, cell, records in found:
        failed |= not all(record.outcome.ok for record in records)
        print(line(rate, cell, records))
    return int(failed)


def line(rate: str, cell: Cell, records: Sequence[Record]) -> str:
    """One row of the table, in the suite's own figures and words."""
    launches = [Launch(record, "study", "study") for record in records]
    (only,) = group(launches)
    (row,) = only.rows
    return f"| {cell.framework} | {NAMES.get(rate, rate)} | {' | '.join(figures(row))} | {bottleneck(row, only).kind} |"


def figures(row: Row) -> list[str]:
    cost, sums = communication(row), exchange(row)
    seconds = [record.ranks.allreduce.seconds_median for record in row.ok if record.ranks and record.ranks.allreduce]
    samples = [record.samples_per_s for record in row.ok if record.samples_per_s]
    if not (cost and seconds and samples and sums.bytes_per_s):
        return ["-"] * 4
    ends = [f"{100 * max(0.0, end):.0f}" for end in (cost.low, cost.high) if end is not None]
    interval = f" ({' to '.join(ends)})" if ends else ""
    return [
        f"{100 * cost.share:.0f} %{interval}",
        f"{1e3 * sorted(seconds)[len(seconds) // 2]:.1f} ms",
        f"{sums.bytes_per_s / 1e6:.0f}",
        f"{sorted(samples)[len(samples) // 2]:.0f}",
    ]


if __name__ == "__main__":
    sys.exit(main())
