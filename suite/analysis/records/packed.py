"""Parts of a record stored at eight bytes a number: Python objects take four to six times as much."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Sequence
from operator import truediv
from typing import Any, overload

from suite.record.record import Phase, Window

_POINT_TYPES = {int, float, type(None)}


class Points(Sequence[float | None]):
    """Numbers, with None for missing readings. Equal to every list and tuple of the same values."""

    __slots__ = ("_values",)

    def __init__(self, values: Sequence[float | None]) -> None:
        """Raises OverflowError for an integer beyond all floats."""
        self._values = array("d", [math.nan if value is None else value for value in values])

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[float | None]:
        return iter([None if math.isnan(value) else value for value in self._values])

    @overload
    def __getitem__(self, at: int) -> float | None: ...
    @overload
    def __getitem__(self, at: slice) -> list[float | None]: ...
    def __getitem__(self, at: int | slice) -> float | list[float | None] | None:
        return list(self)[at]

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, (Points, list, tuple)) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"Points({list(self)})"


def points(values: list[Any]) -> Sequence[Any]:
    """`Points` of a list of JSON numbers; a list of anything else is returned unchanged."""
    if not set(map(type, values)) <= _POINT_TYPES:
        return values
    try:
        return Points(values)
    except OverflowError:
        return values


class Packed(Phase):
    """A `Phase` that stores its windows as arrays and builds `Window` objects only when asked for them."""

    __slots__ = ("_measured", "_seconds", "_step_s", "_steps")
    _measured: int
    _seconds: array[float]
    _steps: array[float]
    _step_s: float

    def __init__(
        self,
        windows: tuple[Window, ...],
        warmup: tuple[Window, ...] = (),
        steady: bool = True,
        spans: tuple[tuple[float, float], ...] = (),
    ) -> None:
        put = object.__setattr__  # since a phase is frozen
        put(self, "_measured", len(windows))
        put(self, "_seconds", array("d", [window.seconds for window in (*windows, *warmup)]))
        put(self, "_steps", array("d", [window.steps for window in (*windows, *warmup)]))
        put(self, "_step_s", Phase(windows).step_s)
        put(self, "steady", steady)
        put(self, "spans", spans)

    @property
    def windows(self) -> tuple[Window, ...]:
        return self._part(slice(self._measured))

    @property
    def warmup(self) -> tuple[Window, ...]:
        return self._part(slice(self._measured, None))

    @property
    def step_s(self) -> float:
        return self._step_s

    @property
    def step_times_s(self) -> list[float]:
        return list(map(truediv, self._seconds[: self._measured], self._steps))

    def _part(self, span: slice) -> tuple[Window, ...]:
        return tuple(map(Window, map(int, self._steps[span]), self._seconds[span]))

    def __eq__(self, other: object) -> bool:
        """Equal to any `Phase` of the same values; `Phase` itself compares its own class only."""
        if not isinstance(other, Phase):
            return NotImplemented
        return _plain(self) == _plain(other)

    __hash__ = Phase.__hash__


def packed(phase: Phase) -> Phase:
    """The same phase as `Packed`."""
    return Packed(phase.windows, phase.warmup, phase.steady, phase.spans)


def _plain(phase: Phase) -> tuple[Any, ...]:
    return phase.windows, phase.warmup, phase.steady, phase.spans
