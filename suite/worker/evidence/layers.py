"""What a proof compares a model by: which layer has which tensor, which lines of a user's files ran, larger numbers.

Knows no framework.
"""

from __future__ import annotations

import linecache
import math
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import numpy as np

from suite.catalog.suggest import nearest
from workloads.data.dataset import Array

#: Numbers of a layer's input that are kept of a pass.
PART = 2**16


class TrackedWeights(dict[str, Array]):
    """Weights that know for which tensor they were asked last, which an error on the way into a model names."""

    last = ""

    def __getitem__(self, name: str) -> Array:
        self.last = name
        return super().__getitem__(name)

    def items(self) -> Iterator[tuple[str, Array]]:  # type: ignore[override]
        return ((name, self[name]) for name in self)

    def describe(self) -> str:
        """The tensor that was asked for last, for the beginning of an error's line; empty if none was."""
        if not self.last:
            return ""
        if self.last in self:
            return f"tensor {self.last}, {super().__getitem__(self.last).shape} in the spec: "
        near = nearest(self.last, self)
        meant = f" (it has {near})" if near else ""
        return f"tensor {self.last}, which the spec does not have{meant}; model.canonical_names renames layers: "


def owners(
    owned: Mapping[str, list[Array]], weights: Mapping[str, Array], calls: list[tuple[str, Any, Any]]
) -> dict[str, list[str]]:
    """Path of a layer to the canonical names of its tensors, which are known by their values in any order.

    A tensor belongs to the innermost layer that holds it and was called once; a layer that is called for every time
    step is a part of the one around it. Of two that share it, the first to be called has it. Several tensors may be one
    parameter, as queries, keys and values are.
    """
    names = {_values(array).tobytes(): name for name, array in weights.items()}
    times = Counter(path for path, *_ in calls)
    ended = [path for path, *_ in calls].index  # inner layers end before those around them
    inner: dict[str, str] = {}
    for path, arrays in owned.items():
        around = [known for known, count in times.items() if count == 1 and _within(path, known)]
        best = max(around, key=len, default="")
        for values in map(_values, arrays) if best else ():
            name = names.get(values.tobytes())
            for each in [name] if name else _packed(values, weights):
                if each not in inner or ended(best) < ended(inner[each]):
                    inner[each] = best
    found: dict[str, list[str]] = {}
    for name in weights:
        if name in inner:
            found.setdefault(inner[name], []).append(name)
    return found


def _packed(values: Array, weights: Mapping[str, Array]) -> list[str]:
    smaller = {name: array for name, array in weights.items() if array.size < values.size}
    within = [name for name, array in smaller.items() if np.isin(_values(array), values).all()]
    return within if sum(weights[name].size for name in within) == values.size else []


def part(tensor: Any, most: int = PART) -> Any:
    """As many samples of a tensor (b, ...) as have so many numbers, but two at least."""
    numbers = math.prod(each or 1 for each in tensor.shape[1:])  # of a size that is not known, or 0, at least one
    return tensor[: max(most // numbers, 2)] if tensor.ndim else tensor


def once(calls: list[tuple[str, Any, Any]]) -> dict[str, Any]:
    """The inputs of the layers that were called once and have one, by their paths."""
    times = Counter(path for path, *_ in calls)
    return {path: taken for path, taken, _ in calls if taken is not None and times[path] == 1}


def _within(path: str, around: str) -> bool:
    return path == around or path.startswith((f"{around}.", f"{around}/"))


def _values(array: Array) -> Array:
    return np.sort(np.asarray(array, np.float64), axis=None) + 0.0  # which makes one zero of both


Line = tuple[str, int]
#: A line as it is told: file, number, text.
LayerTrace = tuple[str, int, str]
#: Lines that are told of one layer at most.
LINES_MOST = 40


class Sources:
    """Notes the lines of files in a folder that run while it is entered, from one call of a layer to the next."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.noted: list[tuple[str, list[Line]]] = []
        self._last: list[Line] = []
        self._lines: list[Line] = []

    def __enter__(self) -> Sources:
        self._outer = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        sys.settrace(self._outer)

    def note(self, layer: str) -> None:
        """Called after a layer: the lines since the one before are its own, with those from which both are called."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and not self._is_own(frame):
            frame = frame.f_back
        here = [] if frame is None else [(frame.f_code.co_filename, frame.f_lineno)]
        self.noted.append((layer, [*self._last, *self._lines, *here]))
        self._last, self._lines = here, []

    def of(self, layers: Iterable[str]) -> dict[str, list[LayerTrace]]:
        """For each of these layers the lines since the one of them that was called before."""
        wanted, found, lines = set(layers), dict[str, list[LayerTrace]](), list[Line]()
        for layer, own in self.noted:
            lines += own
            if layer in wanted:
                found[layer] = [_describe(*line) for line in dict.fromkeys(lines)][-LINES_MOST:]
                lines = []
        return found

    def _is_own(self, frame: FrameType) -> bool:
        return Path(frame.f_code.co_filename).parent == self.folder

    def _trace(self, frame: FrameType, *_: Any) -> Any:
        return self._line if self._is_own(frame) else None

    def _line(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            self._lines.append((frame.f_code.co_filename, frame.f_lineno))
        return self._line


def _describe(file: str, line: int) -> LayerTrace:
    return Path(file).name, line, linecache.getline(file, line).strip()


#: By how much inputs and weights are multiplied where answers are compared at a larger scale: an output of usual size
#: then passes 6, the share of a label falls below 1e-7, and no score reaches the -10,000 of an additive mask.
SCALE = 4
#: A relative change of all weights by some roundings, which shows how much a model amplifies them.
NOISE = 2.0**-46


def enlarge(weights: Mapping[str, Array]) -> dict[str, Array]:
    """Weights at a scale at which what saturates, clips or masks does so: `SCALE` times as large.

    Kernels that a state passes again and again stay: they would amplify any rounding.
    """

    def recurs(name: str, array: Array) -> bool:
        beside = [other for other in weights if other.rpartition("/")[0] == name.rpartition("/")[0] and other != name]
        gates = array.ndim == 2 and array.shape[1] in (3 * len(array), 4 * len(array))
        return "recurrent" in name or (gates and any(weights[other].shape[1:] == array.shape[1:] for other in beside))

    return {
        name: array if recurs(name, array) else (SCALE * array).astype(array.dtype) for name, array in weights.items()
    }


def enlarge_inputs(batches: list[tuple[Array, Array]]) -> Array:
    """The first batch's inputs likewise: larger numbers, and padding in half of the texts, where others have theirs."""
    inputs = batches[0][0]
    if np.issubdtype(inputs.dtype, np.floating):
        return (SCALE * inputs).astype(inputs.dtype)
    if are_tokens(inputs):
        first = any(not each[:, 0].all() for each, _ in batches) and all(each[:, -1].all() for each, _ in batches)
        inputs, padding = inputs.copy(), inputs.shape[1] // 3
        inputs[::2, slice(padding) if first else slice(inputs.shape[1] - padding, None)] = 0
    return inputs


def are_tokens(inputs: Array) -> bool:
    """Whether inputs are numbers of words, (b, t), of which 0 may be padding; bytes are something else."""
    return inputs.ndim == 2 and np.issubdtype(inputs.dtype, np.integer) and inputs.dtype.itemsize > 1


def perturb(weights: Mapping[str, Array]) -> dict[str, Array]:
    """The weights, in float64, with each number larger or smaller by `NOISE`, at random."""
    signs = np.random.default_rng(0)
    return {name: array * (1 + NOISE * signs.choice((-1.0, 1.0), array.shape)) for name, array in weights.items()}
