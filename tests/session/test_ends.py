"""How `pytest suite` ends: its exit status, and the comparison that stands in place of pytest-benchmark's table."""

from __future__ import annotations

import pytest

from suite.plan.cell import FRAMEWORKS
from suite.session.journal import read
from tests.sessions import Suite, records_of

ONE = ("suite", "--launches=1", "-k", "imdb")
#: Words of pytest-benchmark's table.
TABLE = ("Name (time in", "Rounds", "Legend:", "IQR")


@pytest.fixture
def whole(suite: Suite) -> None:
    """Sessions that measure the load first and compare at their end."""
    suite.whole = True


def test_a_run_in_which_nothing_was_measured_ends_as_one_without_tests(suite: Suite) -> None:
    lacking = dict.fromkeys(("pytorch", "tensorflow", "jax"), "unsupported")
    done = suite(*ONE, "--benchmark-save", **lacking)
    assert done.status == pytest.ExitCode.NO_TESTS_COLLECTED == 5
    assert (
        done.output.count("nothing was measured: 3 launches unsupported: jax, pytorch, tensorflow: no such mode\n") == 1
    )
    assert "--launches" not in done.output, "more launches cannot help"
    assert len(records_of(done.saved["0001_smoke.json"])) == 3, "what was found out is saved all the same"
    again = suite(*ONE, "--resume", **lacking)
    assert (again.status, again.launched) == (5, done.launched)


def test_more_launches_are_not_advised_where_one_framework_alone_is_measured(suite: Suite) -> None:
    done = suite(*ONE, tensorflow="unsupported", jax="unsupported")
    assert done.status == 0
    assert "not measured: 2 launches unsupported: jax, tensorflow: no such mode\n" in done.output
    assert "--launches" not in done.output


def test_a_run_in_which_all_crashed_is_red_and_says_so(suite: Suite) -> None:
    done = suite("suite", "--launches=1", "-k", "jax and imdb", jax="crash")
    assert done.status == 1
    assert "nothing was measured: 1 launch crashed: jax: ended with exit status 5 and no result\n" in done.output


@pytest.mark.usefixtures("whole")
def test_the_run_s_own_comparison_stands_at_the_end_and_no_ranking_of_single_launches(suite: Suite) -> None:
    done = suite(*ONE, "--benchmark-save", tensorflow="unsupported")
    assert done.status == 0, done.output
    assert "suite/test_training.py" not in done.output, "a launch has a line of its own"
    assert not [words for words in TABLE if words in done.output]
    _, end = done.output.split(" comparison ")
    lines = [line.split() for line in end.splitlines()]
    at = next(number for number, words in enumerate(lines) if words[:1] == ["framework"])
    rows = {words[0]: words for words in lines[at : at + 5]}  # below a rule
    torch, tensorflow, jax = (rows[name] for name in FRAMEWORKS)
    assert rows["framework"] == ["framework", "compile", "n", "samples/s", "to", "pytorch", "memory", "MiB", "outcome"]
    assert torch[4] == "1.00"
    assert (tensorflow[2], tensorflow[-1]) == ("0/1", "unsupported")
    assert float(jax[4]) < 1
    assert "(n = 1, not tested); TensorFlow has no result (unsupported)" in " ".join(end.split())
    assert "not measured: 1 launch unsupported: tensorflow: no such mode" in end.splitlines()
    assert "Saved benchmark data in: " in done.output
    (run,) = (saved["suite"]["run"] for saved in done.saved.values())
    assert run["background"].keys() == {"busy_cores", "cores", "steal_cores", "waited_s"}
    assert read(*done.journals)[0]["background"] == run["background"]


@pytest.mark.usefixtures("whole")
def test_waiting_for_an_idle_machine_is_recorded(suite: Suite) -> None:
    done = suite("suite", "--launches=1", "-k", "jax and imdb", "--wait-idle=0.1")
    assert done.status == 0, done.output
    background = read(*done.journals)[0]["background"]
    assert background["waited_s"] > 0
    busy = background["busy_cores"] > 0.1 * background["cores"]
    assert ("warning: still busy after " in done.output) == busy
    refused = suite("suite", "--wait-idle=-1")
    assert refused.status == 4
    assert "--wait-idle: '-1' is no time" in refused.output
