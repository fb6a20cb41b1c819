"""A host's process behind a pair of pipes: a `Wire` for whatever can start one as a child of this process."""

from __future__ import annotations

import contextlib
import queue
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from suite.session.hosts import HostLostError

#: What a host's process is started with, by the Python of its controller.
COMMAND = (sys.executable, "-m", "suite.session.hosts.agent")

#: How long the process may take to end its launch and itself, in seconds.
ENDING_S = 10.0


class Pipe:
    """Lines to a process and from it. ``command`` starts it, here or, as ``srun`` does, elsewhere.

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
        with contextlib.suppress(OSError, ValueError):
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()

    def receive(self, within_s: float) -> Sequence[str]:
        """The lines that came, waiting for the first. Raises `HostLostError` once the process has ended."""
        received: list[str | None] = []
        with contextlib.suppress(queue.Empty):
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
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(ENDING_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        with contextlib.suppress(OSError, ValueError):
            self.process.stdout.close()

    def _read(self) -> None:
        assert self.process.stdout
        with contextlib.suppress(ValueError):  # closed meanwhile
            for line in self.process.stdout:
                self.lines.put(line)
        self.lines.put(None)
