"""What a session keeps when it is cut short, by Ctrl-C, a request, a kill or a full disk, and how it goes on."""

from __future__ import annotations

import json
import re
import signal

import pytest

from framework_training_suite import PROGRAM, spelled
from suite.plan.blocks import blocks
from suite.plan.matrix import matrix
from suite.session.journal import Journal, read
from tests.processes import alive, wait_until
from tests.sessions import Suite, records_of, refused

SMOKE = matrix("smoke")


def continuation(output: str) -> str:
    """The command that a session names at its end, in the one spelling that commands have."""
    (line,) = re.findall(r"Continue with: (.*)", output)
    assert line.startswith(f"{spelled(PROGRAM + ' run')} ")
    return str(line)


def limited(bytes_most: int) -> str:
    """Python that lets the session write no file that is larger: the kernel's limit stands in for a full disk."""
    limit = f"resource.setrlimit(resource.RLIMIT_FSIZE, ({bytes_most}, resource.RLIM_INFINITY))"
    return f"import resource, sys; sys.dont_write_bytecode = True; {limit}"


def test_a_journal_that_cannot_be_written_ends_the_session_in_one_line(suite: Suite) -> None:
    suite.first = limited(1 << 14)
    done = suite("suite", "--launches=9", "-k", "jax and imdb")
    assert done.status == 4, done.output
    assert "INTERNALERROR" not in done.output
    assert len(re.findall(r"^! .*cannot write .*: File too large; what was there is kept", done.output, re.M)) == 1
    _, records, _ = read(*done.journals)
    assert 0 < len(records) < 9
    assert f"{9 - len(records)} launches did not run; the others are in " in done.output


def test_a_disk_that_fills_while_saving_leaves_no_half_file_and_says_where_the_launches_are(suite: Suite) -> None:
    """What is saved is larger than its journal; a limit between the two stands in for a full disk."""
    arguments = ["suite", "--launches=2", "-k", "jax and imdb"]
    (journal,) = suite(*arguments).journals
    limit = round(1.2 * journal.stat().st_size)
    again = Suite(suite.folder / "again", suite.environment, first=limited(limit))
    done = again(*arguments, "--benchmark-save")
    assert done.status == 4, done.output
    assert "INTERNALERROR" not in done.output
    assert "Traceback" not in done.output
    assert done.output.count("File too large; free some space; all launches are in ") == 1
    assert not done.saved
    assert len(read(*done.journals)[1]) == 2


def test_an_interrupted_run_keeps_what_it_measured_and_resumes(suite: Suite) -> None:
    def order(seed: int) -> list[str]:
        return [c.framework for c, _ in blocks(SMOKE.cells, 1, seed) if c.workload == "imdb_lstm"]

    seed = next(seed for seed in range(100) if order(seed)[1] == "jax")
    arguments = ("suite", "--launches=1", "--benchmark-save=cut", f"--seed={seed}", "-k", "imdb")
    suite.environment["BEHAVIOUR"] = json.dumps({"jax": "hang"})
    process = suite.start(*arguments)
    hangs = suite.folder / "hangs"
    wait_until(lambda: hangs.exists() and hangs.read_text().endswith("\n"))
    process.send_signal(signal.SIGINT)
    cut = suite.end(process)
    assert cut.status == 2
    assert "INTERNALERROR" not in cut.output
    assert not alive(int(hangs.read_text()))
    assert f"2 launches did not run; the others are in {cut.journals[0]}. Continue with: " in cut.output
    assert read(*cut.journals)[1] == records_of(cut.saved["0001_cut.json"])
    assert [r.cell.framework for r in read(*cut.journals)[1]] == order(seed)[:1]

    done = suite.typed(continuation(cut.output))
    assert done.status == 0, done.output
    assert done.journals == cut.journals, "the run goes on in its own journal"
    assert [line.split()[1] for line in done.launched] == [*order(seed)[:2], *order(seed)[1:]]
    saved = records_of(done.saved["0002_cut.json"])
    assert [record.cell.framework for record in saved] == order(seed)
    assert {record.run["id"] for record in saved} == {cut.journals[0].stem}
    assert [record.run["position"] for record in saved] == [0, 1, 2]


def test_a_run_can_be_asked_for_more_launches_later(suite: Suite) -> None:
    first = suite("suite", "--launches=1", "-k", "jax and imdb")
    more = suite("suite", "--launches=3", "-k", "jax and imdb", "--resume", "--benchmark-save")
    assert more.status == 0, more.output
    assert more.journals == first.journals
    saved = more.saved["0001_smoke.json"]
    assert [record.launch for record in records_of(saved)] == [0, 1, 2]
    assert [record.resumed for record in records_of(saved)] == [0, 1, 1]
    assert saved["suite"]["run"]["launches"] == 3
    fewer = suite("suite", "--launches=2", "-k", "jax and imdb", "--resume")
    assert fewer.status == 0, "the journal was started with one"


def test_a_run_with_other_settings_is_not_resumed_and_the_difference_is_named(suite: Suite) -> None:
    first = suite("suite", "--launches=1", "-k", "jax and imdb")
    (suite.folder / "launched").unlink()
    for option, difference in (
        ("--seed=5", "seed 0, not 5"),
        ("--size=small", "matrix smoke, not sweep-small; sweep None, not size small"),
    ):
        done = suite("suite", "--launches=1", "-k", "jax and imdb", "--resume", option)
        refused(done, f"the newest, {first.journals[0].name}, has {difference}")
    assert len(done.journals) == 1


def test_a_journal_that_a_kill_left_empty_does_not_stand_in_the_way(suite: Suite) -> None:
    first = suite("suite", "--launches=1", "-k", "jax and imdb")
    (suite.folder / "journals" / "99990101T000000-1.jsonl").touch()
    again = suite("suite", "--launches=1", "-k", "jax and imdb", "--resume")
    assert again.status == 0, again.output
    assert again.launched == first.launched


def test_a_run_in_progress_is_not_resumed_by_another(suite: Suite) -> None:
    first = suite("suite", "--launches=1", "-k", "jax and imdb")
    (suite.folder / "launched").unlink()
    held = Journal(first.journals[0], {})
    refused(
        suite("suite", "--launches=1", "-k", "jax and imdb", "--resume", "--benchmark-save"), "is in use by another"
    )
    held.close()


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
    assert continuation(done.output).endswith(f" --resume={done.journals[0].stem}")
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
