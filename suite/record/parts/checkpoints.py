"""Parts of a record: what checkpoints of a training cost, and that it goes on from them bit for bit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from suite.catalog.phases import PHASES
from suite.record.parts.history import Count, Elapsed, Number, Seconds, Some

#: Saves that are timed by themselves, and steps that show how a training goes on: the second follows the optimizer.
SAVES, STEPS = 5, 2

#: The phase with which those that save are compared, and that of saves that go on beside the training.
UNSAVED, ASYNCHRONOUS = "unsaved", "checkpoint_async"

#: Names that are kept of arrays which are not what they were.
NAMED_MOST = 20


@dataclass(frozen=True)
class Checkpoints:
    """Checkpoints that a launch saved in one ``way``, after its windows of training; the last has ``bytes``.

    ``save_s`` are the seconds of some saves, each by itself, until training may go on, and ``disk_s`` those from the
    same begin until the files are on the disk. Each window of the phase begins with the begin of a save; ``waited_s``
    is how long it took after its steps until the save was whole and the one before removed.

    After the windows the training was saved, made some steps, whose losses are ``losses``, and was read back: of all
    ``arrays`` of its state, of which ``moved`` had changed meanwhile, those ``differing`` are not what they were. The
    same steps then had the losses ``again``. Where these are others, all was read back once more, and ``third`` are the
    losses after that: of a device that never computes twice the same.
    """

    way: str
    bytes: Some
    save_s: Annotated[tuple[Elapsed, ...], Meta(min_length=1)]
    disk_s: tuple[Elapsed, ...]
    waited_s: tuple[Seconds, ...]
    arrays: Some
    moved: Count
    losses: tuple[Number, ...]
    again: tuple[Number, ...]
    differing: tuple[str, ...] = ()
    third: tuple[Number, ...] = ()

    def __post_init__(self) -> None:
        if len(self.save_s) != len(self.disk_s) or any(a > b for a, b in zip(self.save_s, self.disk_s, strict=True)):
            raise ValueError("has saves that were on the disk before they had been begun")

    @property
    def fault(self) -> str:
        """Why a training would go on otherwise than it was, in words; empty if it would not."""
        if self.differing:
            return f"{self.way} does not give back {', '.join(self.differing[:3])}"
        if not self.moved or len(self.losses) < STEPS:
            return f"{self.way} was not read back after steps that changed something"
        if self.again != self.losses and self.third in ((), self.again):
            return f"steps after reading back {self.way} have the losses {self.again}, and had {self.losses}"
        return ""


def find_fault(phases: Iterable[str], found: Mapping[str, Checkpoints]) -> str:
    """Why training does not go on from what these phases saved, in words; empty if it does."""
    for name in (name for name in phases if PHASES[name].saves and name != UNSAVED):
        if fault := found[name].fault if name in found else "it was not read back":
            return f"{name}: {fault}"
    return ""
