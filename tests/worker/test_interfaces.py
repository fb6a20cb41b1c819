"""Interfaces: the numbers of the suite's own loop in float64, all evidence in a launch, and what each does not have."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
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
from suite.worker.launch.phases import fit_plan, training_steps
from tests.frameworks import (
    assert_within,
    batches,
    distances,
    framework_of,
    narrow,
    needs_frameworks,
    switches_restored,
)
from tests.isolation import in_own_process
from workloads.data.cache import folder_of

EXACT = 1e-12
needs_lightning = pytest.mark.skipif(not find_spec("lightning"), reason="Lightning is not installed: extra lightning")


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


@needs_frameworks("jax", "pytorch")
@pytest.mark.usefixtures("unoptimized")
@pytest.mark.parametrize(
    ("workload", "framework"),
    [
        ("imdb_lstm", "jax"),
        pytest.param("cifar100_cnn", "pytorch", marks=pytest.mark.slow),
        pytest.param("cifar100_cnn", "jax", marks=pytest.mark.slow),
    ],
)
def test_nnx_computes_what_the_own_loop_computes(workload: str, framework: str) -> None:
    from tests.worker.keras_numbers import computed

    of = in_own_process(computed)
    agree(of(workload, "jax", "nnx"), of(workload, framework, "native"))


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
            make(cell, spec, module, weights, "cpu")
            for make in (code.Training, interfaces.load_interface(cell).Training)
        )
        steps = [float(native.step(native.put(source[number]))) for number in range(5)]
        coming = (fitted.put(source[number]) for number in range(5))
        windows = [float(fitted.run(coming, count)) for count in (2, 3)]
        left = next(coming, None)
    assert windows == pytest.approx([steps[1], steps[4]], rel=1e-6)
    assert left is None, "every batch was taken once"


@needs_frameworks
@pytest.mark.parametrize(("framework", "interface", "settings", "words"), [
    ("tensorflow", "keras", {"accumulate": 2}, "leave out --accumulate"),
    ("tensorflow", "keras", {"compile": "max"}, "use eager or compile"),
    ("tensorflow", "keras", {"checkpointing": "on"}, "own loop"),
    ("tensorflow", "keras-fit", {"compile": "compile"}, "leave out --compile"),
    ("tensorflow", "keras-fit", {"recipe": "modern"}, "train to the end with"),
    ("tensorflow", "keras", {"devices": 2}, "one device"),
    ("jax", "nnx", {"accumulate": 2}, "leave out --accumulate"),
    ("jax", "nnx", {"precision": "fp16"}, "use bf16"),
    ("jax", "nnx", {"kernel": "cudnn"}, "leave out --kernel"),
    ("jax", "nnx", {"checkpointing": "on"}, "own loop"),
    ("jax", "nnx", {"devices": 2}, "one device"),
    *(pytest.param("pytorch", "lightning", settings, words, marks=needs_lightning) for settings, words in (
        ({"accumulate": 2}, "leave out --accumulate"),
        ({"precision": "fp16"}, "use bf16"),
        ({"compile": "max"}, "eager and compile"),
        ({"checkpointing": "on"}, "own loop"),
        ({"recipe": "modern"}, "train to the end with"),
        ({"devices": 2}, "one device"),
    )),
])  # fmt: skip
def test_what_an_interface_does_not_have_is_unsupported(
    framework: str, interface: str, settings: dict[str, Any], words: str
) -> None:
    workload = "cifar100_cnn" if interface == "lightning" else "imdb_lstm"
    with pytest.raises(UnsupportedError, match=words):
        interfaces.prepare(Cell(workload, framework, **{"interface": interface, **settings}), "cpu", 0)


@needs_frameworks("tensorflow")
def test_keras_on_another_backend_than_the_row_says_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    framework_of("tensorflow")
    cell = Cell("imdb_lstm", "tensorflow", interface="keras")
    interfaces.load_interface(cell)  # it asks for the backend when it is imported, too
    monkeypatch.setattr("keras.backend.backend", lambda: "jax")
    with pytest.raises(RuntimeError, match="Keras runs on jax, not on tensorflow: KERAS_BACKEND came too late"):
        interfaces.prepare(cell, "cpu", 0)


@pytest.mark.parametrize(("interface", "owner", "other"), [("nnx", "jax", "pytorch"), ("lightning", "pytorch", "jax")])
def test_an_interface_of_one_framework_is_no_other_s(interface: str, owner: str, other: str) -> None:
    for look in (interfaces.load_interface, interfaces.module):
        with pytest.raises(UnsupportedError, match=f"{interface} is an interface of {owner}, not of {other}"):
            look(Cell("imdb_lstm", other, interface=interface))


@pytest.mark.parametrize("interface", ["keras", "nnx"])
def test_a_workload_without_the_interface_is_unsupported(interface: str) -> None:
    with pytest.raises(UnsupportedError, match=rf"cifar100_resnet18 has no file {interface}\.py"):
        interfaces.module(Cell("cifar100_resnet18", "jax", interface=interface))


@pytest.mark.parametrize(("interface", "package"), [("keras", "keras"), ("lightning", "lightning.pytorch")])
def test_without_its_package_the_reason_names_the_extra(
    interface: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(f"No module named {interface!r}", name=package)

    monkeypatch.setattr(interfaces, "import_module", missing)
    words = rf"{interface.title()} is not installed .*pip install -e '\.\[pytorch-cpu,{interface}\]'"
    with pytest.raises(UnsupportedError, match=words):
        interfaces.load_interface(Cell("imdb_lstm", "pytorch", interface=interface))


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
@pytest.mark.parametrize(("framework", "interface", "workload"), [
    *((name, way, "imdb_lstm") for name in ("pytorch", "tensorflow", "jax") for way in ("keras", "keras-fit")),
    ("jax", "nnx", "imdb_lstm"),
    ("jax", "nnx", "cifar100_cnn"),
    pytest.param("pytorch", "lightning", "imdb_lstm", marks=needs_lightning),
    pytest.param("pytorch", "lightning", "cifar100_cnn", marks=needs_lightning),
])  # fmt: skip
def test_a_launch_carries_all_evidence(
    framework: str, interface: str, workload: str, tmp_path: Path, twins: Path
) -> None:
    cell = Cell(workload, framework, batch=16, size="small", interface=interface)
    data = str(folder_of(twins, workload.partition("_")[0], "synthetic"))
    record = launch(Job(cell, data, device="cpu", plan=Plan(0.02, 2, 0.2)), tmp_path / "log", 500.0)
    assert record.outcome.ok, record.outcome.reason
    assert record.settings["interface"] == interface
    assert record.settings.get("jit_compile", framework == "jax") is (framework == "jax")
    if interface != "nnx":
        assert record.environment["packages"][interface.partition("-")[0]]
    identity = record.identity
    assert identity is not None
    assert None not in (identity.float64, identity.own)
    assert identity.last is not None
    assert identity.last.equal
    assert identity.last.replayed == 0
    assert identity.optimizer is not None
    assert identity.optimizer < 1e-12
    assert (identity.dropout is None) == (workload == "imdb_lstm")
