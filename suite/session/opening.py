"""Opens runs: of a session of pytest, at the size that its budget pays for, and of a command."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import pytest

from suite.monitor.background import settle
from suite.plan import order
from suite.plan.command import options
from suite.plan.command.common import LOCAL
from suite.plan.measuring import CONTROL, REPEAT
from suite.record.record import Record
from suite.session import observers as observing
from suite.session.launches.settings import Settings, settings
from suite.session.planning.outlook import Due, TooSlowError
from suite.session.run import Run
from suite.session.terminal import CommandTerminal, PytestTerminal

SIZE, SMALL = "size", "small"


def open_run(session: pytest.Session, test: str, launches: order.Launches) -> Run:
    """The run of a session's launches, ready for the first; ``launches`` are those of all ids of ``test``.

    Where the machine is too slow or too busy for a tested answer within the budget, and nobody asked for a size, it is
    of the small workloads, as if ``--size small`` had been typed.
    """
    config = session.config
    terminal = PytestTerminal(config)
    with terminal.uncaptured():
        here = config.getoption("on") == LOCAL  # else its load concerns no launch
        background = settle(config.getoption("wait_idle"), terminal.say, terminal.show).to_json() if here else {}
        run = _make_run(session, test, launches, terminal, background)
        try:
            asked = any(config.getoption(name) for name in (SIZE, "matrix", "resume", "shard"))
            try:
                run.prepare(may_shrink=run.on_cpu and not asked)
            except TooSlowError as error:
                run.discard()
                terminal.say(
                    f"{error}: more than the budget for the full size, so size small is measured. "
                    f"For the full one: --{SIZE}=full --budget={error.budget}"
                )
                config.option.size = config.stash[_TAKEN] = SMALL
                order.replace_cells(session, test, launches, lambda cell: cell.but(size=SMALL))
                costs, run = run.costs, _make_run(session, test, launches, terminal, background)
                run.prepare(costs)
        except BaseException:
            run.discard()
            raise
    if run.repeats:
        order.add_repeats(session, test, launches)
    return run


def taken(config: pytest.Config) -> list[str]:
    """The options that a session took by itself, for a command that continues it."""
    return [f"--{SIZE}={config.stash[_TAKEN]}"] if _TAKEN in config.stash else []


def _make_run(
    session: pytest.Session, test: str, launches: order.Launches, terminal: PytestTerminal, background: dict[str, Any]
) -> Run:
    config = session.config
    return Run(
        settings(config, options.chosen_matrix(config)),
        [launches[name] for name in order.planned_ids(session.items, test, list(launches))],
        terminal.say, terminal.show, terminal.say_end, background,
        observing.make_observers(config, terminal.say, terminal.show), repeats=True,
    )  # fmt: skip


def launch_all(settings: Settings, planned: list[Due]) -> tuple[list[Record], str]:
    """The launches of a command, one after the other, and the id of their run. Raises what a `Run` raises."""
    terminal = CommandTerminal()
    run = Run(settings, list(planned), terminal.say, terminal.show, repeats=True)
    try:
        run.prepare()
        for _, due in groupby(planned, key=lambda each: each[1] % CONTROL):
            block = list(due)
            for each in block:
                run.launch(*each)
            for cell, number in block if run.repeats else []:
                if not run.should_skip(cell, number + REPEAT):
                    run.launch(cell, number + REPEAT)
        return run.records, str(run.info["id"])
    finally:
        terminal.show("")
        run.close()


_TAKEN = pytest.StashKey[str]()
