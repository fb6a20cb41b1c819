"""PyTorch's profiler: operators on the host, kernels on a GPU, and oneDNN's own times for what is one operator."""

from __future__ import annotations

import gzip
import json
import math
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from suite.record.parts.profile import SPLIT
from suite.worker.profilers import onednn, rules
from suite.worker.profilers.profiling import Recording
from suite.worker.profilers.timeline import BACKWARD, FORWARD, INPUT, LOADING, OVERHEAD, STEPS, UPDATE, Event

Loop = Callable[[int], None]

#: Operators whose inner operators count as theirs, and the category of these.
OUTER = {
    "aten::dropout": "random numbers and dropout",
    "Optimizer.step": "optimizer",
    "Optimizer.zero_grad": "optimizer",
}

#: Bytes of an element by the names that the profiler gives to types.
SIZES = {
    "float": 4, "double": 8, "c10::BFloat16": 2, "c10::Half": 2, "int": 4, "long int": 8, "long": 8, "short": 2,
    "unsigned char": 1, "signed char": 1, "bool": 1,
}  # fmt: skip


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
            category, holds = rules.category_of("kernel", f"{kind} {name}"), rules.kernel_contents(name)
            events.append(Event(name, start, end, f"cuda {thread}", category, "cuda", holds))
            continue
        if name == STEPS:
            events.append(Event(name, start, end, thread, ""))
            continue
        lenders = outer.setdefault(thread, [])
        while lenders and lenders[-1][0] <= row["ts"]:
            lenders.pop()
        category = INPUT if name == LOADING else OVERHEAD if kind == "cuda_runtime" else rules.pytorch_category(name)
        if lent := OUTER.get(name.partition("#")[0], INPUT if name == LOADING else ""):
            lenders.append((row["ts"] + row["dur"], lent))
        if not category or "Synchronize" in name:
            continue
        if lenders and category != OVERHEAD:
            category = lenders[-1][1]
        moved = moved_bytes(name, row.get("args", {})) if category not in (OVERHEAD, INPUT) else None
        events.append(Event(name, start, end, thread, category, "cpu", rules.kernel_contents(name), moved))
    return events


#: What `torch.profiler` writes into a trace of the machine that made it.
PRIVATE = ("host_name", "traceName")
#: Kinds of events in a trace of `torch.profiler` that say where time went, and those of them that a GPU ran.
_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
_KINDS = ("cpu_op", "user_annotation", "cuda_runtime", "cuda_driver", *_DEVICE)


def moved_bytes(name: str, arguments: dict[str, Any]) -> int | None:
    """Bytes that an operator reads and writes, by the shapes and types of its arguments; None where they are unknown.

    The profiler does not tell shapes of results. That of a convolution and of a matrix product follow from the
    operands, a gradient has the shape of its operand, and anything else is taken to be as large as its largest operand.
    """
    tensors = _tensors(arguments)
    if not tensors:
        return None
    shapes, sizes = [dims for dims, _ in tensors], [math.prod(dims) * SIZES[kind] for dims, kind in tensors]
    element = SIZES[tensors[0][1]]
    bare = name.removeprefix("aten::")
    if bare.endswith("_") or "fused" in bare:  # in place; an optimizer also writes its parameters and state
        return sum(sizes) + (sum(sizes) if "fused" in bare else sizes[0])
    if "backward" in bare and "conv" in bare and len(sizes) >= 3:
        return sum(sizes) + sizes[1] + sizes[2]
    if "conv" in bare and len(shapes) >= 2 and len(shapes[0]) == len(shapes[1]) >= 3:
        return sum(sizes) + _count_convolved(shapes[0], shapes[1], arguments) * element
    if bare in ("mm", "addmm"):
        left, right = shapes[-2:]
        return sum(sizes) + (left[0] * right[-1] * element if left and right else 0)
    return sum(sizes) + max(sizes)


def _tensors(arguments: dict[str, Any]) -> list[tuple[list[int], str]]:
    tensors: list[tuple[list[int], str]] = []
    for dims, kind in zip(arguments.get("Input Dims", ()), arguments.get("Input type", ()), strict=False):
        if kind in SIZES and all(isinstance(size, int) for size in dims):
            tensors.append((dims, kind))
        elif kind == "TensorList":
            tensors += [(each, "float") for each in dims if isinstance(each, list)]
    return tensors


def _count_convolved(images: list[int], kernel: list[int], arguments: dict[str, Any]) -> int:
    lists = [text for text in arguments.get("Concrete Inputs", ()) if re.fullmatch(r"\[\d+(, \d+)*\]", str(text))]
    numbers = [[int(number) for number in text[1:-1].split(", ")] for text in lists]
    spatial = len(images) - 2
    fitting = [each for each in numbers if len(each) == spatial]
    padding, stride = (fitting[0], fitting[1]) if len(fitting) >= 2 else ([0] * spatial, [1] * spatial)
    sides = [
        (side + 2 * pad - size) // step + 1
        for side, size, pad, step in zip(images[2:], kernel[2:], padding, stride, strict=True)
    ]
    return images[0] * kernel[0] * math.prod(sides)


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
