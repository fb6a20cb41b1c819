"""How many samples per second does each loader deliver? ``training-suite checks loaders``."""

from __future__ import annotations

import argparse
import json
import sys
import time
from importlib import import_module
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

from suite.plan.cell import FRAMEWORKS, WORKLOADS, Cell, Loader
from suite.plan.command.common import DATA, FRAMEWORK, MIN_WINDOW, command, option
from suite.plan.measuring import Plan
from suite.session.launches.launch import LaunchError, ask
from suite.worker.frameworks import import_framework
from suite.worker.launch.measure import measure
from workloads.data.augment import Batches
from workloads.data.cache import open_cached
from workloads.data.dataset import DataError
from workloads.data.prepare import prepare
from workloads.data.progress import waiting
from workloads.spec import specification

LOADERS = (Loader("naive"), Loader("workers", 1), Loader("workers", 2), Loader(), Loader("resident"))
EXPLANATION = """\
Each figure is the input phase alone (loader and transfer to the device, no training step): median, lowest and highest
samples/s over the windows. The ceiling is the same batches made by vectorised NumPy on one core. Its windows alternate
with those of the loaders, in the same process.
"""


@command(
    "suite.checks loaders", __doc__, EXPLANATION,
    option("--workload", choices=WORKLOADS, default="cifar100_cnn", help="default: cifar100_cnn"),
    option("--batch", type=int, default=128, help="default: 128"),
    option("--windows", type=int, default=8, help="windows per loader (default: 8)"),
    FRAMEWORK, MIN_WINDOW.but(default=0.5, help="default: 0.5 s"), DATA,
    option("--folder", help=argparse.SUPPRESS),
    option("--answer", help=argparse.SUPPRESS),
)  # fmt: skip
def main(options: argparse.Namespace) -> int:
    """Measure the selected loaders, in one process per framework, and print a line for each loader."""
    if options.answer:
        Path(options.answer).write_text(json.dumps(measure_loaders(options)))
        return 0
    try:
        folder = prepare(specification(options.workload).data, options.data)
    except DataError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{options.workload}, batch {options.batch}, {open_cached(folder).kind} data")
    print(f"{'framework':12}{'loader':10}{'samples/s':>12}{'lowest-highest':>22}{'n':>4}{'of ceiling':>12}  settings")
    failed = False
    for framework in options.framework or FRAMEWORKS:
        arguments = ["--workload", options.workload, "--framework", framework, "--folder", str(folder)]
        for name in ("batch", "windows", "min_window"):
            arguments += [f"--{name.replace('_', '-')}", str(getattr(options, name))]
        try:
            with waiting(framework):
                lines = ask(framework, "suite.checks.loaders", arguments, workload=options.workload)
        except LaunchError as error:
            failed, lines = True, []
            print(f"{framework:12}{error}")
        for name, rates, share, settings in lines:
            middle, spread = f"{median(rates):,.0f}", f"{min(rates):,.0f}-{max(rates):,.0f}"
            print(f"{framework:12}{name:10}{middle:>12}{spread:>22}{len(rates):>4}{share:>12.2f}  {settings}")
    return int(failed)


def measure_loaders(options: argparse.Namespace) -> list[tuple[str, list[float], float, str]]:
    """Returns name, samples/s of each window, share of the ceiling and settings of every loader of one framework."""
    (framework,) = options.framework
    spec = specification(options.workload)
    data = spec.arrange(open_cached(Path(options.folder)))
    source = Batches(data, options.batch, 0, getattr(spec, "length", None))
    adapter = import_framework(framework)
    base = Cell(options.workload, framework, batch=options.batch)
    device, _ = adapter.prepare(base, "auto", 0)
    module = import_module(f"workloads.{options.workload}.{framework}")
    training = adapter.Training(base, spec, module, spec.reference_weights(0), device)
    plan = Plan(options.min_window, options.windows, 10 * options.min_window)
    measurements, ceilings = [], []
    for loader in LOADERS:
        batches = import_module(f"suite.worker.loaders.{framework}").batches(
            base.but(loader=loader), source, device, training.put
        )

        def steps(number: int, batches: Any = batches) -> None:
            for _ in range(number):
                last = next(batches)
            training.fence(last)

        phase = measure(steps, plan)
        settings = ", ".join(f"{name} {value}" for name, value in batches.settings.items())
        batches.close()
        measurements.append((loader.id, [options.batch / t for t in phase.step_times_s], settings))
        ceilings += _numpy_rates(source, 2, options.min_window)
    ceiling = median(ceilings)
    lines = [(name, rates, median(rates) / ceiling, settings) for name, rates, settings in measurements]
    return [*lines, ("NumPy", ceilings, 1.0, "the ceiling: vectorised, one core")]


def _numpy_rates(source: Batches, windows: int, seconds: float) -> list[float]:
    rates, indices = [], count()
    for _ in range(windows):
        samples, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            samples += len(source[next(indices)][1])
        rates.append(samples / (time.perf_counter() - start))
    return rates


if __name__ == "__main__":
    sys.exit(main())
