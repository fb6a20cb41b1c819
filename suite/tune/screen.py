"""What a search shows while it runs: one refreshing screen on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from types import TracebackType

from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from suite.analysis.search.state import Race
from suite.report.format.names import count
from suite.report.format.terminal import Terminal
from suite.report.format.view import LEFT
from suite.report.text.search import standing, title
from suite.session.terminal import duration
from suite.tune.loop import Spent

#: Cells that the screen lists.
ROWS_MOST = 12

#: Rows of the screen besides the cells, so that it fits into a window.
FRAME_ROWS = 8


class Screen:
    """Shows lines, passing states and the standing of the race, on standard error."""

    def __init__(self) -> None:
        self.terminal = Terminal(sys.stderr)
        self.live: Live | None = None
        self.state = ""
        self.race: Race | None = None
        self.blocks = -1
        self.parts: list[RenderableType] = []

    def __enter__(self) -> Screen:
        if self.terminal.is_terminal:
            self.live = Live(self, console=self.terminal, refresh_per_second=1, transient=True)
            self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.live:
            self.live.stop()
            self.live = None

    def say(self, text: str) -> None:
        """Print a line, above the screen if there is one."""
        self.terminal.print(text, soft_wrap=True)

    def say_end(self, text: str, status: str) -> None:
        """Print the line of a launch; on a terminal only of one that failed, since the screen shows the others."""
        if not self.live or status != "ok":
            self.say(text)

    def show(self, text: str) -> None:
        """Show what is going on; prints nothing without a terminal."""
        self.state = text

    def watch(self, race: Race, spent: Spent) -> None:
        """Show the standing of the race; without a terminal, a line at the end of each block."""
        new = self.race is None or race.cells != self.race.cells or race.blocks > self.blocks
        self.race = race
        if self.live:
            self.parts = self._draw(race, spent)
        if new and race.blocks:
            self.blocks = race.blocks
            if not self.live:
                self.say(f"{title(race)}: after block {race.blocks}, {describe_left(race)}; {describe_budget(spent)}")

    def __rich__(self) -> Group:
        """The whole screen, as rich asks for it; only its last line changes between two launches."""
        return Group(*self.parts, Text(self.state))

    def _draw(self, race: Race, spent: Spent) -> list[RenderableType]:
        """The standing and the budget, drawn once per launch: a refresh must cost the measured process nothing."""
        table = Table(box=None, pad_edge=False)
        most = max(3, min(ROWS_MOST, self.terminal.height - FRAME_ROWS))
        shown = standing(race, race.ranked[:most])
        for header, align in zip(shown.headers, shown.align, strict=True):
            table.add_column(header, justify="left" if align == LEFT else "right", overflow="fold")
        for row in shown.rows:
            table.add_row(*map(Text, row))
        more = len(race.alive) - len(shown.rows)
        return [
            Text(f"{title(race)}: block {race.blocks + 1}, {describe_left(race)}", style="bold"),
            table,
            *([Text(f"and {more} more")] if more > 0 else []),
            Text(describe_budget(spent)),
            ProgressBar(total=1.0, completed=min(spent.share, 1.0), width=40),
        ]


def describe_left(race: Race) -> str:
    """How many cells are left, of how many."""
    return f"{len(race.alive)} of {count(len(race.cells), 'cell')} left"


def describe_budget(spent: Spent) -> str:
    """What is spent and what is left of the budget."""
    if spent.budget.launches is not None:
        rest = max(0, spent.budget.launches - spent.launches)
        return f"{count(spent.launches, 'launch')} in {duration(spent.seconds)}, {rest} left"
    rest_s = max(0.0, (spent.budget.seconds or 0.0) - spent.seconds)
    words = f"{duration(rest_s)} left" if rest_s >= 1 else "nothing left"
    return f"{count(spent.launches, 'launch')} in {duration(spent.seconds)}, {words}"
