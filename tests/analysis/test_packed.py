"""What is packed to be kept is what it was: as equal, as long, and of the same values."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import pytest

from suite.analysis.records.packed import Packed, Points, packed, points
from suite.record.record import Phase, Window
from tests import records

LISTS: list[list[float | None]] = [
    [], [1.5], [None], [None, 2.5, None, -0.0, 1e-300], [0.1 * each for each in range(120)], [3, 10**15],
]  # fmt: skip


@pytest.mark.parametrize("values", LISTS)
def test_a_line_reads_as_the_list_it_was(values: list[float | None]) -> None:
    line = points(values)
    assert isinstance(line, Points)
    assert [line[at] for at in range(len(line))] == list(line) == values == line == Points(values)
    assert line[1:3] == values[1:3]
    assert line != [*values, 1.0]
    assert hash(line) == hash(Points(values))
    assert repr(line) == f"Points({[None if value is None else float(value) for value in values]})"


@pytest.mark.parametrize("values", [[True], ["1"], [[1.0]], [1.0, {}], [10**400]])
def test_a_list_of_what_is_no_number_stays_what_it_is(values: list[Any]) -> None:
    assert points(values) is values


def phases() -> list[Phase]:
    every = list(records.record().phases.values())
    odd = Phase((Window(10**12, 1e9), Window(1, 1e-9), Window(300, 2)), (), steady=False, spans=((1.0, 2.5),))
    return [*every, Phase((Window(3, 0.1),) * 7, (Window(1, 0.5),)), odd]


@pytest.mark.parametrize("phase", phases())
def test_a_packed_phase_is_the_phase(phase: Phase) -> None:
    one = packed(phase)
    assert isinstance(one, Packed)
    assert one == phase
    assert phase == one
    assert hash(one) == hash(phase)
    assert asdict(one) == asdict(phase)
    told = [name for name in dir(Phase) if not name.startswith("_")]
    assert {"windows", "warmup", "steady", "spans", "step_s", "step_times_s"} <= set(told)
    for name in told:  # to the last bit
        assert getattr(one, name) == getattr(phase, name), name
    assert all(type(window.steps) is int for window in (*one.windows, *one.warmup))


def test_a_packed_phase_is_changed_as_any_other_and_differs_where_they_differ() -> None:
    (phase, *_), (window, *rest) = phases(), phases()[0].windows
    slower = (window._replace(seconds=2 * window.seconds), *rest)
    for changes in ({"windows": slower}, {"warmup": ()}, {"steady": not phase.steady}, {"spans": ((0.0, 1.0),)}):
        other: Phase = replace(packed(phase), **changes)  # type: ignore[arg-type]
        assert other == replace(phase, **changes)  # type: ignore[arg-type]
        assert other != packed(phase)
        assert phase != other
    with pytest.raises(AttributeError):
        packed(phase).steady = False  # type: ignore[misc]
    assert packed(phase) != "a phase"
