"""Tables on a terminal of any width, and in a pipe: nothing cut off, nothing lost, no colour where none is wanted."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from suite.record.record import Record
from suite.report.format.terminal import Terminal
from suite.report.format.view import LEFT, RIGHT, Grid, View
from tests.records import everything, mixed, only
from tests.shown import terminal, view

ROOT = Path(__file__).parents[2]
WIDTHS = (60, 80, 100, 120, 200)


def words(shown: View) -> set[str]:
    """All words of a table, its title and its notes; without stars, which mark values."""
    grid = shown.grid
    texts = [shown.title, *grid.headers, *(cell for row in grid.rows for cell in row), *shown.notes]
    return {word for text in texts for word in text.replace("*", "").split()}


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def coloured(grid: Grid, monkeypatch: pytest.MonkeyPatch, **environment: str) -> str:
    """The grid on a screen with colours."""
    for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"TERM": "xterm-256color", **environment}.items():
        monkeypatch.setenv(name, value)
    screen = Screen()
    Terminal(screen, 80).show_grid(grid)
    return screen.getvalue()


@pytest.mark.parametrize(
    ("held", "width"),
    [(mixed(), width) for width in WIDTHS]
    # Whose nine columns of settings alone take 60; releases would be a tenth.
    + [([each for each in everything() if not each.cell.release], width) for width in WIDTHS[1:]],
)
def test_a_table_fits_the_terminal_and_no_word_of_it_is_lost(held: list[Record], width: int) -> None:
    table = only(held)
    text = terminal(table, width)
    assert max(map(len, text.splitlines())) <= width
    assert words(view(table)) <= set(text.replace("*", "").split())


def test_a_pipe_gets_every_row_whole_in_one_line() -> None:
    shown = view(only(everything()))
    lines = [line.replace("*", "") for line in terminal(only(everything()), None).splitlines()]
    for grid in shown.parts:
        assert [line for line in lines if all(header in line for header in grid.headers)]
        for row in grid.rows:
            pattern = r"\s+".join(map(re.escape, row))
            assert any(re.fullmatch(rf"\s*{pattern}\s*", line) for line in lines), row


def test_a_word_wider_than_the_terminal_is_folded_and_not_cut_off() -> None:
    stream = io.StringIO()
    Terminal(stream, 20).show_grid(Grid(["cell"], [["x" * 70]], [LEFT]))
    assert stream.getvalue().count("x") == 70


VERDICTS = Grid(
    ["cell", "verdict", "ratio"], [["a", "faster", "1.20 (1.1)"], ["b", "slower", "0.80"]], [LEFT] * 3,
    best=frozenset({(0, 2)}),
)  # fmt: skip


def test_a_terminal_gets_verdicts_in_colour_and_the_best_value_bold(monkeypatch: pytest.MonkeyPatch) -> None:
    text = coloured(VERDICTS, monkeypatch)
    for words in ("\x1b[32mfaster", "\x1b[31mslower", "\x1b[1m1.20*\x1b[0m"):
        assert words in text


def test_no_color_means_none_and_neither_does_a_pipe_get_any(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b" not in coloured(VERDICTS, monkeypatch, NO_COLOR="1")
    monkeypatch.setenv("FORCE_COLOR", "1")
    stream = io.StringIO()
    Terminal(stream).show_grid(VERDICTS)
    assert "\x1b" not in stream.getvalue()


def test_nothing_of_a_record_is_taken_for_markup() -> None:
    hostile = "[red]x[/red] [link=http://e.org]y[/link] :smile: [/]"
    stream = io.StringIO()
    shown = View(hostile, Grid([hostile, "n"], [[hostile, "1"]], [LEFT, RIGHT]), [hostile])
    Terminal(stream).show(shown)
    assert stream.getvalue().count(hostile) == 4


def test_a_table_is_as_wide_as_the_terminal_that_it_stands_in() -> None:
    code = (
        "from suite.report.format.terminal import Terminal; from tests.shown import view; from tests.records import *\n"
        "Terminal().show(view(only(mixed())))"
    )
    reader, writer = pty.openpty()
    fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 70, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    environment |= {"TERM": "xterm", "NO_COLOR": "1"}
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdin=writer, stdout=writer, stderr=writer) as process:
        os.close(writer)
        text = b""
        while chunk := _read(reader):
            text += chunk
        os.close(reader)
    assert process.returncode == 0, text
    lines = text.decode().splitlines()
    assert 60 < max(map(len, lines)) <= 70


def _read(descriptor: int) -> bytes:
    """What a terminal says; nothing once nobody holds its other end."""
    try:
        return os.read(descriptor, 4096)
    except OSError:
        return b""
