"""`training-suite checks monitor`: a training that is slower while it is watched is told from one that is not."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from suite.checks import monitor as command
from suite.checks.monitor import Turns, _OverError, main
from tests.conftest import StandIn

ROUNDS = 6

#: A worker that warms up for three windows, then trains and computes in turns; windows of training that are watched are
#: slower, and every second round by some more.
TRAINS = f"""
share, scatter = float(os.environ["SHARE"]), float(os.environ["SCATTER"])
for name in ("train", "compute", "input"):
    for window in range(3):
        send(progress=name, samples_per_s=50.0)
for window in range(4 * {ROUNDS}):
    rate = 100.0 if window % 4 in (1, 2) else 100.0 * share * (1 + scatter * (-1) ** (window // 4))
    send(progress="train", samples_per_s=rate)
    send(progress="compute", samples_per_s=1.0)
time.sleep(60)
"""

ONE = ["--workload=imdb_lstm", "--framework=jax", "--device=cpu", f"--rounds={ROUNDS}"]


@pytest.fixture(autouse=True)
def _no_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(command, "prepare", lambda *_, **__: tmp_path)


@pytest.fixture
def sleeping() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


@pytest.mark.parametrize(("share", "scatter", "words", "status"), [
    ("1.0", "0.001", "within 1 %", 0), ("0.95", "0.001", "costs more", 1), ("1.0", "0.1", "undecided", 0),
])  # fmt: skip
def test_the_interval_decides(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    share: str, scatter: str, words: str, status: int,
) -> None:  # fmt: skip
    stand_in(TRAINS)
    monkeypatch.setenv("SHARE", share)
    monkeypatch.setenv("SCATTER", scatter)
    assert main(ONE) == status
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("imdb_lstm"))
    assert line.endswith(words)
    assert abs(float(line.split()[2]) - float(share)) < 0.02
    assert line.split()[4] == str(ROUNDS)


def test_a_launch_that_fails_is_told_and_does_not_pass(stand_in: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    stand_in("send(part={'outcome': {'status': 'unsupported', 'reason': 'no such thing'}})")
    assert main(ONE) == 1
    assert "unsupported: no such thing" in capsys.readouterr().out


def test_two_windows_of_four_are_watched_and_the_warm_up_does_not_count(sleeping: subprocess.Popen[bytes]) -> None:
    turns = Turns(rounds=2)
    turns.spawned(sleeping.pid, 0.0)
    for progress in ("evidence: fingerprint", "train", "train", "train", "compute", "input"):
        turns.on_progress({"progress": progress, "samples_per_s": 1.0})
    watched = []
    for _ in range(turns.windows - 1):
        watched.append(any(thread.name == "monitor" for thread in threading.enumerate()))
        turns.on_progress({"progress": "train", "samples_per_s": 90.0 if watched[-1] else 100.0})
        turns.on_progress({"progress": "compute", "samples_per_s": 1.0})
    assert watched == [True, False, False, True, True, False, False]
    with pytest.raises(_OverError):
        turns.on_progress({"progress": "train", "samples_per_s": 90.0})
    turns.watch(False)
    assert turns.ratios == pytest.approx([0.9, 0.9])
    assert turns.watched_s > 0


def test_too_few_rounds_have_no_interval() -> None:
    command_line = [sys.executable, "-m", "suite.checks", "monitor", "--rounds", "2"]
    done = subprocess.run(command_line, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    assert done.returncode == 2
    assert "at least 6" in done.stderr
