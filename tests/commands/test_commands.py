"""``python -m suite``: the commands, and that each of them is there."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from argparse import Namespace
from importlib import import_module
from pathlib import Path

import pytest

import framework_training_suite as installed
from framework_training_suite import spelled, typed
from suite import __main__ as door
from suite.__main__ import COMMANDS
from suite.catalog.suggest import unknown_option
from suite.plan.command import common
from suite.plan.command.options import GROUPS, NAMES, OF_PYTEST, OPTIONS, SHORT, names
from suite.plan.command.pytest_arguments import command_words, pytest_arguments
from suite.run import __main__ as running
from suite.session.launches.settings import Settings
from tests import records

ROOT = Path(__file__).parents[2]


def suite(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "suite", *arguments]
    return subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, check=False, timeout=120,
        env={"PYTHONPATH": str(ROOT), "PATH": "", "CUDA_VISIBLE_DEVICES": "", "COLUMNS": "100"},
    )  # fmt: skip


def test_without_a_command_all_are_listed_one_per_line() -> None:
    listed = door.listing()
    for name, (_, words) in door.COMMANDS.items():
        assert sum(line.split() == [name, *words.split()] for line in listed.splitlines()) == 1
    assert max(map(len, listed.splitlines())) <= 100
    rooms = {path.parent.name for path in (ROOT / "suite").glob("*/__main__.py")}
    assert rooms == door.COMMANDS.keys()


@pytest.mark.parametrize("name", sorted(door.COMMANDS))
def test_a_command_runs_its_module(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In this process, as a fresh one imports for a second; the next tests and those of each command start some."""
    module = door.COMMANDS[name][0]
    monkeypatch.setattr(sys, "argv", ["suite", name, "--help"])
    monkeypatch.delitem(sys.modules, f"{module}.__main__", raising=False)
    with pytest.raises(SystemExit, match=r"^0$"):
        door.main()
    assert capsys.readouterr().out.startswith(f"usage: training-suite {name}")


def test_a_typo_is_refused_with_the_nearest_command() -> None:
    done = suite("comapre")
    assert done.returncode == 2
    assert done.stdout == ""
    assert "unknown command 'comapre'; did you mean 'compare'?" in done.stderr


def test_run_is_pytest_on_the_suite_wherever_it_is_called(tmp_path: Path) -> None:
    done = suite(
        "run",
        "--collect-only",
        "-q",
        "--workload=imdb_lstm",
        "--batch=7",
        "--launches=2",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout
    assert "test_training[imdb_lstm-jax-fp32-b7-compile-tuned-launch1]" in done.stdout
    assert "6 tests collected" in done.stdout


def test_the_help_of_run_teaches_the_options_of_the_suite_by_examples() -> None:
    done = suite("run", "--help")
    assert done.returncode == 0, done.stderr
    shown, every = done.stdout, suite("run", "--help-all").stdout
    titles = [f"\n{title}:\n" for title in GROUPS]
    assert [title in shown for title in titles] == [at < SHORT for at in range(len(titles))]
    assert all(title in every for title in titles)
    of = {each.flags[0] for each in (*OPTIONS, *OF_PYTEST, common.JOURNAL_FOLDER)}
    assert not {name for name in of if f"\n  {name}" not in every}
    assert "--durations" not in every, "options of pytest itself are left out"


@pytest.mark.parametrize(("typed", "given"), [
    ([], ["suite", "--benchmark-save"]),
    (["-k", "jax", "--resume"], ["suite", "-k", "jax", "--resume", "--benchmark-save"]),
    (["--benchmark-save=a"], ["suite", "--benchmark-save=a"]),
    (["--no-save"], ["suite", "--no-save"]),
])  # fmt: skip
def test_run_saves_unless_it_is_told_not_to(
    typed: list[str], given: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    assert pytest_arguments(typed) == given
    assert command_words(given) == ("training-suite run", typed), "and a command that goes on says what was typed"
    monkeypatch.chdir("/")
    assert command_words(pytest_arguments(typed)) == ("training-suite run", typed)


def test_a_session_of_a_file_goes_on_as_it_was_typed() -> None:
    assert command_words(["suite/test_training.py", "-q"]) == ("pytest", ["suite/test_training.py", "-q"])


@pytest.mark.parametrize(("of_pytest", "status"), [(0, 0), (1, 1), (2, 130), (3, 1), (4, 2), (5, 1)])
def test_run_ends_with_the_statuses_of_all_commands(
    of_pytest: int, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pytest, "main", lambda _: of_pytest)
    assert running.measure([]) == status


def test_what_pytest_knows_is_not_taken_for_a_mistyped_option(pytestconfig: pytest.Config) -> None:
    own, cheap = set(names(pytestconfig._parser)), [flag for each in OPTIONS for flag in each.flags]
    every = {name for group in pytestconfig._parser._groups for each in group.options for name in each.names()}
    strange = [name for name in every - own if name not in NAMES]
    assert [name for name in strange if unknown_option([name], [name], cheap, "training-suite run")] == []


def test_the_page_on_commands_names_all() -> None:
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    assert [name for name in COMMANDS if f"`training-suite {name}" not in page] == []


def test_the_console_script_is_this_command(monkeypatch: pytest.MonkeyPatch) -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    module, _, function = scripts["training-suite"].partition(":")
    monkeypatch.setattr(sys, "argv", ["training-suite"])
    assert getattr(import_module(module), function)() == 0
    assert "PYTEST_DONT_REWRITE" in str(import_module(module).__doc__), "pytest warns of what is imported before it"


def program(folder: Path, *names: str) -> Path:
    """A folder of programs."""
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).touch(0o755)
    return folder


PROGRAMS = ("python", "pytest", "training-suite")


def test_a_command_is_shown_as_the_shell_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, other = program(tmp_path / "env/bin", *PROGRAMS), program(tmp_path / "other", *PROGRAMS)
    monkeypatch.setattr(sys, "executable", str(own / "python3"))
    monkeypatch.delenv("TOX_ENV_DIR", raising=False)
    monkeypatch.chdir(tmp_path)
    for path in (own, f"{own}:{other}"):
        monkeypatch.setenv("PATH", str(path))
        assert [typed("training-suite run"), typed("pytest suite -k a")] == ["training-suite run", "pytest suite -k a"]
    monkeypatch.setenv("PATH", f"{other}:{own}")
    assert [typed("training-suite run"), typed("pytest")] == ["env/bin/training-suite run", "env/bin/pytest"]
    text = "write `training-suite run`, not /x/training-suite run or framework-training-suite 3"
    assert spelled(text) == text.replace("`training-suite", "`env/bin/training-suite")
    monkeypatch.chdir(own)
    assert typed("pip install 'a b'") == "./python -m pip install 'a b'"
    monkeypatch.chdir(other)
    assert typed("pytest suite") == f"{own}/pytest suite"
    (own / "training-suite").unlink()
    assert typed("training-suite run") == f"{own}/python -m suite run", "where the suite is not installed"
    (own / "python").unlink()
    assert typed("training-suite") == f"{own}/python3 -m suite"


def test_in_an_environment_of_tox_it_is_shown_as_the_shell_outside_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = program(tmp_path / ".tox/bench/bin", "python", "pytest")
    monkeypatch.setattr(installed, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "executable", str(inner / "python"))
    monkeypatch.setenv("TOX_ENV_DIR", str(inner.parent))
    monkeypatch.setenv("PATH", f"{inner}:{tmp_path / '.venv/bin'}")
    monkeypatch.chdir(tmp_path)
    assert typed("pytest suite") == ".tox/bench/bin/pytest suite"
    outer = program(tmp_path / ".venv/bin", "python", "pytest")
    assert typed("pytest suite") == ".tox/bench/bin/pytest suite", "where tox is alone in the outer environment"
    (outer.parent / "lib/python3.11/site-packages/pytest").mkdir(parents=True)
    assert typed("pytest suite") == "pytest suite", "which is entered"
    monkeypatch.setenv("PATH", str(inner))
    assert typed("pytest suite") == ".venv/bin/pytest suite"


class StopError(Exception):
    pass


@pytest.mark.parametrize(("command", "arguments"), [
    ("tune", ["--workload", "imdb_lstm", "--no-probe", "--batch", "8,16"]),
    ("reproduce", ["0001_a.json"]),
    ("profile", ["imdb_lstm-tensorflow"]),
])  # fmt: skip
def test_each_command_that_launches_takes_a_trusted_network(
    command: str, arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TensorFlow's processes on several hosts need it, and `pytest suite` is not the only one that starts them."""

    def settings(options: Namespace, *_: object, **__: object) -> None:
        raise StopError(options.trusted_network)

    monkeypatch.chdir(tmp_path)
    records.save(tmp_path / "0001_a.json", records.launches(n=1))
    module = import_module(f"suite.{command}.__main__")
    monkeypatch.setattr(Settings, "of", settings)
    for given in (True, False):
        with pytest.raises(StopError, match=str(given)):
            module.main([*arguments, *(["--trusted-network"] if given else [])])


def at(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Python in a folder of the user's, as where the suite is installed."""
    environment = {"PYTHONPATH": str(ROOT), "PATH": "", "COLUMNS": "100"}
    command = [sys.executable, "-W", "error", "-m", *arguments]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env=environment, check=False, timeout=120
    )


PYTEST = ("pytest", "-p", "framework_training_suite", "--pyargs", "suite", "-q")


@pytest.mark.parametrize("first", [(), ("-p", "benchmark")], ids=["before", "after"])
def test_where_it_is_installed_pytest_knows_the_options(first: tuple[str, ...], tmp_path: Path) -> None:
    """As from a wheel: the entry point's plugin, before or after pytest-benchmark's, without the suite's settings."""
    command = (PYTEST[0], *first, *PYTEST[1:])
    done = at(tmp_path, *command, "--collect-only", "--workload=imdb_lstm", "--launches=2", "--benchmark-save")
    assert "6 tests collected" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("command", ["suite", "suite.compare", "suite.doctor", " ".join(PYTEST)])
def test_a_package_workloads_of_the_users_own_is_named_in_one_line(command: str, tmp_path: Path) -> None:
    (tmp_path / "workloads").mkdir()
    (tmp_path / "workloads" / "__init__.py").touch()
    done = at(tmp_path, *command.split())
    assert done.returncode == (4 if "pytest" in command else 1)
    assert done.stdout.strip() == ""
    (line,) = done.stderr.strip().splitlines()
    assert f"{tmp_path}/workloads hides the suite's package 'workloads' in {ROOT}: run `training-suite`" in line


def test_a_package_suite_of_the_users_own_is_tested_as_if_nothing_were_installed(tmp_path: Path) -> None:
    """And where pytest refuses an option, the line says whose package it looked at."""
    (tmp_path / "suite").mkdir()
    (tmp_path / "suite" / "__init__.py").touch()
    (tmp_path / "suite" / "test_own.py").write_text(
        "def test_own(request):\n    assert not request.config.option.xyz\n"
    )
    (tmp_path / "conftest.py").write_text("def pytest_addoption(parser):\n    parser.addoption('--xyz', default=0)\n")
    own = at(tmp_path, *PYTEST)
    assert own.returncode == 0, own.stdout + own.stderr
    assert own.stdout.splitlines()[-1].startswith("1 passed")
    refused = at(tmp_path, *PYTEST, "--workload=imdb_lstm")
    assert f"{tmp_path}/suite hides the suite's package 'suite': run `training-suite`" in refused.stderr
    assert "Traceback" not in refused.stdout + refused.stderr
