"""Which program a launch starts, and with which environment variables."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from suite.plan.cell import Cell
from suite.record.job import Job
from suite.record.parts.environment import LOCK_FILE
from suite.session.journal import read
from suite.session.launches import launch as launching
from suite.session.launches import settings
from suite.session.launches.launch import ROOT, LaunchError, interpreter, launch, tox_environment, variables
from tests.launches import StandIn
from tests.sessions import Suite, records_of, refused

JOB = Job(Cell("imdb_lstm", "jax"), data="nowhere", launch=2)
GOOD = "from tests import records; send_all(records.record('jax', workload='imdb_lstm'))"


def test_without_a_setting_the_running_interpreter_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launching, "ROOT", Path("/nowhere"))
    monkeypatch.delenv("SUITE_PYTHON_JAX", raising=False)
    assert interpreter("jax") == sys.executable
    monkeypatch.setenv("SUITE_PYTHON_JAX", "")
    assert interpreter("jax") == sys.executable


def test_an_interpreter_named_from_here_is_found_from_elsewhere(
    stand_in: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(GOOD)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUITE_PYTHON_JAX", "./python")
    assert launch(JOB, tmp_path / "log", 60.0).outcome.ok


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("nothing", r"^SUITE_PYTHON_JAX is '.*', which is not a program; set it to a Python that"),
        ("folder", r"^SUITE_PYTHON_JAX is '.*', which is not a program; set it to a Python that"),
        ("text", r"^SUITE_PYTHON_JAX is '.*', which is not a program; set it to a Python that"),
        ("broken", r"^cannot start [^\n]*broken: Exec format error$"),
    ],
)
def test_an_interpreter_that_is_none_is_refused_in_one_line(
    kind: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / kind
    if kind == "folder":
        path.mkdir()
    elif kind != "nothing":
        path.write_bytes(b"\x7fELF no more")
        path.chmod(0o755 if kind == "broken" else 0o644)
    monkeypatch.setenv("SUITE_PYTHON_JAX", str(path))
    with pytest.raises(LaunchError, match=words):
        launch(JOB, tmp_path / "log")


def test_a_worker_inherits_no_compiler_cache_and_sees_no_gpu_on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYTHONHOME", "JAX_COMPILATION_CACHE_DIR", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR"):
        monkeypatch.setenv(name, "/elsewhere")
    monkeypatch.setenv("PYTHONPATH", "/mine")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    found = variables(Job(JOB.cell, "", device="cpu"), "/scratch")
    assert "/elsewhere" not in found.values()
    assert found["TRITON_CACHE_DIR"] == "/scratch/triton"
    assert found["PYTHONPATH"] == os.pathsep.join([str(ROOT), "/mine"])
    assert (found["CUDA_VISIBLE_DEVICES"], found["JAX_PLATFORMS"]) == ("", "cpu")
    assert "OMP_WAIT_POLICY" not in found, "threads that sleep between steps cost PyTorch's LSTM a third of its speed"
    assert variables(JOB, "/scratch")["CUDA_VISIBLE_DEVICES"] == "0"


def test_a_worker_keeps_freed_memory_unless_the_user_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_MAX_", "MALLOC_ARENA_MAX"):
        monkeypatch.delenv(name, raising=False)
    found = variables(JOB, "/scratch")
    assert int(found["MALLOC_TRIM_THRESHOLD_"]) >= 1 << 30
    assert (found["MALLOC_MMAP_MAX_"], found["MALLOC_ARENA_MAX"]) == ("0", "1")
    lstm = replace(JOB, cell=Cell("imdb_lstm", "tensorflow"))
    assert variables(lstm, "/scratch")["MALLOC_ARENA_MAX"] == "8", "whose step takes longer with one"
    monkeypatch.setenv("MALLOC_ARENA_MAX", "2")
    assert variables(JOB, "/scratch")["MALLOC_ARENA_MAX"] == "2"


def test_a_release_that_is_too_old_is_unsupported_without_a_process(tmp_path: Path) -> None:
    record = launch(replace(JOB, cell=JOB.cell.but(release="0.1.0")), tmp_path / "log", 60.0)
    assert record.outcome.status == "unsupported"
    assert record.outcome.reason.startswith("jax 0.1.0 is older than ")
    assert not (tmp_path / "log").exists()


def test_a_release_starts_in_the_interpreter_of_its_own_variable(
    stand_in: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(GOOD)
    monkeypatch.setenv("SUITE_PYTHON_JAX_0_9_2", os.environ["SUITE_PYTHON_JAX"])
    monkeypatch.setenv("SUITE_PYTHON_JAX", "nowhere")
    record = launch(replace(JOB, cell=JOB.cell.but(release="0.9.2")), tmp_path / "log", 60.0)
    assert record.outcome.ok
    assert record.cell.release == "0.9.2"


def made_by_tox(root: Path, name: str, package: str) -> str:
    """An environment as tox leaves it in a checkout; without its package, as an interrupted one."""
    (root / ".tox" / name / "bin").mkdir(parents=True)
    (root / ".tox" / name / "lib/python3.11/site-packages" / package).mkdir(parents=True)
    (root / ".tox" / name / "bin" / "python").touch()
    return str(root / ".tox" / name / "bin" / "python")


def test_a_framework_that_is_not_installed_here_is_that_of_tox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launching, "ROOT", tmp_path)
    monkeypatch.setattr(launching, "find_spec", lambda _: None)
    for name in ("JAX", "PYTORCH", "TENSORFLOW"):
        monkeypatch.delenv(f"SUITE_PYTHON_{name}", raising=False)
    on_cpu, on_gpu = made_by_tox(tmp_path, "jax-cpu", "jax"), made_by_tox(tmp_path, "jax-cuda", "jax")
    made_by_tox(tmp_path, "pytorch-cpu", "numpy")
    only = made_by_tox(tmp_path, "tensorflow-cuda", "tensorflow")
    for gpu in (False, True):
        monkeypatch.setattr(launching, "has_gpu", lambda gpu=gpu: gpu)
        assert interpreter("jax") == (on_gpu if gpu else on_cpu)
        assert interpreter("jax", device="cpu") == on_cpu
        assert interpreter("tensorflow", device="cpu") == only
        assert interpreter("pytorch") == sys.executable, "where nothing has it, its launch says so"
    assert tox_environment("jax", "cpu") == ".tox/jax-cpu"
    assert tox_environment("pytorch") == ""
    said: list[str] = []
    settings.check_interpreters([Cell("imdb_lstm", "jax"), Cell("imdb_lstm", "pytorch")], "cpu", said.append)
    assert [line.rpartition(": ")[2] for line in said] == [".tox/jax-cpu"]


def test_a_variable_or_the_running_interpreter_comes_before_tox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launching, "ROOT", tmp_path)
    made_by_tox(tmp_path, "jax-cpu", "jax")
    monkeypatch.setattr(launching, "find_spec", lambda name: ModuleSpec(name, None, origin=f"/{name}/__init__.py"))
    monkeypatch.delenv("SUITE_PYTHON_JAX", raising=False)
    assert interpreter("jax") == sys.executable
    monkeypatch.setattr(launching, "find_spec", lambda name: ModuleSpec(name, None))
    assert interpreter("jax") != sys.executable, "a folder of that name is no framework"
    monkeypatch.setenv("SUITE_PYTHON_JAX", sys.executable)
    assert interpreter("jax") == sys.executable
    assert tox_environment("jax") == ""


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CUDA_CACHE_PATH", "{}"), ("PYTHONPYCACHEPREFIX", "{}"), ("TORCH_EXTENSIONS_DIR", "{}"),
        ("XLA_FLAGS", "--a=1 --xla_gpu_per_fusion_autotune_cache_dir={} --b=2"),
        ("XLA_FLAGS", "--xla_gpu_kernel_cache_file={}/kernels"),
    ],
)  # fmt: skip
def test_compiled_code_that_others_can_change_is_not_run(
    name: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value.format(tmp_path))
    cells = [Cell("imdb_lstm", "jax")]
    settings.check_interpreters(cells, "cpu", lambda _: None)
    tmp_path.chmod(0o1777)
    with pytest.raises(LaunchError, match=f"{name} names, .*: others can change it"):
        settings.check_interpreters(cells, "cpu", lambda _: None)


def test_a_cache_that_no_launch_uses_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o1777)
    for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "JAX_COMPILATION_CACHE_DIR", "PIP_CACHE_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
    settings.check_interpreters([Cell("imdb_lstm", "jax")], "cpu", lambda _: None)


ARGUMENTS = ("suite", "--benchmark-save=r", "--workload=imdb_lstm", "--launches=1", "--release=jax=0.9.2")
LOCK = f"# CPython 3.11\njax==0.9.2 --hash=sha256:{'a' * 64}\n"


@pytest.fixture
def released(suite: Suite, tmp_path: Path) -> Suite:
    """A suite whose cache holds JAX 0.9.2, with the stand-in for its Python."""
    place = tmp_path / "cache" / "releases" / "jax-0.9.2"
    (place / "bin").mkdir(parents=True)
    (place / "bin" / "python").symlink_to(suite.environment["SUITE_PYTHON_JAX"])
    (place / LOCK_FILE).write_text(LOCK)
    suite.environment |= {"SUITE_CACHE_DIR": str(tmp_path / "cache"), "UV_DEFAULT_INDEX": "http://127.0.0.1:9/simple"}
    return suite


@pytest.mark.launches
def test_a_release_is_measured_alone_and_the_run_keeps_its_lock(released: Suite) -> None:
    done = released(*ARGUMENTS)
    assert done.status == 0, done.output
    (saved,) = done.saved.values()
    (record,) = records_of(saved)
    assert record.cell.id == "imdb_lstm-jax-fp32-b32-compile-tuned-0.9.2"
    (journal,) = done.journals
    for run in (saved["suite"]["run"], read(journal)[0]):
        assert run["locks"] == {"jax 0.9.2": LOCK}
        assert run["typed"]["release"] == "jax=0.9.2"


def test_a_release_that_cannot_be_resolved_ends_the_session_in_one_line(released: Suite) -> None:
    refused(released("suite", "--release=jax=newest"), "the package index does not answer")
    refused(released("suite", "--release=0.9.2"), "begin with a framework, such as jax=0.9.2")
