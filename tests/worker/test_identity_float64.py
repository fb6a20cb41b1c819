"""In float64 the three frameworks compute the same to 1e-9, and what is not the same is caught."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from suite.plan.cell import FRAMEWORKS, WORKLOADS
from tests.frameworks import (
    Found,
    assert_within,
    distance,
    distances,
    each_framework,
    found,
    narrow,
    needs_frameworks,
    training,
)
from tests.isolation import imported, unoptimized
from workloads.spec import specification

# Launches and the proofs in float32 compile as usual.
pytestmark = [needs_frameworks, pytest.mark.usefixtures("unoptimized"), pytest.mark.long]

TOLERANCE = 1e-9
#: By size: batch and steps. The full models take seconds a step; two are enough for momentum to count.
SETTINGS = {"small": (8, 10), "full": (2, 2)}

#: JAX compiles these for longest.
LARGE = ("cifar100_resnet18", "gpt_small", "imdb_transformer")


def proof(workload: str, framework: str, size: str = "small", **changes) -> Found:
    """Size small with few channels, since XLA has no fast convolution in float64 on a CPU; size full as it is."""
    if size == "small":
        return found(workload, framework, "fp64", size, *SETTINGS[size], **({"spec": narrow(workload)} | changes))
    with unoptimized("jax" in imported(), quickly=False):  # these take longer to run than to compile
        return found(workload, framework, "fp64", size, *SETTINGS[size], **changes)


def held_to_pytorch() -> list[Any]:
    """Each other framework with every workload in both sizes; in every run, JAX's two that compile soon."""
    cases = [(name, other, size) for size in SETTINGS for other in FRAMEWORKS[1:] for name in WORKLOADS]
    slow = {case for case in cases if case[2] == "full" or (case[1] == "jax" and case[0] in LARGE)}
    return [pytest.param(*case, marks=[pytest.mark.slow] if case in slow else []) for case in cases]


@pytest.mark.parametrize(("workload", "other", "size"), held_to_pytorch())
def test_output_gradients_losses_and_weights_are_pytorch_s(workload, other, size):
    a, b = proof(workload, "pytorch", size), proof(workload, other, size)
    spec = narrow(workload) if size == "small" else specification(workload, size)
    losses = {f"loss {step}": distance(*pair) for step, pair in enumerate(zip(a.losses, b.losses, strict=True))}
    found = {"logits": distance(a.logits, b.logits), "loss": distance(a.loss, b.loss), **losses}
    assert a.gradients.keys() == b.gradients.keys() == {tensor.name for tensor in spec.tensors}
    arrays = [array for each in (a, b) for array in (*each.gradients.values(), *each.after.values())]
    assert {array.dtype for array in arrays} == {np.dtype(np.float64)}
    for one, another in ((a.gradients, b.gradients), (a.after, b.after), (a.updates, b.updates)):
        assert all(np.any(array) for array in one.values()), "what is zero is easily equal"
        assert_within(found | distances(one, another), TOLERANCE)


@pytest.mark.parametrize(
    ("workload", "framework"),
    [
        # TensorFlow's large ones are held to PyTorch's above.
        pytest.param(*pair, marks=[pytest.mark.slow] if pair[0] in LARGE and pair[1] == "tensorflow" else [])
        for pair in product(WORKLOADS, FRAMEWORKS)
    ],
)
def test_weights_go_in_and_come_out_in_the_canonical_layout_bit_for_bit(workload, framework):
    spec = specification(workload, "small")
    weights = spec.reference_weights(3)
    with training(workload, framework, "fp32", weights=weights) as running:
        out = running.weights()
    assert {name: array.shape for name, array in out.items()} == {tensor.name: tensor.shape for tensor in spec.tensors}
    for name, array in out.items():
        assert array.dtype == np.float32, name
        assert array.tobytes() == weights[name].tobytes(), name


@each_framework
def test_a_proof_in_float64_leaves_the_process_in_float32(framework):
    with training("imdb_lstm", framework, "fp64"):
        pass
    with training("imdb_lstm", framework, "fp32") as running:
        assert {array.dtype for array in running.weights().values()} == {np.dtype(np.float32)}
    if framework == "jax":  # the others' types are the tensors' own
        import jax.numpy as jnp

        assert jnp.zeros(1, float).dtype == jnp.float32


# What follows breaks one side on purpose: a proof that cannot fail proves nothing.


def both_biases_trained(running):
    """PyTorch's own LSTM, whose two biases get the same gradient."""
    running.model.lstm.bias_hh_l0.requires_grad_(True)
    running.optimizer.add_param_group({"params": [running.model.lstm.bias_hh_l0]})


def keras_sgd(running):
    """Keras' own SGD, whose weight decay is decoupled."""
    import keras

    spec = running.optimizer.spec
    running.optimizer = keras.optimizers.SGD(spec.learning_rate, momentum=spec.momentum, weight_decay=spec.l2)
    running.optimizer.build(running.model.trainable_variables)


def gates_swapped(running):
    """An LSTM that takes the input gate for the forget gate, in kernel, recurrent kernel and bias."""
    import torch

    units = running.model.lstm.hidden_size
    order = torch.arange(4 * units).view(4, units)[[1, 0, 2, 3]].ravel()
    with torch.no_grad():
        for parameter in (
            running.model.lstm.weight_ih_l0,
            running.model.lstm.weight_hh_l0,
            running.model.lstm.bias_ih_l0,
        ):
            parameter.copy_(parameter[order])


def channels_flattened_first(running):
    """A dense layer that sees the features in PyTorch's own order: channel, height, width."""
    import torch

    weight = running.model.hidden.weight
    channels = running.model.blocks[-4].out_channels
    side = round((weight.shape[1] // channels) ** 0.5)
    with torch.no_grad():
        weight.copy_(weight.view(-1, side, side, channels).permute(0, 3, 1, 2).reshape(weight.shape))


@pytest.mark.parametrize(
    ("workload", "framework", "change"),
    [("cifar100_cnn", "tensorflow", keras_sgd), ("imdb_lstm", "pytorch", both_biases_trained)],
)
def test_a_wrong_optimizer_is_caught_in_the_weights(workload, framework, change):
    other = "pytorch" if framework == "tensorflow" else "tensorflow"
    broken, right = proof(workload, framework, change=change), proof(workload, other)
    assert_within(distances(broken.gradients, right.gradients), TOLERANCE)
    for compared in (distances(broken.after, right.after), distances(broken.updates, right.updates)):
        with pytest.raises(AssertionError, match="is off by"):
            assert_within(compared, 10 * TOLERANCE)


@needs_frameworks("pytorch", "tensorflow")
@pytest.mark.parametrize(
    ("workload", "change"), [("imdb_lstm", gates_swapped), ("cifar100_cnn", channels_flattened_first)]
)
def test_a_wrong_layout_is_caught_in_the_logits(workload, change):
    broken, right = proof(workload, "pytorch", change=change), proof(workload, "tensorflow")
    assert distance(broken.logits, right.logits) > 1e-3
