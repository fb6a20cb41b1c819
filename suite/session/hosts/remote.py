"""A host of a cluster as the controller sees it: orders go out, progress and records come back.

An engine gives each host a `Wire`; at its other end is `suite.session.hosts.agent`.
"""

from __future__ import annotations

import base64
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self

from suite.plan.schema import decode
from suite.record.job import HostRanks, Job
from suite.record.parts.environment import redact
from suite.record.record import Outcome, Record, RecordError
from suite.record.text import clean
from suite.session.launches import logs
from suite.session.launches.launch import ROOT, LaunchError
from suite.session.launches.machine import HostInfo, LaunchCallbacks
from workloads.data.files import DataError
from workloads.registry import folder_of

#: A host that says nothing for so long is lost: it says that it lives every two seconds.
SILENT_S = 60.0
#: How long a host may take to begin, which is when its Python imports the suite, to end a launch that is stopped, and
#: to end itself, in seconds.
BEGIN_S, STOP_S, ENDING_S = 300.0, 120.0, 10.0

#: What a host's process is started with, by the Python of its controller. -P: not what lies in the current folder.
COMMAND = (sys.executable, "-P", "-m", "suite.session.hosts.agent")

#: The answers that end a launch.
LAST = {"record", "failed", "stopped"}


class HostLostError(RuntimeError):
    """A host can no longer be reached; what ran there runs again elsewhere."""


class StoppedError(RuntimeError):
    """The launch was ended because the run, or another host that took part, ended."""


class Wire(Protocol):
    """Lines to a host's process and from it. All raise `HostLostError` once it is gone."""

    def send(self, line: str) -> None:
        """Send one line."""

    def receive(self, within_s: float) -> Sequence[str]:
        """The lines that came, as soon as there are any; none after ``within_s``."""

    def close(self) -> None:
        """End the process."""


class Pipe:
    """A `Wire` to a child of this process; ``srun`` may start the host's process elsewhere.

    ``output`` is a file for what it prints, whose last line then says why it ended. Raises `LaunchError` if it cannot
    be started.
    """

    def __init__(
        self, name: str = "", environment: Mapping[str, str] | None = None, command: Sequence[str] = COMMAND,
        output: Path | None = None,
    ) -> None:  # fmt: skip
        self.name, self.output = name, output
        own = dict(os.environ if environment is None else environment)
        own["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), own.get("PYTHONPATH", "")]))
        try:
            with (output or Path(os.devnull)).open("ab") as said:
                # In a session of its own: Ctrl-C is for this process, which then ends the others in order.
                self.process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said if output else None,
                    env=own, text=True, bufsize=1, start_new_session=True,
                )  # fmt: skip
        except OSError as error:
            raise LaunchError(f"cannot start {command[0]}: {error.strerror}") from None
        self.lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, name=f"host {name}", daemon=True).start()

    def send(self, line: str) -> None:
        """Send one line; that the process has ended is noticed when its lines are asked for."""
        assert self.process.stdin
        with suppress(OSError, ValueError):
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()

    def receive(self, within_s: float) -> Sequence[str]:
        received: list[str | None] = []
        with suppress(queue.Empty):
            received.append(self.lines.get(timeout=within_s))
            while received[-1] is not None:
                received.append(self.lines.get_nowait())
        lines = [line for line in received if line is not None]
        if len(lines) < len(received):
            self.lines.put(None)
            if not lines:
                raise HostLostError(self._why())
        return lines

    def close(self) -> None:
        assert self.process.stdin
        assert self.process.stdout
        with suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(ENDING_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        with suppress(OSError, ValueError):
            self.process.stdout.close()

    def _why(self) -> str:
        if not self.output:
            return f"the process on host {self.name} has ended"
        last = (logs.tail(self.output) or ["it printed nothing"])[-1]
        return f"host {self.name} is lost: {clean(redact(last), 300)}"

    def _read(self) -> None:
        assert self.process.stdout
        with suppress(ValueError):  # closed meanwhile
            for line in self.process.stdout:
                self.lines.put(line)
        self.lines.put(None)


@dataclass
class Remote:
    """A host behind a wire. ``address`` is where other hosts reach it, and ``say`` prints a line.

    An engine that does not know the address leaves it empty: then the host's own word counts.

    ``settings`` are what `suite.session.hosts.agent` begins with; ``data`` are digests, by workload.
    """

    name: str
    address: str
    wire: Wire
    say: Callable[[str], None]
    settings: dict[str, Any]
    about: HostInfo = field(default_factory=HostInfo)
    data: dict[str, str] = field(default_factory=dict)

    def begin(self) -> Self:
        """Ask the host what it is; one that does not say it is given back. Raises `HostLostError` and `LaunchError`."""
        try:
            said = self._ask({"begin": self.settings | {"name": self.name}}, "about", within_s=BEGIN_S)
        except BaseException:
            self.close()
            raise
        self.about = decode(HostInfo, said["about"])
        self.address = self.address or self.about.address
        return self

    def prepare(self, workload: str) -> None:
        """Get the data of a workload ready there, verified. Raises `DataError`, `LaunchError`, `HostLostError`."""
        message = {"prepare": {"workload": workload, "folder": folder_of(workload)}}
        self.data[workload] = str(self._ask(message, "prepared")["prepared"])

    def port(self) -> int:
        """A port that was free there a moment ago."""
        return int(self._ask({"port": True}, "port")["port"])

    def launch(
        self, job: Job, log: Path, deadline_s: float, callbacks: LaunchCallbacks, part: HostRanks | None = None
    ) -> Record:
        """Run one launch, or a part of its ranks, there; its log and its other files come back with the record.

        Raises `HostLostError`, `StoppedError`, `LaunchError`, and what the callbacks raise.
        """
        order = {"job": asdict(job), "deadline_s": deadline_s, "part": part and asdict(part)}
        self.wire.send(json.dumps({"order": order}))
        answer = None
        until_s = time.monotonic() + 2 * deadline_s + STOP_S  # the host itself keeps the deadline
        try:
            for message in self._heard():
                if time.monotonic() > until_s:
                    raise HostLostError(f"host {self.name} did not end its launch")
                if isinstance(message.get("progress"), dict):
                    callbacks.progress(message["progress"])
                callbacks.tick()
                if message.keys() & LAST:
                    answer = message
                    break
        finally:
            if answer is None:
                self._stop()
        assert answer is not None
        _raise(self.name, answer)
        with suppress(OSError):  # as a log that cannot be written ends no launch that is over
            _write(answer.get("files"), log)
        try:
            record = Record.from_json(answer["record"])
        except RecordError as error:
            return Record(job.cell, Outcome("error", f"bad record: {error}"), job.launch)
        if (record.cell, record.launch) != (job.cell, job.launch):
            return Record(job.cell, Outcome("error", "bad record: it is of another launch"), job.launch)
        return record

    def close(self) -> None:
        with suppress(HostLostError):
            self.wire.close()

    def _stop(self) -> None:
        with suppress(HostLostError):
            self.wire.send(json.dumps({"stop": True}))
            until_s = time.monotonic() + STOP_S
            for message in self._heard():
                if message.keys() & LAST:
                    return
                if time.monotonic() > until_s:
                    break
            self.close()

    def _ask(self, message: dict[str, Any], name: str, within_s: float = SILENT_S) -> dict[str, Any]:
        """The answer to a message. Raises what the host raised."""
        self.wire.send(json.dumps(message))
        for answer in self._heard(within_s):
            if isinstance(text := answer.get("say"), str):
                self.say(f"{self.name}: {text}")
            _raise(self.name, answer)
            if name in answer:
                return answer
        raise HostLostError(f"host {self.name} gave no answer")

    def _heard(self, within_s: float = SILENT_S) -> Iterator[dict[str, Any]]:
        """The messages of the host as they come; an empty one about once a second. Raises `HostLostError`."""
        last_s = time.monotonic()
        while True:
            lines = self.wire.receive(1.0)
            if lines:
                last_s = time.monotonic()
            elif time.monotonic() - last_s > within_s:
                raise HostLostError(f"host {self.name} said nothing for {within_s:g} s")
            else:
                yield {}
            for line in lines:
                with suppress(ValueError):
                    if isinstance(message := json.loads(line), dict):
                        yield message


def _raise(name: str, answer: dict[str, Any]) -> None:
    if "stopped" in answer:
        raise StoppedError
    if "failed" in answer:
        raise (DataError if answer["failed"] == "data" else LaunchError)(f"host {name}: {answer.get('reason')}")


def _write(files: Any, log: Path) -> None:
    if not isinstance(files, dict):
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    for ending, content in files.items():
        if isinstance(content, str) and "/" not in ending and ending.startswith("."):
            with suppress(ValueError):  # no base64, or no ending
                log.with_suffix(ending).write_bytes(base64.b64decode(content))
