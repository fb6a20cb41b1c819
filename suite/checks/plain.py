"""Is the suite's training step as fast as a plain loop of the same framework? ``python -m suite.checks plain``."""

from __future__ import annotations

import argparse
import json
import sys
import time
from importlib import import_module
from itertools import cycle
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from suite.plan.cell import FRAMEWORKS, SIZES, Cell
from suite.plan.matrix import STUDIED
from suite.session.launch import LaunchError, ask
from suite.worker.measure import Steps
from suite.worker.phases import training_steps
from workloads.data import synthetic
from workloads.data.augment import Batches
from workloads.data.progress import waiting
from workloads.spec import specification

BATCHES = 4
EXPLANATION = """\
Both train the same network on the same batches in one process, in rounds of four windows (suite, plain, plain, suite)
of at least --min-window seconds, so that switching between them slows both equally. The ratio is the throughput of the
suite's step over that of the plain loop in each round; 1.00 means equally fast. The harness column is the overhead of
the suite's own loop and clock as a share of a window, measured with a step that does nothing.
"""


def main() -> int:
    """Time the selected workloads and frameworks, each in its own process, and print a line for each."""
    parser = argparse.ArgumentParser(
        prog="python -m suite.checks plain", description=__doc__, epilog=EXPLANATION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--workload", choices=STUDIED, action="append", help="default: all; may be repeated")
    parser.add_argument("--framework", choices=FRAMEWORKS, action="append", help="default: all; may be repeated")
    parser.add_argument("--size", choices=SIZES, default="full")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=10, help="of four windows (default: 10)")
    parser.add_argument("--min-window", type=float, default=1.5, metavar="S", help="seconds (default: 1.5)")
    parser.add_argument("--answer", help=argparse.SUPPRESS)  # where a child process writes what it found
    options = parser.parse_args()
    if options.answer:
        Path(options.answer).write_text(json.dumps(pair(options)))
        return 0
    print(f"{'workload':18}{'framework':12}{'suite/plain':>12}  {'quartiles':13}{'n':>3}{'step ms':>10}{'harness':>10}")
    failed = False
    for workload in options.workload or STUDIED:
        for framework in options.framework or FRAMEWORKS:
            try:
                figures = line(workload, framework, options)
            except LaunchError as error:
                failed, figures = True, f" {error}"
            print(f"{workload:18}{framework:12}{figures}", flush=True)
    return int(failed)


def line(workload: str, framework: str, options: argparse.Namespace) -> str:
    """Returns one line of figures from a fresh process. Raises `LaunchError` if it failed."""
    arguments = ["--workload", workload, "--framework", framework]
    for name in ("size", "batch", "rounds", "min_window"):
        arguments += [f"--{name.replace('_', '-')}", str(getattr(options, name))]
    with waiting(f"{workload} {framework}"):
        answer = ask(framework, "suite.checks.plain", arguments)
    low, middle, high = quantiles(answer["ratios"], n=4, method="inclusive")
    return (
        f"{middle:>12.3f}  {low:.3f}-{high:.3f}  {len(answer['ratios']):>3}"
        f"{1e3 * answer['step_s']:>10.1f}{answer['harness']:>10.4%}"
    )


def pair(options: argparse.Namespace) -> dict[str, Any]:
    """Time the suite's step and the plain loop in turns, in this process."""
    (workload,), (framework,) = options.workload, options.framework
    cell = Cell(workload, framework, batch=options.batch, size=options.size)
    spec: Any = specification(workload, cell.size)
    data = synthetic.generate(spec.data, train=BATCHES * cell.batch, test=100)
    source = Batches(data, cell.batch, 0, getattr(spec, "length", None))
    batches = [source[number] for number in range(BATCHES)]
    adapter = import_module(f"suite.worker.frameworks.{framework}")
    device, _ = adapter.prepare(cell, "auto", 0)
    module = import_module(f"workloads.{workload}.{framework}")
    training = adapter.Training(cell, spec, module, spec.reference_weights(0), device)
    device_batches = [training.put(batch) for batch in batches]
    training.compile(device_batches[0])
    suite_steps = training_steps(cycle(device_batches), training, [])
    plain_steps = import_module(f"workloads.plain.{framework}").plain(spec, batches, device)
    count = max(_steps_per_window(run, options.min_window) for run in (suite_steps, plain_steps))
    ratios, times = [], []
    for _ in range(options.rounds):
        first_s, *plain_s, last_s = (
            _seconds(run, count) for run in (suite_steps, plain_steps, plain_steps, suite_steps)
        )
        ratios.append(sum(plain_s) / (first_s + last_s))
        times += [first_s, last_s]
    idle = median(_seconds(training_steps(cycle(device_batches), _Idle(), []), count) for _ in range(20))
    return {"ratios": ratios, "step_s": median(times) / count, "harness": idle / median(times)}


class _Idle:
    """A training whose steps do nothing, so that only the harness is timed."""

    def step(self, batch: Any) -> None: ...

    def fence(self, pending: Any) -> None: ...


def _steps_per_window(run: Steps, seconds: float) -> int:
    run(2)  # compiles
    _seconds(run, 2)
    return max(2, round(seconds / _seconds(run, 2) * 2))


def _seconds(run: Steps, count: int) -> float:
    start = time.perf_counter_ns()
    run(count)
    return (time.perf_counter_ns() - start) / 1e9


if __name__ == "__main__":
    sys.exit(main())
