"""Defaults of a workload's `jax.py`: import those that fit, and write the others.

`logits`, `loss` and `scores` are for flax modules with fields ``spec`` and ``numbers`` that take ``evaluating``. If the
spec is ``batch_normalised``, they keep the running statistics of `nn.BatchNorm`.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any, ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.traverse_util import flatten_dict, unflatten_dict

from workloads import defaults
from workloads.data.dataset import Array

Tree = dict[str, Any]
Compared = Callable[[Any, jax.Array], jax.Array]
Block = Callable[..., jax.Array]

#: The collection of the switch of dropout among a module's variables, and its name there.
COLLECTION, SWITCH = "switches", "dropout"

#: Which implementation of a layer runs, where there is a choice: none.
kernels = defaults.kernels


def logits(model: Any, weights: Tree, statistics: Tree, inputs: jax.Array) -> jax.Array:
    """The model's output in training without dropout, (b, classes)."""
    return join(train(model, weights, statistics, inputs)[0])


def by_sample(losses: Compared, right: Compared) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def loss(
        model: Any, weights: Tree, statistics: Tree, key: jax.Array, inputs: jax.Array, labels: jax.Array
    ) -> tuple[jax.Array, Tree]:
        output, after = train(model, weights, statistics, inputs, rngs={"dropout": key})
        return losses(_cast(model, output), labels).mean(), after

    def scores(
        model: Any, weights: Tree, statistics: Tree, inputs: jax.Array, labels: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        output = _cast(model, evaluate(model, weights, statistics, inputs))
        return losses(output, labels), right(output, labels)

    return loss, scores


def _cast(model: Any, output: Any) -> Any:
    def one(each: jax.Array) -> jax.Array:
        return (each[:, 0] if each.shape[1:] == (1,) else each).astype(model.numbers.weights)

    return jax.tree.map(one, output)


def _off(output: jax.Array, labels: jax.Array) -> jax.Array:
    return (output - labels.reshape(output.shape)).reshape(len(labels), -1)


#: The softmax cross entropy of logits (b, classes); a sample is right if the largest logit is the label's.
loss, scores = by_sample(
    optax.softmax_cross_entropy_with_integer_labels, lambda logits, labels: logits.argmax(1) == labels
)
#: The binary cross entropy of logits (b,); a sample is right if the logit's sign is the label's.
binary_loss, binary_scores = by_sample(
    lambda logits, labels: optax.sigmoid_binary_cross_entropy(logits, labels.astype(logits.dtype)),
    lambda logits, labels: (logits > 0) == (labels > 0),
)
#: The mean squared error of outputs (b, ...), for a regression; right if all are within 0.5 of their labels.
squared_loss, squared_scores = by_sample(
    lambda output, labels: (_off(output, labels) ** 2).mean(1),
    lambda output, labels: (abs(_off(output, labels)) < 0.5).all(1),
)


def evaluate(model: Any, weights: Tree, statistics: Tree, inputs: jax.Array) -> Any:
    """The model's output in evaluation; of one that does not take ``evaluating``, without its field ``dropout``."""
    if hasattr(model, "dropout") and "evaluating" not in signature(model.__call__).parameters:
        return model.clone(dropout=False).apply({"params": weights}, inputs)
    return model.apply(_variables(weights, statistics), inputs, evaluating=True)


def train(model: Any, weights: Tree, statistics: Tree, inputs: jax.Array, **options: Any) -> tuple[Any, Tree]:
    """The model's output in training, and the running statistics of its `nn.BatchNorm` after that.

    Their variance takes the unbiased one of the batch, as PyTorch's do. flax takes the biased one, which is smaller by
    (n - 1) / n over n values of a channel.
    """
    if not statistics or SWITCH in statistics:
        return model.apply(_variables(weights, statistics), inputs, **options), statistics
    layers: dict[tuple[str, ...], tuple[int, float]] = {}

    def called(function: Any, arguments: Any, keywords: Any, context: Any) -> Any:
        if isinstance(context.module, nn.BatchNorm):
            layers[context.module.path] = arguments[0].size // arguments[0].shape[-1], context.module.momentum
        return function(*arguments, **keywords)

    with nn.intercept_methods(called):
        output, changed = model.apply(_variables(weights, statistics), inputs, mutable=["batch_stats"], **options)
    before, after = (flatten_dict(tree) for tree in (statistics, changed["batch_stats"]))
    for path, (values, momentum) in layers.items():
        now = after[*path, "var"]
        after[*path, "var"] = now + (now - momentum * before[*path, "var"]) / (values - 1)
    return output, unflatten_dict(after)


def _variables(weights: Tree, statistics: Tree) -> Tree:
    collection = COLLECTION if SWITCH in statistics else "batch_stats"
    return {"params": weights} | ({collection: statistics} if statistics else {})


def unpack(inputs: jax.Array, parts: tuple[defaults.Part, ...]) -> list[jax.Array]:
    each = [(inputs[:, place].reshape(-1, *shape), dtype) for place, _, shape, dtype in defaults.cut(parts)]
    return [jax.lax.bitcast_convert_type(array, dtype) for array, dtype in each]


def join(output: Any) -> jax.Array:
    several = isinstance(output, tuple | list)
    return jnp.concatenate([each.reshape(len(each), -1) for each in output], 1) if several else output


class _Recurrent(nn.Module):
    """Inputs (b, t, width) to the states after all steps, (b, t, units), by tensors in canonical layout."""

    units: int
    reverse: bool = False  # from the last step to the first; a state stays at the place of its input
    dtype: Any = None
    param_dtype: Any = jnp.float32

    #: How many gates there are, rows of biases, and states that go from step to step.
    gates, carried = 0, 1
    biases: ClassVar[tuple[int, ...]] = ()

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        width, zeros = self.gates * self.units, nn.initializers.zeros
        shapes = {"kernel": (x.shape[-1], width), "recurrent": (self.units, width), "bias": (*self.biases, width)}
        tensors = (self.param(name, zeros, shape, self.param_dtype) for name, shape in shapes.items())
        x, kernel, recurrent, bias = nn.dtypes.promote_dtype(x, *tensors, dtype=self.dtype)

        def step(carry: Any, now: jax.Array) -> tuple[Any, jax.Array]:
            carry = self.move(carry, now @ kernel, carry[0] @ recurrent, bias)
            return carry, carry[0]

        start = (jnp.zeros((len(x), self.units), x.dtype),) * self.carried
        return jax.lax.scan(step, start, x.swapaxes(0, 1), reverse=self.reverse)[1].swapaxes(0, 1)


class LSTM(_Recurrent):
    """The LSTM of PyTorch, Keras and flax, which has a tensor for each gate."""

    gates, carried = 4, 2

    def move(self, carry: Any, x: jax.Array, state: jax.Array, bias: jax.Array) -> Any:
        """The next state and cell, from the products of input and state with their kernels."""
        i, f, g, o = jnp.split(x + state + bias, 4, -1)
        cell = nn.sigmoid(f) * carry[1] + nn.sigmoid(i) * jnp.tanh(g)
        return nn.sigmoid(o) * jnp.tanh(cell), cell


class GRU(_Recurrent):
    """The GRU of PyTorch and Keras, which train two biases for each gate; flax' trains one for two of the gates."""

    gates = 3
    biases = (2,)

    def move(self, carry: Any, x: jax.Array, state: jax.Array, bias: jax.Array) -> Any:
        """The next state, likewise."""
        (z, r, new), (own_z, own_r, own) = jnp.split(x + bias[0], 3, -1), jnp.split(state + bias[1], 3, -1)
        z, candidate = nn.sigmoid(z + own_z), jnp.tanh(new + nn.sigmoid(r + own_r) * own)
        return (z * carry[0] + (1 - z) * candidate,)


def statistics(model: Any) -> Tree:
    """What training changes besides the weights, at its start: nothing, or running means of 0 and variances of 1.

    Of a ``batch_normalised`` model every layer with a ``scale`` has them; one that is no `nn.BatchNorm` ignores them.
    """
    spec, names = getattr(model, "spec", None), _own_names(model)
    flat = {}
    for tensor in spec.tensors if spec and spec.batch_normalised else ():
        layer, _, own = names.get(tensor.name, tensor.name).rpartition("/")
        if own == "scale":
            flat[f"{layer}/mean"] = np.zeros(tensor.shape, model.numbers.weights)
            flat[f"{layer}/var"] = np.ones(tensor.shape, model.numbers.weights)
    return unflatten_dict(jax.device_put(flat, may_alias=False), sep="/")


def import_weights(model: Any, weights: dict[str, Array]) -> Tree:
    """The module's parameter tree, on the device, from canonical weights."""
    names, dtype = _own_names(model), model.numbers.weights  # converted by NumPy: JAX would compile for each shape
    own = {names.get(name) or _rename(name, "table", "embedding"): np.asarray(a, dtype) for name, a in weights.items()}
    return unflatten_dict(jax.device_put({_path(name): array for name, array in own.items()}, may_alias=False))


def export_weights(model: Any, weights: Tree) -> dict[str, Array]:
    """A copy of every tensor of a parameter tree (or of its gradient) in canonical layout, on the host."""
    names, flat = getattr(model, "canonical_names", {}), flatten_dict(weights, sep="/")
    return {names.get(name) or _rename(name, "embedding", "table"): np.array(array) for name, array in flat.items()}


def _path(name: str) -> tuple[str, ...]:
    """The places of a tensor in the tree of parameters, of which `nn.WeightNorm` makes one of the last three."""
    outer, weight_norm, _ = name.rpartition("/kernel/scale")
    *places, last = (outer if weight_norm else name).split("/")
    return (*places, last + weight_norm)


def _own_names(model: Any) -> dict[str, str]:
    return {canonical: own for own, canonical in getattr(model, "canonical_names", {}).items()}


def _rename(name: str, tensor: str, other: str) -> str:
    layer, slash, own = name.rpartition("/")
    return f"{layer}{slash}{other if own == tensor else own}"


def recompute(block: Block) -> Block:
    """A function of a module and its inputs, whose activations the backward pass computes again.

    Random keys and statistics are values in flax, so that a second pass has those of the first.
    """
    function: Block = nn.remat(block)
    return function


def switches(model: Any) -> Tree:
    """`statistics` of a model whose dropout is in the state: its switch, on the device, where it has dropout."""
    return {SWITCH: jnp.array(True)} if model.dropout else {}


def keep_if_off(model: nn.Module, dropped: jax.Array, x: jax.Array) -> jax.Array:
    """What of ``x`` dropout has left, unless the model's variables say that it is off."""
    return jax.lax.select(model.get_variable(COLLECTION, SWITCH, jnp.array(True)), dropped, x)


def turn_off(statistics: Tree) -> Tree:
    """The same with the switch off, on the same devices, where there is one."""
    if SWITCH not in statistics:
        return statistics
    on = statistics[SWITCH]
    return statistics | {SWITCH: jax.jit(jnp.zeros_like, out_shardings=on.sharding)(on)}
