"""The lines of a user's own files that run between two layers, for `python -m suite.prove`; nothing here is timed."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterable
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

Line = tuple[str, int]
#: A line as it is told: file, number, text.
Told = tuple[str, int, str]
#: Lines that are told of one layer at most.
MOST = 40


class Sources:
    """Notes the lines of files in a folder that run while it is entered, from one call of a layer to the next."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.noted: list[tuple[str, list[Line]]] = []
        self._last: list[Line] = []
        self._lines: list[Line] = []

    def __enter__(self) -> Sources:
        self._outer = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        sys.settrace(self._outer)

    def note(self, layer: str) -> None:
        """Called after a layer: the lines since the one before are its own, with those from which both are called."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and not self._is_own(frame):
            frame = frame.f_back
        here = [] if frame is None else [(frame.f_code.co_filename, frame.f_lineno)]
        self.noted.append((layer, [*self._last, *self._lines, *here]))
        self._last, self._lines = here, []

    def of(self, layers: Iterable[str]) -> dict[str, list[Told]]:
        """For each of these layers the lines since the one of them that was called before."""
        wanted, found, lines = set(layers), dict[str, list[Told]](), list[Line]()
        for layer, own in self.noted:
            lines += own
            if layer in wanted:
                found[layer] = [_describe(*line) for line in dict.fromkeys(lines)][-MOST:]
                lines = []
        return found

    def _is_own(self, frame: FrameType) -> bool:
        return Path(frame.f_code.co_filename).parent == self.folder

    def _trace(self, frame: FrameType, *_: Any) -> Any:
        return self._line if self._is_own(frame) else None

    def _line(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            self._lines.append((frame.f_code.co_filename, frame.f_lineno))
        return self._line


def _describe(file: str, line: int) -> Told:
    return Path(file).name, line, linecache.getline(file, line).strip()
