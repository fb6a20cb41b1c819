"""Follows the journal of a run that goes on: ``python -m suite.export.follow TARGET PLACE JOURNAL``.

Started by `suite.session.tracker`, apart from the controller, so that a library that hangs can be ended. For
each line on standard input it sends what is new in the journal, and answers with one line of JSON on standard output.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from suite.export.target import ExportError, Origin, Target, target
from suite.record.record import Record, RecordError
from suite.record.text import clean

#: The lines that ask for the begin and for the end; any other asks for what is new.
BEGIN, END = "begin", "end"

#: Seconds after which an answer is given though launches are left, as where a resumed run has many.
LIMIT_S = 10.0


class Follower:
    """Sends the records of a journal, each once; after an error it goes on from the launch that failed."""

    def __init__(self, chosen: Target, place: str, journal: Path) -> None:
        self.target, self.place, self.journal = chosen, place, journal
        self.session: Any = None
        self.origin: Origin | None = None
        self.sent = 0
        self._offset = 0

    def open(self) -> None:
        """Open the place for the run that the journal's first line describes. Raises `ExportError`."""
        for data, end in self._lines() if self.origin is None else ():
            run = data.get("run")
            self.origin = Origin(self.journal.stem, run if isinstance(run, dict) else {})
            self._offset = end
            break
        if self.session is None and self.origin:
            self.session = self.target.begin(self.place, self.origin)

    def catch_up(self, limit_s: float = LIMIT_S) -> bool:
        """Send the launches that are new, and stop early after ``limit_s``; returns whether all have been sent.

        Raises `ExportError`.
        """
        self.open()
        begin_s = time.monotonic()
        for data, end in self._lines():
            if time.monotonic() - begin_s > limit_s:
                return False
            try:
                self.target.add(self.session, Record.from_json(data))
            except RecordError as error:
                raise ExportError(f"{self.journal.name}: {clean(error)}") from None
            self.sent, self._offset = self.sent + 1, end
        return True

    def end(self) -> str:
        """Close the session; returns where the launches are. Raises `ExportError` if some are missing."""
        if not self.catch_up():
            raise ExportError(f"there was no time for more than {self.sent} launches")
        return self.target.end(self.session)

    def _lines(self) -> Iterator[tuple[dict[str, Any], int]]:
        """The complete lines from the offset on, each with the offset of its end."""
        with self.journal.open("rb") as file:
            file.seek(end := self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                end += len(line)
                data = json.loads(line)
                yield data if isinstance(data, dict) else {}, end


def main(name: str, place: str, journal: str) -> int:
    """Answer until the end is asked for, or the controller is gone."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print belongs to the log
    follower = Follower(target(name), place, Path(journal))
    for line in sys.stdin:
        answer: dict[str, Any] = {}
        try:
            if line.strip() == END:
                answer["where"] = follower.end()
            elif line.strip() == BEGIN:
                follower.open()
            else:
                follower.catch_up()
        except ExportError as error:
            answer["problem"] = str(error)
        except Exception as error:  # of a library: the controller says it in one line, the log has the rest
            answer["problem"] = clean(f"{type(error).__name__}: {error}")
        answers.write(json.dumps(answer | {"sent": follower.sent}) + "\n")
        answers.flush()
        if line.strip() == END:
            break
    return 0


def end_with(parent: int) -> None:
    """End this process, and whatever it started, when the controller ends: a library may wait for long."""
    try:
        descriptor = os.pidfd_open(parent)
    except OSError:  # it has ended already
        os._exit(1)

    def wait() -> None:
        select.select([descriptor], [], [])
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=wait, name="end with the controller", daemon=True).start()


if __name__ == "__main__":
    if os.getpgrp() == os.getpid():  # as the tracker starts it
        end_with(os.getppid())
    sys.exit(main(*sys.argv[1:]))
