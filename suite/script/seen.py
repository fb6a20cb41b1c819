"""What was seen of a launch of a script: its windows by phase, and the record that they make."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from statistics import median
from typing import Any

from suite import watch
from suite.catalog.phases import TRAIN
from suite.plan.measuring import Plan
from suite.record.job import Job
from suite.record.parts.environment import machine, select_variables
from suite.record.parts.profile import Profile
from suite.record.record import Outcome, Phase, Record, Window
from suite.record.text import clean
from suite.script.variants import Variant
from suite.worker.launch.measure import HALVES_LEAST, agree

#: A window begins a new burst if it does not follow the one before within so many seconds.
GAP_S = 0.1
#: Windows of which memory is held against each other, and the share of pairs in which it grows before that is told.
GROWS_LEAST, RISES = 3, 0.8
#: More than a launch can take, in seconds, and than train at once.
LONGEST_S, MOST_RANKS = 1e7, 1 << 20

#: What the observer says of a profile that is begun, and that is written; anything else is what failed.
WENT = ("begun", "written")
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
            self.warmup.append(window)
            self.steady = _agree(self.warmup[-2:])
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
            steady = self.steady and (len(self.windows) < HALVES_LEAST or _agree(self.windows))
            return Phase(tuple(self.windows), tuple(self.warmup), steady, tuple(self.spans))
        return Phase(tuple(self.warmup), (), False) if self.warmup else None


def _agree(windows: Sequence[Window]) -> bool:
    return agree([each.seconds / each.steps for each in windows])


def read_hello(message: Mapping[str, Any]) -> dict[str, Any]:
    """What a process that trains says of itself. Raises `ValueError` or `TypeError`."""
    world = int(message.get("world", 1))
    if not 1 <= world <= MOST_RANKS:
        raise ValueError("no number of ranks")
    return {
        "world": world, "source": clean(message.get("source", ""), 40), "device": _device(message),
        "packages": _packages(message),
        "python": clean(message.get("python", ""), 40), "at": float(message["at"]), "loader": bool(message["loader"]),
        "backend": clean(message.get("backend", ""), 40),
        "profiles": message.get("profiles") is True,
        "workers": n if type(n := message.get("workers")) is int else -1,
        "pinned": pinned if isinstance(pinned := message.get("pinned"), bool) else None,
    }  # fmt: skip


def _packages(message: Mapping[str, Any]) -> dict[str, str]:
    return {clean(name, 40): clean(version, 80) for name, version in dict(message["packages"]).items()}


def _device(message: Mapping[str, Any]) -> str:
    return "cuda" if message.get("device") == "cuda" else "cpu"


def _seconds(value: Any) -> float:
    if not 0 <= float(value) < LONGEST_S:
        raise ValueError("no seconds of this launch")
    return float(value)


@dataclass
class Watched:
    """What timed windows say beside their time: memory as they end, and where their seconds went."""

    held: list[int] = field(default_factory=list)
    ends_s: list[float] = field(default_factory=list)
    times: Counter[str] = field(default_factory=Counter)
    lines: Counter[str] = field(default_factory=Counter)

    def add(self, message: Mapping[str, Any], phase: str, end_s: float) -> None:
        self.held.append(int(message.get("held", 0)))
        self.ends_s.append(end_s)
        if phase == TRAIN:
            self.times.update({name: _seconds(message.get(name, 0.0)) for name in ("looked", "idle", "loads")})
            self.lines.update({clean(line, 80): _seconds(s) for line, s in dict(message.get("lines", {})).items()})

    def shares(self) -> dict[str, Any]:
        """The shares of a step: of the lines with the most, of its loader, and of those in which nothing ran."""
        looked_s = self.times["looked"] or 1.0
        lines = {line: seconds / looked_s for line, seconds in self.lines.most_common(3)}
        return {"waits": self.times["idle"] / looked_s, "loads": self.times["loads"] / looked_s, "lines": lines}

    def growth(self) -> dict[str, float]:
        """Bytes per second by which memory grew, and at last; 0 where it did so in too few pairs of windows."""
        rises, slope = _slope(self.held, self.ends_s)
        later = len(self.held) // 2
        at_last = _slope(self.held[later:], self.ends_s[later:])[1]
        return {"grows_bytes_per_s": slope if rises >= RISES else 0.0, "grows_at_last": at_last}


def _slope(held: Sequence[int], ends_s: Sequence[float]) -> tuple[float, float]:
    """The share of pairs of windows in which memory rises, and by how much a second (Theil and Sen)."""
    pairs = combinations(zip(held, ends_s, strict=True), 2)
    slopes = [(after[0] - before[0]) / s for before, after in pairs if (s := after[1] - before[1]) > 0]
    rises = sum(each > 0 for each in slopes) / len(slopes) if slopes and len(held) >= GROWS_LEAST else 0.0
    return rises, median(slopes or [0.0])


@dataclass
class Seen:
    """What was seen of a launch: who trained, and its windows by phase. ``spawned_s`` is when it was started."""

    plan: Plan
    spawned_s: float
    progress: Callable[[dict[str, Any]], None]
    is_to_profile: bool = False
    hello: dict[str, Any] = field(default_factory=dict)
    series: dict[str, Series] = field(default_factory=dict)
    phase: str = TRAIN
    samples: int = 0
    steps: int = 0
    rss: int = 0
    pauses: tuple[int, float] = (0, 0.0)
    is_enough: bool = False
    losses: list[float | None] = field(default_factory=list)  # as they were printed; None is no finite number
    watched: Watched = field(default_factory=Watched)
    norm: float | None = None  # of the weights after the first steps
    dropped: int = 0  # messages of the observer
    profiled: list[tuple[int, float, float]] = field(default_factory=list)  # windows: without and with the profiler
    profile: Profile | None = None
    no_profile: str = ""  # why there is none
    #: Of each, by window: seconds of a step beside its backward pass, of all of it, of looks that saw it wait, of all.
    ranks: dict[int, list[tuple[float, float, float, float]]] = field(default_factory=dict)

    def take(self, message: Mapping[str, Any], ask: Callable[[str], None]) -> None:
        """Take one message of the observer in; ``ask`` sends it to the next phase.

        Raises `ValueError` or `TypeError` for one that the observer does not send.
        """
        if "hello" in message:
            hello = read_hello(message)
            if not 0 <= hello["at"] - self.spawned_s < LONGEST_S:
                raise ValueError("no time of this launch")
            self.hello = self.hello if "at" in self.hello else hello
        elif "packages" in message:
            self.hello.setdefault("packages", {}).update(_packages(message))
        elif "norm" in message:
            self.norm = norm if math.isfinite(norm := float(message["norm"])) else None
        elif isinstance(window := message.get("window"), list):
            steps, begin_s, end_s, samples = int(window[0]), *map(float, window[1:3]), int(window[3])
            pauses, paused_s = message.get("pauses", self.pauses)
            self.dropped = max(self.dropped, int(message.get("dropped", 0)))
            rss, threads = int(message.get("rss", 0)), int(message.get("threads", 0))
            if steps < 1 or samples < 0 or not 0 <= begin_s - self.spawned_s < end_s - self.spawned_s < LONGEST_S:
                raise ValueError("no window")
            self.rss, self.hello = max(self.rss, rss), self.hello | {"device": _device(message), "threads": threads}
            if (phase := message.get("phase")) == self.phase == watch.PROFILE:
                self.profiled.append((steps, begin_s - self.spawned_s, end_s - self.spawned_s))
                self.no_profile = clean(message["profile"], 200) if message["profile"] not in WENT else ""
                self.is_enough = message["profile"] != WENT[0]
                if self.is_enough:
                    ask(TRAIN)
            elif phase == self.phase:
                if phase == TRAIN:
                    self.pauses = (int(pauses), float(paused_s))
                self.add(steps, begin_s, end_s, samples, ask)
                if self.series[phase].windows and phase != watch.INPUT:
                    self.watched.add(message, phase, end_s)

    def add(self, steps: int, begin_s: float, end_s: float, samples: int, ask: Callable[[str], None]) -> None:
        if self.is_enough:  # of a script that is to end by itself
            return
        series = self.series.setdefault(self.phase, Series(self.plan))
        series.add(Window(steps, end_s - begin_s), begin_s - self.spawned_s, end_s - self.spawned_s)
        if self.phase == TRAIN and samples:  # none are counted where a pause or the first step came between
            self.samples, self.steps = self.samples + samples, self.steps + steps
        rate = (samples or steps) / (end_s - begin_s)
        unit = "samples" if samples else "steps"
        self.progress({"progress": self.phase, "samples_per_s": rate, "unit": unit})
        if series.is_done():
            following = self._following()
            self.phase, self.is_enough = following or self.phase, not following
            ask(following or TRAIN)  # which a script that is to end by itself goes on with

    def _following(self) -> str:
        """The phase after this one; empty after the last."""
        following = NEXT.get(self.phase, "")
        if following in self.plan.phases and self.hello.get("loader"):
            return following
        return watch.PROFILE if self.is_to_profile and self.hello.get("profiles") else ""

    @property
    def is_measured(self) -> bool:
        """Whether all windows are measured, whatever becomes of a profile."""
        return self.is_enough or self.phase == watch.PROFILE

    @property
    def batch(self) -> int:
        """Samples of a step, on the average; 0 where none were seen."""
        ranks = int(self.hello.get("world", 1))
        return ranks * round(self.samples / self.steps) if self.steps else 0

    def take_rank(self, rank: int, message: Mapping[str, Any]) -> None:
        """Take a window of one of several ranks in. Raises as `take` does."""
        steps, begin_s, end_s, _ = map(float, message["window"])
        if message.get("phase") == TRAIN == self.phase and 0 <= rank < MOST_RANKS and steps >= 1:
            window_s, idle_s, looked_s = map(
                _seconds, (end_s - begin_s, message.get("idle", 0), message.get("looked", 0))
            )
            own_s = max(0.0, window_s - _seconds(message.get("backward", 0.0)))
            self.ranks.setdefault(rank, []).append((own_s / steps, window_s / steps, idle_s, looked_s))

    def _watched(self) -> dict[str, Any]:
        """What tells causes."""
        own, busy = [], []
        for _, windows in sorted(self.ranks.items() if len(self.ranks) > 1 else ()):
            own_s, step_s, idle_s, looked_s = zip(*windows, strict=True)
            own.append(median(own_s))
            busy.append(median(step_s) * (1 - min(1.0, sum(idle_s) / (sum(looked_s) or 1.0))))
        return {
            **{name: self.hello[name] for name in ("threads", "workers", "pinned") if name in self.hello},
            **self.watched.shares(), **self.watched.growth(),
            "ranks_own_s": own, "ranks_busy_s": busy,
        }  # fmt: skip

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
            "backend": hello.get("backend", ""), "ranks": int(hello.get("world", 1)),
            "pauses": self.pauses[0], "paused_s": self.pauses[1],
            "command": variant.public(), "watched": self._watched(),
        }  # fmt: skip
        further = {
            "losses": self.losses,
            "weights_norm": self.norm,
            "dropped": self.dropped,
            "no_profile": self.no_profile,
        }
        settings |= {name: value for name, value in further.items() if value}
        environment = {
            "machine": machine(), "python": str(hello.get("python", "")) or sys.version.split()[0],
            "packages": hello.get("packages", {}),
            "variables": select_variables(variables),
        }  # fmt: skip
        return Record(
            job.cell, outcome, job.launch, data={"name": "own", "kind": "own", "digest": job.cell.workload},
            workload={"digest": job.cell.workload}, settings=settings, environment=environment, phases=phases,
            first_step_s=float(hello["at"]) - self.spawned_s if "at" in hello else None,
            memory={"rss_peak_bytes": self.rss} if self.rss else {},
            profile=self.profile, flags=("unsteady",) if outcome.ok and not phases[TRAIN].steady else (),
        )  # fmt: skip
