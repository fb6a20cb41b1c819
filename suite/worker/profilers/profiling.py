"""Profiles some steps of the timed object after its last window: the `Profile`, and the files beside the journal.

Imported only for a launch with ``--profile``. Nothing here may cost the launch its measurements: a profiler that fails
leaves its reason in the log, and the record has no profile.
"""

from __future__ import annotations

import gzip
import json
import math
import shutil
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from msgspec import to_builtins

from suite.catalog.devices import DEVICES
from suite.plan.schema import decode
from suite.record.job import Job
from suite.record.parts.profile import CATEGORIES, HELD_MOST, NAME_MOST, Gaps, Operation, Profile, Share
from suite.worker.distributed.ranks import ALONE, Ranks
from suite.worker.profilers import rules
from suite.worker.profilers.timeline import LOADING, OTHER, STEP, STEPS, Event, Shares, shares

#: Operations that are kept: no more than these, and none that took less of the time.
OPERATIONS_KEPT, SHARE_LEAST = 16, 0.002
#: And of those that fetch something from a device, which are short: the host waits for it.
FETCHES_KEPT = 4

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
    whole = max((event for event in recording.events if event.name == STEPS), key=lambda each: each.start, default=None)
    if not whole:  # the last, as a script's begin anew after a pause
        raise ValueError("the profiler did not see the steps")
    step_shares = shares(recording.events, whole.start, whole.end)
    if all(name.startswith("(") for name, *_ in step_shares.spent):
        raise ValueError("the profiler saw no operation")
    idle = step_shares.idle
    step_s, (timed_s, bare_s) = step_shares.nanoseconds / steps / 1e9, seconds
    made = Profile(
        steps=steps,
        step_s=_round(step_s),
        timed_s=_round(timed_s),
        categories=categories(step_shares, steps),
        operations=operations(step_shares, steps),
        gaps=None if idle is None else Gaps(round(min(idle, 1.0), 4), _round(step_shares.gap_s or 0.0)),
        threads=step_shares.threads,
        counted_flops=recording.counted_flops,
        trace=trace,
        note=note(step_s, timed_s, bare_s, recording.split),
        files=tuple(files),
    )
    return decode(Profile, to_builtins(made))  # a bad one fails here, and not the whole record


def categories(step_shares: Shares, steps: int) -> dict[str, Share]:
    """What each category took of a step, in the order of `CATEGORIES`; those that took nothing are left out."""
    table: dict[str, Share] = {}
    for category in CATEGORIES:
        parts = [spent for (_, own, *_), spent in step_shares.spent.items() if own == category]
        if not parts:
            continue
        moved = [part.bytes for part in parts if part.bytes is not None]
        table[category] = Share(
            _round(sum(part.nanoseconds for part in parts) / steps / 1e9),
            _round(sum(part.calls for part in parts) / steps),
            round(sum(moved) / steps) if moved else None,
        )
    return table


def operations(step_shares: Shares, steps: int) -> tuple[Operation, ...]:
    """The operations that took most of a step, the largest first."""
    largest = sorted(step_shares.spent.items(), key=lambda item: -item[1].nanoseconds)
    kept = [item for item in largest[:OPERATIONS_KEPT] if item[1].nanoseconds >= SHARE_LEAST * step_shares.nanoseconds]
    kept += [item for item in largest if rules.FROM_DEVICE.search(item[0][0]) and item not in kept][:FETCHES_KEPT]
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
    notes = []
    if abs(step_s / timed_s - 1) > AGREES:
        cost = step_s / bare_s - 1
        reason = f"profiling itself cost {100 * cost:.0f} %" if cost > 0.02 else "it is the machine, not the profiler"
        notes.append(
            f"The profiled step took {step_s / timed_s:.2f} times as long as the timed one; a step just before, "
            f"without the profiler, {bare_s / timed_s:.2f} times: {reason}."
        )
    if split:
        notes.append(split)
    return " ".join(notes)


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


#: About so long are the profiled steps, and so many are there at least and at most. A loop over time steps has 50,000
#: events in one step, and reading them takes ten times as long as the step.
PROFILED_S, STEPS_LEAST, STEPS_MOST = 0.25, 2, 10

#: A larger trace is kept for the first launch of each cell only.
LARGE_BYTES = 2**20

#: How often the triad is timed.
TRIAD_TIMES, TRIAD_BYTES = 6, 12  # of an element: two are read and one is written

Send = Callable[..., None]


def profile(job: Job, training: Any, loader: Any, timed_s: float, send: Send, *, ranks: Ranks = ALONE) -> None:
    """Profile training steps, with the loader that they wait for, and send the profile; never raises an Exception.

    ``timed_s`` is a step of the `train` phase, which the profile explains. Of several ``ranks`` all profile the same
    steps, so that the profiler slows all of them alike; only rank 0 keeps files, and its profile is the record's.
    """
    send(progress="profile")
    try:
        tools = import_module(f"suite.worker.profilers.{job.cell.framework}")
        count = steps_for(timed_s)
        loop = training_loop(training, loader, tools)
        job = job if not ranks.rank else replace(job, traces="")
        ranks.barrier()
        start = time.perf_counter()
        loop(count)  # the same without the profiler, which shows what it costs and how the machine has changed
        bare_s = (time.perf_counter() - start) / count
        with tempfile.TemporaryDirectory() as folder:
            (own := Path(folder, "profile")).mkdir()
            ranks.barrier()
            began_s = time.perf_counter()
            recording = tools.record(training, loop, count, own, next(loader), memory=job.profile_memory)
            ended_s = time.perf_counter()
            extra = dict(recording.extra)
            if job.profile_code:
                extra |= tools.code(training, next(loader))
            trace, files = keep_files(job, recording, own, extra)
        made = profile_of(recording, count, (timed_s, bare_s), trace, files)
        span = tuple(round(moment - job.spawned_ns / 1e9, 6) for moment in (began_s, ended_s))
        send(part={"profile": asdict(made) | {"span": span}})
    except Exception:  # the measurements remain valid; the log holds the reason
        traceback.print_exc()


def steps_for(timed_s: float) -> int:
    """How many steps are profiled: the same number in every launch of a cell that runs at about the same speed."""
    return min(max(math.ceil(PROFILED_S / timed_s), STEPS_LEAST), STEPS_MOST)


def training_loop(training: Any, loader: Any, tools: ModuleType) -> Callable[[int], None]:
    """The steps of the `train` phase, their parts named in the trace; it ends when the device has done them."""

    def loop(count: int) -> None:
        with tools.span(STEPS):
            for _ in range(count):
                with tools.span(LOADING):
                    batch = next(loader)
                with tools.span(STEP):
                    loss = training.step(batch)
            training.fence(loss)

    return loop


def keep_files(job: Job, recording: Recording, own: Path, extra: dict[str, bytes]) -> tuple[str, tuple[str, ...]]:
    """Write the files beside the journal; the name of the trace, and those of the others.

    Each begins with ``job.traces``. The profiler's own file lies where TensorBoard's profile page looks for it. A large
    trace of a later launch is left out: it says what the first one says.
    """
    if not job.traces:
        return "", ()
    place = Path(job.traces)
    place.parent.mkdir(parents=True, exist_ok=True)
    originals = sorted(own.glob("**/*.xplane.pb"))
    files = {f"{place.name}.{name}": content for name, content in extra.items()}
    for name, content in files.items():
        place.with_name(name).write_bytes(content)
    size = len(recording.trace) + sum(path.stat().st_size for path in originals)
    if job.launch and size > LARGE_BYTES:
        return "", tuple(files)
    trace = place.with_name(f"{place.name}.trace.json.gz")
    trace.write_bytes(recording.trace)
    for path in originals:
        page = place.parent / "plugins" / "profile" / place.name
        page.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, page / "host.xplane.pb")
    return trace.name, tuple(files)


def peak_bytes_per_s(framework: str, device: str) -> float:
    """The bandwidth of memory: ``a = b + a / 2`` over arrays that no cache holds, the best of some.

    As STREAM's triad it reads two numbers for each that it writes, and in place, so that a write needs no further read.
    """
    elements = DEVICES[device].triad_elements
    run = import_module(f"suite.worker.profilers.{framework}").triad(device, elements)
    run(1)
    best_s = math.inf
    for _ in range(TRIAD_TIMES):
        start = time.perf_counter_ns()
        run(1)
        best_s = min(best_s, (time.perf_counter_ns() - start) / 1e9)
    return TRIAD_BYTES * elements / best_s
