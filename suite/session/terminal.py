"""What a run says on a terminal, and in which words."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from suite.catalog.metrics import unit_of
from suite.record.disturbance import DISTURBED, find_disturbances
from suite.record.record import SKIPPED, Record
from suite.record.text import clean

if TYPE_CHECKING:
    import pytest

#: Throughputs below it are written to three digits.
RATE_LEAST = 100

#: Clears the current line of a terminal.
CLEAR = "\r\x1b[K"


class PytestTerminal:
    """Lines and passing states on pytest's terminal, which its capture does not catch."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.capture = config.pluginmanager.getplugin("capturemanager")
        self.reporter: pytest.TerminalReporter | None = config.pluginmanager.getplugin("terminalreporter")

    def say(self, text: str, **colour: bool) -> None:
        if self.reporter:
            with self.capture.global_and_fixture_disabled():
                self._begin_line(self.reporter)
                self.reporter.write_line(text, **colour)

    def say_end(self, text: str, status: str) -> None:
        """Print the line of a launch, in the colour of its outcome."""
        self.say(text, **{"green" if status == "ok" else "yellow" if status in SKIPPED else "red": True})

    def show(self, text: str) -> None:
        if self.reporter and self.reporter.isatty:
            with self.capture.global_and_fixture_disabled():
                width = self.config.get_terminal_writer().fullwidth
                self.reporter.rewrite(text[: width - 1], erase=True)

    @contextmanager
    def uncaptured(self) -> Iterator[None]:
        """Let what is printed inside reach the terminal: bars, and the lines that stand for them in a log."""
        with self.capture.global_and_fixture_disabled():
            if self.reporter:
                self._begin_line(self.reporter)
            yield

    def _begin_line(self, reporter: pytest.TerminalReporter) -> None:
        reporter.rewrite("", erase=True) if reporter.isatty else reporter.ensure_newline()


class CommandTerminal:
    """Lines and passing states on standard error."""

    def __init__(self) -> None:
        self.stream = sys.stderr
        self.passing = self.stream.isatty()

    def say(self, text: str) -> None:
        self._write(f"{text}\n")

    def show(self, text: str) -> None:
        """Replace the last line of a terminal; prints nothing elsewhere. Without a text, the line is cleared."""
        if self.passing:
            self._write(text[: shutil.get_terminal_size().columns - 1])

    def _write(self, text: str) -> None:
        self.stream.write((CLEAR if self.passing else "") + text)
        self.stream.flush()


def count_launches(count: int) -> str:
    """Such as ``1 launch`` or ``2 launches``."""
    return f"{count} launch" if count == 1 else f"{count} launches"


def duration(seconds: float) -> str:
    """Such as ``40 s``, ``12 min`` or ``1 h 20 min``."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= RATE_LEAST else f"{value:.3g}"


def describe_launch(record: Record) -> str:
    """A launch in one line: its throughput, or why there is none."""
    if record.outcome.ok:
        causes = ", ".join(find_disturbances(record))
        words = [*(flag for flag in record.flags if flag != DISTURBED), *([f"disturbed: {causes}"] if causes else [])]
        flags = f"  {clean(' '.join(words))}" if words else ""
        if course := record.course:
            flags = f"  test accuracy {course.final_accuracy:.4f} after {len(course.epochs)} epochs{flags}"
        return f"{record.cell.id}  {_rate(record.samples_per_s or 0.0)} {unit_of(record)}/s{flags}"
    return f"{record.cell.id}  {record.outcome.status}: {clean(record.outcome.reason)}"
