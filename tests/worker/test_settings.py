"""Settings mean the same in all three frameworks, and are refused where they could not take effect."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from suite.plan.cell import FRAMEWORKS, Cell, CellError, Loader
from suite.worker.frameworks import BatchError, UnsupportedError
from tests.frameworks import (
    batches,
    cells,
    distance,
    each_framework,
    framework_of,
    has_dali,
    narrow,
    needs_frameworks,
    training,
)
from tests.installed import ask
from workloads.spec import specification

pytestmark = [needs_frameworks, pytest.mark.usefixtures("unoptimized"), pytest.mark.long]

PARTS, PART = 3, 5
#: What a framework's own file does, whatever the workload.
lstm = cells(("imdb_lstm",))


@lstm
def test_accumulated_batches_make_the_update_of_one_large_batch(workload: str, framework: str) -> None:
    spec = narrow(workload)
    source = batches(spec, PARTS * PART)
    weights, losses = [], []
    for batch, accumulate in ((PARTS * PART, 1), (PART, PARTS)):
        with training(workload, framework, spec=spec) as running:
            running.cell = running.cell.but(batch=batch, accumulate=accumulate)
            taken = [running.step(running.put(source[number])) for number in range(3)]
            losses.append(running.read(taken))
            weights.append(running.weights())
    assert distance(np.array(losses[0]), np.array(losses[1])) < 1e-12
    for name, large in weights[0].items():
        assert distance(large, weights[1][name]) < 1e-12, name


@each_framework
@pytest.mark.parametrize(("accumulate", "samples"), [(1, 16), (2, 8)])
def test_a_step_refuses_a_batch_that_is_not_the_cell_s(framework: str, accumulate: int, samples: int) -> None:
    """To cut it into several and add up their gradients would train at another rate."""
    batch = batches(specification("imdb_lstm", "small"), samples)[0]
    with training("imdb_lstm", framework, "fp32") as running:
        running.cell = running.cell.but(batch=8, accumulate=accumulate)
        before = running.weights()
        with pytest.raises(BatchError, match=rf"^a batch of {samples} samples, where a step of imdb_lstm-"):
            running.step(running.put(batch))
        assert all(np.array_equal(before[name], array) for name, array in running.weights().items())


@lstm
def test_mixed_precision_keeps_its_weights_in_float32(workload: str, framework: str) -> None:
    source = batches(specification(workload, "small"), 8)
    with training(workload, framework, "bf16") as running:
        assert np.isfinite(running.read([running.step(running.put(source[0]))])).all()
        assert {array.dtype for array in running.weights().values()} == {np.dtype(np.float32)}


@each_framework
@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ({"precision": "tf32"}, "tensor cores; this device is a CPU"),
        ({"precision": "fp16"}, "tensor cores of a GPU; this device is a CPU"),
        ({"kernel": "cudnn"}, "cuDNN needs a CUDA device"),
        ({"workload": "cifar100_cnn", "kernel": "scan"}, "has no layer whose kernel"),
        ({"kernel": "fused"}, "imdb_lstm has no layer whose kernel could be fused"),
        ({"workload": "imdb_transformer", "kernel": "scan"}, "imdb_transformer has no layer whose kernel"),
    ],
)
def test_what_a_cpu_does_not_have_is_unsupported_with_the_reason(
    framework: str, setting: dict[str, str], reason: str
) -> None:
    cell = Cell(**{"workload": "imdb_lstm", "framework": framework} | setting)  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match=reason):
        framework_of(framework).prepare(cell, "cpu", 0)


def seen_by(framework: str, kind: str) -> dict[str, Any]:
    """What a framework that sees another accelerator answers, as if on that machine."""
    if framework == "jax":
        client = SimpleNamespace(platform_version="rocm 60")
        device = SimpleNamespace(platform=kind, device_kind="that one", client=client)
        return {"jax.default_backend": lambda: kind, "jax.devices": lambda: [device]}
    if framework == "tensorflow":
        device = SimpleNamespace(device_type="TPU" if kind == "TPU" else "GPU")
        return {
            "tensorflow.config.list_physical_devices": lambda of=None: [] if of and kind == "TPU" else [device],
            "tensorflow.test.is_built_with_rocm": lambda: kind == "rocm",
        }
    if kind == "rocm":
        named = {"torch.version.hip": "6.4", "torch.cuda.get_device_name": lambda _: "MI300X"}
        return named | {"torch.cuda.is_available": lambda: True}
    current = {"torch.accelerator.current_accelerator": lambda: SimpleNamespace(type=kind)}
    return current | {"torch.accelerator.is_available": lambda: True}


@pytest.mark.parametrize("device", ["auto", "cuda"])
@pytest.mark.parametrize(
    ("framework", "kind", "found"),
    [
        ("pytorch", "rocm", r"ROCm \(MI300X\)"),
        ("pytorch", "xpu", "an accelerator of the kind xpu"),
        ("tensorflow", "rocm", "ROCm"),
        ("tensorflow", "GPU", "a GPU that is not of CUDA"),
        ("tensorflow", "TPU", "an accelerator of the kind TPU"),
        ("jax", "gpu", r"ROCm \(that one\)"),
        ("jax", "tpu", r"an accelerator of the kind tpu \(that one\)"),
    ],
)
def test_another_accelerator_is_named_and_neither_used_nor_passed_over(
    monkeypatch: pytest.MonkeyPatch, framework: str, kind: str, found: str, device: str
) -> None:
    code = framework_of(framework)
    for name, answer in seen_by(framework, kind).items():
        monkeypatch.setattr(name, answer)
    reason = f"finds {found}, which the suite does not support yet; measure with --device cpu"
    with pytest.raises(UnsupportedError, match=reason):
        code.prepare(Cell("imdb_lstm", framework), device, 0)


@each_framework
@pytest.mark.parametrize(
    ("cuda", "reason"),
    [
        (None, "1.2.3 was built without CUDA; install the extra {}-cuda"),
        ("12", "1.2.3 for CUDA 12 sees no CUDA device"),
    ],
)
def test_why_there_is_no_cuda_is_said(
    monkeypatch: pytest.MonkeyPatch, framework: str, cuda: str | None, reason: str
) -> None:
    code = framework_of(framework)
    hidden = {
        "pytorch": ("torch.cuda.is_available", False),
        "tensorflow": ("tensorflow.config.list_physical_devices", []),
    }
    name, answer = hidden.get(framework, ("jax.default_backend", "cpu"))
    monkeypatch.setattr(name, lambda *_: answer)
    monkeypatch.setattr(code, "installation", lambda: {"version": "1.2.3", "cuda": cuda})
    with pytest.raises(UnsupportedError, match=reason.format(framework)):
        code.prepare(Cell("imdb_lstm", framework), "cuda", 0)


@pytest.mark.parametrize(
    ("framework", "mode"),
    [("pytorch", "graph"), ("tensorflow", "eager"), ("tensorflow", "max"), ("jax", "eager"), ("jax", "graph")],
)
def test_a_compile_mode_that_a_framework_lacks_is_unsupported(framework: str, mode: str) -> None:
    with pytest.raises(UnsupportedError, match=f"has no compile mode '{mode}'; it has"):
        framework_of(framework).prepare(Cell("cifar100_cnn", framework, compile=mode), "cpu", 0)


@needs_frameworks("jax")
def test_jax_without_cuda_graphs_is_for_one_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    import jax

    code = framework_of("jax")
    cell = Cell("cifar100_cnn", "jax", compile="nographs")
    with pytest.raises(UnsupportedError, match="a CPU has no CUDA graphs to leave out"):
        code.prepare(cell, "cpu", 0)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert code.prepare(cell, "cuda", 0)[1]["cuda_graphs"] is False
    assert code.prepare(cell.but(compile="compile"), "cuda", 0)[1]["cuda_graphs"] is True
    monkeypatch.setenv("XLA_FLAGS", "--xla_gpu_enable_command_buffer= --xla_dump_to=here")
    assert code.prepare(cell.but(compile="compile"), "cuda", 0)[1]["cuda_graphs"] is False
    with pytest.raises(UnsupportedError, match="on one device and by its own interface"):
        code.prepare(cell.but(devices=2), "cuda", 0)
    monkeypatch.setitem(code.COMPILE_MODES, "nographs", {"xla_gpu_no_such_option": ""})
    with pytest.raises(UnsupportedError, match=r"^JAX [\d.]+ has no option xla_gpu_no_such_option"):
        code.prepare(cell, "cuda", 0)


@needs_frameworks("pytorch")
def test_torch_compile_does_not_pass_off_an_eager_lstm_as_its_own() -> None:
    with pytest.raises(UnsupportedError, match=r"breaks its graph at nn\.LSTM"):
        framework_of("pytorch").prepare(Cell("imdb_lstm", "pytorch", compile="compile"), "cpu", 0)


@pytest.mark.parametrize(
    ("framework", "loader", "reason"),
    [
        ("pytorch", Loader("workers", 2, pin_memory=True), "page-locked"),
        ("pytorch", Loader("workers", 0, prefetch=2), "worker processes only"),
        ("pytorch", Loader("workers", 2, prefetch=0), "keep at least one batch ready"),
        ("pytorch", Loader("naive", prefetch=2), "no setting prefetch"),
        ("jax", Loader("workers", 2, prefetch=0), "keep at least one batch ready"),
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
    loaders = import_module(f"suite.worker.loaders.{framework}")
    cell = Cell("cifar100_cnn", framework, batch=8, loader=loader, size="small")
    source = batches(specification("cifar100_cnn", "small"), 8)
    with pytest.raises(UnsupportedError, match=reason):
        loaders.batches(cell, source, "cpu", lambda batch: batch)


EXAMPLE = """
    import numpy as np
    from suite.worker.frameworks import import_framework
    from suite.worker.launch.probe import lstm_error, lstm_logits, precision_errors
    from tests.frameworks import FRAMEWORKS, batches, narrow, training
    from suite.plan.cell import Cell

    spec, source = narrow("cifar100_cnn"), batches(narrow("cifar100_cnn"), 8)
    for framework in FRAMEWORKS:
        with training("cifar100_cnn", framework, "pure-bf16", spec=spec) as running:
            error = precision_errors(running.cell, import_framework(framework), "cpu")["product"]
            losses = running.read([running.step(running.put(source[number])) for number in range(2)])
            seen[framework] = error > 1e-3 and bool(np.isfinite(losses).all())
    shapes = {"lstm/recurrent": (1, 4), "lstm/kernel": (1, 4), "lstm/bias": 4, "embedding/table": (2, 1)}
    weights = {name: np.ones(shape) for name, shape in (shapes | {"logits/kernel": (1, 1), "logits/bias": 1}).items()}
    cell, tokens = Cell("imdb_lstm", "jax", "pure-bf16"), np.zeros((1, 2), int)
    seen["lstm"] = lstm_error(cell, weights, tokens, lstm_logits(weights, tokens)) == 0
"""


@pytest.mark.slow  # tests/contracts has a precision of its own
def test_the_contributors_example_of_a_new_precision_trains_in_all_three(tmp_path: Path) -> None:
    page = Path(__file__).parents[2] / "CONTRIBUTING.md"
    (example,) = re.findall(r"```python\n([^`]*FAKE = Precision.*?)```", page.read_text(), re.DOTALL)
    assert ask(tmp_path, "precisions", example, EXAMPLE) == dict.fromkeys((*FRAMEWORKS, "lstm"), True)


def test_there_is_no_half_batch() -> None:
    with pytest.raises(CellError, match="accumulate is 0"):
        Cell("imdb_lstm", "jax", accumulate=0)
