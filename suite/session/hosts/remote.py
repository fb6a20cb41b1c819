"""A host of a cluster as the controller sees it: orders go out, progress and records come back.

An engine gives each host a `Wire`; at its other end is `suite.session.hosts.agent`.
"""

from __future__ import annotations

import base64
import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self

from suite.plan.schema import decode
from suite.record.handover.order import HostJob
from suite.record.record import Outcome, Record, RecordError
from suite.session.hosts import HostInfo, HostLostError, LaunchCallbacks, StoppedError
from suite.session.launches.launch import LaunchError
from workloads.data.files import DataError
from workloads.registry import folder_of

#: A host that says nothing for so long is lost: it says that it lives every two seconds.
SILENT_S = 60.0

#: How long a host may take to end a launch that is stopped.
STOP_S = 120.0

#: How long a host may take to begin, which is when its Python imports the suite.
BEGIN_S = 300.0

#: What a host's process is started with, by the Python of its controller.
COMMAND = (sys.executable, "-m", "suite.session.hosts.agent")

#: How long a host's process may take to end its launch and itself, in seconds.
ENDING_S = 10.0


class Wire(Protocol):
    """Lines to a host's process and from it. All raise `HostLostError` once it is gone."""

    def send(self, line: str) -> None:
        """Send one line."""

    def receive(self, within_s: float) -> Sequence[str]:
        """The lines that came, as soon as there are any; none after ``within_s``."""

    def close(self) -> None:
        """End the process."""


class Pipe:
    """A `Wire` to a child of this process. ``command`` starts it, here or, as ``srun`` does, elsewhere.

    ``how`` is handed to `subprocess.Popen`.
    """

    def __init__(
        self, command: Sequence[str] = COMMAND, environment: Mapping[str, str] | None = None, name: str = "", **how: Any
    ) -> None:
        self.name = name
        both = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=both, stdout=both, env=environment, text=True, bufsize=1, **how)
        self.lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, name=f"host {name}", daemon=True).start()

    def send(self, line: str) -> None:
        """Send one line; that the process has ended is noticed when its lines are asked for."""
        assert self.process.stdin
        with suppress(OSError, ValueError):
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()

    def receive(self, within_s: float) -> Sequence[str]:
        """The lines that came, waiting for the first. Raises `HostLostError` once the process has ended."""
        received: list[str | None] = []
        with suppress(queue.Empty):
            received.append(self.lines.get(timeout=within_s))
            while received[-1] is not None:
                received.append(self.lines.get_nowait())
        lines = [line for line in received if line is not None]
        if len(lines) < len(received):
            self.lines.put(None)
            if not lines:
                raise HostLostError(f"the process on host {self.name} has ended")
        return lines

    def close(self) -> None:
        """Let the process end its launch and itself."""
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

    def launch(self, order: HostJob, log: Path, callbacks: LaunchCallbacks) -> Record:
        """Run one launch there; its log and its other files come back with the record."""
        self.wire.send(json.dumps({"order": json.loads(order.dumps())}))
        answer = None
        until_s = time.monotonic() + 2 * order.deadline_s + STOP_S  # the host itself keeps the deadline
        try:
            for message in self._heard():
                if time.monotonic() > until_s:
                    raise HostLostError(f"host {self.name} did not end its launch")
                if isinstance(message.get("progress"), dict):
                    callbacks.progress(message["progress"])
                callbacks.tick()
                if message.keys() & {"record", "failed", "stopped"}:
                    answer = message
                    break
        finally:
            if answer is None:
                self._stop()
        assert answer is not None
        _raise(self.name, answer)
        with suppress(OSError):  # as a log that cannot be written ends no launch that is over
            _write(answer.get("files"), log)
        cell, launch = order.job.cell, order.job.launch
        try:
            record = Record.from_json(answer["record"])
        except RecordError as error:
            return Record(cell, Outcome("error", f"bad record: {error}"), launch)
        if (record.cell, record.launch) != (cell, launch):
            return Record(cell, Outcome("error", "bad record: it is of another launch"), launch)
        return record

    def close(self) -> None:
        """End the process there."""
        with suppress(HostLostError):
            self.wire.close()

    def _stop(self) -> None:
        """End the launch that runs there, and wait until it has ended; a host that does not end it is given up."""
        with suppress(HostLostError):
            self.wire.send(json.dumps({"stop": True}))
            until_s = time.monotonic() + STOP_S
            for message in self._heard():
                if message.keys() & {"record", "failed", "stopped"}:
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
    """Raise what a host raised."""
    if "stopped" in answer:
        raise StoppedError
    if "failed" in answer:
        raise (DataError if answer["failed"] == "data" else LaunchError)(f"host {name}: {answer.get('reason')}")


def _write(files: Any, log: Path) -> None:
    """Put the files of a launch beside its log; their names say no more than how they end."""
    if not isinstance(files, dict):
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    for ending, content in files.items():
        if isinstance(content, str) and "/" not in ending and ending.startswith("."):
            with suppress(ValueError):  # no base64, or no ending
                log.with_suffix(ending).write_bytes(base64.b64decode(content))
