"""A library that is missing is one line, which names it and the way out, and status 2: from every command."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import framework_training_suite as door
from suite.__main__ import COMMANDS

pytestmark = pytest.mark.launches

ROOT = Path(__file__).parents[2]

#: Every command as a module of its own.
MODULES = sorted({module for module, _ in COMMANDS.values()})
#: What an installation without extras has, and what pytest itself needs.
CORE = ("msgspec", "numpy", "numpy.libs", "psutil")
PYTEST = ("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments", "py.py")
#: Commands that do something useful in an installation without extras; those of the others are to say what they lack.
CORE_IS_ENOUGH = (
    "suite.data",
    "suite.doctor",
    "suite.export",
    "suite.list",
    "suite.new",
    "suite.prove",
    "suite.submit",
    "workloads.data",
)


#: What is asked of a command whose help needs no more than that.
ASKED = {
    "suite.bisect": ("imdb_lstm-jax", "--good", "0.9.0", "--bad", "0.9.2"),
    "suite.checks": ("plain",), "suite.compare": (), "suite.plot": ("smoke",),
    "suite.profile": ("imdb_lstm-jax",),
    "suite.reproduce": ("smoke",), "suite.script": ("sh",), "suite.tune": ("--no-probe",),
}  # fmt: skip


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment in which nothing is installed."""
    place = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True, timeout=120)
    return place / "bin" / "python"


def with_libraries(folder: Path, *names: str) -> str:
    """A folder for PYTHONPATH with these of the running environment's packages."""
    folder.mkdir()
    for name in names:
        spec = importlib.util.find_spec(name.partition(".")[0])
        assert spec
        assert spec.origin
        inside = Path(spec.origin).parent if Path(spec.origin).stem != "__init__" else Path(spec.origin).parents[1]
        if (inside / name).exists():  # numpy.libs is in wheels alone
            (folder / name).symlink_to(inside / name)
    return str(folder)


def run(python: Path, *arguments: str, path: str = "", cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.defpath, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "HOME": str(python.parent)}
    return subprocess.run(
        [str(python), *arguments], cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=120
    )


def is_one_line(done: subprocess.CompletedProcess[str], python: Path, status: int = 2) -> str:
    """Asserts that a library is missing, and returns the line."""
    assert done.returncode == status, done.stdout + done.stderr
    assert done.stdout.strip() == ""
    (line,) = done.stderr.strip().splitlines()
    assert f" in {python}: " in line
    assert "[controller]" in line or ", which has " in line
    return line


@pytest.mark.parametrize("module", MODULES)
def test_nothing_is_installed(module: str, bare: Path) -> None:
    line = is_one_line(run(bare, "-m", module, *ASKED.get(module, ())), bare)
    assert line.startswith(f"{door.called(module)}: No module named '")
    assert line.split("'")[1] in door.LIBRARIES


def test_the_commands_are_listed_all_the_same(bare: Path) -> None:
    done = run(bare, "-m", "suite")
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in COMMANDS)


@pytest.mark.parametrize("name", ["compare", "run", "data"])
def test_nothing_is_installed_for_the_one_command(name: str, bare: Path) -> None:
    is_one_line(run(bare, "-m", "suite", name), bare)
    script = "import sys; sys.argv[0] = 'training-suite'; import framework_training_suite as d; sys.exit(d.main())"
    assert is_one_line(run(bare, "-c", script, name), bare).startswith("training-suite")


def test_an_installation_without_extras(bare: Path, tmp_path: Path) -> None:
    path = with_libraries(tmp_path / "core", *CORE)
    for module in MODULES:
        arguments = ASKED.get(module, ("--help",))
        done = run(bare, "-m", module, *arguments, path=path)
        if module in CORE_IS_ENOUGH:
            assert done.returncode == 0, done.stderr
        else:
            is_one_line(done, bare)


def test_pytest_without_what_a_run_needs_to_its_end(bare: Path, tmp_path: Path) -> None:
    """With the meaning of wrong usage, as pytest gives its statuses."""
    path = with_libraries(tmp_path / "some", *CORE, *PYTEST)
    line = is_one_line(run(bare, "-m", "pytest", "suite", path=path), bare, status=4)
    for name in ("pytest_benchmark", "pandas", "rich", "scipy"):
        assert f"'{name}'" in line
    assert is_one_line(run(bare, "-m", "suite", "run", path=path), bare).partition(": ")[2] == line.partition(": ")[2]


def test_the_way_out_is_the_environment_that_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in (".venv", ".tox/bench"):
        (tmp_path / place / "bin").mkdir(parents=True)
        (tmp_path / place / "lib/python3.11/site-packages").mkdir(parents=True)
    monkeypatch.setattr(door, "ROOT", tmp_path)
    monkeypatch.chdir(tmp_path)
    absent = "no_such_library"
    assert ".tox/bench" not in door.lack([absent])
    (tmp_path / ".tox/bench/lib/python3.11/site-packages" / absent).mkdir()
    assert "use .tox/bench/bin/python, which has it" in door.lack([absent])
    (tmp_path / ".venv/lib/python3.11/site-packages" / absent).mkdir()
    assert "use .venv/bin/python, which has it" in door.lack([absent])
    assert door.lack(["json", "sys"]) == ""


def test_another_error_keeps_its_traceback(bare: Path, tmp_path: Path) -> None:
    """One in the suite's own code, or of a library that no extra of the controller has."""
    for number, code in enumerate(("import suite.nothing", "import nothing", "raise ValueError")):
        (tmp_path / f"own{number}.py").write_text(f"import framework_training_suite as d\nd.begin_command()\n{code}\n")
        done = run(bare, str(tmp_path / f"own{number}.py"), path=str(ROOT))
        assert done.returncode == 1
        assert "Traceback" in done.stderr


def test_the_libraries_are_those_of_the_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = [*project["dependencies"], *project["optional-dependencies"]["controller"]]
    other_names = {"PIL": "pillow", "pynvml": "nvidia-ml-py", "pytest_benchmark": "pytest-benchmark"}
    distributions = {line.partition("=")[0].partition(">")[0] for line in listed}
    assert {other_names.get(name, name) for name in door.LIBRARIES} == distributions
    assert set(door.MEASURING) <= set(door.LIBRARIES)
