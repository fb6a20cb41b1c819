"""What a rule is, and a bundle as rules see it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from suite.analysis.records.json_text import decode, without_surrogates
from suite.analysis.records.lines import Place
from suite.analysis.records.load import Launch
from suite.analysis.records.reader import Reader
from suite.analysis.rows.groups import Group, group
from suite.plan.cell import Cell
from suite.record.bundle import About, Bundle
from suite.record.record import Record, RecordError
from suite.record.text import clean

#: Grows when a rule is added or judges otherwise.
VERSION = 1

FAILED, WARNING, PASSED, NOT_REACHED = "failed", "warning", "passed", "not reached"


@dataclass(frozen=True)
class Problem:
    """What a rule found: ``kind`` is `failed` or `warning`, ``mend`` says what to do."""

    kind: str
    why: str
    mend: str = ""


@dataclass(frozen=True)
class Submission:
    """A bundle whose lines are records. ``header`` is the first line's run, ``raw`` are all lines as JSON."""

    about: About
    header: Mapping[str, Any]
    raw: tuple[Mapping[str, Any], ...]
    ended: tuple[Record, ...]  # every line, in the order in which the launches ended

    @classmethod
    def of(cls, bundle: Bundle) -> Submission:
        """Raises `RecordError` for lines that are no journal."""
        raw, ended, reader = [], [], Reader(whole=True)
        for number, text in enumerate(bundle.lines, 1):
            try:
                raw.append(decode(without_surrogates(text)))
                if number > 1:
                    ended.append(reader.record(text, Place(Path(), 0, 0, 0)))
            except (ValueError, RecursionError) as error:
                raise RecordError(f"line {number}: {clean(error)}") from None
        header = raw[0].get("run") if raw and isinstance(raw[0], dict) and raw[0].keys() == {"run"} else None
        if not isinstance(header, dict):
            raise RecordError("its first line describes no run")
        if not ended:
            raise RecordError("it holds no launch")
        return cls(bundle.about, header, tuple(raw), tuple(ended))

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
