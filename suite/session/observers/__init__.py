"""Who may watch a run while it goes on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from suite.monitor.sampler import Monitor
from suite.plan.cell import Cell
from suite.record.record import Record
from suite.record.text import clean


class Observer:
    """What an observer is told, in this order; it takes what it needs. Every call must return soon."""

    def begin(self, journal: Path, run: Mapping[str, Any], planned: int, done: Sequence[Record]) -> None:
        """The run begins; ``done`` are launches that its journal held already."""

    def start(self, cell: Cell, launch: int) -> None:
        """A worker is about to be started."""

    def watch(self, monitor: Monitor) -> None:
        """The worker is being sampled."""

    def progress(self, message: Mapping[str, Any]) -> None:
        """The worker said what it does, and perhaps how fast."""

    def end(self, record: Record, left_s: float | None) -> None:
        """The launch is in the journal; ``left_s`` is an estimate of the seconds that the rest takes."""

    def close(self) -> Sequence[str]:
        """The run is over; returns lines for its end."""
        return ()


@dataclass
class Observers(Observer):
    """Passes on to each observer; what one of them raises ends its part, and nothing else."""

    members: Sequence[Any] = ()  # each of which has the calls of an `Observer`
    _begun: bool = False
    _failed: dict[int, str] = field(default_factory=dict)

    def begin(self, journal: Path, run: Mapping[str, Any], planned: int, done: Sequence[Record]) -> None:
        self._begun = True
        self._each(lambda observer: observer.begin(journal, run, planned, done))

    def start(self, cell: Cell, launch: int) -> None:
        self._each(lambda observer: observer.start(cell, launch))

    def watch(self, monitor: Monitor) -> None:
        self._each(lambda observer: observer.watch(monitor))

    def progress(self, message: Mapping[str, Any]) -> None:
        self._each(lambda observer: observer.progress(message))

    def end(self, record: Record, left_s: float | None) -> None:
        self._each(lambda observer: observer.end(record, left_s))

    def close(self) -> list[str]:
        """The lines of all; once."""
        said = list(self._failed.values())
        self._failed = {}  # those that failed have something to close too
        if self._begun:
            self._each(lambda observer: said.extend(observer.close()))
        self._begun = False
        return list(dict.fromkeys([*said, *self._failed.values()]))

    def _each(self, call: Callable[[Observer], None]) -> None:
        for number, observer in enumerate(self.members):
            if number not in self._failed:
                try:
                    call(observer)
                except Exception as error:  # whatever it is, the run is worth more
                    reason = clean(f"{type(error).__name__}: {error}")
                    self._failed[number] = f"{type(observer).__name__} failed, and the run went on without: {reason}"
