"""What a rule is, and a bundle as rules see it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from suite.analysis.records.load import Launch
from suite.analysis.records.reader import read_lines
from suite.analysis.rows.groups import Group, group
from suite.plan.cell import Cell
from suite.record.bundle import Bundle, Manifest
from suite.record.record import Record
from suite.record.retry import last_tries
from suite.record.text import clean
from suite.session.eta import is_lean
from suite.verify.known import EVERY, OF_LAUNCHES, OF_RUN, OK, RUN, WHOLE, find_fault

#: Grows when a rule is added or judges otherwise.
VERSION = 3

FAILED, WARNING, PASSED, NOT_REACHED = "failed", "warning", "passed", "not reached"

#: What to do about most faults: of what was measured, of the bundle, and of a busy machine.
MEASURE, AGAIN = "measure again, unchanged", "bundle the run again from its own journal, unchanged"
IDLE = "measure on an idle machine"


@dataclass(frozen=True)
class Problem:
    """What a rule found: ``kind`` is `failed` or `warning`, ``mend`` says what to do."""

    kind: str
    why: str
    mend: str = ""


@dataclass(frozen=True)
class Submission:
    """A bundle whose lines are records. ``header`` is the first line's run.

    ``links`` are by line the digest that it names of the line before, and its own.
    """

    about: Manifest
    header: Mapping[str, Any]
    links: tuple[tuple[object, str], ...]
    ended: tuple[Record, ...]  # every line, in the order in which the launches ended

    @classmethod
    def of(cls, bundle: Bundle) -> Submission:
        """Raises `RecordError` for lines that are no journal."""
        header, links, ended = read_lines(bundle.lines)
        return cls(bundle.about, header, tuple(links), tuple(map(_without_excuse, ended)))

    @property
    def run(self) -> Mapping[str, Any]:
        """The description of the run when it was saved."""
        return self.about.run

    @cached_property
    def launches(self) -> dict[str, Record]:
        """The launches by key; of one that failed and was tried again, the last."""
        return last_tries(self.ended)

    @cached_property
    def ok(self) -> list[Record]:
        return [record for record in self.launches.values() if record.outcome.ok]

    @cached_property
    def timed(self) -> list[Record]:
        """The launches that ended well and were no training to the end."""
        return [record for record in self.ok if not record.course]

    @cached_property
    def cells(self) -> dict[Cell, list[Record]]:
        """The launches that ended well by cell, the control's apart from the others by no more than their number."""
        found: dict[Cell, list[Record]] = {}
        for record in self.ok:
            found.setdefault(record.cell, []).append(record)
        return found

    @cached_property
    def groups(self) -> list[Group]:
        return group(Launch(record, clean(self.run.get("id", ""), 80), "") for record in self.launches.values())

    @cached_property
    def faults(self) -> dict[str, str]:
        """What is wrong with each field that rules need, by its path; empty if nothing is."""
        holders: dict[str, list[tuple[str, Any]]] = {
            RUN: [("the run", self.run), ("its journal", self.header)],
            EVERY: [(record.key, record) for record in self.ended],
            OK: [(record.key, record) for record in self.ok],
            WHOLE: [(record.key, record) for record in self.ok if not (is_lean(record) and record.launch)],
        }
        fields = {f"run:{name}": (name, each) for name, each in OF_RUN.items()}
        fields |= {path: (path, each) for path, each in OF_LAUNCHES.items()}
        return {name: find_fault(path, each, holders[each.of]) for name, (path, each) in fields.items()}


@dataclass(frozen=True)
class Rule:
    """A rule of the checker. ``reason`` says why it is there, ``stops`` which fault it stops.

    ``run`` and ``launches`` are the fields that it needs, by their names in `suite.verify.known`.
    """

    number: int
    name: str
    reason: str
    stops: str
    check: Callable[[Submission], Iterable[Problem]]
    run: str = ""
    launches: str = ""


@dataclass(frozen=True)
class Answer:
    """What a rule says of a file: ``kind`` is `passed`, `warning`, `failed` or `not reached`."""

    rule: Rule
    kind: str
    why: str = ""
    mend: str = ""


def judge(rule: Rule, run: Submission) -> Answer:
    """The answer of a rule: the first field that it lacks, else the first failure or warning, and how many more."""
    names = [*(f"run:{name}" for name in rule.run.split()), *rule.launches.split()]
    lacking = [Problem(FAILED, run.faults[name], MEASURE) for name in names if run.faults[name]]
    try:
        every = sorted(lacking or rule.check(run), key=lambda each: each.kind != FAILED)
    except Exception as error:  # what has no schema may hold anything, and must end no check of others
        every = [Problem(FAILED, f"it cannot be judged: {type(error).__name__}: {error}", MEASURE)]
    if not every:
        return Answer(rule, PASSED)
    more = f" (and {len(every) - 1} more)" if len(every) > 1 else ""
    return Answer(rule, every[0].kind, clean(every[0].why, 400) + more, every[0].mend)


def _without_excuse(record: Record) -> Record:
    """The record without what its parent waited for a core: it excuses late messages, and nobody can check it here."""
    return replace(record, ledger=replace(record.ledger, late_s=None)) if record.ledger else record
