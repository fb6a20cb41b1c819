"""A trace that a browser opens: the format of Chrome's trace viewer, which ui.perfetto.dev reads too."""

from __future__ import annotations

import gzip
import json

from suite.worker.profilers.timeline import Event

#: Events that are written; so many are read in a few seconds.
EVENTS_MOST = 200_000


def chrome_trace(events: list[Event], process: str) -> bytes:
    """The first events as gzip'd JSON; the category of each stands beside its name."""
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
