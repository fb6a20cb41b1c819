"""Is anything lost or left when a script, one of its ranks or the command itself is killed? ``python -m`` this module.

At thirty moments of a run of two ranks that only sleep, one process gets SIGKILL, SIGTERM or SIGINT. Afterwards no
process may live that the run has started, the journal holds each launch at most once, nothing printed is a traceback of
the suite's, and ``--resume`` completes the run.
"""

# ruff: noqa: T201 - a command that prints

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import psutil

from suite.session.journal import read

ROOT = Path(__file__).parents[2]
LAUNCHES, MOMENTS = 3, 30
COMMAND, SCRIPT, RANK = "command", "script", "rank"
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
OPTIONS = f"--framework jax --launches {LAUNCHES} --windows 2 --min-window 0.1 --max-warmup 0.5 --max-time 60s".split()
#: How long a run, and the end of what it has started, may take on a busy machine.
WITHIN_S, GONE_WITHIN_S = 300.0, 30.0
TEXT = f"""
import os, subprocess, sys, time
if "--rank" not in sys.argv:
    ranks = [
        subprocess.Popen([sys.executable, __file__, "--rank"], env=os.environ | {{"RANK": str(n), "WORLD_SIZE": "2"}})
        for n in range(2)
    ]
    while all(rank.poll() is None for rank in ranks):
        time.sleep(0.01)
    for rank in ranks:
        rank.kill()
    sys.exit(1)
sys.path.append({str(ROOT)!r})
from suite.watch import watch
while True:
    for batch in watch([[1.0] * 8] * 50):
        time.sleep(0.004)
"""


@dataclass(frozen=True)
class Kill:
    """A signal to one process, so many seconds after the start of the command."""

    of: str
    number: signal.Signals
    after_s: float

    def __str__(self) -> str:
        return f"{self.number.name} to the {self.of} after {self.after_s:.1f} s"


@dataclass(frozen=True)
class Run:
    """How a run of a script ended: its status, what it printed, and the seconds that it took."""

    status: int
    printed: str
    took_s: float


def run(folder: Path, *options: str, kill: Kill | None = None, text: str = TEXT) -> Run:
    """Run the command on a script in this folder, with one process killed, and wait until it has ended."""
    script = folder / "train.py"
    script.write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "suite.script", *OPTIONS, *options, "--", sys.executable, str(script)]
    begin_s = time.monotonic()
    with (folder / "printed").open("w+b") as printed:
        process = subprocess.Popen(
            command, cwd=folder, env=os.environ | {"PYTHONPATH": str(ROOT)}, stdin=subprocess.DEVNULL, stdout=printed,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        if kill:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(kill.after_s)
            _send(kill, process, script)
        try:
            status = process.wait(WITHIN_S)
        finally:
            process.kill()
        printed.seek(0)
        return Run(status, printed.read().decode(errors="replace"), time.monotonic() - begin_s)


def _send(kill: Kill, process: subprocess.Popen[bytes], script: Path) -> None:
    """Send the signal as soon as the process is there, unless the command ends first."""
    while process.poll() is None:
        targets = [process.pid] if kill.of == COMMAND else [*_find(script, rank=kill.of == RANK)]
        for target in targets[:1]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(target, kill.number)
            return
        time.sleep(0.01)


def _find(script: Path, *, rank: bool) -> Iterator[int]:
    for each in psutil.process_iter(["cmdline", "pid"]):
        words = each.info["cmdline"] or []
        if words[1:2] == [str(script)] and ("--rank" in words) == rank:
            yield each.info["pid"]


def left(folder: Path) -> list[list[str]]:
    """The processes of a folder's runs that still live after `GONE_WITHIN_S`, by their command lines."""
    deadline = time.monotonic() + GONE_WITHIN_S
    while found := [*_alive(folder)]:
        if time.monotonic() > deadline:
            return found
        time.sleep(0.1)
    return []


def _alive(folder: Path) -> Iterator[list[str]]:
    for each in psutil.process_iter(["cmdline", "status"]):
        words = each.info["cmdline"] or []
        if each.info["status"] != psutil.STATUS_ZOMBIE and any(str(folder) in word for word in words):
            yield words


def problems(folder: Path, kill: Kill) -> list[str]:
    """What goes wrong with this kill, in words; empty if nothing does."""
    first = run(folder, kill=kill)
    found = [f"left: {words}" for words in left(folder)]
    journals = [*(folder / "runs" / "journals").glob("*.jsonl")]
    again = run(folder, *(["--resume"] if journals else []))
    found += [f"left afterwards: {words}" for words in left(folder)]
    found += ["a traceback" for each in (first, again) if "suite/" in each.printed and "Traceback" in each.printed]
    found += [] if again.status == 0 else [f"status {again.status} when resumed: {again.printed[-300:]}"]
    journal = max((folder / "runs" / "journals").glob("*.jsonl"))
    _, records, _ = read(journal)
    ended = Counter(record.launch for record in records if record.outcome.ok)
    if ended != Counter(range(LAUNCHES)):
        found.append(f"launches that ended well: {dict(ended)}")
    return found


def plan(took_s: float, moments: int = MOMENTS) -> list[Kill]:
    """Kills at moments over a whole run, each kind with each process."""
    kinds = [*product((COMMAND, SCRIPT, RANK), SIGNALS)]
    return [Kill(*kinds[at % len(kinds)], took_s * (at + 0.5) / moments) for at in range(moments)]


def main() -> int:
    wrong = 0
    with tempfile.TemporaryDirectory() as place:
        took_s = run(Path(place)).took_s
    for kill in plan(took_s):
        with tempfile.TemporaryDirectory() as place:
            found = problems(Path(place), kill)
        wrong += bool(found)
        print(f"{kill}: {'; '.join(found) or 'nothing lost, nothing left'}", flush=True)
    print(f"{wrong} of {MOMENTS} kills lost or left something; a run takes {took_s:.0f} s")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
