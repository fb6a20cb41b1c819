"""Events of a trace of `torch.profiler`, each with its category; reads the file that it writes, without PyTorch."""

from __future__ import annotations

import math
import re
from typing import Any

from suite.worker.profilers import rules
from suite.worker.profilers.timeline import INPUT, LOADING, OVERHEAD, STEPS, Event

#: Operators whose inner operators count as theirs, and the category of these.
OUTER = {
    "aten::dropout": "random numbers and dropout",
    "Optimizer.step": "optimizer",
    "Optimizer.zero_grad": "optimizer",
    "enumerate(DataLoader)": INPUT,
}

#: Bytes of an element by the names that the profiler gives to types.
SIZES = {
    "float": 4, "double": 8, "c10::BFloat16": 2, "c10::Half": 2, "int": 4, "long int": 8, "long": 8, "short": 2,
    "unsigned char": 1, "signed char": 1, "bool": 1,
}  # fmt: skip

#: What `torch.profiler` writes into a trace of the machine that made it.
PRIVATE = ("host_name", "traceName")
#: Kinds of events in a trace of `torch.profiler` that say where time went, and those of them that a GPU ran.
_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
_KINDS = ("cpu_op", "user_annotation", "cuda_runtime", "cuda_driver", *_DEVICE)


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
