"""What JAX would do on CUDA, as far as a CPU can tell: it lowers for a GPU without one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest

from suite.plan.cell import WORKLOADS, Cell, Loader
from suite.plan.settings.frameworks import MEMORY_FRACTION, VARIABLES
from suite.worker import frameworks
from suite.worker.frameworks import UnsupportedError
from tests.frameworks import batches, module, narrow, needs_frameworks
from tests.frameworks import training as on_a_cpu
from workloads.spec import Numbers, specification

pytestmark = [needs_frameworks("jax"), pytest.mark.usefixtures("unoptimized"), pytest.mark.long]

BATCH = 8
#: By precision: the type of the operands of every product and convolution, and how precisely XLA is to take them.
PRODUCTS = {
    "fp32": ("f32", "HIGHEST"),
    "tf32": ("f32", "HIGH"),
    "bf16": ("bf16", "DEFAULT"),
    "fp16": ("f16", "DEFAULT"),
}
#: What a type changes in the framework's own file the LSTM shows; in a workload's, bf16 shows it, whose operands are
#: not the weights' type. The slow ones run no line that these do not.
QUICK = {*product(("imdb_lstm",), PRODUCTS), ("cifar100_resnet18", "bf16"), ("gpt_small", "bf16")}
lowered = pytest.mark.parametrize(
    ("workload", "precision"),
    [pytest.param(*each, marks=[] if each in QUICK else [pytest.mark.slow]) for each in product(WORKLOADS, PRODUCTS)],
)


@pytest.fixture
def code() -> Any:
    return import_module("suite.worker.frameworks.jax.training")


@contextmanager
def training(code: Any, monkeypatch: pytest.MonkeyPatch, workload: str, precision: str = "fp32") -> Iterator[Any]:
    """`Training` in a precision that only CUDA has, with dropout, as it is traced for a GPU.

    Its LSTM runs in a scan: cuDNN's asks a device for the size of its workspace even to be traced.
    """
    monkeypatch.setattr(frameworks, "check", lambda *_: None)
    with on_a_cpu(workload, "jax", precision, dropout=True) as running:
        running.device = SimpleNamespace(platform="gpu")
        yield running


def for_cuda(function: Any, *arguments: Any) -> str:
    """The StableHLO of a jitted function, lowered for CUDA."""
    return function.trace(*arguments).lower(lowering_platforms=("cuda",)).as_text()


def products(text: str) -> set[tuple[str, str]]:
    """Types and precisions of the operands of all products and convolutions."""
    lines = [line for line in text.splitlines() if re.search(r"stablehlo\.(dot_general|convolution)\b", line)]
    types = [re.findall(r"x([a-z]+\d+)>", line.rpartition(" : ")[2])[:2] for line in lines]
    precisions = [re.findall(r"\b(DEFAULT|HIGH|HIGHEST)\b", line) for line in lines]
    return {pair for line in zip(types, precisions, strict=True) for pair in zip(*line, strict=True)}


@lowered
def test_steps_scores_and_what_serves_lower_for_cuda_in_the_precision_asked_for(
    code: Any, monkeypatch: pytest.MonkeyPatch, workload: str, precision: str
) -> None:
    import jax

    inputs, labels = batches(specification(workload, "small"), 2 * BATCH)[0]
    with training(code, monkeypatch, workload, precision) as running:
        lowered = []
        for accumulate in (1, 2):
            running.cell = running.cell.but(batch=2 * BATCH // accumulate, accumulate=accumulate)
            lowered.append(for_cuda(jax.jit(running._step, donate_argnums=0), running.state, inputs, labels))
        trained = running.state.weights, running.state.statistics
        model = import_module("suite.worker.frameworks.jax.inference").Model(running)
        lowered += [for_cuda(running._scored, *trained, inputs, labels), for_cuda(model.forward, *trained, inputs)]
        if specification(workload, "small").decodes:
            prompts = inputs[:, : inputs.shape[1] // 2]
            after = jax.eval_shape(model.prefilled, *trained, prompts)
            lowered += [for_cuda(model.prefilled, *trained, prompts), for_cuda(model.decoded, *trained, after)]
            assert "tf.aliasing_output" in lowered[-1], "a cache is changed in place"
    assert [products(text) for text in lowered] == [{PRODUCTS[precision]}] * len(lowered)


@pytest.mark.parametrize("workload", ["cifar100_cnn"])
def test_the_resident_loader_lowers_for_cuda(code: Any, workload: str) -> None:
    source = batches(specification(workload, "small"), BATCH)
    cell = Cell(workload, "jax", batch=BATCH, loader=Loader("resident"), size="small")
    with on_a_cpu(workload, "jax", "fp32") as running:
        loader = import_module("suite.worker.loaders.jax").batches(cell, source, "cuda", running.put)
        next(loader)
        assert "stablehlo.gather" in for_cuda(loader.make, loader.data, loader.plan, 0)


@pytest.mark.parametrize(
    ("compute", "auto"), [("float32", "cudnn"), ("float64", "scan"), ("bfloat16", "scan"), ("float16", "scan")]
)
def test_cudnn_s_lstm_is_taken_where_it_is_right(compute: str, auto: str) -> None:
    workload = module("imdb_lstm", "jax")
    spec, numbers = specification("imdb_lstm", "small"), Numbers(compute)
    assert workload.kernels(spec, numbers, "cuda", "auto") == {"lstm": auto}
    assert workload.kernels(spec, numbers, "cpu", "auto") == {"lstm": "scan"}


@pytest.mark.parametrize(("precision", "refused"), [("fp32", False), ("tf32", False), ("bf16", True), ("fp64", True)])
def test_cudnn_s_lstm_is_refused_by_name_where_it_is_wrong(
    code: Any, monkeypatch: pytest.MonkeyPatch, precision: str, refused: bool
) -> None:
    monkeypatch.setattr(frameworks, "check", lambda *_: None)
    cell = Cell("imdb_lstm", "jax", precision=precision, kernel="cudnn")
    with on_a_cpu("imdb_lstm", "jax"):  # whose end restores the switches
        if not refused:
            code.prepare(cell, "cpu", 0)
            return
        with pytest.raises(UnsupportedError, match=f"cuDNN's LSTM in float32 only, not in {precision}"):
            code.prepare(cell, "cpu", 0)


@pytest.mark.parametrize(("precision", "tf32"), [("fp32", False), ("tf32", True)])
def test_cudnn_s_lstm_and_its_gradient_are_traced_in_the_precision_asked_for(
    code: Any, monkeypatch: pytest.MonkeyPatch, precision: str, tf32: bool
) -> None:
    """With a stand-in for the device that is asked for the size of a workspace."""
    import jax
    from jax.experimental import rnn

    sizes = SimpleNamespace(compute_rnn_workspace_reserve_space_sizes=lambda *_: (0, 1))
    monkeypatch.setattr(rnn, "gpu_rnn", sizes)
    batch = batches(specification("imdb_lstm", "small"), BATCH)[0]
    with training(code, monkeypatch, "imdb_lstm", precision) as running:
        running.model = running.model.clone(kernel="cudnn")
        loss = jax.grad(running._loss, has_aux=True)
        traced = jax.make_jaxpr(loss)(running.state.weights, {}, running.state.key, *batch)
    calls = {each.primitive.name: each.params for each in _equations(traced.jaxpr) if "rnn" in each.primitive.name}
    assert {"rnn_fwd", "rnn_bwd"} <= set(calls)
    assert {calls[name]["cudnn_allow_tf32"] for name in ("rnn_fwd", "rnn_bwd")} == {tf32}


def _equations(jaxpr: Any) -> Iterator[Any]:
    from jax.extend.core import jaxprs_in_params

    for equation in jaxpr.eqns:
        yield equation
        for inner in jaxprs_in_params(equation.params):
            yield from _equations(inner)


def test_dropout_draws_from_the_generator_that_is_named_and_goes_on_from_a_checkpoint(
    code: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import jax

    monkeypatch.setitem(code.DROPOUT_PRNG, "cpu", "rbg")  # not JAX's default
    spec = narrow("cifar100_cnn")
    source = batches(spec, BATCH)
    with on_a_cpu("cifar100_cnn", "jax", "fp32", spec=spec, dropout=True) as running:
        assert code.prepare(running.cell, "cpu", 0)[1]["prng"] == "rbg"
        saved = running.checkpoint()
        losses = []
        for _ in range(2):
            assert str(jax.random.key_impl(running.state.key)) == "rbg"
            losses.append(running.read([running.step(running.put(source[number])) for number in range(2)]))
            running.restore(saved)
    assert losses[0] == losses[1]


def test_a_generator_is_named_for_every_device(code: Any) -> None:
    assert code.DROPOUT_PRNG.keys() == {"cpu", "cuda"}


def test_jax_starts_with_the_budget_that_pytorch_has(code: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from jaxlib import xla_client

    monkeypatch.setenv("XLA_PYTHON_CLIENT_MEM_FRACTION", ".5")  # the user's, by its older name
    for name, value in VARIABLES["jax"].items():
        monkeypatch.setenv(name, value)
    options = xla_client.generate_pjrt_gpu_plugin_options()
    assert (options["memory_fraction"], options["preallocate"]) == (MEMORY_FRACTION, False)
    monkeypatch.setattr("jax.default_backend", lambda: "gpu")
    with on_a_cpu("cifar100_cnn", "jax", "fp32"):
        device, settings = code.prepare(Cell("cifar100_cnn", "jax"), "auto", 0)
    assert (device, settings["memory_fraction"]) == ("cuda", MEMORY_FRACTION)


def test_a_cpu_has_no_such_budget(code: Any) -> None:
    assert "memory_fraction" not in code.prepare(Cell("cifar100_cnn", "jax"), "cpu", 0)[1]
