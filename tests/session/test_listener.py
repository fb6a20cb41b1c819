"""What a worker says on its pipe and prints into its log: taken as it is meant, bounded, and harmless."""

from __future__ import annotations

import io
import os
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from suite.record.record import REASON_MOST
from suite.session.launches import listener, logs
from tests.launches import JOB, Told
from tests.processes import alive

GOOD = "from tests import records; send_all(records.record('jax', workload='imdb_lstm'))"


@pytest.mark.parametrize(
    "garbage",
    [
        r"b'\xff\xfe\x00\n'",
        r"b'Traceback (most recent call last):\n\n'",
        r"b'[1]\n5\nnull\n\"part\"\n'",
        r"""b'{}\n{"part": 5}\n{"part": null}\n{"progress": 5}\n{"other": 1}\n'""",
        r"b'[' * 100_000 + b'\n'",
        r"b'9' * 10_000 + b'\n'",
    ],
)
def test_garbage_on_the_pipe_is_left_out(run: Callable[..., Told], garbage: str) -> None:
    assert run(f"os.write(descriptor, {garbage}); {GOOD}; os.write(descriptor, b'half a li')").record.outcome.ok


def test_a_worker_has_no_say_in_which_launch_it_is(run: Callable[..., Told]) -> None:
    foreign = "{'cell': {**job['cell'], 'batch': 64}, 'launch': 7, 'started': 'x', 'run': {'id': 'x'}, 'schema': 99}"
    record = run(f"{GOOD}; send(part={foreign}); send(part={{'metrics': {{'x': 1}}, 'flags': ['x']}})").record
    assert record.outcome.ok
    assert (record.cell, record.launch, record.run, record.metrics, record.flags) == (JOB.cell, 2, {}, {}, ())
    assert record.started != "x"


def test_a_message_that_never_ends_is_not_kept(run: Callable[..., Told]) -> None:
    """50 MB in pieces took 25 s when each piece was searched and copied with all before it."""
    told = run(
        "os.write(descriptor, b'{')\n"
        f"for _ in range({(listener.LINE_MOST >> 16) + 10}): os.write(descriptor, b'x' * 65536)\n"
        f"os.write(descriptor, b'\\n'); {GOOD}"
    )
    assert told.record.outcome.ok
    kept = listener.Listener({}, lambda _: None)
    for _ in range((listener.LINE_MOST >> 16) + 2):
        kept.receive(b"x" * 65536)
    assert kept._pieces == []
    kept.receive(b'\n{"part": {"compile_s": 1}}\n{"pa')
    kept.receive(b'rt": {"first_step_s": 2}}\n')
    assert kept.parts == {"compile_s": 1, "first_step_s": 2}


def test_the_error_of_a_helper_stands_beside_what_follows_from_it(run: Callable[..., Told]) -> None:
    told = run(
        "send(part={'outcome': {'status': 'error', 'reason': 'no room'}})\n"
        "send(part={'outcome': {'status': 'error', 'reason': 'a worker has ended'}})"
    )
    assert told.outcome == ("error", "no room")


def test_the_parent_times_what_a_worker_says_it_took() -> None:
    now_s = iter([9.0, 10.0, 12.5, 13.0, 20.0, 21.0, 22.0, 23.0, 24.0])
    waited_s = iter([0.0, 0.0, 0.1, 0.1, 0.1, 5.0, 5.5, 6.5, 6.7, 6.7])
    kept = listener.Listener({}, lambda _: None, lambda: next(now_s), spawned_s=5.0, waited=lambda: next(waited_s))
    for message in (
        '{"took": "startup"}', '{"begin": "first_step"}', '{"part": {"compile_s": 1}, "took": "compile"}',
        '{"part": {"first_step_s": 2}, "took": "first_step"}', '{"progress": "train", "samples_per_s": 1}',
        '{"begin": "train"}', '{"progress": "train", "samples_per_s": 1}', '{"progress": "train", "samples_per_s": 1}',
        '{"part": {}}',
    ):  # fmt: skip
        kept.receive(message.encode() + b"\n")
    assert kept.seen_s == {"startup": [4.0], "first_step": [3.0], "compile": [2.5], "train": [2.0]}
    late_s = {name: pytest.approx(each) for name, each in kept.late_s.items()}
    assert late_s == {"startup": [0.0], "first_step": [0.1], "compile": [0.1], "train": [0.7]}


def test_the_kernel_says_how_long_this_process_waited_for_a_core() -> None:
    """Another process wants the same core, so that each lacks it half of the time."""
    cores, before_s = os.sched_getaffinity(0), listener.read_waited_s()
    os.sched_setaffinity(0, {min(cores)})
    try:
        with subprocess.Popen(["sh", "-c", "i=0; while [ $i -lt 9000000 ]; do i=$((i+1)); done"]) as other:
            end_s = time.monotonic() + 1.0
            while time.monotonic() < end_s:
                pass
            other.kill()
    finally:
        os.sched_setaffinity(0, cores)
    assert listener.read_waited_s() - before_s > 0.05


def test_progress_that_is_none_stops_nothing(run: Callable[..., Told]) -> None:
    told = run(f"for rate in ('fast', None, [], float('inf'), True): send(progress='x', samples_per_s=rate)\n{GOOD}")
    assert told.record.outcome.ok


def test_what_a_worker_says_controls_no_terminal(run: Callable[..., Told]) -> None:
    red = "\\x1b[31mred\\x1b]0;title\\x07"
    told = run(
        f"print('  indented {red}', flush=True)\n"
        f"send(part={{'outcome': {{'status': 'error', 'reason': '{red} ' + 'long ' * 20_000}}}}); os._exit(1)"
    )
    assert told.outcome[1].startswith("[31mred ]0;title long")
    assert len(told.outcome[1]) == REASON_MOST
    assert told.record.log == ("  indented  [31mred ]0;title",)


def test_a_log_without_end_is_cut_in_its_middle(run: Callable[..., Told], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "LOOK_S", 0.05)
    told = run(
        "print('the beginning', flush=True)\n"
        "for _ in range(200): os.write(1, b'x' * (1 << 20) + b'\\n')\n"
        "late = time.monotonic() + 30\n"
        f"while os.fstat(1).st_size > {logs.MOST_BYTES} and time.monotonic() < late: time.sleep(0.05)\n"
        "print('the end', flush=True); os._exit(1)"
    )
    assert len(told.log) <= logs.MOST_BYTES
    assert told.log.startswith("the beginning\n")
    assert "bytes are left out here" in told.log
    assert told.record.log[-1] == "the end"


def test_what_is_written_during_the_cut_stays(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"begin\n" + b"x" * logs.MOST_BYTES)

    class Disturbed(io.BufferedRandom):
        def read(self, size: int | None = -1) -> bytes:
            found = super().read(size)
            if size == logs.TAIL_BYTES:
                with path.open("ab") as worker:
                    worker.write(b"more\n")
            return found

    logs.cut(cast("Path", SimpleNamespace(open=lambda _: Disturbed(io.FileIO(path, "r+")))))
    assert path.stat().st_size < logs.MOST_BYTES
    assert path.read_bytes().startswith(b"begin\n")
    assert path.read_bytes().endswith(b"x" + b"more\n")


def test_a_worker_that_does_not_end_after_its_last_word_is_ended(
    run: Callable[..., Told], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "GRACE_S", 0.2)
    told = run(f"{GOOD}; send(progress='done', pids=[os.getpid()]); time.sleep(600)")
    assert told.record.outcome.ok
    assert not alive(told.pids[0])


def test_last_words_are_kept_whole_in_the_log_and_redacted_in_the_record(run: Callable[..., Told]) -> None:
    told = run(
        "print('at /srv/project/run.py', flush=True); os.write(2, b'\\xff no text\\n')\n"
        "for number in range(100): print('line', number, flush=True)\n"
        f"print('on {socket.gethostname()} in', __file__, flush=True); os._exit(1)"
    )
    assert told.log.startswith("at /srv/project/run.py\n")
    assert len(told.log.splitlines()) == 103
    assert told.record.log[-2:] == ("line 99", "on <host> in .../stand_in.py")
    assert len(told.record.log) == logs.LINES


def test_of_a_very_long_log_the_end_is_kept(run: Callable[..., Told]) -> None:
    record = run("print('x' * 10**7); print('the end', flush=True); os._exit(1)").record
    assert record.log[-1] == "the end"
    assert sum(map(len, record.log)) <= logs.READ_BYTES
