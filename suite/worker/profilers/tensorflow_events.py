"""Events of a profile of TensorFlow: operations of its executor, and instructions of XLA; without TensorFlow."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from types import MappingProxyType

from suite.worker.profilers import rules, xla_events
from suite.worker.profilers.timeline import INPUT, LOADING, OTHER, OVERHEAD, Event
from suite.worker.profilers.xla import Program, category_of
from suite.worker.profilers.xplane import Row

#: Threads that work ahead for tf.data: their operations are no part of the step.
READ_AHEAD = re.compile(r"^tf_data")
#: In which a step that takes its batch from tf.data inside of a graph, as Keras' `fit` does, waits for it.
GET_NEXT = re.compile(r"^IteratorGetNext(AsOptional)?Op::DoCompute$")
#: What the executor does besides operations. Those that it has found to be cheap have no event and are in its own.
BESIDES = {
    OVERHEAD: "(the executor, and operations that it takes to be cheap)",
    "communication": "(collective operations)",
}
#: An operation's event: its name, its type, and its shapes where the profiler was asked for details.
OPERATION = re.compile(r"^(?P<name>[\w./\-]+):(?P<type>_?[A-Z]\w*)(?:#.*)?$")
#: Layers of a loop's name that only say how Keras and the executor nest it.
_NOISE = re.compile(
    r"gradient_tape/|sequential(_\d+)*/|functional(_\d+)*/|while/body/_\d+/|while/\w*/?while_grad/body/_\d+/|gradients/"
)
#: What the executor puts in front of an operation inside of a loop's body.
LOOP = re.compile(r"^.*/(body|cond)/_\d+/")


def events_of(
    rows: Iterable[Row], whole: Program | None = None, moved_by: Mapping[str, int] = MappingProxyType({})
) -> list[Event]:
    """The events of a profile of TensorFlow, each with its category.

    ``whole`` is the program where XLA compiled the step, ``moved_by`` the bytes that each operation moves.
    """
    known, rows = cache(_describe), [*rows]
    has_spans = any(row[2] == LOADING for row in rows)  # of the suite's own, which say when a step waits

    def other(row: Row) -> Event | None:
        _, line, name, start, end, stats = row
        if GET_NEXT.match(name):
            return None if has_spans else Event("(the step takes its batch)", start, end, line, INPUT)
        if besides := rules.category_of("event", name, ""):
            if besides == OVERHEAD and whole and whole.instructions:
                return None  # it waits for what XLA compiled
            return Event(BESIDES[besides], start, end, line, besides)
        if operation := OPERATION.match(name):
            title, category, holds = known(operation["name"], operation["type"])
            moved = moved_by.get(LOOP.sub("", operation["name"]))
            return Event(title, start, end, line, category, "cpu", holds, moved)
        return Event(name, start, end, line, OTHER) if "hlo_op" in stats else None

    events: list[Event] = []
    host: list[Row] = []
    for row in rows:
        if not xla_events.is_gpu(row[0]):
            host += [row] if GET_NEXT.match(row[2]) or not READ_AHEAD.search(row[1]) else []
        elif row[1].startswith("Stream"):
            events.append(_kernel(row, whole))
    return events + xla_events.events_of(host, whole, other)


def _describe(name: str, kind: str) -> tuple[str, str, tuple[str, ...]]:
    """A title for people, the category, and what a fused operation holds: ``conv1a/Relu`` ends with the activation."""
    bare, kept = rules.bare_type(kind), _NOISE.sub("", name).split("/")
    backward = "gradient of " if "gradient_tape/" in name else ""
    holds: tuple[str, ...] = ()
    if bare.startswith(("Fused", "PadFused")):
        holds = bare.removeprefix("Pad").removeprefix("Fused"), name.rpartition("/")[2]
    elif "WithBias" in bare:
        holds = bare.replace("WithBias", ""), "BiasAddGrad"
    return f"{bare}: {backward}{'/'.join(kept[-3:])}", rules.tensorflow_category(name, kind), holds


def _kernel(row: Row, whole: Program | None) -> Event:
    _, line, name, start, end, stats = row
    instruction = whole.instructions.get(str(stats.get("hlo_op"))) if whole else None
    category = category_of(instruction, whole) if instruction and whole else OTHER
    operation = OPERATION.match(str(stats.get("tf_op") or stats.get("name") or ""))
    own = rules.category_of("kernel", name)
    if category == OTHER and own in (OTHER, "element-wise") and operation:
        category = rules.tensorflow_category(operation["name"], operation["type"])
    category = category if category not in (OTHER, OVERHEAD) else own
    return Event(name, start, end, line, category, "cuda", rules.kernel_contents(name))
