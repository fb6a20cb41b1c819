"""What is found once of a record, however often it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, update_wrapper
from typing import TypeVar
from weakref import ref

from suite.record.record import Record

Value = TypeVar("Value")
Held = dict[int, tuple[ref[Record], Value]]


def once(function: Callable[[Record], Value]) -> Callable[[Record], Value]:
    """Makes a function find its answer for a record once, as long as the record lives."""
    held: Held[Value] = {}

    def answer(record: Record) -> Value:
        if id(record) not in held:
            forget = partial(_forget, held, id(record))
            held[id(record)] = ref(record, forget), function(record)
        return held[id(record)][1]

    return update_wrapper(answer, function)


def _forget(held: Held[Value], number: int, _: ref[Record]) -> None:
    held.pop(number, None)
