"""Batches of several lengths: a round of them is the least that is timed, and what compiles for them is counted.

A launch whose batches have one length has nothing of this, and may compile nothing inside its windows.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from suite.catalog.phases import TRAIN
from suite.record.parts.history import Shapes
from suite.record.record import Phase, Window
from suite.worker.frameworks import RecompiledError
from suite.worker.launch.applied import NotAppliedError
from suite.worker.launch.description import check
from workloads.data.augment import Batches
from workloads.lengths import BUCKETS, FREE, ROUND, buckets


@dataclass
class Lengths:
    """Notes at the end of each window of a phase how many batches were delivered, and how many programs there were."""

    source: Batches
    spec: Any
    training: Any
    loader: Any
    noted: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    cover_s: float = 0.0

    steps = len(ROUND)  # a window has a multiple of them

    def __post_init__(self) -> None:
        self.before = self.programs

    @property
    def programs(self) -> int:
        return int(self.training.count_compiled()["graphs"])

    def cover(self) -> None:
        """Make a step at the length of each bucket, so that no window has to compile for one that is rare."""
        if self.source.lengths != BUCKETS:
            return
        inputs, labels = self.source.split.take(self.source.choose(0))
        start = time.perf_counter()
        for length in buckets(self.source.length or 0):
            batch = inputs[:, -length:].astype(np.int32), labels
            check([self.training.step(self.training.put(batch))], self.training, f"the first step of length {length}")
        self.cover_s = time.perf_counter() - start

    def hold(self) -> list[Any]:
        """The next round of batches. Raises `NotAppliedError` where one is padded to another length than the cell's."""
        first = self.loader.delivered
        held = [next(self.loader) for _ in range(self.steps)]
        padded = {n: (batch[0].shape[1], self.source.length_of(n)) for n, batch in enumerate(held, first)}
        for number, (length, asked) in padded.items():
            if length != asked:
                raise NotAppliedError(
                    f"asked for {self.source.lengths} lengths, by which batch {number} has {asked} words and padding, "
                    f"but the loader has padded it to {length}"
                )
        return held

    def watch(self, name: str, say: Callable[[Window], None]) -> Callable[[Window], None]:
        """The function that is called after each window of a phase, which now notes its end."""

        def watched(window: Window) -> None:
            self.noted.setdefault(name, []).append((self.loader.delivered, self.programs))
            say(window)

        return watched

    def found(self, phases: Mapping[str, Phase]) -> Shapes:
        """What the windows of training computed. Raises `RecompiledError` where others compiled, or with buckets any.

        Without buckets each batch may have a length of its own.
        """
        ends = {name: self.noted[name][-len(phase.windows) - 1 :] for name, phase in phases.items()}
        for name, noted in ends.items():
            compiled = noted[-1][1] - noted[0][1]
            if compiled and (self.source.lengths, name) != (FREE, TRAIN):
                raise RecompiledError(f"compiled {compiled} programs inside the windows of {name}")
        numbers, programs = zip(*ends[TRAIN], strict=True)
        windows = [range(*span) for span in pairwise(numbers)]
        lengths = [[self.source.length_of(number) or 0 for number in window] for window in windows]
        counts = Counter(length for window in lengths for length in window)
        flops = sum(n * self.spec.at_length(length).training_flops_per_sample for length, n in counts.items())
        return Shapes(
            words=tuple(sum(map(self._words, window)) for window in windows),
            places=tuple(self.source.batch * sum(window) for window in lengths),
            lengths=len(counts), longest=self.source.length or 0, compiled=programs[-1] - programs[0],
            # The first step compiled one; what else there was before was compiled for evidence.
            programs=programs[-1] - self.before + min(self.before, 1), cover_s=self.cover_s,
            training_flops_per_sample=flops / counts.total(),
        )  # fmt: skip

    def _words(self, number: int) -> int:
        return int(self.source.words[self.source.choose(number)].sum())
