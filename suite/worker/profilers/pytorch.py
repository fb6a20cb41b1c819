"""PyTorch's profiler: operators on the host, kernels on a GPU, and oneDNN's own times for what is one operator."""

from __future__ import annotations

import gzip
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from suite.record.parts.profile import SPLIT
from suite.worker.profilers import kernel_rules, onednn
from suite.worker.profilers.pytorch_rules import OUTER, category_of, moved_bytes
from suite.worker.profilers.table import Recording
from suite.worker.profilers.timeline import BACKWARD, FORWARD, INPUT, LOADING, OVERHEAD, STEPS, UPDATE, Event

Loop = Callable[[int], None]

#: The operators that `onednn` divides.
GRADIENTS = ("aten::convolution_backward", "aten::mkldnn_convolution_backward")
FORWARDS = ("aten::mkldnn_convolution", "mkldnn::_convolution_pointwise")


@contextmanager
def span(name: str) -> Iterator[None]:
    """A part of a step by name, in the profiler's trace and, on CUDA, as an NVTX range."""
    on_cuda = torch.cuda.is_available()
    if on_cuda:
        torch.cuda.nvtx.range_push(name)
    try:
        with torch.profiler.record_function(name):
            yield
    finally:
        if on_cuda:
            torch.cuda.nvtx.range_pop()


def record(
    training: Any, loop: Loop, steps: int, folder: Path, batch: Any = None, *, memory: bool = False
) -> Recording:
    """Run the steps under `torch.profiler`; on a CPU one more step lets oneDNN tell its own times."""
    on_cuda = training.device == "cuda"
    activities = [torch.profiler.ProfilerActivity.CPU, *([torch.profiler.ProfilerActivity.CUDA] if on_cuda else [])]
    if memory and on_cuda:
        torch.cuda.memory._record_memory_history()
    with (
        _name_parts(training),
        torch.profiler.profile(
            activities=activities, record_shapes=True, profile_memory=memory, acc_events=True
        ) as profiler,
    ):
        loop(steps)
    path = folder / "pytorch.trace.json"
    profiler.export_chrome_trace(str(path))
    trace = for_people(json.loads(path.read_bytes()))
    events = events_of(trace)
    extra = {}
    if memory and on_cuda:
        torch.cuda.memory._dump_snapshot(str(folder / "memory.pickle"))
        torch.cuda.memory._record_memory_history(enabled=None)
        extra["memory.pickle"] = (folder / "memory.pickle").read_bytes()
    split = ""
    if not on_cuda and any(event.name in GRADIENTS for event in events):
        forward, backward = onednn.shares_of(_verbose(loop))
        events, split = divide_convolutions(events, forward, backward), SPLIT if backward else ""
    text = json.dumps(trace, separators=(",", ":")).encode()
    return Recording(events, gzip.compress(text, compresslevel=3), _count(training, batch), split, extra)


def for_people(trace: dict[str, Any]) -> dict[str, Any]:
    """The trace without host and paths, and without rows that belong to no process, at which some viewers stop."""
    rows = [row for row in trace["traceEvents"] if isinstance(row.get("pid"), int)]
    return {name: value for name, value in trace.items() if name not in PRIVATE} | {"traceEvents": rows}


def events_of(trace: dict[str, Any]) -> list[Event]:
    """The events of a Chrome trace of `torch.profiler`, each with its category."""
    rows = [row for row in trace["traceEvents"] if row.get("ph") == "X" and row.get("cat") in _KINDS]
    rows.sort(key=lambda row: (row["ts"], -row["dur"]))
    events: list[Event] = []
    outer: dict[str, list[tuple[float, str]]] = {}  # by thread, the operators that lend their category, and their ends
    for row in rows:
        name, kind, thread = str(row["name"]), row["cat"], f"{row.get('pid')}/{row.get('tid')}"
        start, end = round(row["ts"] * 1000), round((row["ts"] + row["dur"]) * 1000)
        if kind in _DEVICE:
            device, holds = kernel_rules.category_of(f"{kind} {name}"), kernel_rules.kernel_contents(name)
            events.append(Event(name, start, end, f"cuda {thread}", device, "cuda", holds))
            continue
        if name == STEPS:
            events.append(Event(name, start, end, thread, ""))
            continue
        lenders = outer.setdefault(thread, [])
        while lenders and lenders[-1][0] <= row["ts"]:
            lenders.pop()
        category = INPUT if name == LOADING else OVERHEAD if kind == "cuda_runtime" else category_of(name)
        if lent := OUTER.get(name.partition("#")[0], INPUT if name == LOADING else ""):
            lenders.append((row["ts"] + row["dur"], lent))
        if not category or "Synchronize" in name:
            continue
        if lenders and category != OVERHEAD:
            category = lenders[-1][1]
        moved = moved_bytes(name, row.get("args", {})) if category not in (OVERHEAD, INPUT) else None
        events.append(Event(name, start, end, thread, category, "cpu", kernel_rules.kernel_contents(name), moved))
    return events


#: What `torch.profiler` writes into a trace of the machine that made it.
PRIVATE = ("host_name", "traceName")
#: Kinds of events in a trace of `torch.profiler` that say where time went, and those of them that a GPU ran.
_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
_KINDS = ("cpu_op", "user_annotation", "cuda_runtime", "cuda_driver", *_DEVICE)


def divide_convolutions(events: list[Event], forward: dict[str, float], backward: dict[str, float]) -> list[Event]:
    """The events with oneDNN's convolutions divided into one event per category, in shares of their time."""
    found: list[Event] = []
    for event in events:
        shares = backward if event.name in GRADIENTS else forward if event.name in FORWARDS else {}
        if not shares:
            found.append(event)
            continue
        at = float(event.start)
        for category, share in shares.items():
            end = at + share * (event.end - event.start)
            name = f"{event.name} ({category.removeprefix('convolution ')} by oneDNN)"
            moved = None if event.bytes is None else round(event.bytes * share)
            found.append(event._replace(name=name, start=round(at), end=round(end), category=category, bytes=moved))
            at = end
    return found


def code(training: Any, batch: Any) -> dict[str, bytes]:
    """What torch.compile made of the step, by file name: Inductor's code and graph breaks; nothing in eager mode."""
    del batch
    compiled = training.count_compiled()
    folder = Path(os.environ.get("TORCHINDUCTOR_CACHE_DIR", ""))
    if not compiled["graphs"] or not folder.is_absolute():
        return {}
    sources = sorted(path for path in folder.glob("**/*.py") if b"AOT ID" in path.read_bytes()[:4000])
    breaks = json.dumps({**compiled, "reasons": dict(torch._dynamo.utils.counters["graph_break"])}, indent=1)
    joined = "\n\n".join(f"# ---- {path.name}\n{path.read_text(encoding='utf-8')}" for path in sources)
    return {"generated.py.gz": gzip.compress(joined.encode()), "graph-breaks.json": breaks.encode()}


def triad(device: str, elements: int) -> Callable[[int], None]:
    """A function that computes ``a = b + a / 2`` in place in float32 a given number of times and waits for it."""
    a, b = (torch.ones(elements, device=device) * number for number in (1, 2))

    def run(count: int) -> None:
        for _ in range(count):
            torch.add(b, a, alpha=0.5, out=a)
        if device == "cuda":
            torch.cuda.synchronize()

    return run


def _count(training: Any, batch: Any) -> float | None:
    """PyTorch's own count of one more step's floating-point operations; it knows no LSTM, and nothing compiled."""
    if batch is None or training.count_compiled()["graphs"]:
        return None
    with FlopCounterMode(display=False) as counter:
        training.step(batch)
    return float(counter.get_total_flops()) or None


@contextmanager
def _name_parts(training: Any) -> Iterator[None]:
    """Forward, backward and update as spans; only while the profiler runs."""

    def named(function: Callable[..., Any], name: str) -> Callable[..., Any]:
        def inside(*arguments: Any, **options: Any) -> Any:
            with span(name):
                return function(*arguments, **options)

        return inside

    backward = torch.Tensor.backward
    training._forward, training.update = named(training._forward, FORWARD), named(training.update, UPDATE)
    torch.Tensor.backward = named(backward, BACKWARD)
    try:
        yield
    finally:
        torch.Tensor.backward = backward
        del training._forward, training.update


def _verbose(loop: Loop) -> str:
    """What oneDNN prints during one step; it writes to the process's own output, past Python."""
    sys.stdout.flush()
    with tempfile.TemporaryFile() as file:
        kept = os.dup(1)
        os.dup2(file.fileno(), 1)
        try:
            with torch.backends.mkldnn.verbose(torch.backends.mkldnn.VERBOSE_ON):
                loop(1)
        finally:
            os.dup2(kept, 1)
            os.close(kept)
        file.seek(0)
        return file.read().decode(errors="replace")
