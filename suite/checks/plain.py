"""Is what the suite times as fast as a plain loop of the same framework? ``training-suite checks plain``."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import deque
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib import import_module
from itertools import cycle
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from framework_training_suite import CommandError, lack
from suite.plan.cell import FRAMEWORKS, Cell
from suite.plan.command.common import FRAMEWORK, MIN_WINDOW, SIZE, WORKLOAD, command, list_of, option
from suite.plan.matrix import STUDIED
from suite.session.launches.launch import LaunchError, ask
from suite.worker.frameworks import import_framework
from suite.worker.launch.inference import model_of, resident
from suite.worker.launch.measure import Steps
from suite.worker.launch.phases import Timed, training_steps
from workloads.data import synthetic
from workloads.data.augment import Batches
from workloads.data.progress import waiting
from workloads.plain import NETWORKS
from workloads.spec import specification

BATCHES = 4
#: What both loops do; the last is for workloads that decode.
TRAIN, INFER, DECODE = TASKS = ("train", "infer", "decode")
EXPLANATION = """\
Both run the same network on the same batches in one process, in rounds of four windows (suite, plain, plain, suite)
of at least --min-window seconds, so that switching between them slows both equally. With --task infer they pass batches
through it in evaluation mode, and with --task decode they write a window of words, each the likeliest, after one word
of each sample. The ratio is the throughput of the suite's loop over that of the plain one; 1.00 means equally fast. A
process counts once, with the median of its rounds, since processes of one program differ more than their rounds do. The
interval is that of the mean over processes (95 %, Student's t on logarithms); with one process there is none, and the
range of its rounds stands in brackets. The harness column is the overhead of the suite's own loop and clock as a share
of a window, measured with a step that does nothing.

Processes run in blocks, one of each line, so that a drift of the machine hits all lines alike. A line is printed again
whenever a block is complete. --save writes every ratio of every process as JSON.
"""


def batches(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


@command(
    "suite.checks plain", __doc__, EXPLANATION,
    WORKLOAD.but(**list_of("workload", NETWORKS), help=f"of {', '.join(NETWORKS)} (default: {', '.join(STUDIED)})"),
    FRAMEWORK, SIZE, MIN_WINDOW.but(default=1.5, help="default: 1.5 s"),
    option("--task", choices=TASKS, default=TRAIN, help=f"what both loops do (default: {TRAIN})"),
    option("--batch", type=batches, default=(32,), metavar="N[,N]", help="default: 32"),
    option("--processes", type=int, default=1, help="fresh processes of each line (default: 1)"),
    option("--rounds", type=int, default=10, help="of four windows, in a process (default: 10)"),
    option("--save", type=Path, metavar="FILE", help="where to write all ratios, as JSON"),
    option("--answer", help=argparse.SUPPRESS),  # where a child process writes what it found
)  # fmt: skip
def main(options: argparse.Namespace) -> int:
    """Time the selected workloads and frameworks, each in its own process, and print a line for each."""
    decoders = [name for name in NETWORKS if specification(name).decodes]
    if options.task == DECODE and not set(options.workload or STUDIED) <= set(decoders):
        raise CommandError(f"--task {DECODE} is for a workload that decodes: add --workload {' or '.join(decoders)}")
    if options.answer:
        Path(options.answer).write_text(json.dumps(pair(options)))
        return 0
    if problem := lack(("scipy",)):  # for the interval, which is formed after all is measured
        raise CommandError(problem)
    print(
        f"{'workload':18}{'framework':12}{'batch':>5}{'suite/plain':>13}  {'95 % interval':15}"
        f"{'n':>3}{'step ms':>10}{'harness':>10}"
    )
    lines = [
        Line(workload, framework, batch)
        for workload in options.workload or STUDIED
        for framework in options.framework or FRAMEWORKS
        for batch in options.batch
    ]
    for _ in range(options.processes):
        for line in lines:
            with waiting(f"{line.workload} {line.framework} batch {line.batch}"):
                line.measure(options)
            if options.save:
                options.save.write_text(json.dumps([vars(each) for each in lines], indent=1) + "\n")
            if options.processes == 1:
                print(line, flush=True)
        if options.processes > 1:
            print("\n".join(map(str, lines)) + "\n", flush=True)
    return int(any(line.error for line in lines))


@dataclass
class Line:
    """What was measured of one framework at one batch: an answer of `pair` for each process that ended well."""

    workload: str
    framework: str
    batch: int
    answers: list[dict[str, Any]] = field(default_factory=list)
    error: str = ""

    def measure(self, options: argparse.Namespace) -> None:
        """Measure one more process."""
        arguments = ["--workload", self.workload, "--framework", self.framework, "--batch", str(self.batch)]
        for name in ("task", "size", "rounds", "min_window"):
            arguments += [f"--{name.replace('_', '-')}", str(getattr(options, name))]
        try:
            self.answers.append(ask(self.framework, "suite.checks.plain", arguments, workload=self.workload))
        except LaunchError as error:
            self.error = str(error)

    def __str__(self) -> str:
        name = f"{self.workload:18}{self.framework:12}{self.batch:>5}"
        if not self.answers:
            return f"{name} {self.error}"
        from suite.analysis.statistics.inference import interval  # here: a framework's environment has no SciPy

        ratios = [median(answer["ratios"]) for answer in self.answers]
        over_processes = interval(ratios)
        if over_processes:
            value, spread = over_processes.value, f"{over_processes.low:.3f}-{over_processes.high:.3f}"
        else:
            value, rounds = ratios[0], self.answers[0]["ratios"]
            spread = f"[{min(rounds):.3f}-{max(rounds):.3f}]"
        step_s, harness = (median(answer[key] for answer in self.answers) for key in ("step_s", "harness"))
        failures = f"  {self.error}" if self.error else ""
        return f"{name}{value:>13.3f}  {spread:15}{len(ratios):>3}{1e3 * step_s:>10.1f}{harness:>10.4%}{failures}"


def pair(options: argparse.Namespace) -> dict[str, Any]:
    """Time the suite's loop and the plain one in turns, in this process, and leave it as it was."""
    with ExitStack() as after:
        return _pair(options, after)


def _pair(options: argparse.Namespace, after: ExitStack) -> dict[str, Any]:
    (workload,), (framework,), (batch,) = options.workload, options.framework, options.batch
    cell = Cell(workload, framework, batch=batch, size=options.size)
    spec: Any = specification(workload, cell.size)
    test = max(100, spec.evaluation_batch)
    data = spec.arrange(synthetic.generate(spec.data, train=BATCHES * cell.batch, test=test))
    source = Batches(data, cell.batch, 0, getattr(spec, "length", None))
    batches = [source[number % source.per_epoch] for number in range(BATCHES)]
    adapter = import_framework(framework)
    device, _ = adapter.prepare(cell, "auto", 0)
    module = import_module(f"workloads.{workload}.{framework}")
    training = adapter.Training(cell, spec, module, spec.reference_weights(0), device)
    device_batches = [training.put(batch) for batch in batches]
    training.compile(device_batches[0])
    loops = import_module(f"workloads.plain.{framework}")
    if options.task == TRAIN:
        suite_steps = training_steps(cycle(device_batches), training, [])
        plain_steps = loops.train(spec, batches, device)
    else:
        serving = model_of(cell)
        model = serving.Model(training)
        after.callback(model.close)  # what serves may hold a switch of its framework
        inputs = [inputs for inputs, _ in batches]
        if options.task == INFER:
            suite_steps = resident(Timed(training, None, device_batches, model=model, pending=serving.PENDING))
            plain_steps = loops.serve(spec, inputs, device)
        else:
            words = np.ascontiguousarray(inputs[0][:, :1])
            suite_steps = _decoding(model, training.put((words, words))[0], spec.length)
            plain_steps = loops.decode(spec, words, device)
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


def _decoding(model: Any, words: Any, length: int) -> Steps:
    """Writes the rest of a window after one word of each sample, as the suite times it; all of that is a step."""

    def steps(count: int) -> None:
        for _ in range(count):
            state = model.prefill(words)
            for _ in range(length - 1):
                last, state = model.decode(state)
        model.fence(deque([last, state[0]]))

    return steps


class _Idle:
    """A training whose steps do nothing, so that only the harness is timed."""

    def step(self, batch: Any) -> None: ...

    def fence(self, pending: Any) -> None: ...


def _steps_per_window(run: Steps, seconds: float) -> int:
    """So many steps that they take the given time; one, where that takes longer."""
    run(2)  # compiles
    if (one_s := _seconds(run, 1)) >= seconds:
        return 1
    count = max(2, round(seconds / one_s / 4))
    return max(2, round(seconds / _seconds(run, count) * count))


def _seconds(run: Steps, count: int) -> float:
    start = time.perf_counter_ns()
    run(count)
    return (time.perf_counter_ns() - start) / 1e9


if __name__ == "__main__":
    sys.exit(main())
