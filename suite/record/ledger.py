"""What a launch counted besides its windows, so that every step, batch and second of it can be accounted for."""

from __future__ import annotations

from dataclasses import dataclass, field

from suite.record.history import Count, Seconds


@dataclass(frozen=True)
class Ledger:
    """Counts that do not come from the windows, over the phases or over a training to its end.

    ``delivered`` is how many batches the loader delivered, ``updates`` how many steps the optimizer counted itself, or
    None where it keeps no count. ``untimed`` are by phase the steps in no window. ``seen_s`` is how
    long each burst of windows (each epoch of a training to its end, with its evaluation and checkpoint) took by the
    clock of the parent, which stamps the worker's messages.
    """

    delivered: Count
    updates: Count | None = None
    untimed: dict[str, Count] = field(default_factory=dict)
    seen_s: dict[str, tuple[Seconds, ...]] = field(default_factory=dict)
