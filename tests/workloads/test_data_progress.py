"""What is shown: progress of what may take longer than two seconds, and what ``training-suite data`` prints."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace

import pytest
from data_makers import cifar_files, put, unpacked
from test_data_cache import change_a_byte
from test_data_fetch import cut_after, get, host, status, whole  # noqa: F401 - a fixture
from test_data_prepare import ROOT, SOURCE, cache, data, names, no_network, real, small_twins  # noqa: F401 - fixtures

from suite.data.__main__ import main
from workloads.data import progress as module
from workloads.data.cache import open_cached
from workloads.data.progress import byte_progress, print_to_stderr, progress, waiting

# ruff: noqa: F811 - arguments named after imported fixtures


@pytest.fixture
def at_once(monkeypatch):
    """As if each step took longer than two seconds."""
    for name in ("QUIET_S", "EVERY_S"):
        monkeypatch.setattr(module, name, 0.0, raising=False)


def steps(text: str) -> list[str]:
    """The descriptions in the order in which they came, each once."""
    return list(dict.fromkeys(line.rpartition(": ")[0] for line in text.splitlines()))


def test_real_cifar100_is_never_silent(real, at_once, capsys, data):
    real()
    assert steps(capsys.readouterr().err) == [
        f"reading {SOURCE.archive.file}",
        "cifar100: hashing",
        "cifar100: writing",
    ]
    real()
    assert steps(capsys.readouterr().err) == ["cifar100: hashing"]
    SOURCE.read(unpacked(data / "below", SOURCE.folder, cifar_files()))
    assert steps(capsys.readouterr().err)[0] == "cifar100: reading"


def test_a_download_says_where_it_goes_and_why_it_waits(host, real, tmp_path, capsys):
    url = f"http://127.0.0.1:{host.port}/some/data.tar.gz"
    with pytest.raises(RuntimeError, match="no real"):
        real(directory=None, official=replace(SOURCE, archive=replace(host.archive, bytes=1)))
    assert real.said == [f"cifar100: downloading {url} (0 MiB)"]
    host.answers = [cut_after(1000), status(503), whole]
    get(host, tmp_path / "other")
    lines = capsys.readouterr().err.splitlines()
    assert [line.startswith(f"{url}: ") and "; trying again in " in line for line in lines] == [True, True]
    assert "503" in lines[1]


class Clock:
    def __init__(self, monkeypatch):
        self.now = 0.0
        monkeypatch.setattr(module.time, "monotonic", lambda: self.now)


def test_a_log_gets_nothing_for_two_seconds_and_then_a_line_every_ten(monkeypatch, capsys):
    clock = Clock(monkeypatch)
    for _ in progress(range(30), "counting", "review"):
        clock.now += 1
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["counting: 2 of 30 reviews", "counting: 12 of 30 reviews", "counting: 22 of 30 reviews"]
    with byte_progress("hashing", 2**20, 5 * 2**20) as advance:
        clock.now += 2
        advance(2**21)
    assert capsys.readouterr().err == "hashing: 3 of 5 MiB\n"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_gets_a_bar_at_once(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    for _ in progress(range(3), "counting", "review"):
        assert "counting" in terminal.getvalue()
    with byte_progress("hashing", 0, 2**20) as advance:
        assert "hashing" in terminal.getvalue()
        advance(2**20)


def test_what_is_printed_beside_a_bar_stands_above_it_and_names_are_no_markup(monkeypatch, capsys):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with byte_progress("[red]data.tar.gz", 0, 2**20):
        print_to_stderr("trying again")
    assert "[red]data.tar.gz" in terminal.getvalue()
    assert "trying again" in terminal.getvalue()
    assert sys.stderr is terminal


def test_a_wait_without_steps_is_told_of_in_a_log(at_once, capsys, monkeypatch):
    monkeypatch.setattr(module, "QUIET_S", 0.01)
    monkeypatch.setattr(module, "EVERY_S", 0.01)
    with waiting("installing") as describe:
        told = ""
        while "installing: 0 s so far\n" not in told:
            told += capsys.readouterr().err
        describe("checking")
        while "checking: 0 s so far\n" not in told:
            told += capsys.readouterr().err
    capsys.readouterr()
    assert not [thread for thread in threading.enumerate() if thread.name == "waiting"]


# ruff: noqa: F811 - arguments named after imported fixtures


def test_command_fetch_verify_where(cache, capsys):
    base = ["--cache-dir", str(cache)]
    assert main(["where", *base]) == 0
    assert "imdb      not cached" in capsys.readouterr().out
    assert main(["verify", *base]) == 1
    assert "nothing is cached" in capsys.readouterr().err
    assert main(["fetch", "imdb", "--source", "synthetic", *base]) == 0
    line = capsys.readouterr().out
    assert "imdb      synthetic" in line
    assert str(cache / "imdb-synthetic-v1") in line
    assert main(["verify", *base]) == 0
    assert capsys.readouterr().out.endswith("verified\n")
    change_a_byte(cache / "imdb-synthetic-v1")
    assert main(["where", *base]) == 0
    assert open_cached(cache / "imdb-synthetic-v1").digest[:16] in capsys.readouterr().out
    assert main(["verify", *base]) == 1
    assert "is damaged" in capsys.readouterr().err


def test_command_verify_knows_the_official_digests(real, cache, capsys):
    real()
    assert main(["verify", "--cache-dir", str(cache)]) == 1
    assert "is not the official cifar100" in capsys.readouterr().err


def test_command_fetch_without_real_data(cache, capsys):
    assert main(["fetch", "--cache-dir", str(cache)]) == 1
    errors = [line for line in capsys.readouterr().err.splitlines() if ": downloading " not in line]
    assert [line.split(":")[0] for line in errors[::2]] == ["error", "error"]
    assert "synthetic twin of cifar100" in errors[1]
    assert "synthetic twin of imdb" in errors[3]
    assert main(["fetch", "--cache-dir", str(cache), "--source", "auto"]) == 0
    assert names(cache) == ["cifar100-synthetic-v1", "downloads", "imdb-synthetic-v1"]


def test_command_with_a_broken_source_goes_on_with_the_others(tmp_path, cache, capsys):
    put(tmp_path / "data" / SOURCE.archive.file, b"broken")
    assert main(["fetch", "--cache-dir", str(cache), "--data-dir", str(tmp_path / "data"), "--source", "auto"]) == 1
    output, errors = capsys.readouterr()
    assert "error: " in errors
    assert "synthetic twin of cifar100" not in errors
    assert output.startswith("imdb      synthetic")


@pytest.mark.parametrize("arguments", [[], ["fetch", "mnist"], ["fetch", "--source", "x"], ["other"]])
def test_command_wrong_usage(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_command_interrupted(cache):
    # What starts the tests in the background may have them ignore SIGINT, and children inherit that.
    code = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    code += "from suite.data.__main__ import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "fetch", "cifar100", "--source", "synthetic", "--cache-dir", str(cache)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=-1, stderr=-1, text=True)
    assert process.stderr is not None
    assert "generating" in process.stderr.readline()
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert errors.startswith("training-suite data: interrupted; ")
    assert len(errors.splitlines()) == 1
    assert output == ""
    assert names(cache) == []
