"""What oneDNN says of its own primitives: it divides what PyTorch's profiler shows as one operator.

On a CPU `aten::convolution_backward` computes both gradients of a convolution, and every convolution changes the layout
of its weights first. With ``DNNL_VERBOSE`` output switched on for a step of its own, oneDNN prints one line per
primitive; the shares of its times divide the operator's time.
"""

from __future__ import annotations

import re
from collections import defaultdict

from suite.worker.profilers.timeline import Event

#: ``onednn_verbose,v1,primitive,exec,cpu,convolution,jit:avx512_core,backward_weights,...,mb32_ic3oc128...,12.6``
_LINE = re.compile(
    r"^(?:onednn|dnnl)_verbose,(?:v\d,)?(?:[\d.]+,)?primitive,exec,\w+,(?P<primitive>\w+),(?P<middle>.*),(?P<ms>[\d.e+-]+)\s*$"
)

#: Kinds of work, as parts of `Event.category`.
DATA, WEIGHTS, FORWARD = "convolution input gradient", "convolution weight gradient", "convolution forward"
LAYOUT = "copy and layout change"

#: The operators that are divided.
GRADIENTS = ("aten::convolution_backward", "aten::mkldnn_convolution_backward")
FORWARDS = ("aten::mkldnn_convolution", "mkldnn::_convolution_pointwise")

_KINDS = {"backward_data": DATA, "backward_weights": WEIGHTS}


def shares_of(output: str) -> tuple[dict[str, float], dict[str, float]]:
    """How forward convolutions, and both their gradients, divide their time among categories; each sums to 1.

    Empty where the output shows none. Layouts changed before a convolution or after a weight gradient are its own;
    other primitives end the series.
    """
    times: dict[bool, dict[str, float]] = {True: defaultdict(float), False: defaultdict(float)}
    pending, backward = 0.0, False
    for line in output.splitlines():
        match = _LINE.match(line)
        if not match:
            continue
        milliseconds, primitive = float(match["ms"]), match["primitive"]
        if primitive == "reorder":
            pending += milliseconds
        elif primitive in ("convolution", "deconvolution"):
            kind = next((kind for word, kind in _KINDS.items() if word in match["middle"].split(",")), FORWARD)
            if kind is WEIGHTS or (kind is FORWARD and backward):  # what came before belongs to the gradient before
                times[backward][LAYOUT] += pending
            else:
                times[kind is DATA][LAYOUT] += pending
            backward, pending = kind is not FORWARD, 0.0
            times[backward][kind] += milliseconds
        else:
            times[backward][LAYOUT] += pending if times[backward] else 0.0
            pending = 0.0
    if pending and times[backward]:
        times[backward][LAYOUT] += pending
    return _normalise(times[False]), _normalise(times[True])


def _normalise(times: dict[str, float]) -> dict[str, float]:
    total = sum(times.values())
    return {kind: spent / total for kind, spent in times.items() if spent} if total else {}


def divide_convolutions(events: list[Event], forward: dict[str, float], backward: dict[str, float]) -> list[Event]:
    """The events with oneDNN's convolutions divided into one event per category, in shares of their time."""
    divided: list[Event] = []
    for event in events:
        shares = backward if event.name in GRADIENTS else forward if event.name in FORWARDS else {}
        if not shares:
            divided.append(event)
            continue
        at = float(event.start)
        for category, share in shares.items():
            end = at + share * (event.end - event.start)
            name = f"{event.name} ({category.removeprefix('convolution ')} by oneDNN)"
            moved = None if event.bytes is None else round(event.bytes * share)
            divided.append(event._replace(name=name, start=round(at), end=round(end), category=category, bytes=moved))
            at = end
    return divided
