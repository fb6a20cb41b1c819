"""The parent's end of a worker's pipe: messages become parts of a record, and progress, until the worker has ended."""

from __future__ import annotations

import json
import math
import os
import selectors
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from suite.record.record import PARENTS
from suite.record.text import clean
from suite.session.launches import logs

GRACE_S = 10.0  # how long a worker may take to end after its outcome
LOOK_S = 1.0  # how often the log's size is checked, and the caller told that the worker still runs
LINE_MOST = 1 << 26  # bytes of one message; the parts of a real one take some megabytes at most

Progress = Callable[[dict[str, Any]], None]


@dataclass
class Listener:
    """Receives a worker's messages: ``parts`` of its record, and progress, which is passed on.

    ``tick`` is called at least once in `LOOK_S` seconds without a message. ``seen_s`` is how long each burst of a
    phase's windows took by the ``clock`` of this process: from the message that it begins to its last window's.
    """

    parts: dict[str, Any]
    progress: Progress
    log: Path
    tick: Callable[[], None] = lambda: None
    clock: Callable[[], float] = time.perf_counter
    seen_s: dict[str, list[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._pieces: list[bytes] = []  # of the line that has no end yet
        self._length = 0
        self._burst: tuple[str, float] | None = None  # the phase whose burst has begun, and when

    def listen(self, worker: subprocess.Popen[bytes], pipe: int, deadline: float) -> bool:
        """Collect parts until the worker has ended; False when the deadline came first.

        Waits on the pipe and on the process at once: children of the worker may hold the pipe open after its death.
        """
        process = os.pidfd_open(worker.pid)
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, selectors.EVENT_READ)
            selector.register(process, selectors.EVENT_READ)
            try:
                while (remaining_s := deadline - time.monotonic()) > 0:
                    ready = {key.fd for key, _ in selector.select(min(remaining_s, LOOK_S))}
                    if pipe in ready:
                        received = os.read(pipe, 1 << 16)
                        if not received:
                            selector.unregister(pipe)
                        self.receive(received)
                        if "outcome" in self.parts:
                            deadline = min(deadline, time.monotonic() + GRACE_S)
                    elif process in ready:
                        return True
                    else:
                        logs.cut(self.log)
                        self.tick()
                return False
            finally:
                os.close(process)

    def receive(self, received: bytes) -> None:
        """Take in what was read from a pipe: whole lines, and the beginning of the next."""
        *ended, rest = received.split(b"\n")
        for piece in ended:
            self._keep(piece)
            if self._length <= LINE_MOST:
                self._take(b"".join(self._pieces))
            self._pieces, self._length = [], 0
        self._keep(rest)

    def _keep(self, piece: bytes) -> None:
        """Add a piece to the current line; a line that is too long to be a message is dropped."""
        self._length += len(piece)
        self._pieces.append(piece)
        if self._length > LINE_MOST:
            self._pieces = []

    def _take(self, line: bytes) -> None:
        """Take in one line. Ignores what is not a message, since libraries may write to any open descriptor.

        Also ignores the parts that the parent fills in, such as the cell and the launch.
        """
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            return
        if not isinstance(message, dict):
            return
        self._stamp(message)
        if isinstance(part := message.get("part"), dict):
            self.parts.update({name: value for name, value in part.items() if name not in PARENTS})
        elif isinstance(message.get("progress"), str):
            rate = message.pop("samples_per_s", None)
            throughput = {"samples_per_s": rate} if isinstance(rate, (int, float)) and math.isfinite(rate) else {}
            self.progress(message | {"progress": clean(message["progress"])} | throughput)

    def _stamp(self, message: dict[str, Any]) -> None:
        """Note when a burst of windows begins, and when each of its windows has ended."""
        now_s = self.clock()
        if isinstance(name := message.get("begin"), str):
            self._burst = name, now_s
            self.seen_s.setdefault(name, []).append(0.0)
        elif "part" in message:
            self._burst = None
        elif self._burst and "samples_per_s" in message:
            name, began_s = self._burst
            self.seen_s[name][-1] = round(now_s - began_s, 6)
