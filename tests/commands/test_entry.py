"""Every command ends alike: interrupted, without a reader, on a full disk, and started from a notebook."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

import psutil
import pytest

from framework_training_suite import called
from suite.__main__ import COMMANDS

ROOT = Path(__file__).parents[2]
#: Every command as a module of its own, and that which lists them.
MODULES = sorted({module for module, _ in COMMANDS.values()})


def environment(**more: str) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST_XDIST"))} | more


def run(*arguments: str, stdout: int = subprocess.PIPE, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *arguments], cwd=ROOT, env=environment(**more), stdout=stdout, stderr=subprocess.PIPE,
        text=True, check=False, timeout=120,
    )  # fmt: skip


@pytest.mark.parametrize("module", MODULES)
def test_ctrl_c_is_one_line(module: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(argparse.ArgumentParser, "parse_known_args", interrupt)
    monkeypatch.setattr(sys, "argv", [module, "plain"])  # `suite.checks` takes a word first
    assert import_module(f"{module}.__main__").main() == 130
    told, line = capsys.readouterr()
    assert (told, line.count("\n")) == ("", 1)
    assert line.startswith((f"{called(module)}: interrupted", "training-suite checks plain: interrupted"))


def test_ctrl_c_while_a_command_is_imported_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "scipy.py").write_text("raise KeyboardInterrupt")
    done = run("suite.compare", PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "training-suite compare: interrupted\n")


def test_ctrl_c_ends_the_doctor_and_whoever_it_asks(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexec sleep 600\n")
    python.chmod(0o755)
    asked = {f"SUITE_PYTHON_{name}": str(python) for name in ("PYTORCH", "TENSORFLOW", "JAX")}
    # What starts the tests in the background may have them ignore SIGINT, and children inherit that.
    code = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    code += "from suite.doctor.__main__ import main; sys.exit(main([]))"
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, env=environment(**asked), stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr
        assert process.stderr.readline().startswith("asking ")
        while len(started := psutil.Process(process.pid).children()) < len(asked):
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == "training-suite doctor: interrupted\n"
        assert process.wait(20) == 130
    _, alive = psutil.wait_procs(started, timeout=5)
    assert not alive


#: `test_ctrl_c_is_one_line` shows that all have the same entry; `run` is pytest after it.
SOME = (("suite", "--help"), ("suite.compare", "--help"), ("suite.run", "--collect-only"))


@pytest.mark.parametrize(("module", "option"), SOME)
def test_a_full_disk_is_one_line(module: str, option: str) -> None:
    with Path("/dev/full").open("wb") as full:
        done = run(module, option, stdout=full.fileno())
    assert done.returncode == 2
    assert done.stderr == f"{called(module)}: its output cannot be written: No space left on device\n"


@pytest.mark.parametrize(("module", "option"), SOME)
def test_a_reader_that_has_left_is_no_error(module: str, option: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = run(module, option, stdout=writer)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_letter_that_the_terminal_lacks_is_a_question_mark(tmp_path: Path) -> None:
    path = tmp_path / "na\u00efve \u2026.bundle"
    path.write_bytes(b"nonsense")
    done = run("suite.verify", str(path), PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("na?ve ?.bundle\n")


def test_a_command_goes_on_to_its_end_without_a_reader(tmp_path: Path) -> None:
    """Its files are written, and its exit status is its own."""
    code = (
        "import sys\nfrom pathlib import Path\nfrom framework_training_suite import entry\n"
        "@entry()\ndef main():\n    for _ in range(10_000): print('a line', flush=True)\n"
        f"    Path({str(tmp_path / 'written')!r}).touch()\n    return 7\nsys.exit(main())"
    )
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=-1, stderr=-1, text=True) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(20) == 7
    assert (tmp_path / "written").exists()


@pytest.mark.parametrize("backend", ["inline", "nonsense"])
def test_the_backend_of_a_notebook_ends_no_command(backend: str) -> None:
    done = run("suite.compare", "--help", MPLBACKEND=backend)
    assert (done.returncode, done.stderr) == (0, "")
