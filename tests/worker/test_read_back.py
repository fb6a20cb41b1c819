"""Launches of which something undid a setting end as errors that name it, and others hold what was in force."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from suite.catalog.settings import SETTINGS
from suite.plan.cell import FRAMEWORKS, Cell
from suite.plan.measuring import Plan
from suite.record.job import Job
from suite.record.record import Record
from suite.session.launches.launch import launch
from suite.worker.frameworks import count_threads
from suite.worker.launch.applied import NotAppliedError, compare
from tests.frameworks import needs_frameworks
from tests.launches import unproven
from workloads.data.cache import folder_of

pytestmark = pytest.mark.launches


@pytest.fixture
def launched(tmp_path: Path, twins: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Launches a small cell with these variables."""

    def run(workload: str, framework: str, variables: dict[str, str], **settings: Any) -> Record:
        unproven(tmp_path, monkeypatch)
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        cell = Cell(workload, framework, batch=16, size="small", **settings)
        data = str(folder_of(twins, workload.partition("_")[0], "synthetic"))
        return launch(Job(cell, data, device="cpu", plan=Plan(0.02, 2, 0.2)), tmp_path / "log", 500.0)

    return run


@needs_frameworks
@pytest.mark.parametrize(
    ("workload", "framework", "settings", "variables", "words"),
    [
        (
            "cifar100_cnn", "pytorch", {"compile": "compile"}, {"TORCHDYNAMO_DISABLE": "1"},
            "compile mode compile, but eager is in force",
        ),
        pytest.param(
            "cifar100_cnn", "pytorch", {"compile": "compile"}, {"TORCH_COMPILE_OVERRIDE_BACKENDS": ">=0:eager"},
            "compile mode compile, but eager is in force", marks=pytest.mark.slow,
        ),
        pytest.param(
            "cifar100_cnn", "tensorflow", {}, {"TF_XLA_FLAGS": "--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit"},
            "compile mode graph, but compile is in force", marks=pytest.mark.slow,
        ),
        pytest.param(
            "imdb_lstm", "pytorch", {}, {"MALLOC_MMAP_MAX_": "1000"},
            "tuning recommended, but default is in force", marks=pytest.mark.slow,
        ),
    ],
)  # fmt: skip
def test_a_setting_that_a_variable_undoes_ends_the_launch_and_names_it(
    launched: Any, workload: str, framework: str, settings: dict[str, Any], variables: dict[str, str], words: str
) -> None:
    record = launched(workload, framework, variables, **settings)
    assert record.outcome.status == "error", record.outcome
    assert record.outcome.reason.startswith(f"asked for {words}; see ")
    assert " ".join(f"{name}={value}" for name, value in variables.items()) in record.outcome.reason


@needs_frameworks
def test_jax_that_compiles_nothing_is_refused(launched: Any) -> None:
    outcome = launched("imdb_lstm", "jax", {"JAX_DISABLE_JIT": "1"}).outcome
    assert (outcome.status, "JAX_DISABLE_JIT=1" in outcome.reason) == ("unsupported", True)


@needs_frameworks
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
@pytest.mark.parametrize(
    ("framework", "variables", "threads", "cores"),
    [
        ("pytorch", {"OMP_NUM_THREADS": "1"}, 1, None),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in (
            ("pytorch", {"GOMP_CPU_AFFINITY": "0"}, None, 1),
            ("tensorflow", {"TF_NUM_INTRAOP_THREADS": "1"}, 1, None),
            ("tensorflow", {"TF_NUM_INTRAOP_THREADS": "two"}, None, None),
            ("jax", {"NPROC": "1"}, 1, None),
        )),
    ],
)  # fmt: skip
def test_threads_and_cores_are_those_that_compute(
    launched: Any, framework: str, variables: dict[str, str], threads: int | None, cores: int | None
) -> None:
    record = launched("imdb_lstm", framework, variables)
    applied = record.settings["applied"]
    usable = len(os.sched_getaffinity(0))
    assert (applied["threads"], applied["cores"]) == (threads or usable, cores or usable)
    assert record.environment["variables"].items() >= variables.items()


def test_a_thread_that_ends_while_they_are_counted_is_none(tmp_path: Path) -> None:
    for task in ("1", "2", "3"):
        (tmp_path / task).mkdir()
    for task, name in (("1", "tf_XLAEigen"), ("3", "python")):
        (tmp_path / task / "comm").write_text(f"{name}\n")
    assert count_threads("tf_XLAEigen", tmp_path) == 1
    assert count_threads("tf_XLAEigen", tmp_path / "none") == 0


@pytest.mark.parametrize(
    ("settings", "applied"),
    [({"allocator": "cudaMallocAsync"}, "default"), ({"kernel": "cudnn"}, "scan"), ({"bind": "compact"}, "")],
)
def test_what_leaves_the_choice_open_may_be_anything_and_else_it_may_not(
    settings: dict[str, str], applied: str
) -> None:
    ((name, _),) = settings.items()
    for framework in FRAMEWORKS:
        cell = Cell("imdb_lstm", framework)
        read = {each: getattr(cell, each) for each in SETTINGS} | {"loader": "tuned", name: applied}
        compare(cell, read, {})
        with pytest.raises(NotAppliedError, match="no variable in the environment says so"):
            compare(cell.but(**settings), read, {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"})


@pytest.mark.frameworks("pytorch")
def test_operators_of_an_lstm_are_read_in_training_mode_which_cudnn_needs_and_draw_nothing() -> None:
    """cuDNN's LSTM has a backward pass in that mode only; what else has one keeps its statistics in the other."""
    torch = pytest.importorskip("torch")
    from suite.worker.frameworks.pytorch.evidence import _list_operators

    class Model(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm = torch.nn.BatchNorm1d(4)
            self.lstm = torch.nn.LSTM(4, 3, num_layers=2, dropout=0.5, batch_first=True)

        def forward(self, inputs: Any) -> Any:
            modes.append((self.norm.training, self.lstm.training))
            return self.lstm(self.norm(inputs.mT).mT)[0]

    modes: list[tuple[bool, bool]] = []
    model = Model()
    generator = torch.get_rng_state()
    training = SimpleNamespace(cell=Cell("imdb_lstm", "pytorch"), device="cpu", model=model)
    _, backward = _list_operators(training, (torch.ones(2, 5, 4), None))
    assert modes == [(False, True)]
    assert any("lstm" in name or "backward" in name for name in backward.names)
    assert model.training
    assert (model.norm.training, model.lstm.training, model.lstm.dropout) == (True, True, 0.5)
    assert torch.equal(torch.get_rng_state(), generator)
