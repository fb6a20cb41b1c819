"""What does being watched cost? ``python -m suite.monitor`` runs a cell with and without the monitor."""

from __future__ import annotations

import argparse
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median, quantiles

from suite.cell import FRAMEWORKS, SIZES, Cell
from suite.job import Job
from suite.launch import LaunchError, Watch, launch
from suite.matrix import STUDIED
from suite.measure import Plan
from suite.monitor.gpu import Gpu, NvmlError, opened
from suite.monitor.sampler import Monitor, idle
from workloads.data.prepare import prepare
from workloads.spec import specification

#: What throughput under the monitor must be, as a share of that without.
LEAST = 0.99

EXPLANATION = """\
Launches come in pairs (with, without, without, with, ...). The ratio is throughput with the monitor over throughput
without, formed in each pair; 1.00 means that watching costs nothing.

exit status: 1 where a launch failed, or where even the upper quartile is below 0.99
"""


def main() -> int:
    """Run the pairs and print a line per workload and framework; the exit status says whether watching is cheap."""
    parser = argparse.ArgumentParser(
        prog="python -m suite.monitor", description=__doc__, epilog=EXPLANATION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--workload", choices=STUDIED, action="append", help="default: all; may be repeated")
    parser.add_argument("--framework", choices=FRAMEWORKS, action="append", help="default: all; may be repeated")
    parser.add_argument("--size", choices=SIZES, default="full")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--pairs", type=int, default=6, help="of launches (default: 6)")
    parser.add_argument("--min-window", type=float, default=0.5, metavar="S", help="seconds (default: 0.5)")
    options = parser.parse_args()
    print(f"{'workload':18}{'framework':12}{'with/without':>13}  {'quartiles':13}{'n':>3}")
    failed = False
    with ExitStack() as stack:
        gpus: list[Gpu] = []
        try:
            gpus = [] if options.device == "cpu" else stack.enter_context(opened())[1]
        except NvmlError as error:
            print(f"no GPU is watched: {error}", file=sys.stderr)
        before = idle(gpus)
        for workload in options.workload or STUDIED:
            for framework in options.framework or FRAMEWORKS:
                cell = Cell(workload, framework, batch=options.batch, size=options.size)
                try:
                    ratios = compared(cell, options, lambda pid, at_s: Monitor(pid, at_s, gpus, before))
                    low, middle, high = quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else ratios * 3
                    failed = failed or high < LEAST
                    figures = f"{middle:>13.3f}  {low:.3f}-{high:.3f}  {len(ratios):>3}"
                except LaunchError as error:
                    failed, figures = True, f" {error}"
                print(f"{workload:18}{framework:12}{figures}", flush=True)
    return int(failed)


def compared(cell: Cell, options: argparse.Namespace, watch: Watch) -> list[float]:
    """Throughput with the monitor over that without, per pair. Raises `LaunchError` where a launch fails."""
    data = prepare(specification(cell.workload).data, "synthetic", say=lambda _: None)
    plan = Plan(min_window_s=options.min_window, windows=8, max_warmup_s=10.0)
    ratios = []
    with tempfile.TemporaryDirectory(prefix="suite-") as folder:
        for number in range(options.pairs):
            found = {}
            for watched in (True, False) if number % 2 == 0 else (False, True):
                job = Job(cell, str(data), number, device=options.device, plan=plan)
                record = launch(job, Path(folder, "log"), watch=watch if watched else None)
                if not record.outcome.ok or record.samples_per_s is None:
                    raise LaunchError(f"{record.outcome.status}: {record.outcome.reason}")
                found[watched] = median(record.cell.batch / t for t in record.phases["train"].step_times_s)
            ratios.append(found[True] / found[False])
    return ratios


if __name__ == "__main__":
    sys.exit(main())
