"""Events of a profile of JAX, each with its category by the program that ran; without JAX."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from suite.worker.profilers import rules, xla
from suite.worker.profilers.timeline import OTHER, Event

#: How the profiler names the end of an instruction, and by how much it is later than the event's own, if it is.
ENDED, LONGER_NS = "end: ", 20_000


def events_of_programs(rows: Sequence[xla.Row], texts: Mapping[str, str]) -> list[Event]:
    """The events of a profile in which several programs ran, of which ``texts`` has the optimised ones by name.

    Instructions of two programs may have the same name. What belongs to none counts for the one that ran longest.
    """
    took: Counter[str] = Counter()
    for *_, start, end, stats in rows:
        took[stats.get("hlo_module", "")] += end - start if "hlo_module" in stats else 0
    longest = max(took, key=lambda name: took[name], default="")
    by_program: dict[str, list[xla.Row]] = defaultdict(list)
    for row in rows:
        by_program[row[-1].get("hlo_module", longest)].append(row)
    return [each for name, own in by_program.items() for each in events_of(own, xla.program(texts.get(name, "")))]


def events_of(rows: Iterable[xla.Row], whole: xla.Program) -> list[Event]:
    """The events of a profile in which one program ran."""
    ends: list[tuple[str, int]] = []  # instructions that run on after the call that started them

    def other(row: xla.Row) -> Event | None:
        plane, line, name, start, end, stats = row
        if (ended := name.removeprefix(ENDED)) != name and ended in whole.instructions:
            ends.append((xla.title(whole.instructions[ended]), end))
        elif xla.is_gpu(plane):
            category, holds = rules.category_of("kernel", name), rules.kernel_contents(name)
            return Event(name, start, end, line, category, "cuda", holds)
        elif "hlo_op" in stats:
            return Event(name, start, end, line, OTHER)
        return None

    events = xla.events_of(rows, whole, other)
    return [*events, *rest_of_events(events, ends)]


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
