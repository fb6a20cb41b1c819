"""What a rule is, and a bundle as rules see it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from suite.analysis.records.json_text import without_surrogates
from suite.analysis.records.lines import Place
from suite.analysis.records.load import Launch
from suite.analysis.records.reader import Reader
from suite.analysis.rows.groups import Group, group
from suite.plan.cell import Cell
from suite.record.bundle import About, Bundle
from suite.record.chain import BEFORE, digest
from suite.record.record import Record, RecordError
from suite.record.text import clean, parse_json

#: Grows when a rule is added or judges otherwise.
VERSION = 1

#: Hosts of a run, at most: each is compared with all others.
MACHINES_MOST = 64

FAILED, WARNING, PASSED, NOT_REACHED = "failed", "warning", "passed", "not reached"


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

    about: About
    header: Mapping[str, Any]
    links: tuple[tuple[object, str], ...]
    ended: tuple[Record, ...]  # every line, in the order in which the launches ended

    @classmethod
    def of(cls, bundle: Bundle) -> Submission:
        """Raises `RecordError` for lines that are no journal."""
        header: Any = None
        links, ended, reader = [], [], Reader(whole=True)
        machines: set[tuple[str, str]] = set()
        for number, text in enumerate(bundle.lines, 1):
            try:
                line = parse_json(without_surrogates(text))
                if number > 1:
                    record = reader.record(text, Place(Path(), 0, 0, 0))
                    ended.append(record)
                    machines.add((str(record.run.get("id")), str(record.environment.get("machine"))))
                elif isinstance(line, dict) and line.keys() == {"run"}:
                    header = line["run"]
                if not isinstance(header, dict):
                    raise RecordError("it describes no run")
                if len(machines) > MACHINES_MOST:
                    raise RecordError(f"more machines are named than {MACHINES_MOST}, which are the most")
                links.append((line.get("run", {}).get(BEFORE), digest(line)))
            except ValueError as error:
                raise RecordError(f"line {number}: {clean(error)}") from None
        if not ended:
            raise RecordError("it holds no launch")
        return cls(bundle.about, header, tuple(links), tuple(ended))

    @property
    def run(self) -> Mapping[str, Any]:
        """The description of the run when it was saved."""
        return self.about.run

    @cached_property
    def launches(self) -> dict[str, Record]:
        """The launches by key; of one that failed and was tried again, the last."""
        return {record.key: record for record in self.ended}

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


@dataclass(frozen=True)
class Rule:
    """A rule of the checker. ``reason`` says why it is there, ``stops`` which fault it stops."""

    number: int
    name: str
    reason: str
    stops: str
    check: Callable[[Submission], Iterable[Problem]]


@dataclass(frozen=True)
class Answer:
    """What a rule says of a file: ``kind`` is `passed`, `warning`, `failed` or `not reached`."""

    rule: Rule
    kind: str
    why: str = ""
    mend: str = ""


def worst(rule: Rule, problems: Iterable[Problem]) -> Answer:
    """The answer of a rule: the first failure, or the first warning, and how many more there are."""
    every = sorted(problems, key=lambda each: each.kind != FAILED)
    if not every:
        return Answer(rule, PASSED)
    more = f" (and {len(every) - 1} more)" if len(every) > 1 else ""
    return Answer(rule, every[0].kind, clean(every[0].why, 400) + more, every[0].mend)
