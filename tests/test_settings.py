"""Settings mean the same in all three frameworks, and are refused where they could not take effect."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from suite import cell as cell_module
from suite import probe
from suite.cell import FRAMEWORKS, Cell, CellError, Loader
from suite.frameworks import UnsupportedError
from suite.probe import BANDS, PrecisionError, denormals, lstm_error, lstm_logits, precision_errors, relative_error
from tests.frameworks import batches, distance, each_framework, each_workload, has_dali, needs_frameworks, training
from workloads.spec import specification

pytestmark = needs_frameworks

PARTS, PART = 4, 6


def framework_of(name: str) -> Any:
    return import_module(f"suite.frameworks.{name}")


@each_framework
@pytest.mark.parametrize("workload", ["cifar100_cnn", "imdb_lstm"])
def test_accumulated_batches_make_the_update_of_one_large_batch(workload: str, framework: str) -> None:
    source = batches(specification(workload, "small"), PARTS * PART)
    weights, losses = [], []
    for batch, accumulate in ((PARTS * PART, 1), (PART, PARTS)):
        with training(workload, framework) as running:
            running.cell = running.cell.but(batch=batch, accumulate=accumulate)
            taken = [running.step(running.put(source[number])) for number in range(3)]
            losses.append(running.read(taken))
            weights.append(running.weights())
    assert distance(np.array(losses[0]), np.array(losses[1])) < 1e-12
    for name, large in weights[0].items():
        assert distance(large, weights[1][name]) < 1e-12, name


@each_framework
@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp64"])
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


@pytest.mark.parametrize(("asked", "used"), [("fp32", "bf16"), ("bf16", "fp32")])
def test_another_precision_than_the_one_asked_for_is_refused(asked: str, used: str) -> None:
    jax = framework_of("jax")
    other = Cell("imdb_lstm", "jax", precision=used)

    def product(cell: Cell, device: str, a: Any, b: Any) -> Any:
        return jax.product(other, device, a, b)

    lying = SimpleNamespace(product=product, convolution=jax.convolution)
    with pytest.raises(PrecisionError, match=f"asked for {asked}, measured {used}: the product is off by"):
        precision_errors(Cell("imdb_lstm", "jax", precision=asked), lying, "cpu")


def test_rounding_to_ten_bits_lies_in_tf32_s_band_and_to_seven_in_bf16_s() -> None:
    draws = np.random.default_rng(1)
    a, b = draws.standard_normal((64, 512)), draws.standard_normal((512, 64))
    for bits, precision in ((10, "tf32"), (7, "bf16")):
        rounded = [np.ldexp(np.round(np.ldexp(m, bits + 1)), e - bits - 1) for m, e in map(np.frexp, (a, b))]
        assert relative_error(rounded[0] @ rounded[1], a @ b) in BANDS[precision]


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


@each_framework
@each_workload
def test_mixed_precision_keeps_its_weights_in_float32(framework: str, workload: str) -> None:
    source = batches(specification(workload, "small"), 8)
    with training(workload, framework, "bf16") as running:
        (loss,) = running.read([running.step(running.put(source[0]))])
        assert np.isfinite(loss)
        assert {array.dtype for array in running.weights().values()} == {np.dtype(np.float32)}


@each_framework
@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ({"precision": "tf32"}, "tensor cores; this device is a CPU"),
        ({"precision": "fp16"}, "tensor cores of a GPU; this device is a CPU"),
        ({"kernel": "cudnn"}, "cuDNN needs a CUDA device"),
        ({"workload": "cifar100_cnn", "kernel": "scan"}, "has no LSTM"),
    ],
)
def test_what_a_cpu_does_not_have_is_unsupported_with_the_reason(
    framework: str, setting: dict[str, str], reason: str
) -> None:
    cell = Cell(**{"workload": "imdb_lstm", "framework": framework} | setting)  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match=reason):
        framework_of(framework).prepare(cell, "cpu", 0)


@pytest.mark.parametrize(
    ("framework", "mode"),
    [("pytorch", "graph"), ("tensorflow", "eager"), ("tensorflow", "max"), ("jax", "eager"), ("jax", "graph")],
)
def test_a_compile_mode_that_a_framework_lacks_is_unsupported(framework: str, mode: str) -> None:
    with pytest.raises(UnsupportedError, match=f"has no compile mode '{mode}'; it has"):
        framework_of(framework).prepare(Cell("cifar100_cnn", framework, compile=mode), "cpu", 0)


def test_torch_compile_does_not_pass_off_an_eager_lstm_as_its_own() -> None:
    with pytest.raises(UnsupportedError, match=r"breaks its graph at nn\.LSTM"):
        framework_of("pytorch").prepare(Cell("imdb_lstm", "pytorch", compile="compile"), "cpu", 0)


@pytest.mark.parametrize(
    ("framework", "loader", "reason"),
    [
        ("pytorch", Loader("workers", 2, pin_memory=True), "page-locked"),
        ("pytorch", Loader("workers", 0, prefetch=2), "worker processes only"),
        ("pytorch", Loader("naive", prefetch=2), "no setting prefetch"),
        ("tensorflow", Loader("workers", 2, pin_memory=True), "no setting pin_memory"),
        ("tensorflow", Loader(cache=False), "cannot read mapped files"),
        ("jax", Loader("resident", cache=True), "no setting cache"),
        ("jax", Loader(pin_memory=False), "no setting pin_memory"),
        *(
            (framework, Loader("dali"), "DALI cannot be imported.*pip install")
            for framework in FRAMEWORKS
            if not has_dali
        ),
    ],
)
def test_a_loader_setting_without_effect_is_unsupported(framework: str, loader: Loader, reason: str) -> None:
    loaders = import_module(f"suite.loaders.{framework}")
    cell = Cell("cifar100_cnn", framework, batch=8, loader=loader, size="small")
    source = batches(specification("cifar100_cnn", "small"), 8)
    with pytest.raises(UnsupportedError, match=reason):
        loaders.batches(cell, source, "cpu", lambda batch: batch)


def test_the_contributors_example_of_a_new_precision_trains_in_all_three(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (Path(__file__).parent.parent / "CONTRIBUTING.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    monkeypatch.setattr(cell_module, "PRECISIONS", cell_module.PRECISIONS)
    monkeypatch.setattr(probe, "BANDS", dict(probe.BANDS))
    for framework in FRAMEWORKS:
        monkeypatch.setattr(framework_of(framework), "NUMBERS", dict(framework_of(framework).NUMBERS))
    exec(example, {})
    source = batches(specification("cifar100_cnn", "small"), 8)
    for framework in FRAMEWORKS:
        with training("cifar100_cnn", framework, "pure-bf16") as running:
            assert precision_errors(running.cell, framework_of(framework), "cpu")["product"] > 1e-3
            losses = running.read([running.step(running.put(source[number])) for number in range(2)])
            assert np.isfinite(losses).all()
    assert "pure-bf16" in cell_module.PRECISIONS


def test_there_is_no_half_batch() -> None:
    with pytest.raises(CellError, match="accumulate is 0"):
        Cell("imdb_lstm", "jax", accumulate=0)
