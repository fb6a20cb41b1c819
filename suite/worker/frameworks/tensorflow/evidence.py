"""What TensorFlow's `Training` shows of itself for the evidence in a record; nothing here is timed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tensorflow.python.client import pywrap_tf_session
from tensorflow.python.eager import context

from suite.catalog.settings import LAYOUTS
from suite.plan.cell import Cell
from suite.worker.evidence.layers import once, part
from suite.worker.frameworks import NUMBERS, build, find_kernel
from suite.worker.frameworks.tensorflow.constants import exact
from suite.worker.frameworks.tensorflow.device import allocator, threads
from workloads.data.dataset import Array
from workloads.defaults.tensorflow import join, turn_off
from workloads.spec import WorkloadSpec


def count_trained(training: Any) -> int:
    return sum(int(np.prod(variable.shape)) for variable in training.trained)


@contextmanager
def building(note: Callable[[str], object]) -> Iterator[None]:
    """A context that notes the layers that a model is built of, by the name that begins their path."""
    call = keras.layers.Layer.__call__

    def called(layer: keras.layers.Layer, *arguments: Any, **keywords: Any) -> Any:
        output = call(layer, *arguments, **keywords)
        note(layer.name)
        return output

    keras.layers.Layer.__call__ = called
    try:
        yield
    finally:
        keras.layers.Layer.__call__ = call


@contextmanager
def calls(
    training: Any, note: Callable[[str], object] = str, of: Callable[..., Any] | None = None
) -> Iterator[list[tuple[str, Any, Any]]]:
    """The output of a layer with an ``activation`` is that before it, which is the output in the other frameworks."""
    listed: list[tuple[str, Any, Any]] = []
    layers, take = _layers(training.model), of or _array

    def recorded(path: str, layer: keras.layers.Layer) -> Any:
        call, activation = layer.call, vars(layer).get("activation")
        activated: list[Any] = []

        def noted(x: Any, *arguments: Any, **keywords: Any) -> Any:
            activated[:] = x, activation(x, *arguments, **keywords)
            return activated[1]

        def called(*arguments: Any, **keywords: Any) -> Any:
            if activation:
                object.__setattr__(layer, "activation", noted)
            try:
                output = call(*arguments, **keywords)
            finally:
                if activation:
                    object.__setattr__(layer, "activation", activation)
            first = output[0] if isinstance(output, tuple | list) else output
            first = activated[0] if activated and activated[1] is first else first
            listed.append((path, take(arguments[0] if arguments else None), take(first)))
            note(path)
            return output

        return called

    for path, layer in layers.items():
        # Past Keras' own attribute handling, which would track what is set.
        object.__setattr__(layer, "call", recorded(path, layer))
    try:
        yield listed
    finally:
        for layer in layers.values():
            object.__delattr__(layer, "call")


def load(training: Any, weights: dict[str, Array]) -> None:
    training.module.import_weights(training.model, weights)


def initial(cell: Cell, spec: WorkloadSpec, module: ModuleType, inputs: Array) -> Callable[[int], dict[str, Array]]:
    del inputs

    def draw(seed: int) -> dict[str, Array]:
        keras.utils.set_random_seed(seed)
        model = build(module, cell, spec, NUMBERS[cell.precision], True, "cpu")
        return dict(module.export_weights(model))

    return draw


def forward(training: Any, batch: Any) -> float:
    return float(training.module.loss(training.model, *batch))


def gradients(training: Any, batch: Any) -> tuple[float, dict[str, Array]]:
    names = training.module.variables(training.model)
    with tf.GradientTape() as tape:
        loss = training.module.loss(training.model, *batch)
    shares = tape.gradient(loss, [variable.value for variable in names.values()])
    zeros = [np.zeros(variable.shape) for variable in names.values()]
    arrays = [zero if g is None else tf.convert_to_tensor(g).numpy() for g, zero in zip(shares, zeros, strict=True)]
    trained = {id(variable) for variable in training.trained}
    each = zip(names.items(), arrays, zeros, strict=True)
    return float(loss), {name: own if id(variable) in trained else zero for (name, variable), own, zero in each}


def parameters_by_layer(training: Any) -> dict[str, list[Array]]:
    return {path: [weight.numpy() for weight in layer.weights] for path, layer in _layers(training.model).items()}


def statistics(training: Any) -> dict[str, dict[str, Array]]:
    found: dict[str, dict[str, Array]] = {}
    for path, layer in _layers(training.model).items():
        by_name = {weight.name.removeprefix("moving_"): weight for weight in layer.non_trainable_weights}
        if {"mean", "variance"} <= by_name.keys():
            found[path] = {name: np.array(by_name[name].numpy()) for name in ("mean", "variance")}
    return found


def _layers(model: keras.Model) -> dict[str, keras.layers.Layer]:
    """All layers by their paths; one that reads both ways is one, as its own backward layer gives turned states."""
    layers = list(model._flatten_layers(include_self=False))
    both = [layer for layer in layers if isinstance(layer, keras.layers.Bidirectional)]
    within = {id(inner) for layer in both for inner in layer._flatten_layers(include_self=False)}
    return {f"{layer.name}#{number}": layer for number, layer in enumerate(layers) if id(layer) not in within}


def _array(tensor: Any) -> Array | None:
    return np.array(tensor.numpy()) if isinstance(tensor, tf.Tensor) and hasattr(tensor, "numpy") else None


#: Operations that only a forward pass has, and what the names of those of gradients begin with.
FORWARD_ONLY = ("Conv2D", "Erf", "FusedBatchNormV3", "MaxPool", "Relu", "Softmax")
GRADIENT = "gradient_tape/"


@contextmanager
def on_host() -> Iterator[dict[str, float]]:
    """It gives the constants that are rounded elsewhere (`suite.worker.frameworks.tensorflow.constants`)."""
    # A function's operations would be placed on a GPU where there is one.
    with tf.device("/CPU:0"), compile_cache("", "quickly"), exact() as rounded:
        yield rounded


@contextmanager
def compile_cache(folder: str, how: str) -> Iterator[None]:
    """A context in which compiled programs are kept in the folder and taken from there; TensorFlow keeps none.

    Where it is to be ``quickly`` graphs are not optimised, which takes longer than a few steps of a small one.
    """
    del folder
    options = tf.config.optimizer
    previous = options.get_experimental_options().get("disable_meta_optimizer", False)
    try:
        options.set_experimental_options({"disable_meta_optimizer": how == "quickly" or previous})
        yield
    finally:
        options.set_experimental_options({"disable_meta_optimizer": previous})


def without_dropout(training: Any) -> None:
    turn_off(training.model.layers)


def explain_step(training: Any, batch: Any) -> tuple[float, dict[str, Array]]:
    scale = float(getattr(training.optimizer, "dynamic_scale", 1.0))
    loss, gradients = training.explained(*batch)
    return float(loss), {name: gradient / scale for name, gradient in training.named(gradients).items()}


def updates(training: Any) -> int | None:
    optimizer = getattr(training.optimizer, "inner_optimizer", training.optimizer)
    return min(int(each.iterations.numpy()) for each in getattr(optimizer, "own", [optimizer]))


def draws(training: Any, batch: Any, count: int) -> tuple[Array, dict[str, Array]]:
    def forward(inputs: tf.Tensor) -> Any:
        with calls(training, of=lambda x: tf.cast(part(x), tf.float32) if isinstance(x, tf.Tensor) else None) as called:
            logits = tf.cast(join(training.model(inputs, training=True)), tf.float64)
        return logits, once(called)

    compiled = tf.function(forward, autograph=False)
    passes = [compiled(batch[0]) for _ in range(count)]
    inputs = {path: np.stack([each[path].numpy() for _, each in passes]) for path in passes[0][1]}
    return np.stack([logits.numpy() for logits, _ in passes]), inputs


def seed_draws(seed: int) -> None:
    keras.utils.set_random_seed(seed)


def count_kept_bytes(training: Any, batch: Any) -> int:
    """They are what the graph's operations of the forward pass give to those of the backward pass. The pass itself runs
    for the tensors whose shape no graph knows, such as the space that a fused normalisation reserves.
    """

    def traced(inputs: tf.Tensor, labels: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            loss = training.module.loss(training.model, inputs, labels)
        forward = {operation.name for operation in loss.graph.get_operations()}
        tape.gradient(loss, training.model.trainable_variables)
        given = {
            tensor.name: tensor
            for each in loss.graph.get_operations() if each.name not in forward for tensor in each.inputs
            if tensor.op.name in forward and tensor.op.type not in ("ReadVariableOp", "Placeholder", "Const")
        }  # fmt: skip
        return [tf.size(tensor, tf.int64) * tensor.dtype.size for tensor in given.values()]

    return sum(int(size) for size in tf.function(traced, autograph=False)(*batch))


def applied(training: Any, batch: Any) -> dict[str, Any]:
    program = training.function.get_concrete_function(*batch)  # that of the steps
    graph = program.graph.as_graph_def()
    functions = [program.function_def, *graph.library.function]
    nodes = [*graph.node, *(node for each in graph.library.function for node in each.node_def)]
    # The nodes stand in the order in which they were made, and those of gradients say so.
    first = next((at for at, node in enumerate(graph.node) if node.name.startswith(GRADIENT)), None)
    whole, forward = (
        sum(node.op in FORWARD_ONLY and not node.name.startswith(GRADIENT) for node in some)
        for some in (graph.node, graph.node[:first])
    )
    again = whole > training.cell.accumulate * forward
    return read_program(training, functions, nodes) | {"checkpointing": "on" if again else "off"}


def read_program(training: Any, functions: Sequence[Any], nodes: Sequence[Any]) -> dict[str, Any]:
    """What the functions of a step and their nodes show of the settings, whatever drives the training."""
    layouts = {node.attr["data_format"].s.decode() for node in nodes if node.op.startswith("Conv2D")}
    by_xla = any(each.attr["_XlaMustCompile"].b for each in functions) or _compiles_unasked()
    return {
        "compile": ("compile" if by_xla else "graph") if functions else "eager",
        "kernel": find_kernel(training.cell, [node.op for node in nodes]),
        "layout": LAYOUTS[1] if "NCHW" in layouts else LAYOUTS[0],
        "threads": threads(),
        "allocator": allocator() if training.device == "cuda" else "default",
    }


def _compiles_unasked() -> bool:
    if not pywrap_tf_session.TF_GetXlaAutoJitEnabled():
        return False

    @tf.function(autograph=False)
    def several(x: tf.Tensor) -> tf.Tensor:
        for _ in range(6):
            x = tf.math.tanh(x) * 2.0 + 1.0
        return x

    running = context.context()
    running.enable_graph_collection()
    try:
        several(tf.ones((8, 8)))
        graphs = running.export_run_metadata().partition_graphs
    finally:
        running.disable_graph_collection()
    return any(node.op == "_XlaRun" for graph in graphs for node in graph.node)
