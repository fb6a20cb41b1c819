"""A run on CUDA that cannot be ends in one line, before data and launches."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from suite.session.launches import devices
from suite.session.launches.devices import cuda_problem, find_build, other_accelerator, other_problem
from tests.sessions import Suite, refused


def test_without_a_device_the_session_ends_before_data_and_launches(suite: Suite) -> None:
    suite.environment["SUITE_CACHE_DIR"] = str(suite.folder / "cache")
    done = suite("suite", "--benchmark-save", "--device=cuda", data="real")
    refused(done, "--device cuda: CUDA_VISIBLE_DEVICES hides all GPUs")
    assert not done.journals
    assert not (suite.folder / "cache").exists()
    del suite.environment["CUDA_VISIBLE_DEVICES"]
    if not Path("/dev/nvidiactl").exists():
        refused(suite("suite", "--device=cuda"), "this machine has no NVIDIA GPU")


def package(folder: Path, name: str, version: str, file: str, text: str) -> None:
    """Lays an installed package that is no more than the file that tells its build."""
    path = folder / name / file
    path.parent.mkdir(parents=True)
    path.write_text(text)
    (folder / name / "__init__.py").write_text("raise RuntimeError('it must not be imported')")
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


@pytest.mark.parametrize(
    ("framework", "name", "file", "text", "cuda"),
    [
        ("pytorch", "torch", "version.py", "debug = False\ncuda: Optional[str] = None\nhip = '6'\n", False),
        ("pytorch", "torch", "version.py", "debug = False\ncuda: Optional[str] = '13.0'\n", True),
        ("pytorch", "torch", "version.py", "cuda = '12.8'\n", True),
        ("tensorflow", "tensorflow", "python/platform/build_info.py", '([("is_cuda_build", False)])', False),
        ("tensorflow", "tensorflow", "python/platform/build_info.py", '([("is_cuda_build", True)])', True),
        ("jax", "jax", "version.py", "", False),
    ],
)
def test_a_build_is_told_from_files_without_importing_it(
    framework: str, name: str, file: str, text: str, cuda: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package(tmp_path, name, "9.8.7", file, text)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    for loaded in [one for one in sys.modules if one.partition(".")[0] == name]:
        monkeypatch.delitem(sys.modules, loaded)
    assert find_build(framework) == ("9.8.7", cuda)


@pytest.mark.parametrize("framework", devices.BUILDS)
def test_the_builds_that_are_installed_here_are_known(framework: str) -> None:
    if not find_spec(devices.BUILDS[framework][0]):
        pytest.skip(f"{framework} is not installed here")
    version, _ = find_build(framework)
    assert version[0].isdigit()


def test_a_cpu_build_in_the_environment_for_cuda_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "has_gpu", lambda: True)
    monkeypatch.setattr(devices, "_build_in", lambda framework, _: ("2.13.0+cpu", framework != "pytorch", ""))
    words = cuda_problem({"pytorch": "a", "jax": "b"})
    assert words.startswith("pytorch 2.13.0+cpu was built without CUDA: install the extra pytorch-cuda")
    assert "jax" not in words
    monkeypatch.setattr(devices, "has_gpu", lambda: False)
    assert "pytorch 2.13.0+cpu was built without CUDA" in cuda_problem({"pytorch": "a"}), "it is said without a GPU too"


def test_an_interpreter_without_the_framework_is_left_to_its_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "has_gpu", lambda: True)
    assert cuda_problem({"pytorch": "/nowhere/python"}) == ""


def test_another_accelerator_is_named_before_any_launch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package(tmp_path, "torch", "2.13.0+rocm6", "version.py", "cuda: Optional[str] = None\nhip: Optional[str] = '6.2'\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    for loaded in [one for one in sys.modules if one.partition(".")[0] == "torch"]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setattr(devices, "DEVICES", tmp_path)
    assert other_accelerator("pytorch") == "", "built for it, and not here"
    assert other_problem({"pytorch": "python"}) == ""
    (tmp_path / "kfd").touch()
    assert other_accelerator("pytorch") == "ROCm"
    monkeypatch.setattr(devices, "_build_in", lambda *_: ("2.13.0+rocm6", False, other_accelerator("pytorch")))
    assert other_problem({"pytorch": "python"}) == (
        "found ROCm (pytorch 2.13.0+rocm6), which the suite does not support yet: measure with --device cpu"
    )
