"""`pytest suite` as it is typed, in a process of its own, with stand-ins for the worker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import types
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from suite.monitor.background import Background
from suite.record.record import Record
from suite.record.saved import unpack
from tests.prepared import Session, can_fork

ROOT = Path(__file__).parent.parent

#: Answers with a record of the job's cell, or does what BEHAVIOUR says for its framework. It starts as a bare Python,
#: whose start is short, and becomes a whole one where its record was made for no other launch in these tests.
WORKER = """
import json, os, sys
descriptor, job = int(sys.argv[3]), json.loads(sys.argv[4])
cell = job["cell"]
windows = job["plan"]["windows"]
kept = os.path.join(os.environ["KEPT"], f"{cell['workload']}-{cell['framework']}-{job['launch']}-{windows}")

def told(**message):
    return json.dumps(message).encode() + b"\\n"

if os.path.exists(kept):
    with open(kept, "rb") as file:
        record = file.read()
elif sys.flags.no_site:
    os.execv(sys.executable, [sys.executable, *sys.argv])
else:
    from tests import records
    soon = {"startup": {}, "compile_s": None, "first_step_s": None}  # a stand-in does not take their time
    made = records.record(cell["framework"], job["launch"], workload=cell["workload"], **soon).to_json()
    for phase in made["phases"].values():
        longer = {name: [[100 * steps, 100 * s] for steps, s in phase[name]] for name in ("windows", "warmup")}
        phase |= {"warmup": longer["warmup"], "windows": (2 * longer["windows"])[:windows]}
    record = told(part={k: v for k, v in made.items() if k not in ("schema", "cell", "launch", "started", "run")})
    try:
        with open(f"{kept}.{os.getpid()}", "wb") as file:
            file.write(record)
        os.replace(file.name, kept)
    except OSError:  # a test may have filled the disk
        os.unlink(file.name)

if job["launch"] < 9999:  # else it only warms up
    launched = open(os.environ["LAUNCHED"], "a", buffering=1)
    launched.write(f"{cell['workload']} {cell['framework']} {cell['size']} {job['launch']}\\n")
os.write(descriptor, told(progress="train", samples_per_s=1234.5))
does = json.loads(os.environ.get("BEHAVIOUR", "{}")).get(cell["framework"], "")
if does == "crash":
    print("at", __file__, flush=True); os._exit(5)
elif does == "unsupported":
    os.write(descriptor, told(part={"outcome": {"status": "unsupported", "reason": "no such mode"}}))
elif does == "hang":
    import time
    with open(os.environ["HANGS"], "w") as hangs:
        hangs.write(f"{os.getpid()}\\n")
    time.sleep(600)
else:
    os.write(descriptor, record)
"""


#: Runs many command lines in one process, and prints the status and the last lines of each.
LINES = """
import contextlib, io, json, sys, warnings, pytest
for line in json.load(sys.stdin):
    told = io.StringIO()
    with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told), warnings.catch_warnings():
        status = int(pytest.main(line))
    print(json.dumps([status, told.getvalue()[-800:]]), flush=True)
"""


def run_lines(lines: Sequence[Sequence[str]], **more: str) -> list[tuple[int, str]]:
    """Returns status and output of pytest for lines that launch nothing; ``more`` are variables."""
    # As its reader types it, where these tests may run side by side.
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "JAX_"))}
    done = subprocess.run(
        [sys.executable, "-c", LINES], cwd=ROOT, env=own | more, input=json.dumps(lines), capture_output=True,
        text=True, check=False, timeout=300,
    )  # fmt: skip
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    assert len(answers) == len(lines), done.stderr
    return [(status, told) for status, told in answers]


Running = subprocess.Popen[str] | Session
#: What a session imports only where it compares at its end.
COMPARES = ("suite.report.screen.short",)


class Light:
    """Leaves out what takes longest: the second in which the background load is measured, and the comparison."""

    def pytest_configure(self) -> None:
        import suite.session.opening

        suite.session.opening.settle = lambda *_: Background(0.0, 1)
        sys.modules["suite.report.screen.short"] = types.ModuleType("short")
        sys.modules["suite.report.screen.short"].short = lambda *_: "left out"


def session(extent: str, first: str, *arguments: str) -> int:
    """Run ``first`` and pytest. A command in the background may ignore interrupts from its start, as this may not."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    exec(first, {})
    return pytest.main(list(arguments), plugins=[] if extent == "whole" else [Light()])


@dataclass
class Done:
    """A finished session: its status, what it said, and what it saved."""

    status: int
    output: str
    folder: Path

    @property
    def saved(self) -> dict[str, dict[str, Any]]:
        """The content of the saved files by name."""
        return {path.name: json.loads(path.read_text()) for path in (self.folder / "runs").rglob("*.json")}

    @property
    def journals(self) -> list[Path]:
        return sorted((self.folder / "journals").glob("*.jsonl"))

    @property
    def launched(self) -> list[str]:
        """``workload framework size launch`` of all that was started, in order."""
        path = self.folder / "launched"
        return path.read_text().splitlines() if path.exists() else []


@dataclass
class Suite:
    """Runs ``pytest suite`` with everything it writes in a folder of the test's own.

    Unless it is ``whole``, what ``Light`` names is left out. Where nothing differs at Python's start, the session is
    forked from a process that has the imports (``tests/prepared.py``).
    """

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    whole: bool = False
    plugins: bool = False  # those of other tests, which a user may have too and which take their time to import
    first: str = ""  # Python that the session runs before pytest

    def start(self, *arguments: str, data: str = "synthetic", output: int = subprocess.PIPE) -> Running:
        apart = ["-p", "no:cacheprovider", f"--benchmark-storage={self.folder / 'runs'}"]
        if not self.whole and not self.plugins:
            apart += ["-p", "no:randomly", "-p", "no:xdist"]
        apart += [f"--journals={self.folder / 'journals'}", "--data", data, "--device", "cpu"]
        command = ["whole" if self.whole else "light", self.first, *apart, *arguments]
        if not can_fork(self.environment):
            code = "import sys; from tests.sessions import session; sys.exit(session(*sys.argv[1:]))"
            return subprocess.Popen(
                [sys.executable, "-c", code, *command],
                cwd=ROOT, env=self.environment, text=True, stdout=output, stderr=subprocess.STDOUT,
            )  # fmt: skip
        return Session(command, self.environment, COMPARES if self.whole else (), output)

    def __call__(self, *arguments: str, data: str = "synthetic", **behaviour: str) -> Done:
        self.environment["BEHAVIOUR"] = json.dumps(behaviour)
        return self.end(self.start(*arguments, data=data))

    def typed(self, line: str) -> Done:
        """Runs a line as a session prints it, in a shell."""
        self.environment["BEHAVIOUR"] = "{}"
        return self.end(
            subprocess.Popen(
                line, shell=True, cwd=ROOT, env=self.environment, text=True, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        )  # fmt: skip

    def end(self, process: Running) -> Done:
        output, _ = process.communicate(timeout=600)
        return Done(process.returncode, output, self.folder)


def records_of(saved: dict[str, Any]) -> list[Record]:
    """All launches of a saved file, those that failed last."""
    run = unpack(saved)
    records = [entry["extra_info"]["record"] for entry in run["benchmarks"]] + run["suite"]["failed"]
    return [Record.from_json(record) for record in records]


def refused(done: Done, words: str) -> None:
    """Asserts that the session ended with one line, before any launch and with nothing saved."""
    assert done.status == 4, done.output
    assert "Traceback" not in done.output
    (line,) = [line for line in done.output.splitlines() if words in line]
    assert line.startswith(("ERROR: ", "! "))
    assert not done.launched
    assert not done.saved
    assert "Compare with" not in done.output
