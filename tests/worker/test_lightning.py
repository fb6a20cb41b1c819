"""Lightning: the numbers of the suite's own loop in float64, all evidence in a launch, and what it does not have."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from suite.plan.cell import Cell
from suite.plan.measuring import Plan
from suite.record.job import Job
from suite.session.launches.launch import launch
from suite.worker import interfaces
from suite.worker.frameworks import UnsupportedError
from tests.frameworks import batches, framework_of, narrow, needs_frameworks, switches_restored
from tests.worker.test_keras import agree
from workloads.data.cache import folder_of

needs_lightning = pytest.mark.skipif(not find_spec("lightning"), reason="Lightning is not installed: extra lightning")


@needs_frameworks("pytorch")
@needs_lightning
@pytest.mark.parametrize("workload", ["imdb_lstm", pytest.param("cifar100_cnn", marks=pytest.mark.slow)])
def test_lightning_computes_what_the_own_loop_computes(workload: str) -> None:
    from tests.worker.keras_numbers import computed

    agree(computed(workload, "pytorch", "lightning"), computed(workload, "pytorch", "native"))


@needs_frameworks("pytorch")
@needs_lightning
def test_a_window_is_one_fit_of_its_steps_and_the_next_goes_on_from_it() -> None:
    spec, code = narrow("imdb_lstm"), framework_of("pytorch")
    cell, source = Cell("imdb_lstm", "pytorch", batch=2, size="small", interface="lightning"), batches(spec, 2)
    with switches_restored("pytorch"):
        code.prepare(cell, "cpu", 0)
        module, weights = interfaces.module(cell), spec.reference_weights(0)
        native, fitted = (
            make(cell, spec, module, weights, "cpu") for make in (code.Training, interfaces.of(cell).Training)
        )
        steps = [float(native.step(native.put(source[number]))) for number in range(5)]
        coming = (fitted.put(source[number]) for number in range(5))
        windows = [float(fitted.run(coming, count)) for count in (2, 3)]
        left = next(coming, None)
    assert windows == pytest.approx([steps[1], steps[4]], rel=1e-6)
    assert left is None, "every batch was taken once"


@needs_frameworks("pytorch")
@needs_lightning
@pytest.mark.parametrize(("settings", "words"), [
    ({"accumulate": 2}, "leave out --accumulate"),
    ({"precision": "fp16"}, "use bf16"),
    ({"compile": "max"}, "eager and compile"),
    ({"checkpointing": "on"}, "own loop"),
    ({"recipe": "modern"}, "train to the end with"),
    ({"devices": 2}, "one device"),
])  # fmt: skip
def test_what_lightning_does_not_have_is_unsupported(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(UnsupportedError, match=words):
        interfaces.prepare(Cell("cifar100_cnn", "pytorch", interface="lightning", **settings), "cpu", 0)


def test_lightning_is_an_interface_of_pytorch() -> None:
    with pytest.raises(UnsupportedError, match="lightning is an interface of pytorch, not of jax"):
        interfaces.of(Cell("imdb_lstm", "jax", interface="lightning"))


def test_without_lightning_the_reason_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError("No module named 'lightning'", name="lightning.pytorch")

    monkeypatch.setattr(interfaces, "import_module", missing)
    with pytest.raises(UnsupportedError, match=r"Lightning is not installed .* '\.\[pytorch-cpu,lightning\]'"):
        interfaces.of(Cell("imdb_lstm", "pytorch", interface="lightning"))


@needs_frameworks("pytorch")
@needs_lightning
@pytest.mark.slow
@pytest.mark.launches
@pytest.mark.parametrize("workload", ["imdb_lstm", "cifar100_cnn"])
def test_a_launch_carries_all_evidence(workload: str, tmp_path: Path, twins: Path) -> None:
    cell = Cell(workload, "pytorch", batch=16, size="small", interface="lightning")
    data = str(folder_of(twins, workload.partition("_")[0], "synthetic"))
    record = launch(Job(cell, data, device="cpu", plan=Plan(0.02, 2, 0.2)), tmp_path / "log", 500.0)
    assert record.outcome.ok, record.outcome.reason
    assert record.settings["interface"] == "lightning"
    assert record.environment["packages"]["lightning"]
    identity = record.identity
    assert identity is not None
    assert None not in (identity.float64, identity.own)
    assert identity.last is not None
    assert identity.last.equal
    assert identity.last.replayed == 0
    assert identity.optimizer is not None
    assert identity.optimizer < 1e-12
    assert (identity.dropout is None) == (workload == "imdb_lstm")
