"""TensorFlow's profiler: operations on the executor's threads, kernels on a GPU's streams."""

from __future__ import annotations

import gzip
import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from suite.worker.profilers import rules, xla
from suite.worker.profilers.profiling import Recording, chrome_trace
from suite.worker.profilers.tensorflow_events import LOOP, OPERATION, events_of
from suite.worker.profilers.timeline import nvtx_range
from suite.worker.profilers.xplane import rows_of_tensorflow

Loop = Callable[[int], None]

#: The share of a loop's matrix products that a profile has to hold.
PRODUCTS_LEAST = 0.95


@contextmanager
def span(name: str) -> Iterator[None]:
    with tf.profiler.experimental.Trace(name), nvtx_range(name):
        yield


def record(
    training: Any, loop: Loop, steps: int, folder: Path, batch: Any = None, *, memory: bool = False
) -> Recording:
    """Run the steps under TensorFlow's profiler, whose files stay in the folder."""
    tf.profiler.experimental.start(str(folder))
    try:
        loop(steps)
    finally:
        tf.profiler.experimental.stop()
    (path,) = folder.glob("**/*.xplane.pb")
    text = optimised_program(training, batch)
    space = xplane_pb2.XSpace()
    space.ParseFromString(path.read_bytes())
    rows = [*rows_of_tensorflow(space)]
    moved = {}
    if not text:
        graph = training.function.get_concrete_function(*batch).graph
        moved = moved_bytes(graph)
        check_products([name for plane, _, name, *_ in rows if plane.startswith("/host")], graph.as_graph_def())
    events = events_of(rows, xla.program(text) if text else None, moved)
    del memory  # the profiler's own file holds the allocator's events of a GPU; on a CPU there are none
    return Recording(events, chrome_trace(events, "TensorFlow"), None if text else _count(training, batch))


def moved_bytes(graph: Any) -> dict[str, int]:
    """Bytes that each operation of a graph and of the functions that it calls reads and writes, where shapes are known.

    The executor puts the place of a loop in front of the names inside of it.
    """
    definition = graph.as_graph_def(add_shapes=True)
    moved: dict[str, int] = {}
    for nodes in [definition.node, *(function.node_def for function in definition.library.function)]:
        results = {node.name: _results(node) for node in nodes}
        for node in nodes:
            operands = [results.get(name.lstrip("^").partition(":")[0]) for name in node.input if name[0] != "^"]
            sizes = [size for size in (*operands, results[node.name]) if size is not None]
            if sizes:
                moved[node.name] = sum(sizes)
    return moved


def check_products(names: list[str], definition: Any) -> None:
    """Raises ValueError where events of matrix products in a loop are missing.

    The executor times each operation, and the profiler has no event of those that it has found to be cheap: their time
    then counts as the executor's, in some launches and not in others. In loops of one product on an AMD EPYC, with one
    core and with two, products of 32 x 32 x 128 and more all had events, from 4 us on; some or all of the smaller ones
    had none (TensorFlow 2.21).
    """
    loops: dict[str, Counter[tuple[str, str]]] = {}
    for name in names:
        match = OPERATION.match(name)
        if match and (inside := LOOP.match(match["name"])) and inside[1] == "body":
            own = match["name"][inside.end() :]
            loops.setdefault(inside[0], Counter())[own, match["type"]] += 1
    for body in _bodies(definition):
        calls = [calls for calls in loops.values() if sum(own in body for own, _ in calls) > len(calls) / 2]
        recorded = sum(count for each in calls for operation, count in each.items() if _is_product(*operation))
        times = sum(max(each.values()) for each in calls) or 1
        expected = times * sum(_is_product(*operation) for operation in body.items())
        if recorded < PRODUCTS_LEAST * expected:
            raise ValueError(
                f"TensorFlow's profiler recorded {recorded} of at least {expected} matrix products in a loop: it "
                "leaves out what the executor takes to be cheap. Measure a larger batch"
            )


def _bodies(definition: Any) -> list[dict[str, str]]:
    """The operations of each loop that a graph runs, in functions too: their types by their names."""
    functions = {function.signature.name: function.node_def for function in definition.library.function}
    called: dict[str, bool] = {}  # whether it is the body of a loop
    waiting = [definition.node]
    while waiting:
        for node in waiting.pop():
            for key, value in node.attr.items():
                if value.func.name in functions and value.func.name not in called:
                    called[value.func.name] = key == "body"
                    waiting.append(functions[value.func.name])
    return [{node.name: node.op for node in functions[name]} for name, is_body in called.items() if is_body]


def _is_product(name: str, kind: str) -> bool:
    return rules.tensorflow_category(name, kind) == "matrix product"


def code(training: Any, batch: Any) -> dict[str, bytes]:
    """The step as XLA optimised it, by file name; without XLA, the graph."""
    if text := optimised_program(training, batch):
        return {"optimised.hlo.gz": gzip.compress(text.encode())}
    graph = training.function.get_concrete_function(*batch).graph.as_graph_def()
    return {"graph.pbtxt.gz": gzip.compress(str(graph).encode(), compresslevel=3)}


def triad(device: str, elements: int) -> Callable[[int], None]:
    with tf.device("/GPU:0" if device == "cuda" else "/CPU:0"):
        a, b = tf.Variable(tf.fill([elements], 1.0)), tf.fill([elements], 2.0)

    # One pass over memory needs one kernel: XLA fuses the operations.
    def update() -> None:
        a.assign(b + a * 0.5)

    add = tf.function(update, jit_compile=True, autograph=False)

    def run(count: int) -> None:
        for _ in range(count):
            add()
        tf.test.experimental.sync_devices()

    return run


def optimised_program(training: Any, batch: Any) -> str:
    """The program of a step that XLA compiles; empty where it does not."""
    if training.cell.compile != "compile":
        return ""
    return str(training.function.experimental_get_compiler_ir(*batch)(stage="optimized_hlo"))


def _count(training: Any, batch: Any) -> float | None:
    """TensorFlow's own count of a graph's floating-point operations; it knows padding, and nothing inside of a loop."""
    options = tf.compat.v1.profiler.ProfileOptionBuilder(tf.compat.v1.profiler.ProfileOptionBuilder.float_operation())
    graph = training.function.get_concrete_function(*batch).graph
    counted = tf.compat.v1.profiler.profile(graph, cmd="op", options=options.with_empty_output().build())
    return float(counted.total_float_ops) or None


def _results(node: Any) -> int | None:
    """Bytes of a node's results; None where a shape is not known."""
    shapes = node.attr["_output_shapes"].list.shape
    kinds = [node.attr[name].type for name in ("T", "dtype", "DstT", "element_dtype") if name in node.attr]
    kinds = [kind for kind in kinds if kind]
    if not shapes or not kinds or any(shape.unknown_rank for shape in shapes):
        return None
    sides = [[side.size for side in shape.dim] for shape in shapes]
    if any(side < 0 for shape in sides for side in shape):
        return None
    width = int(tf.dtypes.as_dtype(kinds[-1]).size or 0)
    elements: int = sum(math.prod(shape) for shape in sides)
    return width * elements
