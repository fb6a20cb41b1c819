"""The precision asked for is measured before anything is timed, and another one is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from suite.catalog.devices import DEVICES
from suite.plan.cell import Cell
from suite.worker.launch import probe
from suite.worker.launch.probe import (
    BANDS,
    PrecisionError,
    denormals,
    lstm_error,
    lstm_logits,
    peak_flops_per_s,
    precision_errors,
)
from tests.frameworks import batches, each_framework, framework_of, needs_frameworks, training
from workloads.data.dataset import Array
from workloads.spec import specification

pytestmark = [needs_frameworks, pytest.mark.usefixtures("unoptimized")]


@each_framework
@pytest.mark.parametrize("precision", ["fp32", "bf16", pytest.param("fp64", marks=pytest.mark.slow)])
def test_the_precision_asked_for_is_the_one_that_is_measured(framework: str, precision: str) -> None:
    with training("imdb_lstm", framework, precision) as running:
        errors = precision_errors(running.cell, framework_of(framework), "cpu")
        batch = batches(specification("imdb_lstm", "small"), 8)[0]
        error = lstm_error(running.cell, running.weights(), batch[0], running.logits(running.put(batch)))
    assert errors.keys() == {"product", "convolution"}
    assert error < {"fp64": 1e-12, "fp32": 1e-5, "bf16": 5e-2}[precision]


@each_framework
def test_all_three_flush_denormals_on_a_cpu(framework: str) -> None:
    """Else a framework that keeps them is several times slower where gradients vanish."""
    with training("imdb_lstm", framework) as running:
        assert denormals(running.cell, framework_of(framework), "cpu") == "flushed"


@needs_frameworks("jax")
@pytest.mark.parametrize(("asked", "used"), [("fp32", "bf16"), ("bf16", "fp32")])
def test_another_precision_than_the_one_asked_for_is_refused(asked: str, used: str) -> None:
    jax = framework_of("jax")
    other = Cell("imdb_lstm", "jax", precision=used)

    def product(cell: Cell, device: str, a: Any, b: Any) -> Any:
        return jax.product(other, device, a, b)

    lying = SimpleNamespace(product=product, convolution=jax.convolution)
    with pytest.raises(PrecisionError, match=f"asked for {asked}, measured {used}: the product is off by"):
        precision_errors(Cell("imdb_lstm", "jax", precision=asked), lying, "cpu")


def rounded(array: Array, bits: int) -> Array:
    """To so many bits of fraction, to the nearest."""
    mantissa, exponent = np.frexp(array)
    return np.ldexp(np.round(np.ldexp(mantissa, bits + 1)), exponent - bits - 1)


def truncated(array: Array, bits: int) -> Array:
    """To so many bits of fraction, towards zero."""
    mantissa, exponent = np.frexp(array)
    return np.ldexp(np.trunc(np.ldexp(mantissa, bits + 1)), exponent - bits - 1)


@pytest.mark.parametrize(
    ("cut", "bits", "format_", "other", "error"),
    [
        (rounded, 10, "tf32", "bf16", 2.9e-4),
        (truncated, 10, "tf32", "bf16", 7.7e-4),  # as hardware may do it
        (rounded, 10, "fp16", "bf16", 2.9e-4),
        (rounded, 7, "bf16", "tf32", 2.4e-3),
        (truncated, 7, "bf16", "tf32", 6.2e-3),
    ],
)
def test_a_product_of_cut_inputs_lies_in_the_band_of_its_format_alone(
    cut: Callable[[Array, int], Array], bits: int, format_: str, other: str, error: float
) -> None:
    def product(cell: Cell, device: str, a: Array, b: Array) -> Array:
        return cut(a, bits) @ cut(b, bits)

    def convolution(cell: Cell, device: str, images: Array, kernel: Array) -> Array:
        return probe._convolution(cut(images, bits), cut(kernel, bits))

    simulated = SimpleNamespace(product=product, convolution=convolution)
    found = precision_errors(Cell("imdb_lstm", "jax", precision=format_), simulated, "cuda")
    assert found["product"] == pytest.approx(error, rel=0.05)
    for each in found.values():  # and not at its edge, since hardware adds errors of its own
        assert each / 1.5 in BANDS[format_]
        assert each * 1.5 in BANDS[format_]
    with pytest.raises(PrecisionError, match=f"asked for {other}, measured .*{format_}"):
        precision_errors(Cell("imdb_lstm", "jax", precision=other), simulated, "cuda")


def test_bands_of_different_widths_do_not_touch() -> None:
    """tf32 and fp16 have the same significand, so that no error tells one from the other."""
    fp64, fp32, tf32, fp16, bf16 = (BANDS[name] for name in ("fp64", "fp32", "tf32", "fp16", "bf16"))
    assert tf32 == fp16
    assert fp64.most < fp32.least < fp32.most < tf32.least < tf32.most <= bf16.least


@each_framework
@pytest.mark.parametrize("precision", ["bf16"])
def test_the_peak_multiplies_what_is_in_the_compute_type_already(
    monkeypatch: pytest.MonkeyPatch, framework: str, precision: str
) -> None:
    """Else every product of the peak's also casts both operands, and the peak is too low to be one."""
    code = framework_of(framework)
    home = {"pytorch": "torch", "tensorflow": "tensorflow", "jax": "jax.numpy"}[framework]
    multiply, taken = import_module(home).matmul, []

    def spy(a: Any, b: Any) -> Any:
        taken.extend(str(each.dtype) for each in (a, b))
        return multiply(a, b)

    monkeypatch.setitem(DEVICES, "cpu", replace(DEVICES["cpu"], peak_side=16))
    monkeypatch.setattr(probe, "PEAK_WINDOW_S", 0.0)
    with training("imdb_lstm", framework, precision) as running:
        monkeypatch.setattr(import_module(home), "matmul", spy)
        assert peak_flops_per_s(running.cell, code, "cpu") > 0
    compute = code.NUMBERS[precision].compute
    assert taken
    assert all(compute in name for name in taken)


@each_framework
def test_the_peak_of_a_large_product_is_drawn_small_and_repeated(
    monkeypatch: pytest.MonkeyPatch, framework: str
) -> None:
    """Of full size, with no zeros in it, and with few draws on the host."""
    code = framework_of(framework)
    home = {"pytorch": "torch", "tensorflow": "tensorflow", "jax": "jax.numpy"}[framework]
    multiply, taken, drawn = import_module(home).matmul, [], []
    product = code.multiplication

    def spy(a: Any, b: Any) -> Any:
        if hasattr(a, "__array__"):
            taken.append(np.asarray(a))
        return multiply(a, b)

    def handed(cell: Any, device: str, a: Any, b: Any, repeats: int) -> Any:
        drawn.extend((a, b))
        return product(cell, device, a, b, repeats)

    monkeypatch.setitem(DEVICES, "cpu", replace(DEVICES["cpu"], peak_side=16))
    monkeypatch.setattr(probe, "PEAK_DRAWN", 4)
    monkeypatch.setattr(probe, "PEAK_WINDOW_S", 0.0)
    monkeypatch.setattr(code, "multiplication", handed)
    with training("imdb_lstm", framework) as running:
        monkeypatch.setattr(import_module(home), "matmul", spy if framework != "jax" else multiply)
        assert peak_flops_per_s(running.cell, code, "cpu") > 0
    assert [each.shape for each in drawn] == [(4, 4)] * 2
    for each in taken:
        assert each.shape == (16, 16)
        assert (each != 0).all()
        assert np.array_equal(each[:4, :4], each[4:8, 12:])
    assert taken or framework == "jax"  # whose product is traced


@needs_frameworks("pytorch")
def test_the_probe_s_product_is_cast_as_a_layer_s_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """By autocast, from float32: that is what the probe is to see."""
    import torch

    multiply, taken = torch.matmul, []

    def spy(a: Any, b: Any) -> Any:
        taken.append((a.dtype, torch.is_autocast_enabled("cpu")))
        return multiply(a, b)

    monkeypatch.setattr(torch, "matmul", spy)
    with training("imdb_lstm", "pytorch", "bf16") as running:
        framework_of("pytorch").product(running.cell, "cpu", np.ones((2, 2)), np.ones((2, 2)))
    assert taken == [(torch.float32, True)]


def test_an_lstm_with_swapped_gates_is_noticed() -> None:
    spec = specification("imdb_lstm", "small")
    weights = spec.reference_weights(0)
    tokens = batches(spec, 8)[0][0]
    right = lstm_logits(weights, tokens)
    i, f, g, o = np.split(weights["lstm/bias"], 4)
    wrong = lstm_logits(weights | {"lstm/bias": np.concatenate([f, i, g, o])}, tokens)
    with pytest.raises(PrecisionError, match="off by"):
        lstm_error(Cell("imdb_lstm", "jax", precision="bf16"), weights, tokens, wrong)
    assert lstm_error(Cell("imdb_lstm", "jax"), weights, tokens, right) == 0
