"""The measured process: imports one framework, trains one cell, and reports over a private pipe.

Started as ``python -m suite.worker.process FD JOB``. Every line on the pipe is a JSON object: ``part`` holds fields of
the `Record` as soon as they are known, ``progress`` is for people. What the framework prints is kept as a log.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from suite.plan.cell import Cell
from suite.record.job import Job
from suite.record.parts.environment import redact
from suite.record.parts.history import TrainingHistory
from suite.record.record import Phase
from suite.record.variables import WORKER
from suite.worker import interfaces
from suite.worker.distributed.process_group import RANKS_APART, ProcessGroup, find_training
from suite.worker.distributed.ranks import ALONE, Ranks, join_ranks
from suite.worker.evidence.collector import Evidence
from suite.worker.evidence.fingerprint import DIGESTED_BATCHES
from suite.worker.evidence.subject import EvidenceContext
from suite.worker.evidence.updates import FP16_STEPS
from suite.worker.frameworks import UnsupportedError, import_framework
from suite.worker.launch import compile_cache, description, group, pages
from suite.worker.launch.applied import Ran, check_release, read_back
from suite.worker.launch.description import check, classify
from suite.worker.launch.phases import measure_late, measure_phases, shift_spans
from suite.worker.launch.probe import denormals, measure_peaks, precision_errors
from suite.worker.launch.training import Saved, follow
from suite.worker.loaders import CountingLoader
from workloads import recipes, registry
from workloads.data.augment import Batches
from workloads.data.cache import open_cached
from workloads.data.dataset import Array, DataSet
from workloads.data.own import add_augmentation
from workloads.spec import WorkloadSpec, specification

Send = Callable[..., None]


def main(descriptor: str, text: str) -> None:
    """Run the job, send its record in parts, and end; never raises."""
    job, started = Job.loads(text), dict(os.environ)
    group.die_with_parent()
    os.environ[WORKER] = str(os.getpid())
    group.adopt()
    group.take_cores()
    with os.fdopen(int(descriptor), "w", encoding="utf-8") as pipe:

        def send(**message: Any) -> None:
            pipe.write(json.dumps(message) + "\n")
            pipe.flush()

        def tell(error: BaseException) -> None:
            """Send the outcome, also from another thread, or from a process that was forked."""
            status, reason = classify(error, job, framework)
            message = json.dumps({"part": {"outcome": {"status": status, "reason": redact(reason)}}})
            os.write(pipe.fileno(), f"\n{message}\n".encode())  # whatever line was begun

        framework: ModuleType | None = None
        group.end_on_hidden_errors(tell)
        try:
            send(progress="starting")
            interpreter_s = _since(job.spawned_ns)
            if job.workload_folder:
                registry.register(job.workload_folder)
            framework = import_framework(job.cell.framework)
            ranks = join_ranks()
            _Launch(job, framework, send, interpreter_s, ranks, started=started).run()
        except BaseException as error:  # any exception becomes the result of this launch
            traceback.print_exc()
            tell(error)
        else:
            send(part={"outcome": {"status": "ok", "reason": ""}})
            ranks.leave()  # no rank ends while another still needs it


class _Launch:
    def __init__(
        self, job: Job, framework: ModuleType, send: Send, interpreter_s: float, ranks: Ranks = ALONE, *,
        started: Mapping[str, str] = os.environ,
    ) -> None:  # fmt: skip
        self.job, self.cell, self.framework, self.send, self.ranks = job, job.cell, framework, send, ranks
        self.started = started  # with these variables
        self.team = ProcessGroup(self.cell, ranks) if self.cell.devices > 1 else None
        if self.team:
            self.team.connect(job.device)
        self.share = self.team.share() if self.team else None
        # Each rank draws dropout's masks from a seed of its own.
        self.device, settings = framework.prepare(self.cell, job.device, job.seed + RANKS_APART * ranks.rank)
        settings |= self.team.configure(self.device) if self.team else {}
        if job.memory_limit and self.device == "cpu":
            resource.setrlimit(resource.RLIMIT_DATA, (job.memory_limit, resource.RLIM_INFINITY))
            settings["memory_limit_bytes"] = job.memory_limit
        self.module = interfaces.module(self.cell)
        settings |= interfaces.prepare(self.cell, self.device, job.seed) | check_release(self.cell)
        self.loaders = import_module(f"suite.worker.loaders.{self.cell.framework}")
        self.startup = {"interpreter_s": interpreter_s}
        self._mark("import_s")
        self.settings = settings
        self.compile_s: float | None = None

    def run(self) -> None:
        self.send(progress="loading")
        spec = specification(self.cell.workload, self.cell.size)
        data = spec.arrange(add_augmentation(open_cached(Path(self.job.data)), self.cell.workload))
        self._mark("data_s")
        length = getattr(spec, "length", None)
        if (batch := self.cell.effective_batch) > len(data.train):
            raise UnsupportedError(f"batch {batch} is more than {data.name}'s {len(data.train)} samples")
        source = Batches(data, batch, self.job.seed, length, share=self.share)
        recipe = recipes.recipe(self.cell.recipe, spec, self.job.epochs, self.job.target) if self.cell.recipe else None
        rates = recipe.rates(recipe.epochs * source.per_epoch, source.global_batch, FP16_STEPS) if recipe else None
        applied, dropout = (recipe.apply_to(spec), recipe.dropout) if recipe else (spec, True)
        training = self._training(applied, self.cell, self.job.seed, dropout=dropout, rates=rates)
        self._mark("build_s")
        loader = CountingLoader(self.loaders.batches(self.cell, source, self.device, training.put), self.job.seed)
        first_batch = next(loader)
        self._mark("first_batch_s")
        self.send(took="startup")
        self._describe(data, spec, loader, recipe)
        subject = EvidenceContext(
            self.cell, self.framework, self.module, self.device, spec, data, dropout, applied if recipe else None,
            rates, self.job.programs, self.team, self.job.plan.serves,
        )  # fmt: skip
        evidence = Evidence.begin(subject, self.send, description.program_digest(self.key), self.job, training)
        try:
            self._first_step(training, first_batch, train=not recipe)
            batches = [first_batch, *(next(loader) for _ in range(DIGESTED_BATCHES - 1))]
            evidence.digest_delivered([training.get(batch) for batch in batches])
            memory = self._peak_memory() if not recipe and self.team and self.team.alone() else None  # of one model
            self._check_precision(evidence, *(() if recipe else (training, batches[0], loader.loader)))
            local = None if recipe else self._train_alone(spec, training.get(batches[0]))
            del first_batch, batches
            if not recipe:
                self.framework.reset_memory(self.device)
                measured = measure_phases(
                    training, loader, self.job.plan, batch=self.cell.effective_batch, send=self.send,
                    spawned_ns=self.job.spawned_ns, ranks=self.ranks, local=local, tools=subject.tools,
                    chill=partial(self._chill, loader.loader),
                )  # fmt: skip
                self._memory(memory)
                self._ranks(training, measured.own_step_s)
                del local
                asked = {"job": self.job, "subject": subject, "send": self.send}
                evidence.answers = measure_late(training, loader, measured, self.ranks, **asked)
                evidence.last(training, loader, source)
                if self.job.profile and interfaces.native(self.cell):  # nothing more of it is timed or compared
                    profiling = import_module("suite.worker.profilers.profiling")
                    step_s = measured.train.step_s
                    profiling.profile(self.job, training, loader.loader, step_s, self.send, ranks=self.ranks)
        finally:
            loader.close()
        if recipe:
            self._course(recipe, training, data, length, evidence)
            self._memory(None)
        del training, loader, source
        evidence.afterwards()
        self._measure_peak()

    def _peak_memory(self) -> dict[str, int]:
        memory = {"rss_peak_bytes": group.peak_rss(), **self.framework.memory(self.device)}
        return self.team.memory(memory) if self.team else memory

    def _memory(self, before: dict[str, int] | None) -> None:
        """Send the peak memory of the measurement, or an earlier one, since what follows may need more."""
        self.send(part={"memory": before or self._peak_memory()})
        if self.job.memory_limit and self.device == "cpu":
            resource.setrlimit(resource.RLIMIT_DATA, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    def _measure_peak(self) -> None:
        if self.cell.recipe or self.job.profile or not self.job.plan.lean:
            self.send(progress="peak")
            measure_peaks(self.cell, self.framework, self.device, self.settings, self.team, profiled=self.job.profile)
        self.send(part={"settings": self.settings})

    def _training(self, spec: WorkloadSpec, cell: Cell, seed: int, **options: Any) -> Any:
        weights = spec.reference_weights(seed)
        make = find_training(self.framework, cell, self.team)
        return make(cell, spec, self.module, weights, self.device, seed=seed, **options)

    def _train_alone(self, spec: WorkloadSpec, batch: tuple[Array, Array]) -> Any:
        build = partial(self._training, spec, seed=self.job.seed, dropout=True)
        return self.team.alone_from(build, spec, batch) if self.team and "local" in self.job.plan.with_parts else None

    def _describe(self, data: DataSet, spec: WorkloadSpec, loader: Any, recipe: recipes.Recipe | None) -> None:
        numbers = self.framework.NUMBERS[self.cell.precision]
        distributions = (*self.framework.DISTRIBUTIONS, *interfaces.distributions(self.cell))
        environment = description.describe_environment(self.cell, distributions, self.settings, self.started)
        workload = description.describe_workload(spec, self.cell.recipe, recipe)
        self.key = description.training_key(self.job, workload["digest"], data.digest, environment, self.device)
        self.settings |= {
            "loader": loader.settings, "effective_batch": self.cell.effective_batch,
            "kernels": description.kernels(self.module, self.cell, spec, numbers, self.device),
            "compute_type": numbers.compute, "weights_type": numbers.weights,
        }  # fmt: skip
        described = {"environment": environment, "workload": workload}
        described["data"] = {"name": data.name, "kind": data.kind, "digest": data.digest}
        self.send(part={"startup": self.startup, "settings": self.settings, **described})

    def _first_step(self, training: Any, batch: Any, train: bool) -> None:
        self.send(progress="first step", begin="first_step")
        kept = compile_cache.list_files(self.job.cache)
        start = time.perf_counter_ns()
        self.settings |= interfaces.describe_training(training)
        self.compile_s = _since(start) if training.compile(batch) else None
        self.send(part={"compile_s": self.compile_s}, took="compile")
        if not train:
            return
        loss = training.step(batch)
        training.fence(loss)
        if self.team:
            self.framework.reset_memory(self.device)  # of building a part of a model, and of cuDNN's trials
        self.send(part={"first_step_s": _since(start)}, took="first_step")
        self.settings |= compile_cache.describe(self.job.cache, kept)
        check([loss], training, "the first step")

    def _check_precision(self, evidence: Evidence, *stepped: Any) -> None:
        self.send(progress="precision")
        self.settings["precision_errors"] = errors = precision_errors(self.cell, self.framework, self.device)
        self.settings["denormals"] = denormals(self.cell, self.framework, self.device)
        try:
            if stepped:
                self._read_back(evidence.subject, *stepped)
            errors |= evidence.fingerprint()
        finally:
            self.send(part={"settings": self.settings})

    def _read_back(self, subject: EvidenceContext, training: Any, batch: Any, loader: Any) -> None:
        self.settings["applied"] = read_back(
            Ran(subject, training, batch, loader, self.settings, self.started), self.cell
        )

    def _chill(self, loader: Any, name: str) -> None:
        """Drop the loader's files from the page cache where the cell asks for it. Raises `PagesError`."""
        if self.cell.pages == "cold":
            self.settings.setdefault("resident_pages", {})[name] = pages.drop_for(loader, name)

    def _course(self, recipe: recipes.Recipe, training: Any, data: DataSet, length: Any, evidence: Evidence) -> None:
        saved = Saved(self.job.checkpoint, self.key, self.ranks)
        batches = Batches(data, self.cell.effective_batch, self.job.seed, length, len(saved.epochs), self.share)
        loader = CountingLoader(self.loaders.batches(self.cell, batches, self.device, training.put), self.job.seed)

        def report(course: TrainingHistory, phase: Phase) -> None:
            train = asdict(shift_spans(phase, self.job.spawned_ns))
            self.send(part={"course": asdict(course), "phases": {"train": train}})

        try:
            self._chill(loader.loader, "train")
            follow(
                self.cell.recipe, recipe, training, loader, source=batches, data=data, saved=saved, check=check,
                evaluation_batch=evidence.subject.spec.evaluation_batch, compiled_s=self.compile_s or 0.0,
                say=self.send, report=report, tools=interfaces.tools(self.cell), team=self.team,
            )  # fmt: skip
            evidence.keep_scored(training, saved.scores, self.job.seed)
            evidence.last(training, loader, batches)
            self._read_back(evidence.subject, training, next(loader.loader), loader.loader)
        finally:
            loader.close()
        self._ranks(training, {"train": saved.own_step_s})

    def _ranks(self, training: Any, own_step_s: dict[str, list[float]]) -> None:
        if self.team:
            self.send(progress="ranks")
            self.send(part={"ranks": self.team.describe(training, self.device, self.settings, own_step_s, self.send)})

    def _mark(self, part: str) -> None:
        """Record the seconds since the last mark as a part of the startup."""
        self.startup[part] = _since(self.job.spawned_ns) - sum(self.startup.values())


def _since(start_ns: int) -> float:
    return (time.perf_counter_ns() - start_ns) / 1e9


if __name__ == "__mp_main__":  # a process of a loader, which Python spawned; the worker may die before it can end it
    group.adopt()
    group.end_with_worker()
    group.end_on_hidden_errors(lambda _: None)  # its end is noticed, and the log has the error
    if len(sys.argv) == 3 and (_folder := Job.loads(sys.argv[2]).workload_folder):
        registry.register(_folder)  # since what it unpickles may be of that workload

if __name__ == "__main__":
    main(*sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # the record is complete, and an orderly end of the frameworks' threads takes seconds
