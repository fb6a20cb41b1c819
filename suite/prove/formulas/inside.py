"""Of one layer with the same input on both sides: dense, convolution and its transpose, normalisation, recurrence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, combinations, permutations, product
from typing import Any

import numpy as np

from suite.prove.arithmetic import ACTIVATIONS, STRIDES, Pads, convolution, dilate, placings, recurrent_states, sigmoid
from suite.prove.layers import Case, Layer, either_way, is_backward
from suite.prove.numbers import same
from suite.prove.search import Formula
from workloads.data.dataset import Array

BIAS = {"the bias once": 1.0, "the bias twice": 2.0, "no bias": 0.0}
EPSILONS = [digit * 10.0**power for power in range(-12, -1) for digit in (1, 2, 5)]
GATES = {3: ("update", "reset", "candidate"), 4: ("input", "forget", "cell", "output")}
#: How words are read, and states turned around again, in a layer of one direction or two.
DIRECTIONS: dict[int, dict[str, tuple[tuple[int, int], ...]]] = {
    1: {"the first word first": ((1, 1),), "the last word first": ((-1, -1),)},
    2: {
        "forward and backward": ((1, 1), (-1, -1)),
        "both forward": ((1, 1), (1, 1)),
        "the backward states left turned around": ((1, 1), (-1, 1)),
        "the forward weights backward, and the backward ones forward": ((-1, -1), (1, 1)),
    },
}
JOINED = {"the forward states first": 1, "the backward states first": -1}
#: What may be done otherwise in one layer of a stack.
PLACED = ("order of gates", "bias", "direction", "order of directions")


def formulas(case: Case) -> Iterator[Formula]:
    """Those that the layer's tensors allow."""
    layer, x = case.layer, _input(case.layer)
    if layer is None or x is None or case.targets is None:
        return
    if len(layer.kernels) == 1 and len(layer.vectors) < 2:
        yield from _with_kernel(layer, x, case.targets[0])
    if not layer.kernels and x.shape == case.targets[0].shape:
        yield from _normalisation(layer, x)
    if len(layer.kernels) > 1 and x.ndim == 3:
        yield from _recurrent(layer, x, case.targets[0])


def _input(layer: Layer | None) -> Array | None:
    """The input that both sides have, without rows of zeros at its borders, which are padding before the layer."""
    if layer is None or not all("input" in side for side in layer.sides) or layer.is_table:
        return None
    one, other = pair = layer.pair("input") or (layer.one["input"], layer.other["input"])
    if one.shape != other.shape or (layer.kernels and layer.kernels[0].ndim > 2):
        pair = _strip(one), _strip(other)
    return pair[0] if same(pair) else None


def _strip(x: Array) -> Array:
    for axis in range(1, x.ndim - 1):
        rows = np.flatnonzero(np.any(x, axis=tuple(other for other in range(x.ndim) if other != axis)))
        if rows.size:
            x = np.take(x, range(rows[0], rows[-1] + 1), axis)
    return x


def _with_kernel(layer: Layer, x: Array, y: Array) -> Iterator[Formula]:
    """A dense layer, a convolution, or the transpose of one, as a convolution of (b, h, w, in)."""
    kernel, bias = layer.kernels[0], layer.bias
    added = np.zeros(1) if bias is None or bias.size not in (1, y.shape[-1]) else bias
    axes = 0 if kernel.size == x.shape[-1] * y.shape[-1] and x.shape[:-1] == y.shape[:-1] else kernel.ndim - 2
    if axes and (axes > 2 or not x.ndim == y.ndim == kernel.ndim):
        return
    wide = x if axes == 2 else x[:, :, None] if axes else x.reshape(len(x), -1, 1, x.shape[-1])
    before, after = (wide.shape[1], y.shape[1]) if axes else (1, 1)
    for up in STRIDES if after > 1.5 * before else (1,):
        places = placings(wide.shape, y.shape, kernel.shape[:axes], up)

        def convolved(rows: Any, up: int = up, **ways: Any) -> Array | None:
            stride, padding, across = ways.get("padding") or ways["alignment"]
            turned = _turn(ways["layout of a kernel"], axes, up, x.shape[-1], y.shape[-1])
            result = convolution(dilate(wide[rows], up, axes), turned, stride, padding, across)
            if result is None or result.size != y[rows].size:
                return None
            return np.asarray(ways["activation"](result.reshape(y[rows].shape) + ways["bias"] * added))

        named = {_say_place(up, *place): place for place in places}
        if named:
            ways: dict[str, dict[str, Any]] = {"layout of a kernel": _read(kernel)}
            ways["bias"] = {**BIAS} if bias is not None else {"no bias": 0.0}
            yield Formula(ways | {"alignment" if up > 1 else "padding": named, "activation": ACTIVATIONS}, convolved)


def _say_place(up: int, stride: int, padding: Pads, across: Pads | None) -> str:
    words = [f"padding {before} before and {behind} behind" for before, behind in filter(None, (padding, across))]
    return f"stride {max(up, stride)}, {', across '.join(words)}"


def _turn(kernel: Array, axes: int, up: int, inputs: int, outputs: int) -> Array:
    """A kernel as (h, w, in / groups, out), of the convolution whose transpose it is if that goes ``up``."""
    if not axes:
        return kernel.reshape(1, 1, inputs, outputs)
    wide = kernel if axes == 2 else kernel[:, None]
    if up > 1:
        return wide[::-1, :: -1 if axes == 2 else 1].swapaxes(-1, -2)
    alone = wide.shape[2] == inputs and wide.shape[2] * wide.shape[3] == outputs != wide.shape[3]
    return wide.reshape(*wide.shape[:2], 1, -1) if alone else wide  # one for each channel, as Keras has it


def _read(kernel: Array) -> dict[str, Array]:
    """A kernel as it is, and as a wrong order of its axes would have it."""
    found, axes = {"the kernel as it is": kernel}, range(kernel.ndim)
    for order in permutations(axes):
        if kernel.transpose(order).shape == kernel.shape:
            found[f"its axes in the order {order}"] = kernel.transpose(order)
        reshaped = kernel.reshape([kernel.shape[axis] for axis in order]).transpose(np.argsort(order))
        found[f"it reshaped to the axes {order}"] = reshaped
    spatial = range(kernel.ndim - 2)
    exchanged = {"": kernel, ", inputs and outputs exchanged": kernel.swapaxes(-1, -2)}
    flips = chain.from_iterable(combinations(spatial, count) for count in range(1, kernel.ndim - 1))
    for flip, (also, of) in product(flips, exchanged.items()):
        if of.shape == kernel.shape:
            found[f"it mirrored along the axes {flip}{also}"] = np.flip(of, flip)
    seen = [kernel]
    for name, array in list(found.items())[1:]:
        if any(array.shape == each.shape and np.array_equal(array, each) for each in seen):
            del found[name]
        seen.append(array)
    return found


def _normalisation(layer: Layer, x: Array) -> Iterator[Formula]:
    named = {name.rpartition("/")[2]: np.asarray(array, np.float64) for name, array in layer.tensors.items()}
    scale = next((named[name] for name in ("scale", "gamma", "weight") if name in named), np.ones(x.shape[-1]))
    shift = next((named[name] for name in ("shift", "beta", "bias") if name in named), None)
    if scale.size != x.shape[-1] or not scale.all():
        return
    added = np.zeros(1) if shift is None else shift
    axes: dict[str, Any] = {"the features": (1, x.ndim - 1), "the batch": (1, tuple(range(x.ndim - 1)))}
    if x.ndim > 2:
        axes["each sample"] = (1, tuple(range(1, x.ndim)))
        counts = [count for count in range(2, x.shape[-1] + 1) if x.shape[-1] % count == 0]
        axes |= {f"each of {count} groups": (count, (*range(1, x.ndim - 1), x.ndim)) for count in counts}

    def normalised(rows: Any, **ways: Any) -> Array:
        if ways["normalised axes"] is None:
            normal = x / np.sqrt(1 + ways["epsilon"])
        else:
            groups, over = ways["normalised axes"]
            grouped = x.reshape(*x.shape[:-1], groups, -1) if groups > 1 else x
            less = grouped - grouped.mean(over, keepdims=True) if ways["centring"] else grouped
            count = less.size / max(less.mean(over).size, 1)
            variance = (less**2).mean(over, keepdims=True) * count / (count - ways["biased variance"] or 1)
            root, epsilon = ways["place of epsilon"], ways["epsilon"]
            divisor = np.sqrt(variance + epsilon) if root else np.sqrt(variance) + epsilon
            normal = (less / divisor).reshape(x.shape)
        return np.asarray((normal * (scale + ways["scale"]) + ways["bias"] * added)[rows])

    yield Formula(
        {
            "normalised axes": axes | {"nothing, but the running statistics": None},
            "centring": {"the mean subtracted": True, "no mean subtracted": False},
            "biased variance": {"n": 0, "n - 1": 1},
            "epsilon": {f"{each:g}": each for each in (0.0, *EPSILONS)},
            "place of epsilon": {"epsilon under the root": True, "epsilon beside the root": False},
            "scale": {"the scale": 0.0, "1 + the scale": 1.0},
            "bias": BIAS if shift is not None else {"no bias": 0.0},
        },
        normalised,
        most=3,
    )


def _recurrent(layer: Layer, x: Array, y: Array) -> Iterator[Formula]:
    stack = _stack(layer.tensors, x.shape[-1])
    if not stack:
        return
    gates, directions = len(stack[0][0][0][0]) // len(stack[0][0][1]), DIRECTIONS[len(stack[0])]
    which = {"every layer": range(len(stack))} | {f"layer {at + 1}": [at] for at in range(len(stack)) if len(stack) > 1}
    orders = {", ".join(GATES[gates][at] for at in order): order for order in permutations(range(gates))}
    biases = {name: (times, times) for name, times in BIAS.items()} | {"no bias of the state": (1.0, 0.0)}

    def place(ways: dict[str, Any]) -> dict[str, Any]:
        usual = next(iter(ways))
        placed = [(name, where) for name in ways for where in which if name != usual or where == "every layer"]
        return {f"{name} in {where}": (ways[name], which[where]) for name, where in placed}

    ways: dict[str, dict[str, Any]] = {
        "order of gates": place(orders),
        "bias": place(biases),
        "bias of the forget gate": {"the bias as it is": 0.0, "1 more for the forget gate": 1.0},
        "reset gate": {"the product with the state reset": True, "the state reset before its product": False},
        "update gate": {"the update gate for the old state": True, "the update gate for the new one": False},
        "direction": place(directions),
        "order of directions": place(dict(list(JOINED.items())[: len(stack[0])])),
        "order of layers": _exchanges(stack),
    }
    unused = ("reset gate", "update gate") if gates == 4 else ("bias of the forget gate",)
    ways = {what: each for what, each in ways.items() if what not in unused}
    usual = {what: next(iter(ways[what].values()))[0] for what in ways if what in PLACED}

    def states(rows: Any, **chosen: Any) -> Array:
        inputs = ends = x[rows]
        for at in chosen["order of layers"]:
            here = {what: chosen[what][0] if at in chosen[what][1] else usual[what] for what in PLACED}
            runs = []
            for tensors, (turn, back) in zip(stack[at], here["direction"], strict=True):
                kernel, recurrent, *own = (_in_order(each, here["order of gates"]) for each in tensors)
                added = [by * each for by, each in zip(here["bias"], own, strict=False)]
                cell = partial(_gru if gates == 3 else _lstm, (kernel, recurrent, added), chosen)
                found = recurrent_states(inputs[:, ::turn], cell, len(recurrent))
                runs.append((found[:, ::back], found[:, -1]))
            order = here["order of directions"]
            inputs, ends = (np.concatenate(each, -1) for each in zip(*runs[::order], strict=True))
        return np.asarray(inputs if y.ndim == 3 else ends)

    yield Formula(ways, states)


def _exchanges(stack: list[list[tuple[Array, ...]]]) -> dict[str, list[int]]:
    """The layers of a stack in their order, and with two of the same shape exchanged."""
    found = {"the layers in their order": [*range(len(stack))]}
    for one, other in combinations(range(len(stack)), 2):
        if stack[one][0][0].shape == stack[other][0][0].shape:
            order = [{one: other, other: one}.get(at, at) for at in range(len(stack))]
            found[f"layers {one + 1} and {other + 1} exchanged"] = order
    return found


def _stack(tensors: Mapping[str, Array], width: int) -> list[list[tuple[Array, ...]]]:
    """Kernel, recurrent kernel and biases of each direction of each layer of a stack of LSTMs or GRUs.

    Empty if it is none.
    """
    cells: list[tuple[str, list[Array]]] = []
    for name, array in ((name, np.asarray(each, np.float64)) for name, each in tensors.items()):
        cell = cells[-1][1] if cells else []
        if len(cell) == 2 and array.shape == (2, *cell[0].shape[1:]):
            cell += list(array)  # a bias of the inputs, and one of the state
        elif cell and (array.ndim == 1 or len(cell) == 1):
            cell.append(array)
        else:
            cells.append((name, [array]))
    layers: dict[str, list[tuple[Array, ...]]] = {}
    for name, cell in sorted(cells, key=lambda each: is_backward(each[0])):
        layers.setdefault(either_way(name), []).append(tuple(cell))
    for layer in layers.values():
        for kernel, *rest in layer:
            units = len(rest[0]) if rest else 0
            if kernel.shape not in ((width, 3 * units), (width, 4 * units)) or rest[0].shape != (units, len(kernel[0])):
                return []
            if any(each.shape != kernel.shape[1:] for each in rest[1:]):
                return []
        width = sum(len(cell[1]) for cell in layer)
    kinds = {(len(layer), len(cell[0][0]) // len(cell[1])) for layer in layers.values() for cell in layer}
    return list(layers.values()) if kinds in ({(n, gates)} for n in DIRECTIONS for gates in GATES) else []


def _in_order(array: Array, order: Sequence[int]) -> Array:
    """A tensor with its gates in another order."""
    return array.reshape(*array.shape[:-1], len(order), -1)[..., list(order), :].reshape(array.shape)


def _lstm(tensors: Any, ways: Any, x: Array, state: Array, memory: Array) -> tuple[Array, Array]:
    kernel, recurrent, biases = tensors
    i, f, g, o = np.split(x @ kernel + state @ recurrent + sum(biases), 4, axis=-1)
    memory = sigmoid(f + ways["bias of the forget gate"]) * memory + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(memory), memory


def _gru(tensors: Any, ways: Any, x: Array, state: Array, _: Array) -> tuple[Array, Array]:
    kernel, recurrent, biases = tensors
    of_input, of_state = (biases[at] if at < len(biases) else np.zeros(len(kernel[0])) for at in (0, 1))
    z, r, n = np.split(x @ kernel + of_input, 3, axis=-1)
    hz, hr, hn = np.split(state @ recurrent + of_state, 3, axis=-1)
    z, r, units = sigmoid(z + hz), sigmoid(r + hr), len(recurrent)
    if not ways["reset gate"]:
        hn = (r * state) @ recurrent[:, 2 * units :] + of_state[2 * units :]
    n = np.tanh(n + (r * hn if ways["reset gate"] else hn))
    after = z * state + (1 - z) * n if ways["update gate"] else (1 - z) * state + z * n
    return after, after
