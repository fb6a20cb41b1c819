"""What the specs claim: tensors, parameter counts, FLOPs and initial weights, against each framework's own count."""

from __future__ import annotations

import math
import re
from importlib import import_module

import numpy as np
import pytest

from tests.frameworks import batches, each_cell, each_workload, needs_frameworks, training
from workloads.spec import Adam, Sgd, specification
from workloads.weights import weights_digest

#: By workload and size: parameters, FLOPs of a forward pass, and the digest of the weights of seed 0.
# fmt: off
GOLDEN = {
    ("cifar100_cnn", "full"):
        (6_777_060, 769_400_832, "79b38e64c9661f8d4cf4004233bcf8a008f0d44a7bf2952739b90329dc1bf2eb"),
    ("cifar100_cnn", "small"):
        (117_876, 12_818_432, "09a55c9b51f3396a06d6e3a451208b3d6e671002b8d0d39a945d87da3e9e5f45"),
    ("cifar100_resnet18", "full"):
        (11_220_132, 1_110_937_600, "3dea01ea7cef5f2fbf90ae4001adc5e3e8b49754fb7ec3bb5c4e5c7e4649ffd6"),
    ("cifar100_resnet18", "small"):
        (182_252, 17_756_672, "d939090caaadf8917f71e0664fe784cd3c50b1250530f612f9152f0e764db8d4"),
    ("gpt_small", "full"):
        (27_865_600, 15_269_363_712, "77641094925ce94f91e4cf7f3c9d4c7e38de42ee0fc5556a856575cd121925e7"),
    ("gpt_small", "small"):
        (422_720, 55_640_064, "7c46af67400bb2c33ccea62deec85fea567671e69e3badee2dfb5c37bac26d4e"),
    ("imdb_lstm", "full"):
        (213_301, 52_800_200, "cbf8655ee7ad47a829a5b03efb086b8f9ac3d23404a6342d55fd0fd775ca77d4"),
    ("imdb_lstm", "small"):
        (86_305, 983_104, "eb57df4d2804a23bbbf3710c64f726544523e0dc4cb167238b68a6367c47ad51"),
    ("imdb_transformer", "full"):
        (4_567_809, 4_294_967_808, "6bb7dd64c8782f753a8f3878632d8df72c4344fb4429fbeb5e43c5aa8a4d2dc8"),
    ("imdb_transformer", "small"):
        (427_969, 33_554_560, "ee27f8d6304de088593d76735e316ff5cf95350ac6dfa2ad568678c560aaf158"),
}
# fmt: on


@pytest.mark.parametrize(("workload", "size"), GOLDEN)
def test_golden_numbers(workload, size):
    spec = specification(workload, size)
    found = spec.parameters, spec.flops_per_sample, weights_digest(spec.reference_weights(0))
    assert found == GOLDEN[workload, size]


@each_workload
def test_the_docstring_s_claims_are_true(workload):
    spec = specification(workload, "full")
    text = " ".join((import_module(f"workloads.{workload}.spec").__doc__ or "").split())
    parameters, flops, unit = re.search(r"([\d,]+) parameters and ([\d.]+) ([MG])FLOP forward", text).groups()
    assert int(parameters.replace(",", "")) == spec.parameters
    decimals = len(flops.partition(".")[2])
    assert f"{spec.flops_per_sample / {'M': 1e6, 'G': 1e9}[unit]:.{decimals}f}" == flops


def test_the_study_s_hyperparameters():
    cnn, lstm = specification("cifar100_cnn"), specification("imdb_lstm")
    assert (cnn.batch, cnn.optimizer) == (128, Sgd(learning_rate=0.01, momentum=0.5, l2=1e-6))
    assert (lstm.batch, lstm.optimizer) == (64, Adam(1e-3, 0.9, 0.999, 1e-8))


def test_the_weights_digest_sees_names_shapes_and_bits():
    weights = {"a": np.arange(6, dtype=np.float32), "b": np.ones((2, 2), np.float32)}
    nudged = weights["a"].copy()
    nudged[3] = np.nextafter(nudged[3], np.float32(9))
    others = [
        weights | {"a": weights["a"].reshape(2, 3)},
        weights | {"a": nudged},
        {"c": weights["a"], "b": weights["b"]},
        {"a": weights["a"]},
    ]
    assert len({weights_digest(each) for each in (weights, *others)}) == 5
    assert weights_digest(dict(reversed(weights.items()))) == weights_digest(weights)


@needs_frameworks
@each_cell
@pytest.mark.parametrize("size", ["small", pytest.param("full", marks=pytest.mark.slow)])
def test_parameters_and_flops_by_each_framework_s_own_count(workload, framework, size):
    """Of a forward pass of two samples; one code builds both sizes."""
    spec = specification(workload, size)
    with training(workload, framework, "fp64", size) as running:  # in float32 PyTorch's LSTM is one opaque call
        batch = running.put(batches(spec, 2)[0])
        assert COUNTS[framework](running) == spec.parameters
        assert FLOPS[framework](running, batch, getattr(spec, "length", 1)) == 2 * spec.flops_per_sample


def _torch_parameters(running):
    return sum(each.numel() for each in running.model.parameters() if each.requires_grad)


def _keras_parameters(running):
    return sum(math.prod(each.shape) for each in running.model.trainable_variables)


def _jax_parameters(running):
    import jax

    return sum(leaf.size for leaf in jax.tree.leaves(running.state.weights))


COUNTS = {"pytorch": _torch_parameters, "tensorflow": _keras_parameters, "jax": _jax_parameters}


def _torch_flops(running, batch, length):
    import torch
    from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

    # PyTorch counts its fused attention on CUDA, and not the one on a CPU.
    fused = {torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _attention_flops(sdpa_flop_count)}
    with FlopCounterMode(display=False, custom_mapping=fused) as counter:
        running.loss(running.model, *batch)
    return counter.get_total_flops()


def _attention_flops(count):
    return lambda query, key, value, *_, **__: count(query, key, value)


def _tensorflow_flops(running, batch, length):
    import tensorflow as tf

    traced = tf.function(lambda *each: running.module.loss(running.model, *each), autograph=False)
    return _graph_flops(traced.get_concrete_function(*batch).graph, length)


def _graph_flops(graph, length):
    """Of what the graph's outputs depend on; Keras' LSTM traces one more step, whose result nobody reads."""
    total, seen, waiting = 0, set(), [tensor.op for tensor in graph.outputs]
    while waiting:
        operation = waiting.pop()
        if operation.name in seen:
            continue
        seen.add(operation.name)
        waiting += [tensor.op for tensor in operation.inputs]
        if operation.type == "MatMul":
            assert not operation.get_attr("transpose_a")
            total += 2 * math.prod(operation.outputs[0].shape) * operation.inputs[0].shape[1]
        elif operation.type == "BatchMatMulV2":
            assert not operation.get_attr("adj_x")
            total += 2 * math.prod(operation.outputs[0].shape) * operation.inputs[0].shape[-1]
        elif operation.type == "Conv2D":
            *field, inputs, _ = operation.inputs[1].shape
            total += 2 * math.prod(operation.outputs[0].shape) * math.prod(field) * inputs
        elif operation.type in ("While", "StatelessWhile"):
            total += length * _graph_flops(graph._get_function(operation.get_attr("body").name).graph, length)
    return total


def _jax_flops(running, batch, length):
    import jax

    state = running.state
    return _jaxpr_flops(jax.make_jaxpr(running._loss)(state.weights, state.statistics, state.key, *batch).jaxpr)


def _jaxpr_flops(jaxpr):
    from jax.extend.core import jaxprs_in_params

    total = 0
    for equation in jaxpr.eqns:
        result = math.prod(equation.outvars[0].aval.shape)
        if equation.primitive.name == "dot_general":
            (contracted, _), _ = equation.params["dimension_numbers"]
            total += 2 * result * math.prod(equation.invars[0].aval.shape[axis] for axis in contracted)
        elif equation.primitive.name == "conv_general_dilated":
            kernel = equation.invars[1].aval.shape
            outputs = kernel[equation.params["dimension_numbers"].rhs_spec[0]]
            total += 2 * result * math.prod(kernel) // outputs
        times = equation.params["length"] if equation.primitive.name == "scan" else 1
        total += times * sum(_jaxpr_flops(inner) for inner in jaxprs_in_params(equation.params))
    return total


FLOPS = {"pytorch": _torch_flops, "tensorflow": _tensorflow_flops, "jax": _jax_flops}


@needs_frameworks("pytorch")
def test_a_step_costs_three_forward_passes_but_for_the_gradient_of_the_input():
    """The convention against PyTorch's count: nobody asks for the gradient of the images."""
    from torch.utils.flop_counter import FlopCounterMode

    spec = specification("cifar100_cnn", "small")
    with training(spec.name, "pytorch") as running, FlopCounterMode(display=False) as counter:
        running.step(running.put(batches(spec, 2)[0]))
    _, inputs, outputs, side = spec.layers[0]
    first = 2 * side**2 * outputs * 9 * inputs
    assert counter.get_total_flops() == 2 * (spec.training_flops_per_sample - first)
