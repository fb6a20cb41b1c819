"""How long a run measures: windows and warm-up of a launch, its deadline, and how launches are counted."""

from __future__ import annotations

import reprlib
from dataclasses import asdict, dataclass, fields
from typing import Any

#: Launches from this number on are a second copy of their cell, in the same blocks: the A/A control.
CONTROL = 1000

#: Launches from which `suite.compare` tests for significance, so that a control makes sense.
LEAST_TESTED = 6

#: Deadline of one launch, and of one that trains to its end, unless the command line says otherwise.
LONGEST_S, LONGEST_TRAINING_S = 900.0, 86_400.0

#: Nobody asks for windows, or a warm-up, of a day.
LONGEST_PLANNED_S = 86_400.0


@dataclass(frozen=True)
class Plan:
    """How long to measure: the least seconds of a window, how many count, and the limit on warming up."""

    min_window_s: float = 1.0
    windows: int = 10
    max_warmup_s: float = 20.0

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Any) -> Plan:
        """Raises ValueError for anything that `to_json` of a usable plan cannot have written."""
        known = {field.name for field in fields(cls)}
        if not isinstance(data, dict) or data.keys() - known:
            raise ValueError(f"it must be an object with {', '.join(sorted(known))}, not {reprlib.repr(data)}")
        plan = cls(**data)
        for name, value in vars(plan).items():
            usable = type(value) is int if name == "windows" else type(value) in (int, float)
            if not usable or not 0 <= value < LONGEST_PLANNED_S or (name == "windows" and not value):
                raise ValueError(f"its {name} is {reprlib.repr(value)}")
        return plan
