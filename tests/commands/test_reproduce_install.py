"""Environments from a stored result: nothing of it becomes an option, a path, or another project's package."""

from __future__ import annotations

import os
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from suite.analysis.records.load import LoadError
from suite.catalog.frameworks import FRAMEWORKS
from suite.releases import uv
from suite.reproduce.__main__ import main
from suite.reproduce.install import INSTALLABLE, WORKER_REQUIREMENTS, install, requirements_of
from suite.reproduce.verdicts import by_cell
from tests import records

Commands = list[list[str]]


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> Commands:
    done: Commands = []
    monkeypatch.setattr(uv, "run", lambda _, *words: done.append(list(words)))
    monkeypatch.setenv("SUITE_PYTHON_JAX", "")
    return done


def named(packages: Any) -> Any:
    return by_cell([records.record("jax", environment={"packages": packages})])


def test_what_is_installed_are_the_versions_of_the_records(commands: Commands, tmp_path: Path) -> None:
    told: list[str] = []
    stored = named({"jax": "0.10.2", "jaxlib": "0.10.2", "numpy": "2.4.1"})
    install(stored, tmp_path, agreed=False, ask=lambda _: "y\n", say=told.append)
    python = str(tmp_path / "jax" / "bin" / "python")
    wanted = ["jax==0.10.2", "jaxlib==0.10.2", "numpy==2.4.1", *WORKER_REQUIREMENTS]
    assert commands == [
        ["venv", "--allow-existing", "--python", sys.executable, str(tmp_path / "jax")],
        ["pip", "install", "--python", python, "--", *wanted],
    ]  # fmt: skip
    assert os.environ["SUITE_PYTHON_JAX"] == python
    assert "jax==0.10.2 jaxlib==0.10.2 numpy==2.4.1 msgspec>=0.22,<0.23 psutil" in told[0]


@pytest.mark.parametrize("answer", ["", "n", "no", "nay", "yo"])
def test_nothing_is_installed_unless_somebody_says_yes(answer: str, commands: Commands, tmp_path: Path) -> None:
    told: list[str] = []
    with pytest.raises(LoadError, match="nothing was installed"):
        install(named({"jax": "0.10.2"}), tmp_path, agreed=False, ask=lambda _: answer, say=told.append)
    assert not commands
    assert "jax==0.10.2" in told[0]
    install(named({"jax": "0.10.2"}), tmp_path, agreed=True, ask=lambda _: "n", say=told.append)
    assert commands


@pytest.mark.parametrize("packages", [
    {"jax": "0.10.2", "-e": "/tmp/evil"},
    {"jax": "0.10.2", "-e /tmp/evil": "1"},
    {"jax": "0.10.2", "--find-links=http://example.org": "1"},
    {"jax": "0.10.2", "torchevil": "1.0"},
    {"jaxevil": "1.0"},
    {"jax": "0.10.2", "torch": "2.13.0"},
    {"jax": "0.10.2 --index-url=http://example.org"},
    {"jax": "0.10.2;evil"},
    {"jax": "@ file:///tmp/evil"},
    {"jax": "*"},
    {"jax": ["0.10.2"]},
    {"jax": None},
    {"jax[evil]": "0.10.2"},
    {"jax ": "0.10.2"},
    {"../jax": "0.10.2"},
    {"numpy": "2.0"},
    {"jax": "1" * 10_000 + "x"},
    ["jax"],
    {},
])  # fmt: skip
def test_what_is_no_package_of_this_project_or_no_version_is_refused(
    packages: Any, commands: Commands, tmp_path: Path
) -> None:
    with pytest.raises(LoadError) as error:
        install(named(packages), tmp_path, agreed=True, ask=lambda _: "y", say=lambda _: None)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 300
    assert not commands
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_somebody_elses_is_left_alone(commands: Commands, tmp_path: Path) -> None:
    (tmp_path / "jax").mkdir()
    (tmp_path / "jax" / "thesis.tex").write_text("done")
    with pytest.raises(LoadError, match="is not a virtual environment, so it is left alone"):
        install(named({"jax": "0.10.2"}), tmp_path, agreed=True, ask=lambda _: "y", say=lambda _: None)
    assert not commands


def test_local_builds_become_versions_that_every_index_has() -> None:
    (cell,) = by_cell([records.record("pytorch", environment={"packages": {"torch": "2.13.0+cpu"}})]).values()
    assert requirements_of("pytorch", cell) == ["torch==2.13.0"]


def test_what_may_be_installed_is_what_the_project_installs_itself() -> None:
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    assert set(WORKER_REQUIREMENTS) - {"psutil"} <= set(project["dependencies"])
    extras = project["optional-dependencies"]
    for framework, names in INSTALLABLE.items():
        source = Path(f"suite/worker/frameworks/{framework}/training.py").read_text()
        (told,) = re.findall(r"^DISTRIBUTIONS = \((.*)\)", source, re.M)
        recorded = set(re.findall(r'"([\w-]+)"', told))
        interfaces = {"keras", "lightning"} if framework == "pytorch" else {"keras"}
        assert set(names) == recorded | {"numpy"} | interfaces, "Keras is an interface of each"
        assert extras["keras"][0] in extras["tensorflow-cpu"], "one version of Keras for all"
        own = {re.match(r"[\w-]+", need)[0] for kind in ("cpu", "cuda") for need in extras[f"{framework}-{kind}"]}
        assert own <= set(names)
        assert set(FRAMEWORKS[framework].distributions) <= own


def test_the_command_refuses_a_stored_file_that_names_an_option(
    commands: Commands, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    held = [records.record("jax", environment={"packages": {"jax": "1", "-e/tmp/evil": "2"}})]
    path = records.save(tmp_path / "0001_a.json", held)
    assert main([str(path), "--install", str(tmp_path / "venvs"), "--yes"]) == 2
    assert "names the package '-e/tmp/evil', which may not be installed" in capsys.readouterr().err
    assert not commands


@pytest.mark.parametrize(("run", "words"), [
    ({"plan": {"min_window_s": 1.0, "evil": 1}}, "plan cannot be used: plan has unknown fields"),
    ({"plan": {"min_window_s": "long"}}, "plan cannot be used: min_window_s is"),
    ({"plan": {"windows": 10**9}}, "plan cannot be used: windows is"),
    ({"plan": [1]}, "plan cannot be used"),
])  # fmt: skip
def test_a_stored_plan_that_is_none_is_refused_in_one_line(
    run: dict[str, Any], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = records.save(tmp_path / "0001_a.json", [records.replace(records.record("jax"), run={"id": "a", **run})])
    assert main([str(path), "--journals", str(tmp_path / "j")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line


def test_a_stored_device_that_is_none_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = records.save(tmp_path / "0001_a.json", [records.record("jax", settings={"device": "\x1b[31mtpu"})])
    assert main([str(path), "--journals", str(tmp_path / "j")]) == 2
    assert "device is '[31mtpu'; choose one with --device" in capsys.readouterr().err
