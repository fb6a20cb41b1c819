"""How much does monitoring slow a training down? Switches it on and off: ``training-suite checks monitor``."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from framework_training_suite import CommandError
from suite.analysis.statistics.inference import BLOCKS_LEAST, Paired, run_t_test
from suite.monitor.gpu import Gpu, NvmlError, open_nvml
from suite.monitor.sampler import Idle, Monitor, idle
from suite.plan.cell import FRAMEWORKS, Cell
from suite.plan.command.common import DEVICE, FRAMEWORK, MIN_WINDOW, SIZE, WORKLOAD, command, option
from suite.plan.matrix import STUDIED
from suite.plan.measuring import Plan
from suite.record.job import Job
from suite.session.launches.launch import LaunchError, launch
from workloads.data.prepare import prepare
from workloads.spec import specification

#: Least throughput with the monitor, as a share of the throughput without.
SHARE_LEAST = 0.99

EXPLANATION = """\
One process trains. Its parent switches the monitor on and off between the windows of the training: on, off, off, on.
So neither a new launch nor a drift of the machine affects the result. The ratio is the throughput with the monitor over
that without, one per round; 1.000 means no overhead. The table has its 95 % interval (Student's t on logarithms), the
number of rounds, the CPU time of the monitoring process as a share of one core, and a verdict: `within 1 %` (the whole
interval shows it), `costs more` (the whole interval shows the opposite) or `undecided` (use more --rounds).

exit status: 0, or 1 if a launch failed or monitoring costs more than 1 %
"""


class _OverError(Exception):
    """Enough windows of training are there; what the worker does after them is not needed."""


class Turns:
    """Monitors a worker in two of every four windows. `launch` calls `spawned` and `on_progress`."""

    def __init__(self, rounds: int, gpus: Sequence[Gpu] = (), before: Idle | None = None) -> None:
        self.rounds, self.gpus, self.before = rounds, gpus, before
        self.windows = 4 * rounds
        self.cpu_s = self.watched_s = 0.0
        self.rates: list[float] = []  # samples/s of each window that counts
        self._worker = 0, 0.0
        self._warming_up, self._warm = False, False
        self._monitor: Monitor | None = None
        self._since_s = (0.0, 0.0)

    def spawned(self, pid: int, at_s: float) -> None:
        """Remember the worker. It is not monitored yet."""
        self._worker = pid, at_s

    def on_progress(self, message: dict[str, Any]) -> None:
        """Switch the monitor on or off after each window. Raises `_OverError` after the last.

        Training warms up first; what follows that is the warm-up of the next phase.
        """
        if message["progress"] != "train":
            if self._warming_up and not self._warm:
                self._warm = True
                self.watch(True)
        elif not self._warm:
            self._warming_up = True
        else:
            self.rates.append(message["samples_per_s"])
            if len(self.rates) == self.windows:
                raise _OverError
            self.watch(len(self.rates) % 4 in (0, 3))

    def watch(self, on: bool) -> None:
        """Switch the monitor on or off, and add up the time that this process spent on it."""
        if on and not self._monitor:
            self._since_s = time.process_time(), time.perf_counter()
            self._monitor = Monitor(*self._worker, self.gpus, self.before).__enter__()
        elif self._monitor and not on:
            self._monitor.__exit__(None, None, None)
            self._monitor = None
            self.cpu_s += time.process_time() - self._since_s[0]
            self.watched_s += time.perf_counter() - self._since_s[1]

    @property
    def ratios(self) -> list[float]:
        """Throughput with the monitor over that without, for each round (harmonic means)."""
        return [(1 / b + 1 / c) / (1 / a + 1 / d) for a, b, c, d in zip(*[iter(self.rates)] * 4, strict=True)]


@command(
    "suite.checks monitor", __doc__, EXPLANATION,
    WORKLOAD, FRAMEWORK, SIZE, DEVICE, MIN_WINDOW.but(default=5.0, help="default: 5 s"),
    option("--batch", type=int, default=32, help="default: 32"),
    option("--rounds", type=int, default=10, help=f"of four windows (default: 10, at least {BLOCKS_LEAST})"),
)  # fmt: skip
def main(options: argparse.Namespace) -> int:
    """Measure the selected workloads and frameworks, each in its own process, and print a line for each."""
    if options.rounds < BLOCKS_LEAST:
        raise CommandError(f"--rounds {options.rounds} is too few for an interval; at least {BLOCKS_LEAST}")
    print(f"{'workload':18}{'framework':12}{'with/without':>12}  {'95 % interval':15}{'n':>3}{'own CPU':>9}")
    failed = False
    with ExitStack() as stack:
        gpus: list[Gpu] = []
        try:
            gpus = [] if options.device == "cpu" else stack.enter_context(open_nvml())[1]
        except NvmlError as error:
            print(f"no GPU is monitored: {error}", file=sys.stderr)
        before = idle(gpus)
        for workload in options.workload or STUDIED:
            for framework in options.framework or FRAMEWORKS:
                cell = Cell(workload, framework, batch=options.batch, size=options.size)
                turns = Turns(options.rounds, gpus, before)
                try:
                    ratio = compare(cell, turns, options.device, options.min_window)
                    failed = failed or ratio.high < SHARE_LEAST
                    figures = (
                        f"{ratio.value:>12.3f}  {f'{ratio.low:.3f}-{ratio.high:.3f}':15}{ratio.blocks:>3}"
                        f"{turns.cpu_s / turns.watched_s:>9.2%}  {verdict(ratio)}"
                    )
                except LaunchError as error:
                    failed, figures = True, f" {error}"
                print(f"{workload:18}{framework:12}{figures}", flush=True)
    return int(failed)


def compare(cell: Cell, turns: Turns, device: str, min_window_s: float) -> Paired:
    """Train a cell with and without the monitor in turns. Raises `LaunchError` if the launch fails."""
    data = prepare(specification(cell.workload).data, "synthetic", say=lambda _: None)
    plan = Plan(min_window_s, turns.windows, max_warmup_s=20.0)
    with tempfile.TemporaryDirectory(prefix="suite-") as folder:
        try:
            log = Path(folder, "log")
            job, deadline_s = Job(cell, str(data), device=device, plan=plan), 3600 + 4 * turns.windows * min_window_s
            record = launch(job, log, deadline_s, lambda message: _on_progress(turns, message), turns.spawned)
        except _OverError:
            ratio = run_t_test(turns.ratios)
            assert ratio, "the command takes no fewer rounds"
            return ratio
        finally:
            turns.watch(False)
            _say("")
    raise LaunchError(f"{record.outcome.status}: {record.outcome.reason}")


def _on_progress(turns: Turns, message: dict[str, Any]) -> None:
    turns.on_progress(message)
    _say(f"{message['progress']}: window {len(turns.rates)} of {turns.windows}")


def _say(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{text:60}", end="" if text else "\r", file=sys.stderr, flush=True)


def verdict(ratio: Paired) -> str:
    """Returns whether the interval lies above or below `SHARE_LEAST`, in words."""
    if ratio.low >= SHARE_LEAST:
        return "within 1 %"
    return "costs more" if ratio.high < SHARE_LEAST else "undecided"


if __name__ == "__main__":
    sys.exit(main())
