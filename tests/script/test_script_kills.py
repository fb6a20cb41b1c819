"""Kills of a script, its ranks and the command: nothing is left, nothing counts twice, and the run can go on."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.studies.script_kills import COMMAND, Kill, left, plan, problems, run

#: Seconds in which a run here has begun its first launches.
BEGUN_S = 6.0


def test_a_kill_of_the_command_loses_and_leaves_nothing(tmp_path: Path) -> None:
    assert problems(tmp_path, Kill(COMMAND, signal.SIGKILL, BEGUN_S)) == []


@pytest.mark.slow
@pytest.mark.parametrize("kill", plan(20.0), ids=str)
def test_kills_at_any_moment_lose_and_leave_nothing(tmp_path: Path, kill: Kill) -> None:
    assert problems(tmp_path, kill) == []


FORKS = "import os, time\nif os.fork():\n    os._exit(0)\nos.setsid()\n{}time.sleep(600)"


HANGS = "import time, signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(600)"
ENDS_ITS_PARENT = "import os, signal, time; os.kill(os.getppid(), signal.SIGTERM); time.sleep(60)"


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (FORKS.format("os.close(1); os.close(2)\n"), "no step was seen"),
        ("import os; os.chdir('/'); raise SystemExit('from ' + os.getcwd())", "from /"),
        *(
            pytest.param(*each, marks=pytest.mark.slow)
            for each in [(FORKS.format(""), "no step"), (HANGS, "no end"), (ENDS_ITS_PARENT, "interrupted")]
        ),
    ],
)
def test_a_script_that_does_not_train_ends_the_command_with_one_line(tmp_path: Path, text: str, part: str) -> None:
    done = run(tmp_path, "--max-time", "3s", text=text)
    assert done.status in (2, 130)
    assert part in done.printed.splitlines()[-1]
    assert "Traceback" not in done.printed
    assert left(tmp_path) == []
