"""How long a run measures: windows and warm-up of a launch, its deadline, and how launches are counted."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any

from msgspec import Meta

from suite.catalog import phases as catalog
from suite.plan.schema import decode

#: Launches from this number on are a second copy of their cell, in the same blocks: the A/A control.
CONTROL = 1000

#: A launch from this number on takes the place of a disturbed one, at the end of its block: that one's number and this.
REPEAT = 2000

#: The number of launches that only read from the disk what the others need; they are no part of a run.
WARM_UP = 9999

#: A run measures at most this share of its planned launches again.
REPEATED_MOST = 1 / 3

#: Launches from which `suite.compare` tests for significance, so that a control makes sense.
LEAST_TESTED = 6

#: Ratios closer to 1 than this count as equal.
MARGIN = 0.02

#: Seeds from which it tests the accuracies of trainings to the end.
SEEDS_LEAST = 3

#: A run with a budget is looked at after each block from the first of these to the last, and stops when it is decided.
FIRST_LOOK, LAST_LOOK = 4, 20

#: What the launches of such a run say of its design, and under this name, those that are measured again if disturbed.
SEQUENTIAL, REPEATS = "sequential", "repeats"

#: Prompts that a launch which decodes goes on with at once: each number is measured.
DECODED = (1, 8)

#: The phases of a launch, in their order. Training is the headline; the others tell what holds it back.
PHASES = ("train", "compute", "input")

#: Blocks whose launches have all phases. Later ones, and the A/A control, time training alone: most of the noise lies
#: between processes, so that more launches tell more than longer ones.
WHOLE_BLOCKS = 3

#: Deadline of one launch, and of one that trains to its end, unless the command line says otherwise.
LONGEST_S, LONGEST_TRAINING_S = 900.0, 86_400.0

#: Windows and warm-ups are shorter than a day.
LONGEST_PLANNED_S = 86_400.0

Planned = Annotated[float, Meta(ge=0, lt=LONGEST_PLANNED_S)]

#: Requests of a launch that serves, and the fewest of which a 99th percentile is shown.
REQUESTS = LEAST_FOR_P99 = 1000


@dataclass(frozen=True)
class Plan:
    """How long to measure: the least seconds of a window, how many count, the limit on warming up, and the phases.

    Phases that were ``chosen`` are those of every launch. ``requests`` are those of one sample that a launch answers
    which serves.
    """

    min_window_s: Planned = 1.0
    windows: Annotated[int, Meta(gt=0, lt=int(LONGEST_PLANNED_S))] = 3
    max_warmup_s: Planned = 20.0
    phases: tuple[str, ...] = PHASES
    chosen: bool = False
    requests: Annotated[int, Meta(gt=0, le=10**6)] = REQUESTS

    def __post_init__(self) -> None:
        if unknown := [name for name in self.phases if name not in catalog.CHOICES]:
            raise ValueError(f"phases has {unknown[0]!r}; there are: {', '.join(catalog.CHOICES)}")
        if catalog.TRAIN not in self.phases:
            raise ValueError(f"phases lack {catalog.TRAIN}, which every launch begins with")

    @property
    def with_parts(self) -> tuple[str, ...]:
        """The phases, and those that are taken wherever one of them is, in the order of the catalog."""
        return tuple(n for n, each in catalog.PHASES.items() if n in self.phases or each.within in self.phases)

    @property
    def lean(self) -> bool:
        """Whether it is that of a launch which times training alone, since others of its cell have the rest."""
        return self.phases == PHASES[:1] and not self.chosen

    @property
    def serves(self) -> bool:
        """Whether its launches also answer requests."""
        return any(catalog.PHASES[name].serves for name in self.phases)

    @property
    def saves(self) -> bool:
        """Whether its launches also save checkpoints of what they train."""
        return any(catalog.PHASES[name].saves for name in self.phases)

    def of_launch(self, number: int, whole_blocks: int = WHOLE_BLOCKS) -> Plan:
        """The plan of the launch with this number: its phases are those that its block needs, unless chosen."""
        lean = number % REPEAT >= whole_blocks  # a control's too
        return replace(self, phases=PHASES[:1]) if lean and not self.chosen else self

    def to_json(self) -> dict[str, Any]:
        """The plan; what is as usual is left out where there was no choice before."""
        usual = {"phases": list(PHASES), "chosen": False, "requests": REQUESTS}
        stored = asdict(self) | {"phases": list(self.phases)}  # as JSON gives it back
        return {n: value for n, value in stored.items() if n not in usual or value != usual[n]}

    @classmethod
    def from_json(cls, data: Any) -> Plan:
        """Raises `suite.plan.schema.SchemaError` for anything that `to_json` of a usable plan cannot have written."""
        return decode(cls, data)
