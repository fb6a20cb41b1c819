"""What a search shows while it runs, and its answer, which is printed and written with its plots."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from framework_training_suite import typed
from suite.analysis.search.state import Race
from suite.record.record import Record
from suite.report import plots
from suite.report.format.names import count
from suite.report.format.terminal import Terminal
from suite.report.plots.kinds.race import race_plot
from suite.report.text import search
from suite.session.terminal import CommandTerminal, duration
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
        self.say(f"{search.title(race)}: after block {race.blocks}, {left}; {describe_budget(spent)}")
        if self.passing:
            Terminal(self.stream).show_grid(search.standing(race, race.ranked[:ROWS_MOST]))


def describe_budget(spent: Spent) -> str:
    """What is spent and what is left of the budget."""
    if spent.budget.launches is not None:
        words = f"{max(0, spent.budget.launches - spent.launches)} left"
    else:
        rest_s = max(0.0, (spent.budget.seconds or 0.0) - spent.seconds)
        words = f"{duration(rest_s)} left" if rest_s >= 1 else "nothing left"
    return f"{count(spent.launches, 'launch')} in {duration(spent.seconds)}, {words}"


def print_answers(races: Sequence[Race], records: Sequence[Record], resume: str, file: IO[str] | None = None) -> None:
    """Print the answer of each race, into a file as it is read on any machine."""
    spell = str if file else typed
    terminal = Terminal(file)
    for race in races:
        terminal.print()
        terminal.say(search.title(race))
        terminal.print("=" * len(search.title(race)))
        terminal.say(search.verdict(race))
        if cells := race.recommended or race.launched_once:
            terminal.print()
            terminal.show_grid(search.standing(race, cells))
        if race.recommended:
            terminal.print()
            terminal.print(
                f"Run it: {spell(search.command(race.recommended[0], race.question.target))}", soft_wrap=True
            )
        if grid := search.findings(race):
            terminal.print()
            terminal.say("What each setting brought, over pairs of cells that differ in nothing else:")
            terminal.show_grid(grid)
        terminal.print()
        for line in [
            search.say_untried(race),
            *search.outs(race),
            search.say_flagged(race),
            search.risk(race),
            search.cost(race, seconds_of(race, records)),
        ]:
            if line:
                terminal.say(line)
        if not race.over:
            terminal.print(f"Continue with: {resume}", soft_wrap=True)


def write_answers(races: Iterable[Race], records: Sequence[Record], folder: Path, run: Mapping[str, Any]) -> None:
    """Write the answer as text and JSON, and a plot of each race. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    races = list(races)
    races_json = [search.summary(race, seconds_of(race, records)) for race in races]
    (folder / "answer.json").write_text(json.dumps({**run, "races": races_json}, indent=1) + "\n", encoding="utf-8")
    with (folder / "answer.txt").open("w", encoding="utf-8") as file:
        print_answers(races, records, "training-suite tune --resume", file)
    for race in races:
        if chart := race_plot(race):
            cell = race.cells[0]
            plots.save(chart, folder / f"race-{cell.workload}-{cell.size}.png")


def seconds_of(race: Race, records: Iterable[Record]) -> float:
    """What the launches of a race took, in seconds."""
    cells = set(race.cells)
    return sum(float(record.run.get("took_s") or 0.0) for record in records if record.cell in cells)
