"""Lines to and from a host over the standard streams of a local command that leads there, such as ``srun``."""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from suite.record.environment import redact
from suite.record.mark import MARK
from suite.record.text import clean
from suite.session import logs
from suite.session.engines import HostLostError
from suite.session.launch import ROOT, LaunchError

#: How long the command may take to end, once its input has, and once it was asked to.
END_WITHIN_S = 10.0


class PipeWire:
    """Lines over a command. ``output`` is a file for what it prints besides, whose last line says why it ended.

    Raises `LaunchError` if it cannot be started.
    """

    def __init__(self, name: str, command: Sequence[str], output: Path, variables: Mapping[str, str]) -> None:
        self.name, self.output = name, output
        environment = {key: value for key, value in os.environ.items() if key != MARK} | dict(variables)
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
        try:
            with output.open("wb") as said:
                self.process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, env=environment, cwd=ROOT,
                    text=True, bufsize=1, start_new_session=True,
                )  # fmt: skip
        except OSError as error:
            raise LaunchError(f"cannot start {command[0]}: {error.strerror}") from None
        self.lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, name=f"lines of {name}", daemon=True).start()

    def send(self, line: str) -> None:
        """Send one line."""
        assert self.process.stdin
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except (OSError, ValueError):
            raise self._lost() from None

    def receive(self, within_s: float) -> Sequence[str]:
        """The lines that came, as soon as there are any; none after ``within_s``."""
        found: list[str] = []
        with contextlib.suppress(queue.Empty):
            line = self.lines.get(timeout=within_s)
            while line is not None:
                found.append(line)
                line = self.lines.get_nowait()
            self.lines.put(None)
            if not found:
                raise self._lost()
        return found

    def close(self) -> None:
        """End the process there by the end of its input, and the command if that does not end with it."""
        with contextlib.suppress(OSError, ValueError):
            assert self.process.stdin
            self.process.stdin.close()
        for end in (None, self.process.terminate, self.process.kill):
            if end:
                end()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(END_WITHIN_S)
                return

    def _read(self) -> None:
        assert self.process.stdout
        with self.process.stdout, contextlib.suppress(ValueError):
            for line in self.process.stdout:
                self.lines.put(line)
        self.lines.put(None)

    def _lost(self) -> HostLostError:
        last = (logs.tail(self.output) or ["it printed nothing"])[-1]
        return HostLostError(f"host {self.name} is lost: {clean(redact(last), 300)}")
