"""A tracker costs no launch: it may hang, end, fail or lie, and the run goes on."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from suite.export.target import ExportError
from suite.session import tracker as tracking
from suite.session.launches.launch import ROOT
from suite.session.observers import Observers, check
from suite.session.tracker import Tracker
from tests import records
from tests.processes import alive, wait_until
from tests.sessions import Suite

pytestmark = pytest.mark.launches

#: Answers well, unless BEHAVE says otherwise for the number of the line.
FOLLOWER = """
import json, os, sys, time
from pathlib import Path
folder = Path(sys.argv[1])
(folder / "pid").write_text(str(os.getpid()))
for number, line in enumerate(sys.stdin):
    how = json.loads((folder / "behave").read_text()).get(str(number), "")
    with (folder / "asked").open("a") as asked:
        asked.write(line)
    if how == "hang":
        time.sleep(600)
    elif how == "die":
        os._exit(3)
    elif how == "lie":
        print("no JSON", flush=True)
    else:
        answer = {"sent": number} | ({"problem": "the server is down"} if how == "fail" else {})
        print(json.dumps(answer | ({"where": "there"} if line == "end\\n" and not how else {})), flush=True)
"""

Make = Callable[..., Tracker]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    monkeypatch.setattr(tracking, "LAUNCH_S", 1.0)
    monkeypatch.setattr(tracking, "END_S", 20.0)

    def made(behave: Mapping[int, str]) -> Tracker:
        (tmp_path / "behave").write_text(json.dumps(behave))
        (tmp_path / "follower.py").write_text(dedent(FOLLOWER))
        command = (sys.executable, str(tmp_path / "follower.py"), str(tmp_path))
        return Tracker("mlflow", "http://u:p@t.example", "http://t.example", command=command)

    return made


def followed(tracker: Tracker, folder: Path, launches: int = 3) -> list[str]:
    """What the end of a run says that is watched by this tracker."""
    observers = Observers([tracker])
    observers.tell("begin", folder / "run.jsonl", {}, launches, [])
    for launch in range(launches):
        observers.tell("end", records.record(launch=launch), None)
    return observers.close()


def test_each_launch_is_asked_for_and_the_end_says_where_it_is(make: Make, tmp_path: Path) -> None:
    assert followed(make({}), tmp_path) == ["tracked by mlflow: there"]
    assert (tmp_path / "asked").read_text().split() == ["begin", "launch", "launch", "launch", "end"]


def test_one_that_hangs_is_ended_with_its_processes_and_the_end_says_how_to_send_the_rest(
    make: Make, tmp_path: Path
) -> None:
    (line,) = followed(make({2: "hang"}), tmp_path)
    assert line.startswith("mlflow has 1 of 3 launches: no answer within 1 s. The run lost nothing; ")
    assert line.endswith(f"training-suite export mlflow {tmp_path}/run.jsonl --to http://t.example")
    assert (tmp_path / "asked").read_text().split() == ["begin", "launch", "launch"], "it is not waited for again"
    pid = int((tmp_path / "pid").read_text())
    wait_until(lambda: not alive(pid))


def test_one_that_fails_is_asked_again_and_may_recover(make: Make, tmp_path: Path) -> None:
    assert followed(make({1: "fail", 2: "fail"}), tmp_path) == ["tracked by mlflow: there"]


def test_one_that_goes_on_failing_is_given_up(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracking, "LONGEST_S", 0.0)
    tracker = make({})
    tracker.problem = "the server is down"
    (line,) = followed(tracker, tmp_path)
    assert "mlflow has 0 of 3 launches: the server is down" in line


@pytest.mark.parametrize("how", ["die", "lie"])
def test_one_that_ends_or_lies_costs_nothing_else(how: str, make: Make, tmp_path: Path) -> None:
    (line,) = followed(make({1: how}), tmp_path)
    assert line.startswith("mlflow has 0 of 3 launches: its process ")
    assert "The run lost nothing" in line


class Broken:
    """An observer that fails at everything."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("no")


def test_an_observer_that_fails_is_left_out_and_named_once(tmp_path: Path) -> None:
    observers = Observers([Broken()])
    observers.tell("begin", tmp_path / "run.jsonl", {}, 1, [])
    observers.tell("end", records.record(), None)
    assert observers.close() == ["Broken failed, and the run went on without: RuntimeError: no"]


class Options:
    """The options that are asked for."""

    def __init__(self, **chosen: Any) -> None:
        self.chosen = {"track": [], "metrics_port": None} | chosen

    def getoption(self, name: str) -> Any:
        return self.chosen[name]


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        ({"track": ["mlfow"]}, "--track: unknown tracker 'mlfow'; did you mean 'mlflow'?"),
        ({"track": ["prometheus"]}, "--track: unknown tracker 'prometheus'"),
        ({"metrics_port": 99_999}, "--metrics-port is 99999"),
    ],
)
def test_wrong_options_are_one_line(chosen: dict[str, Any], words: str) -> None:
    config: Any = Options(**chosen)
    with pytest.raises(ExportError, match=re.escape(words)):
        check(config)


def test_metrics_are_served_during_a_run_of_pytest(suite: Suite) -> None:
    wrong = suite("suite", "--launches=1", "--track=mlfow")
    assert wrong.status == 4
    assert not wrong.launched
    done = suite("suite", "--launches=1", "-k", "jax and imdb", "--metrics-port=0")
    assert done.status == 0, done.output
    assert "metrics: http://127.0.0.1:" in done.output


def test_a_follower_ends_with_the_controller_whatever_it_waits_for(tmp_path: Path) -> None:
    code = """
    import os, subprocess, sys
    code = "import sys, time; from suite.export.follow import end_with; end_with(int(sys.argv[1])); print(flush=True)"
    command = [sys.executable, "-c", code + "; time.sleep(600)", str(os.getpid())]
    process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE)
    process.stdout.readline()  # it watches by now
    print(process.pid, flush=True)
    os._exit(0)
    """
    done = subprocess.run([sys.executable, "-c", dedent(code)], cwd=ROOT, capture_output=True, text=True, check=True)
    wait_until(lambda: not alive(int(done.stdout)))
