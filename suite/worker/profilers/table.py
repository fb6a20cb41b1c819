"""A `Profile` from the events of some steps: categories, the largest operations, and whether the sum agrees."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec import to_builtins

from suite.record.parts.profile import CATEGORIES, HELD_MOST, NAME_MOST, Gaps, Operation, Profile, Share
from suite.worker.profilers.timeline import OTHER, STEPS, Event, Shares, shares

#: Operations that are kept: no more than these, and none that took less of the time.
KEPT, LEAST = 16, 0.002

#: Letters of an operation's name that are kept: a record is published.
NAME_KEPT = 72

#: The sum of the categories may be off the timed step by this share before a note has to say why.
AGREES = 0.1

#: Events that are written into a trace; so many are read in a few seconds.
EVENTS_MOST = 200_000

#: Digits that are kept of a time.
DIGITS = 4


@dataclass(frozen=True)
class Recording:
    """What a framework's profiler saw of some steps.

    ``folder`` holds its own files, ``trace`` is the one that a browser opens, where the profiler wrote it. ``split``
    says which operations were divided by other means than the profiler's.
    """

    events: list[Event]
    trace: bytes = b""
    counted_flops: float | None = None
    split: str = ""
    extra: dict[str, bytes] = field(default_factory=dict)


def profile_of(
    recording: Recording, steps: int, seconds: tuple[float, float], trace: str = "", files: Sequence[str] = ()
) -> Profile:
    """The profile of ``steps`` steps; ``seconds`` are those of a timed step, and of one just before without profiler.

    Raises ValueError where the profiler did not see the steps.
    """
    whole = [event for event in recording.events if event.name == STEPS]
    if not whole:
        raise ValueError("the profiler did not see the steps")
    found = shares(recording.events, whole[0].start, whole[0].end)
    if all(name.startswith("(") for name, *_ in found.spent):
        raise ValueError("the profiler saw no operation")
    step_s, (timed_s, bare_s) = found.nanoseconds / steps / 1e9, seconds
    made = Profile(
        steps=steps,
        step_s=_round(step_s),
        timed_s=_round(timed_s),
        categories=categories(found, steps),
        operations=operations(found, steps),
        gaps=None if found.idle is None else Gaps(round(min(found.idle, 1.0), 4), _round(found.gap_s or 0.0)),
        threads=found.threads,
        counted_flops=recording.counted_flops,
        trace=trace,
        note=note(step_s, timed_s, bare_s, recording.split),
        files=tuple(files),
    )
    return Profile.from_json(to_builtins(made))  # a bad one fails here, and not the whole record


def categories(found: Shares, steps: int) -> dict[str, Share]:
    """What each category took of a step, in the order of `CATEGORIES`; those that took nothing are left out."""
    table: dict[str, Share] = {}
    for category in CATEGORIES:
        parts = [spent for (_, own, *_), spent in found.spent.items() if own == category]
        if not parts:
            continue
        moved = [part.bytes for part in parts if part.bytes is not None]
        table[category] = Share(
            _round(sum(part.nanoseconds for part in parts) / steps / 1e9),
            _round(sum(part.calls for part in parts) / steps),
            round(sum(moved) / steps) if moved else None,
        )
    return table


def operations(found: Shares, steps: int) -> tuple[Operation, ...]:
    """The operations that took most of a step, the largest first."""
    largest = sorted(found.spent.items(), key=lambda item: -item[1].nanoseconds)
    kept = [item for item in largest[:KEPT] if item[1].nanoseconds >= LEAST * found.nanoseconds]
    return tuple(
        Operation(
            shorten(name),
            category,
            _round(spent.nanoseconds / steps / 1e9),
            _round(spent.calls / steps),
            "cuda" if device == "cuda" else "cpu",
            tuple(held[:NAME_MOST] for held in holds[:HELD_MOST]),
            None if spent.bytes is None else round(spent.bytes / steps),
        )
        for (name, category, device, holds), spent in kept
    )


def note(step_s: float, timed_s: float, bare_s: float, split: str) -> str:
    """Why the sum of the categories, which is the profiled step, is not the timed one; and what else is to be known."""
    found = []
    if abs(step_s / timed_s - 1) > AGREES:
        cost = step_s / bare_s - 1
        reason = f"profiling itself cost {100 * cost:.0f} %" if cost > 0.02 else "it is the machine, not the profiler"
        found.append(
            f"The profiled step took {step_s / timed_s:.2f} times as long as the timed one; a step just before, "
            f"without the profiler, {bare_s / timed_s:.2f} times: {reason}."
        )
    if split:
        found.append(split)
    return " ".join(found)


def shorten(name: str) -> str:
    """A name of at most `NAME_KEPT` letters; of a longer one, the end, which tells operations apart."""
    name = "".join(letter if letter.isprintable() else "?" for letter in name) or OTHER
    return name if len(name) <= NAME_KEPT else f"...{name[3 - NAME_KEPT :]}"


def chrome_trace(events: list[Event], process: str) -> bytes:
    """The first events in the format of Chrome's trace viewer, which ui.perfetto.dev reads too, as gzip'd JSON."""
    first = sorted(events, key=lambda event: event.start)[:EVENTS_MOST]
    threads = {thread: number for number, thread in enumerate(dict.fromkeys(event.thread for event in first), 1)}
    start = first[0].start if first else 0
    rows: list[dict[str, object]] = [
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": number, "args": {"name": thread}}
        for thread, number in threads.items()
    ]
    rows.append({"ph": "M", "name": "process_name", "pid": 1, "args": {"name": process}})
    for event in first:
        arguments = {"category": event.category or "(the suite's own span)"}
        arguments |= {"holds": ", ".join(event.holds)} if event.holds else {}
        rows.append(
            {
                "ph": "X", "cat": event.category or "suite", "name": event.name, "pid": 1, "tid": threads[event.thread],
                "ts": (event.start - start) / 1e3, "dur": (event.end - event.start) / 1e3, "args": arguments,
            }
        )  # fmt: skip
    left_out = {"eventsLeftOut": len(events) - len(first)} if len(events) > len(first) else {}
    return gzip.compress(json.dumps({"traceEvents": rows, **left_out}).encode(), compresslevel=3)


def _round(number: float) -> float:
    return float(f"{number:.{DIGITS}g}")
