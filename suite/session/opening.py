"""Opens runs (of a session of pytest, at the size that its budget pays for, and of a command); advises what follows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

import pytest

from suite.analysis.rows.blocks import say_too_busy
from suite.monitor.background import settle
from suite.plan import order
from suite.plan.command import options
from suite.plan.command.common import LOCAL
from suite.plan.measuring import CONTROL, FIRST_LOOK, LAST_LOOK, LEAST_TESTED, REPEAT
from suite.record.record import SKIPPED, Record
from suite.record.retry import may_pass
from suite.record.text import clean
from suite.session import observers as observing
from suite.session.launches.settings import Settings, settings
from suite.session.outlook import Due, TooSlowError
from suite.session.resume import command, without
from suite.session.run import Run
from suite.session.stopping import spent_s
from suite.session.terminal import CommandTerminal, PytestTerminal, count_launches

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
        launch_blocks(run, planned)
        return run.records, str(run.info["id"])
    finally:
        terminal.show("")
        run.close()


def launch_blocks(run: Run, planned: Iterable[Due]) -> None:
    """Launch what is due, block by block, and after each block what of it has to be repeated."""
    for _, due in groupby(planned, key=lambda each: each[1] % CONTROL):
        block = [each for each in due if not run.should_skip(*each)]
        for each in block:
            run.launch(*each)
        for cell, number in block if run.repeats else []:
            if not run.should_skip(cell, number + REPEAT):
                run.launch(cell, number + REPEAT)


_TAKEN = pytest.StashKey[str]()


#: Letters of a failed launch's reason.
REASON_LETTERS = 200


def advice(run: Run, arguments: Sequence[str]) -> str:
    """One line with a command for the next step, given the arguments of this one; empty if nothing is left to do."""
    run_id = run.info["id"]
    again = command(arguments, run_id)
    if run.done < run.total:
        missing = count_launches(run.total - run.done)
        return f"{missing} did not run; the others are in {run.journal.path}. Continue with: {again}"
    if failed := [record.outcome for record in run.failed if may_pass(record.outcome)]:
        words = f"{count_launches(len(failed))} failed, the last by: {clean(failed[-1].reason, REASON_LETTERS)}"
        return f"{words}. Once the cause is gone, try again with: {again}"
    if busy := say_too_busy(run.records):
        words = f"The machine was too busy for an answer: {busy}. Wait or end other programs, then use:"
        return f"{words} {_continue(run, arguments, 2)}"
    return _go_on(run, arguments, again)


def _continue(run: Run, arguments: Sequence[str], times: float) -> str:
    run_id, budget_s = run.info["id"], run.settings.budget_s
    if not budget_s:  # which is tested once
        return command(arguments)
    return f"{command(without(arguments, '--budget'), run_id)} --budget={math.ceil(times * budget_s / 60)}min"


def _go_on(run: Run, arguments: Sequence[str], again: str) -> str:
    measured = Counter((cell.workload, cell.size) for cell in {each.cell for each in run.records if each.outcome.ok})
    if max(measured.values(), default=0) < 2:  # more launches compare nothing
        return ""
    blocks = len({record.block for record in run.records})
    if run.settings.budget_s and blocks < FIRST_LOOK:
        return f"Nothing is tested before {FIRST_LOOK} blocks. Go on for as long again: {_continue(run, arguments, 2)}"
    if run.undecided:
        return f"Undecided comparisons: {run.undecided}{_say_needed(run, arguments, blocks)}"
    if run.settings.launches < LEAST_TESTED and not all(cell.recipe for cell, _ in run.planned):
        return f"Test which differences are significant with: {again} --launches={LEAST_TESTED}"
    return ""


def _say_needed(run: Run, arguments: Sequence[str], blocks: int) -> str:
    """How many blocks would decide what is left, by an estimate, and the command for so many."""
    from suite.analysis.statistics.multiple_testing import standing

    if blocks >= LAST_LOOK:
        return f", after all {LAST_LOOK} blocks; --launches N takes more, anew"
    if not (needed := standing(run.records).needed):
        words = f". By an estimate {LAST_LOOK} blocks, which are the most, decide none. Go on for as long again:"
        return f"{words} {_continue(run, arguments, 2)}"
    times = max(1.0, spent_s(run.records) / (run.settings.budget_s or math.inf)) * needed[-1] / blocks
    words = f". About {needed[-1]} blocks would decide {len(needed)}, an estimate from their scatter in {blocks}:"
    return f"{words} {_continue(run, arguments, times)}"


def say_unmeasured(run: Run | None) -> str:
    """What was not measured that more launches cannot change, and why; empty where all was.

    Such as ``not measured: 3 launches unsupported: tensorflow: no such mode``.
    """
    records = run.records if run else []
    nothing = not any(record.outcome.ok for record in records)
    by_status: dict[str, list[Record]] = {}
    for record in records:
        if record.outcome.status in SKIPPED or (nothing and not record.outcome.ok):
            by_status.setdefault(record.outcome.status, []).append(record)
    ended = [f"{count_launches(len(each))} {status}: {_reasons(each)}" for status, each in by_status.items()]
    if not nothing:
        return f"not measured: {', '.join(ended)}" if ended else ""
    return f"nothing was measured: {', '.join(ended) or 'no launch ran'}"


def _reasons(records: Iterable[Record]) -> str:
    by_reason: dict[str, list[str]] = {}
    for record in records:
        reason = clean(record.outcome.reason, REASON_LETTERS) or "without a reason"
        by_reason.setdefault(reason, []).append(record.cell.framework)
    return "; ".join(f"{', '.join(sorted({*names}))}: {reason}" for reason, names in by_reason.items())
