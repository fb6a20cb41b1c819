"""One JSON file with all that a session on a CUDA device found, written after every test and every launch."""

from __future__ import annotations

import json
import math
import os
import threading
import time
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from suite.record.parts.environment import redact
from suite.record.record import Record

SCHEMA = 1

#: The share of the tests that may lack time or a framework before the session fails.
MOST_NOT_RUN = 0.1

#: What of a record goes into the report; the environment is the same in all and stands there once.
LEFT_OUT = ("schema", "environment", "metrics", "run")


class Report:
    """``figures`` is the collector that tests add to; names are paths, such as ``deviation/imdb_lstm/fp32``."""

    def __init__(self, path: Path, **told: Any) -> None:
        self.path, self.told = path, told
        self.figures: dict[str, Any] = {}
        self.not_run: dict[str, str] = {}  # tests that had no time or no framework, with the reason
        self.began = datetime.now(UTC).isoformat(timespec="seconds")
        self._began_s = time.monotonic()
        self._launches: list[dict[str, Any]] = []
        self._tests: dict[str, dict[str, Any]] = {}
        self._writing = threading.Lock()

    @property
    def seconds(self) -> float:
        """Since the report was begun."""
        return time.monotonic() - self._began_s

    def note_launch(self, name: str, seconds: float, alone: bool, record: Record | None = None, **more: Any) -> None:
        """A launch or a probe with the time that it took; ``alone`` where nothing else of ours used the device."""
        held = {} if record is None else {k: v for k, v in record.to_json().items() if k not in LEFT_OUT}
        times = {phase: measured.step_s for phase, measured in record.phases.items()} if record else {}
        self._launches.append({"name": name, "seconds": seconds, "alone": alone, "step_s": times, **held, **more})
        self.write()

    def too_little(self) -> str:
        """Says how many tests were not run, and the usual reason, where they are more than `MOST_NOT_RUN` of all."""
        count, whole = len(self.not_run), len(self._tests)
        if count <= MOST_NOT_RUN * whole:
            return ""
        ((reason, _),) = Counter(self.not_run.values()).most_common(1)
        return f"{count} of {whole} tests were not run, which is too many to pass: {reason}"

    def note_test(self, name: str, outcome: str, reason: str, seconds: float) -> None:
        self._tests[name] = {"outcome": outcome, "reason": redact(reason), "seconds": seconds}
        self.write()

    def write(self) -> None:
        """Replace the file as a whole, so that a session that is killed leaves the last one."""
        with self._writing:
            told = {
                "schema": SCHEMA,
                "began": self.began,
                "seconds": self.seconds,
                **self.told,
                "figures": dict(self.figures),
                "tests": dict(self._tests),
                "launches": list(self._launches),
            }
            self.path.parent.mkdir(parents=True, exist_ok=True)
            unfinished = self.path.with_name(f"{self.path.name}.{os.getpid()}.tmp")
            unfinished.write_text(json.dumps(_plain(told), indent=1, allow_nan=False) + "\n", encoding="utf-8")
            unfinished.replace(self.path)


def _plain(value: Any) -> Any:
    """What JSON can hold; a number that is not finite becomes its name."""
    if isinstance(value, Mapping):
        return {str(name): _plain(held) for name, held in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(held) for held in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, (str, int, float)) else str(value)
