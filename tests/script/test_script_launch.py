"""Launches of scripts that use no framework: what is measured of them, and how they end."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import psutil
import pytest

from suite.monitor.sampler import Monitor
from suite.plan.cell import Cell
from suite.plan.measuring import Plan
from suite.record.job import Job
from suite.record.record import Record
from suite.script.launch import ScriptLaunch, Watching
from suite.script.variants import Variant
from suite.session.launches.machine import LaunchCallbacks

ROOT = Path(__file__).parents[2]
TRAINS = f"""
import sys, time
sys.path.append({str(ROOT)!r})
from suite.watch import watch
class Batch:
    shape = (8,)
class Loader:
    def __iter__(self):
        for _ in range(50):
            time.sleep(float(sys.argv[1]))
            yield Batch()
while True:
    for batch in watch(Loader()):
        time.sleep(0.004)
"""
PLAN = Plan(0.1, 3, 2.0)


def launch(folder: Path, text: str, *arguments: str, watching: Watching | None = None, within_s: float = 30) -> Record:
    script = folder / "train.py"
    script.write_text(text, encoding="utf-8")
    variant = Variant("", (sys.executable, str(script), *arguments))
    job = Job(Cell("script_train", "jax", batch=0), "", plan=PLAN)
    of = ScriptLaunch(variant, watching or Watching(), job, folder / "log", within_s)
    return of.run(LaunchCallbacks(), Monitor)


def test_training_its_steps_and_its_loader_are_measured_in_one_launch(tmp_path: Path) -> None:
    record = launch(tmp_path, TRAINS, "0.004")
    assert record.outcome.ok
    assert [*record.phases] == ["train", "compute", "input"]
    train, compute, load = (record.phases[name].step_s for name in ("train", "compute", "input"))
    assert compute < train
    assert load < train
    assert record.effective_batch == 8
    assert record.settings["seen_by"] == "watch"
    assert not [each for each in psutil.process_iter(["cmdline"]) if str(tmp_path) in str(each.info["cmdline"])]
    assert Record.from_json(record.to_json()) == record


def test_lines_that_match_a_pattern_are_steps(tmp_path: Path) -> None:
    text = "import time\nfor i in range(10**6):\n    time.sleep(.005)\n    print('step', i)"
    record = launch(tmp_path, text, watching=Watching(re.compile(r"step (\d+)")))
    assert record.outcome.ok
    assert record.settings["seen_by"] == "pattern"
    assert 0.005 <= record.phases["train"].step_s < 0.1


def test_a_run_of_which_no_step_is_seen_is_one_figure(tmp_path: Path) -> None:
    record = launch(tmp_path, "import time; time.sleep(1.2)")
    assert record.settings["seen_by"] == "whole run"
    assert record.phases["train"].step_s >= 1.2


@pytest.mark.parametrize(
    ("text", "status", "part"),
    [
        ("raise ValueError('no data here')", "crashed", "exit status 1: ValueError: no data here"),
        ("input()", "crashed", "EOFError"),
        ("pass", "error", "no step was seen"),
        ("import os; os.kill(os.getpid(), 9)", "crashed", "SIGKILL"),
        ("import time; time.sleep(60)", "timeout", "no end"),
        ("import os, time\nif os.fork() == 0: time.sleep(60)", "error", "no step was seen"),
        ("import sys; sys.stdout.buffer.write(bytes(range(256))); sys.exit(3)", "crashed", "exit status 3"),
    ],
)
def test_a_script_that_does_not_train_is_one_line_and_leaves_nothing(
    tmp_path: Path, text: str, status: str, part: str
) -> None:
    record = launch(tmp_path, text, within_s=5 if status == "timeout" else 30)
    assert record.outcome.status == status
    assert part in record.outcome.reason
    assert "\n" not in record.outcome.reason
    assert not [each for each in psutil.process_iter(["cmdline"]) if str(tmp_path) in str(each.info["cmdline"])]


def test_a_launch_in_a_copy_leaves_the_folder_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own").mkdir()
    monkeypatch.chdir(tmp_path / "own")
    text = "open('written', 'w').close(); import time; time.sleep(1.1)"
    assert launch(tmp_path, text, watching=Watching(in_copy=True)).outcome.ok
    assert not [*(tmp_path / "own").iterdir()]
