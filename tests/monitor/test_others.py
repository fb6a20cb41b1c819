"""What others took while a worker trained: shares from planted samples, and names from planted processes."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from suite.monitor import background, sampler
from suite.monitor.background import Others, find_users, name_busiest, read_times, taken_cores
from suite.monitor.sampler import Monitor
from suite.monitor.timeline import Sample, Span
from suite.record.disturbance import find_disturbances, is_disturbed
from suite.record.record import Phase, Record, Window
from tests import records
from tests.processes import wait_until

CORES = 4


def samples(until_s: float = 30.0, **per_s: Callable[[float], float]) -> list[Sample]:
    """Counters by the half second, each growing as its function of the time says."""
    values, made = dict.fromkeys(per_s, 0.0), []
    for tick in range(round(2 * until_s)):
        made.append(Sample(tick / 2, dict(values)))
        values = {name: value + per_s[name](tick / 2) / 2 for name, value in values.items()}
    return made


def annotated(monkeypatch: pytest.MonkeyPatch, host: list[Sample], *trained: tuple[float, float]) -> Record:
    """The record of a launch whose train windows lay in these bursts, of half a minute that is also timed otherwise."""
    monkeypatch.setattr(sampler, "own_cores", lambda: range(CORES))
    phases = {name: Phase((Window(50, 5.0),), spans=spans) for name, spans in
              {"train": trained, "compute": ((0.0, 30.0),)}.items()}  # fmt: skip
    monitor = Monitor(1, 0.0)
    monitor.host = host
    return monitor.annotate(replace(records.record("jax", 0), phases=phases, flags=(), settings={"device": "cpu"}))


def during(begin_s: float, end_s: float, level: float) -> Callable[[float], float]:
    return lambda at_s: level if begin_s <= at_s < end_s else 0.0


@pytest.mark.parametrize(
    ("host", "shares", "flags"),
    [
        (samples(other_cpu_s=during(0, 30, 0.1)), {"others_share": 0.025}, ()),
        # In the background all the time; before the windows; between two bursts of them, which counts.
        (samples(other_cpu_s=during(0, 30, 1.0)), {"others_share": 0.25}, ("contaminated",)),
        (samples(other_cpu_s=during(0, 10, 4.0)), {"others_share": 0.0}, ("contaminated",)),
        (samples(other_cpu_s=during(13, 17, 4.0)), {"others_share": 0.4}, ("contaminated", "disturbed")),
        (samples(steal_s=during(0, 30, 0.64)), {"steal_share": 0.16}, ("contaminated",)),
        (samples(steal_s=during(0, 30, 1.4)), {"steal_share": 0.35}, ("contaminated", "disturbed")),
        (samples(throttled_s=during(0, 30, 1.4)), {"throttled_share": 0.35}, ("disturbed",)),
        (samples(other_cpu_s=during(0, 30, 0.8), steal_s=during(0, 30, 0.3), throttled_s=during(0, 30, 0.2)),
         {"others_share": 0.2, "steal_share": 0.075, "throttled_share": 0.05}, ("contaminated", "disturbed")),
        (samples(io_full_s=during(12, 14, 1.0), io_some_s=during(12, 18, 1.0)), {"io_full_share": 0.2}, ("disturbed",)),
        (samples(memory_full_s=during(12, 12.5, 1.0)), {"memory_full_share": 0.05}, ()),
        # A counter that jumps takes no more than all, and one that goes back nothing.
        (samples(steal_s=during(15, 16, 400.0)), {"steal_share": 1.0}, ("contaminated", "disturbed")),
        (samples(other_cpu_s=during(15, 16, -1.0)), {"others_share": 0.0}, ()),
        (samples(cpu_s=during(0, 30, 4.0)), {}, ()),
        ([], {}, ()),
    ],
)  # fmt: skip
def test_what_others_took_between_the_first_and_the_last_train_window(
    monkeypatch: pytest.MonkeyPatch, host: list[Sample], shares: dict[str, float], flags: tuple[str, ...]
) -> None:
    record = annotated(monkeypatch, host, (10.0, 12.0), (18.0, 20.0))
    held = {name: value for name, value in record.metrics["host"]["disturbance"].items() if name != "processes"}
    assert held == pytest.approx(shares, abs=0.015)
    assert record.flags == flags
    assert is_disturbed(record) == ("disturbed" in flags) == bool(find_disturbances(record))
    stored = Record.from_json(record.to_json())
    assert find_disturbances(replace(stored, flags=())) == find_disturbances(record), "from what is stored alone"


def test_a_launch_that_did_not_train_has_no_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    monitor = Monitor(1, 0.0)
    monitor.host = samples(other_cpu_s=during(0, 30, 100.0))
    record = monitor.annotate(replace(records.failed(records.record("jax", 0)), phases={}, flags=()))
    assert "disturbance" not in record.metrics["host"]
    assert record.flags == ()


def test_stolen_time_counts_with_other_processes_for_the_remark() -> None:
    host = samples(other_cpu_s=during(0, 30, 0.5), steal_s=during(0, 30, 0.25), throttled_s=during(0, 30, 9.0))
    assert taken_cores(host, Span(5.0, 25.0)) == pytest.approx(0.75)


@pytest.mark.parametrize("span", [Span(10.7, 11.4), Span(10.1, 10.3)])
def test_a_burst_between_two_samples_has_what_others_took_around_it(
    monkeypatch: pytest.MonkeyPatch, span: Span
) -> None:
    host = samples(other_cpu_s=during(0, 30, 2.0))[::2]
    assert sum(span.holds(sample) for sample in host) < 2
    assert taken_cores(host, span) == pytest.approx(2.0)
    record = annotated(monkeypatch, host, (span.begin_s, span.end_s))
    assert record.metrics["host"]["disturbance"]["others_share"] == pytest.approx(0.5)
    assert record.flags == ("contaminated", "disturbed")


class Machine:
    """Processes whose CPU times are set here, and how often they were looked at."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **cores: float) -> None:
        self.cores, self.at_s, self.looks = cores, 0.0, 0
        monkeypatch.setattr(background, "read_times", self.read)

    def read(self) -> Any:
        self.looks += 1
        return {(pid, 1): (name, used * self.at_s) for pid, (name, used) in enumerate(self.cores.items())}


def test_processes_are_looked_at_while_others_are_busy_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, ours=3.0, python3=0.9, dd=1.1, small=0.06, idle=0.04, kworker=0.2)
    host = samples(other_cpu_s=during(10, 20, 2.0))
    watching = Others(CORES)
    for number, sample in enumerate(host, 1):
        machine.at_s = sample.at_s
        watching.watch(host[:number], {0})
    assert 2 <= machine.looks <= 6, "none for the twenty quiet seconds"
    assert watching.describe(host, Span(10.0, 20.0))["processes"] == ["dd", "python3", "kworker"]
    assert "processes" not in watching.describe(host, Span(0.0, 9.0)), "nobody is named who took little"
    assert watching.describe(host, Span(0.0, 11.0)).keys() == {"others_share"}


def test_a_machine_of_very_many_processes_is_looked_at_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, dd=1.0)
    ticks = iter(range(100))
    monkeypatch.setattr(background.time, "thread_time", lambda: 0.05 * next(ticks))  # 50 ms of CPU for each look
    host = samples(other_cpu_s=during(0, 30, 2.0))
    watching = Others(CORES)
    for number in range(1, len(host) + 1):
        watching.watch(host[:number], ())
    assert machine.looks == 3


def test_names_are_those_of_programs_without_what_tells_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "redact", lambda text: text.replace("anna", "<user>"))
    used = {"kworker/0:1-events": 3.0, "/home/anna/secret tool": 2.5, "kworker/1:0": 2.0, "anna-job": 1.5, "a": 0.1}
    assert name_busiest(used, 10.0) == ["kworker", "secret tool", "<user>-job"]
    assert name_busiest({"x" * 99: 1.0, "\x1b[2J": 1.0}, 1.0) == ["x" * 19 + "…", "[2J"]
    assert name_busiest({}, 1.0) == []


def test_the_times_of_processes_are_read_from_the_kernel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    after = "S 1 1 1 0 -1 0 0 0 0 0 {} {} 0 0 20 0 1 0 {} 0"
    planted = {"7": "7 (od) d) " + after.format(100, 50, 33), "8": "8 (short", "sys": "9 (no) " + after.format(1, 1, 1)}
    for name, text in planted.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "stat").write_text(text)
    (tmp_path / "9").mkdir()
    monkeypatch.setattr(background, "PROC", tmp_path)
    monkeypatch.setattr(background.os, "sysconf", lambda _: 100)
    times = read_times()
    assert times == {(7, 33): ("od) d", 1.5)}
    assert find_users({}, times, ()) == {"od) d": 1.5}
    assert find_users(times, times, ()) == find_users({}, times, {7}) == {}
    assert find_users({(7, 1): ("before", 9.0)}, times, ()) == {"od) d": 1.5}, "an id that was given again"
    monkeypatch.setattr(background, "PROC", tmp_path / "none")
    assert read_times() == {}


@pytest.fixture
def busy() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    yield process
    process.kill()
    process.wait()


def test_a_real_process_is_named(busy: subprocess.Popen[bytes]) -> None:
    before, begin_s = read_times(), time.monotonic()
    if not before:
        pytest.skip("this system shows no processes")

    def used() -> float:
        after = read_times()
        return sum(cpu_s - before.get(key, ("", 0.0))[1] for key, (_, cpu_s) in after.items() if key[0] == busy.pid)

    wait_until(lambda: used() > 0.1)
    grown = find_users(before, read_times(), ())
    assert any(name.startswith("python") for name in name_busiest(grown, time.monotonic() - begin_s))
