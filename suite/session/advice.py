"""What a session says at its end: why nothing was measured, or what to do next."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from suite.analysis.rows.blocks import say_too_busy
from suite.plan.measuring import FIRST_LOOK, LAST_LOOK, LEAST_TESTED
from suite.record.retry import may_pass
from suite.record.text import clean
from suite.session.formatting import count_launches
from suite.session.resume import command, without
from suite.session.run import Run

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


def _continue(run: Run, arguments: Sequence[str], times: int) -> str:
    """The command that goes on for so many times the budget; of a fixed number of launches, the one for a new run."""
    run_id, budget_s = run.info["id"], run.settings.budget_s
    if not budget_s:  # which is tested once
        return command(arguments)
    return f"{command(without(arguments, '--budget'), run_id)} --budget={math.ceil(times * budget_s / 60)}min"


def _go_on(run: Run, arguments: Sequence[str], again: str) -> str:
    """How to decide what a run has left undecided."""
    blocks = len({record.block for record in run.records})
    if run.settings.budget_s and blocks < FIRST_LOOK:
        return f"Nothing is tested before {FIRST_LOOK} blocks. Go on for as long again: {_continue(run, arguments, 2)}"
    if undecided := run.undecided:
        if blocks >= LAST_LOOK:
            return f"Undecided comparisons: {undecided}, after all {LAST_LOOK} blocks; --launches N takes more, anew"
        return f"Undecided comparisons: {undecided}. Go on for as long again: {_continue(run, arguments, 2)}"
    if run.settings.launches < LEAST_TESTED and not all(cell.recipe for cell, _ in run.planned):
        return f"Test which differences are significant with: {again} --launches={LEAST_TESTED}"
    return ""


def why_nothing_measured(run: Run | None) -> str:
    """Why a session that was to launch something measured nothing; empty where it measured."""
    records = run.records if run else []
    if any(record.outcome.ok for record in records):
        return ""
    counts = Counter(record.outcome.status for record in records)
    return ", ".join(f"{count_launches(count)} {status}" for status, count in counts.items()) or "no launch ran"
