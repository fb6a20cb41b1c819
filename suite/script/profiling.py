"""The profile of a script's launch, from what its framework's profiler wrote in the script's process."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from suite.catalog.phases import TRAIN
from suite.record.job import Job
from suite.record.parts.profile import Profile
from suite.record.text import clean
from suite.script.seen import Seen
from suite.watch import PAUSE_S
from suite.worker.profilers import tensorflow_events, xla_events
from suite.worker.profilers.kineto import events_of, for_people
from suite.worker.profilers.profiling import Recording, chrome_trace, keep_files, profile_of

#: Larger traces are not read, in bytes.
TRACE_MOST = 1 << 28
#: Times a timed step, of a profiled one that says nothing of it any more.
SLOWER_MOST = 3.0


def add_profile(seen: Seen, job: Job, trace: Path) -> None:
    """Add the profile to what was seen, or why there is none; nothing here costs a launch its measurements."""
    try:
        seen.profile = None if seen.no_profile else _read(seen, job, trace)
    except Exception as error:  # a script may write anything
        seen.no_profile = clean(error, 200)


def _read(seen: Seen, job: Job, trace: Path) -> Profile:
    if len(seen.profiled) < 2:
        raise ValueError("a profile is taken of steps that are seen, of PyTorch, TensorFlow and JAX")
    if trace.stat().st_size > TRACE_MOST:
        raise ValueError("the trace is too large")
    recording, timed = _recording(json.loads(trace.read_bytes())), seen.series[TRAIN].phase()
    (bare, *bare_span), (steps, *span) = seen.profiled[:2]
    assert timed
    made = profile_of(recording, steps, (timed.step_s, (bare_span[1] - bare_span[0]) / bare))
    if made.step_s > SLOWER_MOST * made.timed_s:
        raise ValueError(f"profiling made the steps {made.step_s / made.timed_s:.1f} times as long")
    if made.step_s * steps - (span[1] - span[0]) > PAUSE_S / 2:
        raise ValueError("a pause came between the profiled steps")
    name, _ = keep_files(job, recording, trace.with_suffix(".profile"), {})
    return replace(made, trace=name, span=(span[0], span[1]))


def _recording(written: dict[str, Any]) -> Recording:
    if "programs" in written:
        reads = (tensorflow_events if written["framework"] == "TensorFlow" else xla_events).events_of
        events = xla_events.events_of_programs(written["rows"], written["programs"], reads)
        return Recording(events, chrome_trace(events, str(written["framework"])))
    shown = for_people(written)
    text = gzip.compress(json.dumps(shown, separators=(",", ":")).encode(), compresslevel=3)
    return Recording(events_of(shown), text)
