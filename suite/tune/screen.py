"""What a search shows while it runs: its lines, and its standing at the end of each block."""

from __future__ import annotations

from suite.analysis.search.state import Race
from suite.report.format.names import count
from suite.report.format.terminal import Terminal
from suite.report.text.search import standing, title
from suite.session.formatting import duration
from suite.session.terminal import CommandTerminal
from suite.tune.loop import Spent

#: Cells that a terminal shows after each block.
ROWS_MOST = 12


class Screen(CommandTerminal):
    """Standard error of a search; a terminal has a table of the best cells after each block, a log has a line."""

    race: Race | None = None

    def watch(self, race: Race, spent: Spent) -> None:
        """Show the standing of the race at the end of a block."""
        before, self.race = self.race, race
        if not race.blocks or (before and before.cells == race.cells and before.blocks >= race.blocks):
            return
        left = f"{len(race.alive)} of {count(len(race.cells), 'cell')} left"
        self.say(f"{title(race)}: after block {race.blocks}, {left}; {describe_budget(spent)}")
        if self.passing:
            Terminal(self.stream).show_grid(standing(race, race.ranked[:ROWS_MOST]))


def describe_budget(spent: Spent) -> str:
    """What is spent and what is left of the budget."""
    if spent.budget.launches is not None:
        words = f"{max(0, spent.budget.launches - spent.launches)} left"
    else:
        rest_s = max(0.0, (spent.budget.seconds or 0.0) - spent.seconds)
        words = f"{duration(rest_s)} left" if rest_s >= 1 else "nothing left"
    return f"{count(spent.launches, 'launch')} in {duration(spent.seconds)}, {words}"
