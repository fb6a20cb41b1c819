"""Launches of scripts that use no framework: what is measured of them, and how they end."""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from suite.analysis.bottlenecks.watched import SHARE_LEAST
from suite.monitor.sampler import Monitor
from suite.plan.cell import Cell
from suite.plan.measuring import Plan
from suite.record.job import Job
from suite.record.record import Record
from suite.script.launch import ScriptLaunch, Watching, _environment
from suite.script.variants import Variant
from suite.session.launches import logs
from suite.session.launches.copies import copy_folder
from suite.session.launches.launch import LaunchError
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


def launch(
    folder: Path,
    text: str,
    *arguments: str,
    watching: Watching | None = None,
    within_s: float = 30,
    callbacks: LaunchCallbacks | None = None,
) -> Record:
    script = folder / "train.py"
    script.write_text(text, encoding="utf-8")
    variant = Variant("", (sys.executable, str(script), *arguments))
    job = Job(Cell("script_train", "jax", batch=0), "", plan=PLAN)
    of = ScriptLaunch(variant, watching or Watching(), job, folder / "log", within_s)
    return of.run(callbacks or LaunchCallbacks(), Monitor)


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


def test_losses_that_are_printed_are_kept_and_what_is_no_number_is_told(tmp_path: Path) -> None:
    text = "import time\nfor loss in ('2.5', 'nan', '1e-3', '?'): print('loss:', loss)\ntime.sleep(1.1)"
    record = launch(tmp_path, text, watching=Watching(loss=re.compile("loss: (.+)")))
    assert record.settings["losses"] == [2.5, None, 0.001]
    assert Record.from_json(record.to_json()) == record


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


def test_a_folder_is_copied_with_its_links_and_without_pipes(tmp_path: Path) -> None:
    own, scratch = tmp_path / "own", tmp_path / "own" / "scratch"
    scratch.mkdir(parents=True)
    (own / "train.py").write_text("", encoding="utf-8")
    (own / "all").symlink_to("/")
    os.mkfifo(own / "pipe")
    with contextlib.chdir(own):
        copied = Watching(in_copy=True).folder(scratch)
    assert sorted(path.name for path in copied.iterdir()) == ["all", "train.py"]
    assert (copied / "all").is_symlink()


def test_a_folder_that_is_too_large_to_copy_is_refused(tmp_path: Path) -> None:
    own, scratch = tmp_path / "own", tmp_path / "scratch"
    own.mkdir()
    with (own / "data").open("wb") as file:
        file.truncate(5 << 30)
    with pytest.raises(LaunchError, match="more than 1 GiB"):
        copy_folder(own, scratch)
    assert not scratch.exists()


def test_what_is_printed_is_kept_in_part_and_shown_without_escapes(tmp_path: Path) -> None:
    shown = io.StringIO()
    much = "for _ in range(200): print('x' * 99999)"
    text = f"print('\\x1b]0;title\\x07 \\x1b[31mred')\n{much}\nraise SystemExit('\\x1b[2Jend')"
    record = launch(tmp_path, text, watching=Watching(echo=shown))
    assert "\x1b" not in shown.getvalue() + record.outcome.reason + "".join(record.log)
    assert record.outcome.reason.endswith("end")
    assert (tmp_path / "log").stat().st_size < logs.MOST_BYTES + (1 << 20)


TELLS = """
import os, socket, time
pipe = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
pipe.connect(os.environ["SUITE_WATCH_SOCKET"])
for line in {lines!r}:
    line = line.replace(b"NOW", str(time.perf_counter()).encode()) + b"\\n"
    for at in range(0, len(line), 60_000):
        pipe.send(line[at : at + 60_000])
time.sleep(1.2)
"""


@pytest.mark.parametrize(
    "line",
    [
        b"[1]", b"5", b'"hello"', b"[" * 60_000, bytes(range(256)), b"x" * 10_000_000, b'{"hello": 1, "world": "many"}',
        b'{"hello": 1, "at": null}', b'{"window": [0, 1, 2, 3]}', b'{"window": [1, 2, 2, 3], "phase": "train"}',
        b'{"window": [1, NaN, 2, 3], "phase": "train"}', b'{"window": [], "phase": "train", "pauses": []}',
    ],
)  # fmt: skip
def test_what_no_observer_says_is_passed_over(tmp_path: Path, line: bytes) -> None:
    hello = b'{"hello": 1, "at": NOW, "loader": false, "packages": {}}'
    record = launch(tmp_path, TELLS.format(lines=[hello, line] if b"window" in line else [line]))
    assert record.outcome.ok
    assert [*record.phases] == ["train"]
    assert record.phases["train"].step_s >= 1.2
    Record.from_json(record.to_json())


def test_a_variant_has_its_own_path_of_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "usual")
    job = Job(Cell("script_train", "jax", batch=0), "")
    own = [_environment(Variant("", (), given), job, tmp_path)["PYTHONPATH"] for given in ({}, {"PYTHONPATH": "own"})]
    assert [each.split(os.pathsep)[1:] for each in own] == [["usual"], ["own"]]


def test_connections_that_ended_are_not_kept(tmp_path: Path) -> None:
    connect = "socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).connect(os.environ['SUITE_WATCH_SOCKET'])"
    text = f"import os, socket, time\nfor _ in range(400):\n    {connect}\n    time.sleep(0.003)\n"
    held: list[int] = []
    tick = LaunchCallbacks(tick=lambda: held.append(sum(1 for _ in Path("/proc/self/fd").iterdir())))
    assert launch(tmp_path, text, callbacks=tick).outcome.ok
    assert max(held) < min(held) + 100


def test_a_script_that_is_to_end_by_itself_goes_on_after_its_loader_was_measured(tmp_path: Path) -> None:
    end = "    print('left', time.monotonic() - begin)\n    if time.monotonic() - begin > 4: break\n"
    text = TRAINS.replace("while True:", "begin = time.monotonic()\nwhile True:") + end
    record = launch(tmp_path, text, "0.004", watching=Watching(to_the_end=True))
    assert record.outcome.ok
    assert {*record.phases} == {"train", "compute", "input"}


LOOP = f"""
import sys, time
sys.path.append({str(ROOT)!r})
from suite.watch import watch
kept = []
class Batch:
    shape = (8,)
for batch in watch([Batch()] * 100_000):
"""


def watched(folder: Path, step: str) -> dict[str, Any]:
    record = launch(folder, LOOP + step)
    assert record.outcome.ok
    found: dict[str, Any] = record.settings["watched"]
    return found


def test_sleep_in_each_step_is_waiting_at_its_line(tmp_path: Path) -> None:
    found = watched(tmp_path, "    time.sleep(0.01)\n")
    line = (LOOP + "x").count("\n") + 1
    assert found["waits"] < SHARE_LEAST  # which is at no line
    assert found["lines"][f"train.py:{line}"] > 0.5
    assert found["grows_bytes_per_s"] == 0


def test_steps_that_compute_do_not_wait(tmp_path: Path) -> None:
    assert watched(tmp_path, "    sum(range(200_000))\n")["waits"] < SHARE_LEAST


def test_memory_that_grows_with_each_step_is_seen(tmp_path: Path) -> None:
    found = watched(tmp_path, "    kept.append(bytes([1]) * 100_000)\n    time.sleep(0.004)\n")
    assert found["grows_bytes_per_s"] > 1 << 20


def test_a_framework_is_known_of_a_script_whose_steps_are_not_seen(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("__version__ = '1.2'", encoding="utf-8")
    record = launch(tmp_path, "import time, torch\ntime.sleep(1.2)\n", watching=Watching(to_the_end=True))
    assert record.settings["seen_by"] == "whole run"
    assert record.environment["packages"] == {"torch": "1.2"}
