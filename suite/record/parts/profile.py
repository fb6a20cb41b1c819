"""Where the time of a training step goes: the profile of a launch, in the same words for all frameworks."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from suite.catalog.devices import DEVICES
from suite.record.parts.history import NUMBER_MOST, Elapsed, Seconds, Some

#: What an operation of a training step can be. Everything that no rule knows is `other`.
CATEGORIES = (
    "convolution forward", "convolution input gradient", "convolution weight gradient", "matrix product",
    "recurrent kernel", "normalisation", "element-wise", "reduction and pooling", "random numbers and dropout",
    "embedding and gather", "optimizer", "copy and layout change", "input pipeline", "communication",
    "host and launch overhead", "idle", "other",
)  # fmt: skip

#: What slows down under a profiler on a GPU, whose kernels take their time whatever the host does.
OF_THE_HOST = ("input pipeline", "host and launch overhead", "idle")

#: Operations that a record keeps, and the letters of a name, of a file's name and of a note.
OPERATIONS_MOST, NAME_MOST, FILE_MOST, NOTE_MOST, HELD_MOST = 25, 120, 255, 600, 12

#: How many times per step, and how many bytes per step, nothing can run or move.
TIMES_MOST, MOVED_MOST = 1e9, 2**62

#: What a note says: why a profiled step is not as long as a timed one, and how PyTorch's convolutions were divided.
NOTED = (
    r"The profiled step took (\d+\.\d\d) times as long as the timed one; a step just before, without the profiler, "
    r"\d+\.\d\d times: (?:profiling itself cost \d+ %|it is the machine, not the profiler)\."
)
SPLIT = (
    "PyTorch's profiler shows both gradients of a convolution as one operator; they are divided by the times that "
    "oneDNN printed for one more step."
)

Times = Annotated[float, Meta(ge=0, le=TIMES_MOST)]
Moved = Annotated[int, Meta(ge=0, le=MOVED_MOST)]
Part = Annotated[float, Meta(ge=0, le=1)]
Counted = Annotated[float, Meta(ge=0, le=NUMBER_MOST)]
File = Annotated[str, Meta(max_length=FILE_MOST)]
Name = Annotated[str, Meta(min_length=1, max_length=NAME_MOST)]

#: For the JSON Schema; `Profile` looks into the tuple itself.
CATEGORISED = Meta(extra_json_schema={"propertyNames": {"enum": list(CATEGORIES)}})


@dataclass(frozen=True)
class Share:
    """What a category took of a step: seconds of wall-clock time, calls, and bytes moved where they are known.

    ``bytes`` counts the operands and results of the operations whose shapes the profiler tells.
    """

    seconds: Seconds
    calls: Times
    bytes: Moved | None = None


@dataclass(frozen=True)
class Operation:
    """An operation by its framework's name, per step, without the time of operations that it called.

    ``holds`` says what a fused kernel holds.
    """

    name: Name
    category: Literal[CATEGORIES]  # type: ignore[valid-type]
    seconds: Seconds
    calls: Times
    device: Literal[tuple(DEVICES)] = "cpu"  # type: ignore[valid-type]
    holds: Annotated[tuple[Name, ...], Meta(max_length=HELD_MOST)] = ()
    bytes: Moved | None = None


@dataclass(frozen=True)
class Gaps:
    """``idle`` is the share of the step in which the device did nothing, ``median_s`` the gap between two kernels."""

    idle: Part
    median_s: Seconds


@dataclass(frozen=True)
class Profile:
    """Some steps of the timed object, profiled after its last timed window.

    ``step_s`` is the wall-clock time of a profiled step, ``timed_s`` that of a step in the windows of the same launch's
    `train` phase. ``categories`` are per step. Times are shares of the wall clock: where ``threads`` threads worked at
    once, what ran at the same moment shares it. ``operations`` are the largest first. ``gaps`` is None on a CPU, where
    the device is the host. ``counted_flops`` is what the framework's own counter makes of a step. ``trace`` is the file
    name of the trace beside the journal, empty if there is none, and ``files`` are what else lies there. ``span`` is
    when it ran, in seconds since the worker was spawned, as for the spans of a `Phase`. ``note`` says why the sum does
    not match, where it does not.
    """

    steps: Some
    step_s: Elapsed
    timed_s: Elapsed
    categories: Annotated[dict[str, Share], CATEGORISED]
    operations: Annotated[tuple[Operation, ...], Meta(max_length=OPERATIONS_MOST)] = ()
    gaps: Gaps | None = None
    threads: Some = 1
    counted_flops: Counted | None = None
    trace: File = ""
    note: Annotated[str, Meta(max_length=NOTE_MOST)] = ""
    span: tuple[Seconds, Seconds] | None = None
    files: Annotated[tuple[File, ...], Meta(max_length=HELD_MOST)] = ()

    def __post_init__(self) -> None:
        if unknown := sorted(self.categories.keys() - set(CATEGORIES)):
            raise ValueError(f"has no category {unknown[0][:NAME_MOST]!r}; there are: {', '.join(CATEGORIES)}")
        for name in (self.trace, *self.files):
            if name in (".", "..") or "/" in name or "\\" in name or not name.isprintable():
                raise ValueError("names a file that is not beside the journal")

    def read_note(self) -> tuple[float | None, str]:
        """How much slower the note says that a profiled step was, and what it says besides the suite's own words."""
        noted = re.match(NOTED, self.note)
        rest = self.note[noted.end() :] if noted else self.note
        return (float(noted[1]) if noted else None), rest.replace(SPLIT, "", 1).strip()

    @property
    def cost(self) -> float:
        """What profiling cost: the profiled step over the timed one."""
        return self.step_s / self.timed_s

    @property
    def covered(self) -> float:
        """The sum of the categories over the timed step."""
        return math.fsum(share.seconds for share in self.categories.values()) / self.timed_s

    def slowdown_of(self, category: str) -> float:
        """By how much this category is to be divided for a timed step, so that all of them add up to it.

        Everything has slowed alike, unless `kernels_kept`: then the host has what they leave.
        """
        if not self.kernels_kept:
            return self.covered
        if category not in OF_THE_HOST:
            return 1.0
        left = self.timed_s - self._sum(host=False)
        return self._sum(host=True) / left if left else math.inf

    @property
    def kernels_kept(self) -> bool:
        """Whether a profiled step was longer by its host alone, as on a GPU, whose kernels fit into the timed step."""
        return self.gaps is not None and self.covered >= 1 and self._sum(host=False) <= self.timed_s

    def _sum(self, host: bool) -> float:
        return math.fsum(share.seconds for name, share in self.categories.items() if (name in OF_THE_HOST) == host)

    @property
    def idle(self) -> float | None:
        """The share of a timed step in which the device did nothing; None on a CPU, where the device is the host."""
        if self.gaps is None:
            return None
        return max(0.0, 1 - (1 - self.gaps.idle) * self.step_s / self.timed_s)

    @property
    def other(self) -> float:
        """The share of the profiled time that no rule knows."""
        total = math.fsum(share.seconds for share in self.categories.values())
        return self.categories["other"].seconds / total if "other" in self.categories and total else 0.0
