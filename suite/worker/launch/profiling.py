"""The profile of a launch: some steps of the timed object after its last window, and the files beside the journal.

Imported only for a launch with ``--profile``. Nothing here may cost the launch its measurements: a profiler that fails
leaves its reason in the log, and the record has no profile.
"""

from __future__ import annotations

import math
import shutil
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from suite.catalog.devices import DEVICES
from suite.record.job import Job
from suite.worker.distributed.ranks import ALONE, Ranks
from suite.worker.profilers.table import Recording, profile_of
from suite.worker.profilers.timeline import LOADING, STEP, STEPS

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
