"""What was seen of a launch of a script: its windows by phase, and the record that they make."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from suite import watch
from suite.catalog.phases import TRAIN
from suite.plan.measuring import Plan
from suite.record.job import Job
from suite.record.parts.environment import machine, redact, select_variables
from suite.record.record import Outcome, Phase, Record, Window
from suite.record.text import clean
from suite.script.variants import Variant

#: Two windows agree within this share, as those of the suite's own workloads.
AGREE = 0.05
#: A window begins a new burst if it does not follow the one before within so many seconds.
GAP_S = 0.1

#: The phase that follows another one, which the observer is asked for.
NEXT = {watch.TRAIN: watch.COMPUTE, watch.COMPUTE: watch.INPUT}


@dataclass
class Series:
    """The windows of one phase so far; the first ones warm up until two agree."""

    plan: Plan
    warmup: list[Window] = field(default_factory=list)
    windows: list[Window] = field(default_factory=list)
    spans: list[tuple[float, float]] = field(default_factory=list)
    steady: bool = False

    def add(self, window: Window, begin_s: float, end_s: float) -> None:
        spent_s = sum(each.seconds for each in self.warmup)
        if not self.windows and not self.steady and spent_s < self.plan.max_warmup_s:
            before = self.warmup[-1:]
            self.warmup.append(window)
            self.steady = bool(before) and _agree(before[0], window)
            return
        self.windows.append(window)
        if self.spans and begin_s - self.spans[-1][1] < GAP_S:
            self.spans[-1] = (self.spans[-1][0], end_s)
        else:
            self.spans.append((begin_s, end_s))

    def is_done(self) -> bool:
        return len(self.windows) >= self.plan.windows

    def phase(self) -> Phase | None:
        """The phase; of a script that ended early, its warm-up counts."""
        if self.windows:
            return Phase(tuple(self.windows), tuple(self.warmup), self.steady, tuple(self.spans))
        return Phase(tuple(self.warmup), (), False) if self.warmup else None


def _agree(one: Window, other: Window) -> bool:
    first, second = (each.seconds / each.steps for each in (one, other))
    return abs(first - second) <= AGREE * min(first, second)


@dataclass
class Seen:
    """What was seen of a launch: who trained, and its windows by phase. ``spawned_s`` is when it was started."""

    plan: Plan
    spawned_s: float
    progress: Callable[[dict[str, Any]], None]
    hello: dict[str, Any] = field(default_factory=dict)
    series: dict[str, Series] = field(default_factory=dict)
    phase: str = TRAIN
    samples: int = 0
    steps: int = 0
    rss: int = 0
    pauses: tuple[int, float] = (0, 0.0)
    is_enough: bool = False

    def take(self, message: Mapping[str, Any], ask: Callable[[str], None]) -> None:
        """Take one message of the observer in; ``ask`` sends it to the next phase."""
        if "hello" in message:
            self.hello = self.hello or dict(message)
        elif isinstance(window := message.get("window"), list):
            self.rss = max(self.rss, int(message.get("rss", 0)))
            self.hello["device"] = message.get("device", "cpu")
            steps, begin_s, end_s, samples = window
            if message.get("phase") == self.phase:
                if self.phase == TRAIN:
                    self.pauses = tuple(message.get("pauses", self.pauses))
                self.add(int(steps), float(begin_s), float(end_s), int(samples), ask)

    def add(self, steps: int, begin_s: float, end_s: float, samples: int, ask: Callable[[str], None]) -> None:
        series = self.series.setdefault(self.phase, Series(self.plan))
        series.add(Window(steps, end_s - begin_s), begin_s - self.spawned_s, end_s - self.spawned_s)
        if self.phase == TRAIN:
            self.samples, self.steps = self.samples + samples, self.steps + steps
        rate = (samples or steps) / (end_s - begin_s)
        self.progress({"progress": self.phase, "samples_per_s": rate})
        if series.is_done():
            following = NEXT.get(self.phase)
            if following in self.plan.phases and self.hello.get("loader"):
                self.phase = following
                ask(following)
            else:
                self.is_enough = True

    @property
    def batch(self) -> int:
        """Samples of a step, on the average; 0 where none were seen."""
        ranks = int(self.hello.get("world", 1))
        return ranks * round(self.samples / self.steps) if self.steps else 0

    def take_whole_run(self, took_s: float) -> None:
        """Take the whole run as one step: nothing else was seen of it."""
        self.hello.setdefault("source", "whole run")
        self.series[TRAIN] = Series(self.plan, windows=[Window(1, took_s)], spans=[(0.0, took_s)], steady=True)

    def record(self, variant: Variant, job: Job, variables: Mapping[str, str], outcome: Outcome) -> Record:
        """The record of the launch, whose process started with these environment variables."""
        phases = {name: phase for name, each in self.series.items() if (phase := each.phase())}
        hello = self.hello
        settings = {
            "device": hello.get("device", "cpu"), "effective_batch": self.batch or 1,
            "unit": "samples" if self.batch else "steps", "seen_by": str(hello.get("source", "")),
            "ranks": int(hello.get("world", 1)), "pauses": self.pauses[0], "paused_s": self.pauses[1],
            "command": redact(" ".join([variant.prefix, *variant.line()]).strip()),
        }  # fmt: skip
        environment = {
            "machine": machine(), "python": str(hello.get("python", "")) or sys.version.split()[0],
            "packages": {clean(name): clean(version) for name, version in dict(hello.get("packages", {})).items()},
            "variables": select_variables(variables),
        }  # fmt: skip
        return Record(
            job.cell, outcome, job.launch, data={"name": "own", "kind": "own", "digest": job.cell.workload},
            workload={"digest": job.cell.workload}, settings=settings, environment=environment, phases=phases,
            first_step_s=float(hello["at"]) - self.spawned_s if "at" in hello else None,
            memory={"rss_peak_bytes": self.rss} if self.rss else {},
            flags=("unsteady",) if outcome.ok and not phases[TRAIN].steady else (),
        )  # fmt: skip
