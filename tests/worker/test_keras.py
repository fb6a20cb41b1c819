"""Keras on each backend: the same numbers as the suite's own loop in float64, and what it does not have."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from suite.plan.cell import Cell
from suite.plan.measuring import Plan
from suite.record.job import Job
from suite.session.launches.launch import launch
from suite.worker import interfaces
from suite.worker.frameworks import UnsupportedError
from suite.worker.launch.phases import fit_plan, training_steps
from tests.frameworks import assert_within, distances, framework_of, needs_frameworks
from workloads.data.cache import folder_of

EXACT = 1e-12


def agree(keras: dict[str, Any], native: dict[str, Any]) -> None:
    """Both computed the same in float64."""
    assert keras["losses"] == pytest.approx(native["losses"], rel=EXACT)
    for name in ("gradients", "weights"):
        assert_within(distances(keras[name], native[name]), 1e-9)
    assert keras["evaluation"][0] == pytest.approx(native["evaluation"][0], rel=1e-9)
    assert keras["evaluation"][1] == native["evaluation"][1]


@needs_frameworks("tensorflow")
@pytest.mark.parametrize("workload", ["imdb_lstm", pytest.param("cifar100_cnn", marks=pytest.mark.slow)])
@pytest.mark.parametrize("interface", ["keras", pytest.param("keras-fit", marks=pytest.mark.slow)])
def test_keras_on_tensorflow_computes_what_the_own_loop_computes(workload: str, interface: str) -> None:
    from tests.worker.keras_numbers import computed

    agree(computed(workload, "tensorflow", interface), computed(workload, "tensorflow", "native"))


@needs_frameworks
@pytest.mark.slow
@pytest.mark.parametrize("framework", ["pytorch", "jax"])
def test_keras_on_other_backends_computes_what_the_own_loop_computes(framework: str) -> None:
    command = [sys.executable, "-m", "tests.worker.keras_numbers", framework]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=500)
    assert not done.returncode, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    for workload in ("imdb_lstm", "cifar100_cnn"):
        for interface in ("keras", "keras-fit"):
            agree(found[f"{workload} {interface}"], found[f"{workload} native"])


@needs_frameworks("tensorflow")
@pytest.mark.parametrize(("settings", "words"), [
    ({"accumulate": 2}, "leave out --accumulate"),
    ({"compile": "max"}, "use eager or compile"),
    ({"interface": "keras-fit", "compile": "compile"}, "leave out --compile"),
    ({"interface": "keras-fit", "recipe": "modern"}, "train to the end with"),
    ({"devices": 2}, "one device"),
])  # fmt: skip
def test_what_keras_does_not_have_is_unsupported(settings: dict[str, Any], words: str) -> None:
    cell = Cell("imdb_lstm", "tensorflow", **{"interface": "keras", **settings})
    with pytest.raises(UnsupportedError, match=words):
        interfaces.prepare(cell, "cpu", 0)


@needs_frameworks("tensorflow")
def test_keras_on_another_backend_than_the_row_says_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    framework_of("tensorflow")
    monkeypatch.setattr("keras.backend.backend", lambda: "jax")
    with pytest.raises(RuntimeError, match="Keras runs on jax, not on tensorflow: KERAS_BACKEND came too late"):
        interfaces.prepare(Cell("imdb_lstm", "tensorflow", interface="keras"), "cpu", 0)


def test_a_workload_without_keras_is_unsupported() -> None:
    with pytest.raises(UnsupportedError, match=r"cifar100_resnet18 has no file keras\.py"):
        interfaces.module(Cell("cifar100_resnet18", "jax", interface="keras"))


def test_without_keras_the_reason_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError("No module named 'keras'", name="keras")

    monkeypatch.setattr(interfaces, "import_module", missing)
    with pytest.raises(UnsupportedError, match=r"pip install -e '\.\[pytorch-cpu,keras\]'"):
        interfaces.of(Cell("imdb_lstm", "pytorch", interface="keras"))


class Epochs:
    """An interface with a loop of its own, which takes as many batches as it is told."""

    least_window_s = 0.0

    def __init__(self) -> None:
        self.taken: list[list[int]] = []

    def run(self, batches: Iterator[int], count: int) -> float:
        self.taken.append([next(batches) for _ in range(count)])
        return 0.5

    def fence(self, pending: Any) -> None:
        assert pending == 0.5


def test_what_is_timed_by_epochs_has_longer_windows() -> None:
    short, long = Plan(0.5, 6, 5.0), Plan(8.0, 6, 20.0)
    assert fit_plan(short, Epochs()) == short
    epochs = Epochs()
    epochs.least_window_s = 5.0
    assert fit_plan(short, epochs) == Plan(5.0, 6, 15.0)
    assert fit_plan(long, epochs) == long


def test_a_window_is_one_run_of_an_interface_with_a_loop_of_its_own() -> None:
    training, last = Epochs(), [0.0]
    steps = training_steps(iter(range(9)), training, last)
    steps(4)
    steps(2)
    assert training.taken == [[0, 1, 2, 3], [4, 5]]
    assert last == [0.5]


@needs_frameworks
@pytest.mark.slow
@pytest.mark.launches
@pytest.mark.parametrize("interface", ["keras", "keras-fit"])
@pytest.mark.parametrize("framework", ["pytorch", "tensorflow", "jax"])
def test_a_launch_carries_all_evidence(framework: str, interface: str, tmp_path: Path, twins: Path) -> None:
    cell = Cell("imdb_lstm", framework, batch=16, size="small", interface=interface)
    data = str(folder_of(twins, "imdb", "synthetic"))
    record = launch(Job(cell, data, device="cpu", plan=Plan(0.02, 2, 0.2)), tmp_path / "log", 500.0)
    assert record.outcome.ok, record.outcome.reason
    assert record.settings["interface"] == interface
    assert record.settings["jit_compile"] is (framework == "jax")
    assert record.environment["packages"]["keras"]
    identity = record.identity
    assert identity is not None
    assert identity.float64 is not None
    assert identity.own is not None
    assert identity.last is not None
    assert identity.last.equal
    assert identity.last.replayed == 0
    assert identity.optimizer is not None
    assert identity.optimizer < 1e-12
