"""The measured process: imports one framework, trains one cell, and reports over a private pipe.

Started by `suite.session.launch` as ``python -m suite.worker.process FD JOB``; a ``__main__.py`` would not do, since
Python does not import that again in the processes that a loader spawns. Every line on the pipe is a JSON object:
``part`` holds fields of the `Record` as soon as they are known, so that a launch that dies still tells how far it came;
``progress`` is for people. Whatever the framework prints goes to stdout and stderr, which the parent keeps as a log.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, replace
from importlib import import_module
from itertools import cycle
from pathlib import Path
from types import ModuleType
from typing import Any

from suite.plan.cell import Cell
from suite.record.environment import describe, redact
from suite.record.history import Course
from suite.record.job import WORKER, Job
from suite.record.record import Phase, Window
from suite.worker import group
from suite.worker.evidence import TIMED_STEPS, Counted, Evidence, Subject
from suite.worker.fingerprint import DIGESTED_BATCHES
from suite.worker.frameworks import UnsupportedError
from suite.worker.measure import Steps, measure
from suite.worker.outcome import RecompiledError, check, classify
from suite.worker.probe import denormals, peak_flops_per_s, precision_errors
from suite.worker.training import Saved, follow
from workloads.data.augment import Batches
from workloads.data.cache import open_cached
from workloads.data.dataset import Array, DataSet
from workloads.recipes import Recipe, recipe
from workloads.spec import WorkloadSpec, specification

HELD_BATCHES = 4  # batches that the compute phase keeps on the device and takes in turn

Send = Callable[..., None]


def main(descriptor: str, text: str) -> None:
    """Run the job, send its record in parts, and end; never raises."""
    job = Job.loads(text)
    group.die_with_parent()
    os.environ[WORKER] = str(os.getpid())
    group.adopt()
    with os.fdopen(int(descriptor), "w", encoding="utf-8") as pipe:

        def send(**message: Any) -> None:
            pipe.write(json.dumps(message) + "\n")
            pipe.flush()

        status, reason = "ok", ""
        framework: ModuleType | None = None
        try:
            send(progress="starting")
            interpreter_s = _since(job.spawned_ns)
            framework = import_module(f"suite.worker.frameworks.{job.cell.framework}")
            _Launch(job, framework, send, interpreter_s).run()
        except BaseException as error:  # whatever it is, it is this launch's result
            traceback.print_exc()
            status, reason = classify(error, job, framework)
        send(part={"outcome": {"status": status, "reason": redact(reason)}})


class _Launch:
    """The steps of one launch, in the order in which they happen."""

    def __init__(self, job: Job, framework: ModuleType, send: Send, interpreter_s: float) -> None:
        self.job, self.cell, self.framework, self.send = job, job.cell, framework, send
        self.device, settings = framework.prepare(self.cell, job.device, job.seed)
        if job.memory_limit and self.device == "cpu":
            resource.setrlimit(resource.RLIMIT_DATA, (job.memory_limit, resource.RLIM_INFINITY))
            settings["memory_limit_bytes"] = job.memory_limit
        self.module = import_module(f"workloads.{self.cell.workload}.{self.cell.framework}")
        self.loaders = import_module(f"suite.worker.loaders.{self.cell.framework}")
        self.startup = {"interpreter_s": interpreter_s}
        self._mark("import_s")
        self.settings = settings
        self.compile_s: float | None = None

    def run(self) -> None:
        self.send(progress="loading")
        data = open_cached(Path(self.job.data))
        self._mark("data_s")
        spec = specification(self.cell.workload, self.cell.size)
        length = getattr(spec, "length", None)
        if self.cell.effective_batch > len(data.train):
            raise UnsupportedError(
                f"batch {self.cell.effective_batch} is more than {data.name}'s {len(data.train)} samples"
            )
        source = Batches(data, self.cell.effective_batch, self.job.seed, length)
        found = recipe(self.cell.recipe, spec, self.job.epochs, self.job.target) if self.cell.recipe else None
        rates = found.rates(found.epochs * source.per_epoch) if found else None
        training = self._trained(spec, found, rates)
        self._mark("build_s")
        loader = Counted(self.loaders.batches(self.cell, source, self.device, training.put))
        first = next(loader)
        self._mark("first_batch_s")
        self._describe(data, spec, loader, found)
        drawn, followed = not found or found.dropout, found.applied(spec) if found else None
        subject = Subject(self.cell, self.framework, self.module, self.device, spec, data, drawn, followed, rates)
        evidence = Evidence(subject, self.send)
        try:
            losses = self._first_step(training, first, train=not found)
            delivered = [first, *(next(loader) for _ in range(DIGESTED_BATCHES - 1))]
            evidence.delivered([training.get(batch) for batch in delivered])
            if not found:
                evidence.first_steps(training, losses, delivered[1:TIMED_STEPS], self.job.seed)
            self._check_precision(evidence)
            del first, delivered
            if not found:
                self._phases(training, loader)
                self._memory()
                evidence.last(training, loader, source)
        finally:
            loader.close()
        if found:
            self._course(found, training, data, length)
            self._memory()
        timed = training if subject.proves_itself and not found else None
        del training, loader, source
        evidence.afterwards(timed)
        self._measure_peak()

    def _memory(self) -> None:
        """The peaks of what was measured; what comes after may take more."""
        self.send(part={"memory": {"rss_peak_bytes": _peak_rss(), **self.framework.memory(self.device)}})
        if self.job.memory_limit and self.device == "cpu":
            resource.setrlimit(resource.RLIMIT_DATA, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    def _measure_peak(self) -> None:
        """Last, because its matrices are large enough to hide what training took at most; left out where it fails."""
        self.send(progress="peak")
        try:
            self.settings["peak_flops_per_s"] = peak_flops_per_s(self.cell, self.framework, self.device)
        except Exception:  # what was measured before stands; the log says why this was not
            traceback.print_exc()
        self.send(part={"settings": self.settings})

    def _trained(self, spec: WorkloadSpec, found: Recipe | None, rates: Array | None) -> Any:
        """What is measured: at the spec's own rate, or by the recipe."""
        if not found:
            return self._training(spec, self.cell, self.job.seed, dropout=True)
        return self._training(found.applied(spec), self.cell, self.job.seed, dropout=found.dropout, rates=rates)

    def _training(self, spec: WorkloadSpec, cell: Cell, seed: int, **options: Any) -> Any:
        weights = spec.reference_weights(seed)
        return self.framework.Training(cell, spec, self.module, weights, self.device, seed=seed, **options)

    def _describe(self, data: DataSet, spec: WorkloadSpec, loader: Any, found: Recipe | None) -> None:
        numbers = self.framework.NUMBERS[self.cell.precision]
        environment = describe(self.framework.DISTRIBUTIONS)
        name = self.settings.pop("device_name", None)
        environment["machine"]["gpus"] = [name] if name else []
        workload = {
            "name": spec.name,
            "size": spec.size,
            "parameters": spec.parameters,
            "flops_per_sample": spec.flops_per_sample,
            "training_flops_per_sample": spec.training_flops_per_sample,
            "digest": found.digest(spec) if found else spec.digest,
        }
        workload |= {"recipe": asdict(found) | {"name": self.cell.recipe}} if found else {}
        # A training is gone on from only where all that its bits depend on is the same.
        self.key = {"cell": self.cell.to_json(), "seed": self.job.seed, "workload": workload["digest"]}
        self.key |= {"data": data.digest, "environment": environment["digest"], "machine": environment["machine"]}
        self.key |= {"device": self.device, "variables": environment["variables"]}
        self.settings |= {
            "loader": loader.settings,
            "kernels": self.module.kernels(spec, numbers, self.device, self.cell.kernel),
            "compute_type": numbers.compute,
            "weights_type": numbers.weights,
            "effective_batch": self.cell.effective_batch,
        }
        self.send(
            part={
                "startup": self.startup,
                "settings": self.settings,
                "environment": environment,
                "data": {"name": data.name, "kind": data.kind, "digest": data.digest},
                "workload": workload,
            }
        )

    def _first_step(self, training: Any, batch: Any, train: bool) -> list[float]:
        self.send(progress="first step")
        start = time.perf_counter_ns()
        compiled = training.compile(batch)
        self.compile_s = _since(start) if compiled else None
        self.send(part={"compile_s": self.compile_s})
        if not train:
            return []
        loss = training.step(batch)
        training.fence(loss)
        self.send(part={"first_step_s": _since(start)})
        return check([loss], training, "the first step")

    def _check_precision(self, evidence: Evidence) -> None:
        self.send(progress="precision")
        errors = precision_errors(self.cell, self.framework, self.device)
        self.settings["denormals"] = denormals(self.cell, self.framework, self.device)
        try:
            errors |= evidence.fingerprint()
        finally:
            self.settings["precision_errors"] = errors
            self.send(part={"settings": self.settings})

    def _phases(self, training: Any, loader: Any) -> None:
        held = [next(loader) for _ in range(HELD_BATCHES)]
        phases: dict[str, Phase] = {}
        compiled = training.compiled()
        for name, batches in (("train", loader), ("compute", cycle(held)), ("input", loader)):
            last: list[Any] = []
            steps = _input_steps(batches, training) if name == "input" else training_steps(batches, training, last)

            def say(window: Window, name: str = name, last: list[Any] = last) -> None:
                check(last, training, f"the {name} phase")
                self.send(progress=name, samples_per_s=self.cell.effective_batch * window.steps / window.seconds)

            phases[name] = self._since_spawned(measure(steps, self.job.plan, say))
            self.send(part={"phases": {name: asdict(phase) for name, phase in phases.items()}})
        if training.compiled() != compiled:
            raise RecompiledError(f"compiled inside the windows: {compiled} before them, {training.compiled()} after")

    def _course(self, found: Recipe, training: Any, data: DataSet, length: int | None) -> None:
        saved = Saved(self.job.checkpoint, self.key)
        left = Batches(data, self.cell.effective_batch, self.job.seed, length, first_epoch=len(saved.epochs))
        loader = self.loaders.batches(self.cell, left, self.device, training.put)

        def told(course: Course, phase: Phase) -> None:
            phases = {"train": asdict(self._since_spawned(phase))}
            self.send(part={"course": course.to_json(), "phases": phases})

        try:
            follow(
                self.cell.recipe, found, training, loader, per_epoch=left.per_epoch, data=data, length=length,
                batch=left.batch, compiled_s=self.compile_s or 0.0, saved=saved, say=self.send, check=check, told=told,
            )  # fmt: skip
        finally:
            loader.close()

    def _since_spawned(self, phase: Phase) -> Phase:
        begin, end = (moment - self.job.spawned_ns / 1e9 for moment in phase.span or (0.0, 0.0))
        return replace(phase, span=(begin, end))

    def _mark(self, part: str) -> None:
        """Note the seconds since the last mark as a part of the start."""
        self.startup[part] = _since(self.job.spawned_ns) - sum(self.startup.values())


def training_steps(batches: Any, training: Any, last: list[Any]) -> Steps:
    """Steps that leave the last loss in ``last``, to be read when the window is over."""

    def steps(count: int) -> None:
        losses = [training.step(next(batches)) for _ in range(count)]
        training.fence(losses[-1])
        last[:] = losses[-1:]

    return steps


def _input_steps(batches: Any, training: Any) -> Steps:
    def steps(count: int) -> None:
        for _ in range(count):
            batch = next(batches)
        training.fence(batch)

    return steps


def _since(start_ns: int) -> float:
    return (time.perf_counter_ns() - start_ns) / 1e9


def _peak_rss() -> int:
    """The most memory that this process ever held resident, in bytes; the data's mapped pages count."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


if __name__ == "__mp_main__":  # a process of a loader, which Python spawned; the worker may die before it can end it
    group.adopt()
    group.end_with_worker()

if __name__ == "__main__":
    main(*sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # all is told, and the frameworks' threads take seconds to be taken down in order
