"""Follows the journal of a run that goes on: ``python -m suite.export.follow TARGET PLACE JOURNAL``.

Started by `suite.session.tracker`, apart from the controller, so that a library that hangs can be ended. For each line
on standard input it sends what is new in the journal, and answers with one line of JSON on standard output.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from suite.export.target import ExportError, Origin, Target, target
from suite.record.record import Record, RecordError
from suite.record.text import clean

#: The line that asks for the end.
END = "end"


class Follower:
    """Sends the records of a journal, each once; after an error it goes on from the launch that failed."""

    def __init__(self, chosen: Target, place: str, journal: Path) -> None:
        self.target, self.place, self.journal = chosen, place, journal
        self.session: Any = None
        self.origin: Origin | None = None
        self.sent = 0
        self._offset = 0

    def catch_up(self) -> int:
        """Send all complete lines that are new; returns how many launches have been sent. Raises `ExportError`."""
        for data, end in self._lines():
            if self.origin is None:
                run = data.get("run")
                self.origin = Origin(self.journal.stem, run if isinstance(run, dict) else {})
            else:
                self._open()
                try:
                    self.target.add(self.session, Record.from_json(data))
                except RecordError as error:
                    raise ExportError(f"{self.journal.name}: {clean(error)}") from None
                self.sent += 1
            self._offset = end
        self._open()
        return self.sent

    def end(self) -> str:
        """Close the session; returns where the launches are."""
        self.catch_up()
        return self.target.end(self.session)

    def _open(self) -> None:
        if self.session is None and self.origin:
            self.session = self.target.begin(self.place, self.origin)

    def _lines(self) -> Iterator[tuple[dict[str, Any], int]]:
        with self.journal.open("rb") as file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                data = json.loads(line)
                yield data if isinstance(data, dict) else {}, self._offset + len(line)


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


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
