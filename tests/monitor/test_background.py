"""What other processes take of the CPU before a run, and waiting for them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from suite.monitor import background
from suite.monitor.background import Background, settle

IDLE, BUSY = Background(0.1, 2), Background(1.5, 2)


class Machine:
    """Gives one measurement after the other, each taking a second, and keeps what was said."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *loads: Background) -> None:
        self.loads: Iterator[Background] = iter(loads)
        self.now_s = 100.0
        self.said: list[str] = []
        self.shown: list[str] = []
        monkeypatch.setattr(background.time, "monotonic", lambda: self.now_s)

    def measure(self) -> Background:
        self.now_s += 1.0
        return next(self.loads)

    def settle(self, wait_s: float | None) -> Background:
        return settle(wait_s, self.said.append, self.shown.append, self.measure)


def test_an_idle_machine_is_not_waited_for_and_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, IDLE)
    assert machine.settle(60.0) == Background(0.1, 2, 1.0)
    assert (machine.said, machine.shown) == ([], [])


def test_a_busy_machine_is_told_of_in_one_line_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, BUSY)
    assert machine.settle(None) == BUSY
    (line,) = machine.said
    assert line.startswith("busy machine: other processes use 1.5 of 2 cores")
    assert "--wait-idle" in line


def test_waiting_ends_when_the_machine_is_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, BUSY, BUSY, IDLE)
    assert machine.settle(60.0) == Background(0.1, 2, 3.0)
    (line,) = machine.said
    assert line.endswith("; waiting up to 60 s for it to become idle")
    assert machine.shown == [
        "waiting for an idle machine, 59 s left: other processes use 1.5 of 2 cores",
        "waiting for an idle machine, 58 s left: other processes use 1.5 of 2 cores",
    ]


def test_after_the_wait_it_goes_on_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, *[BUSY] * 9)
    assert machine.settle(4.0).waited_s == 4.0
    assert machine.said[1:] == ["warning: still busy after 4 s: other processes use 1.5 of 2 cores. Measuring anyway"]


def test_a_machine_is_busy_from_the_load_on_that_contaminates_a_launch() -> None:
    assert not Background(0.2, 2).busy
    assert Background(0.21, 2).busy
    assert not Background(0.21, 4).busy
    assert Background(0.11, 2, 0.0, 0.1).busy


def test_a_process_of_somebody_else_is_seen() -> None:
    """Started by a shell that is gone, so that it is nobody's child here."""
    spin = "import time; end = time.monotonic() + 1.5\nwhile time.monotonic() < end: pass"
    subprocess.run(["/bin/sh", "-c", '"$0" -c "$1" &', sys.executable, spin], check=True)
    load = background.measure(0.6)
    assert load.busy_cores > 0.2
    assert load.cores >= 1
    assert any(name.startswith("python") for name in load.processes)
    assert load.to_json().keys() == {"busy_cores", "cores", "waited_s", "steal_cores"}


def test_what_disturbs_is_said_with_what_to_do() -> None:
    load = Background(0.5, 2, 0.0, 0.32, ("python3", "dd"))
    assert str(load) == "other processes use 0.5 of 2 cores (python3, dd); the host steals 16 %"
    assert "--wait-idle" in load.mend
    assert str(Background(0.5, 2, 0.0, 0.02)) == "other processes use 0.5 of 2 cores"
    assert "--wait-idle" not in Background(0.1, 2, 0.0, 0.4).mend, "waiting does not end what a host does"
