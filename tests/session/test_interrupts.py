"""A request to end, as schedulers and containers send it, ends a run as Ctrl-C does: what was measured is saved."""

from __future__ import annotations

import json
import signal

import pytest

from suite.plan.blocks import blocks
from suite.plan.matrix import matrix
from tests.processes import alive, wait_until
from tests.sessions import Suite, records_of

#: The last of the block's launches hangs.
LAST = [cell.framework for cell, _ in blocks(matrix("smoke").cells, 1, 0) if cell.workload == "imdb_lstm"][-1]
HANGING = ("suite", "--launches=1", "--benchmark-save", "-k", "imdb")


@pytest.mark.parametrize(
    "signals",
    [
        pytest.param(("INT", "INT"), marks=pytest.mark.slow),
        ("INT", "TERM"),
        pytest.param(("TERM", "INT"), marks=pytest.mark.slow),
        ("HUP", "HUP"),
    ],
    ids="-".join,
)
def test_a_run_that_is_asked_to_end_saves_what_it_measured_and_can_go_on(
    suite: Suite, signals: tuple[str, str]
) -> None:
    if "HUP" in signals and signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        pytest.skip("these tests run under nohup, so that a session ignores SIGHUP from its start")
    suite.environment["BEHAVIOUR"] = json.dumps({LAST: "hang"})
    process = suite.start(*HANGING)
    hangs = suite.folder / "hangs"
    wait_until(lambda: hangs.exists() and hangs.read_text().endswith("\n"))
    worker = int(hangs.read_text())
    for name in signals:  # who waits may ask twice
        process.send_signal(signal.Signals[f"SIG{name}"])
    done = suite.end(process)
    assert done.status == 2, done.output
    assert not alive(worker)
    launched = done.launched
    measured = [line.split()[1] for line in launched]
    assert measured[-1] == LAST
    held = [record.cell.framework for saved in done.saved.values() for record in records_of(saved)]
    assert sorted(held) == sorted(measured[:-1])
    assert "Continue with: pytest " in done.output
    again = suite(*HANGING, "--resume")
    assert again.status == 0, again.output
    assert again.launched == [*launched, f"imdb_lstm {LAST} full 0"]
    saved = again.saved["0002_smoke.json"]
    assert len(records_of(saved)) == 3


def test_what_is_ignored_from_the_start_stays_ignored(suite: Suite) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as under nohup; processes inherit it
    try:
        suite.environment["BEHAVIOUR"] = json.dumps({LAST: "hang"})
        process = suite.start(*HANGING, "--max-time=2")
    finally:
        signal.signal(signal.SIGHUP, before)
    wait_until((suite.folder / "hangs").exists)
    process.send_signal(signal.SIGHUP)
    done = suite.end(process)
    assert done.status == 1, done.output
    assert len(done.launched) == 3
