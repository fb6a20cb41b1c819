"""Events of a profile in which XLA's programs ran, each with its category by its instruction; without a framework."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache

from suite.worker.profilers import rules
from suite.worker.profilers.timeline import INPUT, LOADING, OTHER, STEPS, Event
from suite.worker.profilers.xla import Program, category_of, holds, program, title
from suite.worker.profilers.xplane import Row

#: How the profiler names the end of an instruction, and by how much it is later than the event's own, if it is.
ENDED, LONGER_NS = "end: ", 20_000


def events_of_programs(
    rows: Sequence[Row], texts: Mapping[str, str], events_of: Callable[[Iterable[Row], Program], list[Event]]
) -> list[Event]:
    """The events of a profile in which several programs ran, of which ``texts`` has the optimised ones by name.

    Instructions of two programs may have the same name. What belongs to none counts for the one that ran longest.
    """
    took: Counter[str] = Counter()
    for *_, start, end, stats in rows:
        took[stats.get("hlo_module", "")] += end - start if "hlo_module" in stats else 0
    longest = max(took, key=lambda name: took[name], default="")
    by_program: dict[str, list[Row]] = defaultdict(list)
    began: dict[str, str] = {}  # the program in which an instruction began last, as what ends does not tell its own
    for row in sorted(rows, key=lambda row: row[3]):
        name = row[2].removeprefix(ENDED)
        began[name] = row[-1].get("hlo_module", began.get(name, longest))
        by_program[began[name]].append(row)
    return [each for name, own in by_program.items() for each in events_of(own, program(texts.get(name, "")))]


def other_of_jax(row: Row) -> Event | None:
    """The event of what is no instruction that is known, as JAX has it."""
    plane, line, name, start, end, stats = row
    if is_gpu(plane):
        category, held = rules.category_of("kernel", name), rules.kernel_contents(name)
        return Event(name, start, end, line, category, "cuda", held)
    return Event(name, start, end, line, OTHER) if "hlo_op" in stats else None


def events_of(
    rows: Iterable[Row], whole: Program | None, others: Callable[[Row], Event | None] = other_of_jax
) -> list[Event]:
    """The events of a profile in which one program ran; ``others`` knows those of none of its instructions."""
    instructions = whole.instructions if whole else {}
    # In a CUDA graph only the kernels' own names are left.
    kernels = {re.sub(r"[.-]", "_", each): each for each in instructions}

    @cache
    def describe(name: str) -> tuple[str, str, tuple[str, ...], int | None]:
        assert whole
        instruction = instructions[name]
        return title(instruction), category_of(instruction, whole), holds(instruction), instruction.moved

    events: list[Event | None] = []
    ends: list[tuple[str, int]] = []  # instructions that run on after the call that started them
    for row in rows:
        plane, line, name, start, end, stats = row
        on_gpu = is_gpu(plane)
        instruction = str(stats.get("hlo_op") or name)
        if on_gpu and instruction not in instructions:
            instruction = kernels.get(name, instruction)
        if on_gpu and not line.startswith("Stream"):
            continue  # lines that the profiler derived from the streams
        if name in (STEPS, LOADING):
            events.append(Event(name, start, end, line, INPUT if name == LOADING else ""))
        elif (ended := name.removeprefix(ENDED)) != name and ended in instructions:
            ends.append((describe(ended)[0], end))
        elif instruction in instructions:
            called, category, held, moved = describe(instruction)
            events.append(Event(called, start, end, line, category, "cuda" if on_gpu else "cpu", held, moved))
        else:
            events.append(others(row))
    seen = [event for event in events if event]
    return [*seen, *rest_of_events(seen, ends)]


def rest_of_events(events: list[Event], ends: list[tuple[str, int]]) -> list[Event]:
    """The rest of instructions that only began in their event, up to where XLA says that they ended.

    On a CPU a convolution hands its work to threads that the profiler does not see, and returns.
    """
    rest: list[Event] = []
    begun: dict[str, list[Event]] = defaultdict(list)
    threaded = {event.name for event in events if event.category.startswith("convolution")}
    for event in sorted((event for event in events if event.name in threaded), key=lambda event: event.start):
        begun[event.name].append(event)
    for name, end in sorted((each for each in ends if each[0] in threaded), key=lambda each: each[1]):
        before = [event for event in begun[name] if event.start < end]
        begun[name] = [event for event in begun[name] if event.start >= end]
        last = max(before, key=lambda event: event.end, default=None)
        if last and end - last.end > LONGER_NS:
            rest.append(last._replace(start=last.end, end=end, thread=f"threads of {name}", continues=True))
    return rest


def is_gpu(plane: str) -> bool:
    return plane.startswith("/device:GPU")
