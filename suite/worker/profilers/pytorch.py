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
from suite.worker.profilers import onednn
from suite.worker.profilers.kineto import events_of, for_people
from suite.worker.profilers.profiling import Recording
from suite.worker.profilers.timeline import BACKWARD, FORWARD, UPDATE

Loop = Callable[[int], None]


@contextmanager
def span(name: str) -> Iterator[None]:
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
    if not on_cuda and any(event.name in onednn.GRADIENTS for event in events):
        forward, backward = onednn.shares_of(_verbose(loop))
        events, split = onednn.divide_convolutions(events, forward, backward), SPLIT if backward else ""
    text = json.dumps(trace, separators=(",", ":")).encode()
    return Recording(events, gzip.compress(text, compresslevel=3), _count(training, batch), split, extra)


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
