"""A stored cell against the same cell run again: reproduced, faster, slower, inconclusive, its shape only, or neither.

On the same machine throughputs are compared, with an interval from the launches of both: reproduced has all of it
within a fixed margin, faster and slower have all of it beyond. On another machine throughputs mean nothing; there the
ratios between frameworks are compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

from suite.analysis.environments import changed
from suite.analysis.groups import machine
from suite.analysis.statistics import MARGIN, verdict, welch
from suite.plan.cell import FRAMEWORKS, Cell
from suite.record.record import Record
from suite.record.text import clean

#: By how much a ratio between frameworks may differ on another machine and still be the same shape: a choice, no law.
SHAPE_MARGIN = 0.25

REPRODUCED = ("reproduced", "shape reproduced")

Records = Sequence[Record]


@dataclass(frozen=True)
class Verdict:
    """``kind`` is `reproduced`, `faster`, `slower` or `inconclusive`; elsewhere `shape reproduced` or `shape differs`.

    Where neither can be said it is `not comparable`.
    ``ratio`` is the new throughput over the stored one, with its 95 % interval where there are launches for one.
    """

    kind: str
    detail: str = ""
    ratio: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def good(self) -> bool:
        return self.kind in REPRODUCED


def judge(stored: Mapping[Cell, Records], again: Mapping[Cell, Records], margin: float = MARGIN) -> dict[Cell, Verdict]:
    """A verdict per stored cell. ``again`` holds what was run now; a cell that it lacks is not comparable."""
    judged = {cell: _one(records, again.get(cell, ()), margin) for cell, records in stored.items()}
    elsewhere = [cell for cell in judged if judged[cell].kind == "other machine"]
    return judged | _shapes(elsewhere, stored, again)


def differences(stored: Records, again: Records) -> list[str]:
    """What was not the same besides the time: machine, versions, variables, the settings that the framework saw."""
    pairs = {
        "machine": (_told(map(machine, stored)), _told(map(machine, again))),
        "system": tuple(_told(r.environment.get("system") for r in records) for records in (stored, again)),
    }
    here, there = ([_plain(record.settings) for record in records] for records in (stored, again))
    for name in sorted({name for held in (*here, *there) for name in held} - {"threads"}):
        pairs[name] = _told(held.get(name) for held in here), _told(held.get(name) for held in there)
    words = [
        f"{name}: {' and '.join(before)}, now {' and '.join(now)}"
        for name, (before, now) in pairs.items()
        if before != now
    ]
    words += changed(stored, again)
    digests = [_told(r.environment.get("digest") for r in records) for records in (stored, again)]
    if digests[0] != digests[1] and not words:
        words.append("installed packages: others than then, though the versions named in the records are the same")
    return words


def _plain(settings: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in settings.items() if not isinstance(value, (dict, list, float))}


def _told(values: Iterable[object]) -> list[str]:
    """Each value once, in words."""
    return sorted({clean(value) for value in values})


def _one(stored: Records, again: Records, margin: float) -> Verdict:
    ok, now = ([record for record in records if record.outcome.ok] for records in (stored, again))
    if not ok or not now:
        statuses = [sorted({record.outcome.status for record in records}) for records in (stored, again)]
        words = f"stored {', '.join(statuses[0]) or 'nothing'}, now {', '.join(statuses[1]) or 'nothing'}"
        alike = statuses[0] == statuses[1] and not ok and not now
        return Verdict("reproduced" if alike else "not comparable", words)
    for what in ("data", "workload"):
        one, other = (getattr(records[0], what).get("digest") for records in (ok, now))
        if one != other:
            name = "data" if what == "data" else "spec"
            return Verdict("not comparable", f"another {name} ({str(one)[:12]}, now {str(other)[:12]})")
    test = welch(_rates(now), _rates(ok)) if min(len(ok), len(now)) > 1 else None
    if machine(ok[0]) != machine(now[0]):
        return Verdict("other machine")
    if not test:
        return Verdict("inconclusive", "a single launch has no interval", median(_rates(now)) / median(_rates(ok)))
    word = verdict(test, test.p, margin)
    kind = "reproduced" if word == "equal" else word
    more = "; more launches decide, or a wider --margin" if kind == "inconclusive" else ""
    return Verdict(kind, f"margin {margin:.1%}{more}", test.value, test.low, test.high)


def _rates(records: Iterable[Record]) -> list[float]:
    return [rate for record in records if (rate := record.samples_per_s)]


def _shapes(
    cells: Sequence[Cell], stored: Mapping[Cell, Records], again: Mapping[Cell, Records]
) -> dict[Cell, Verdict]:
    """Whether the ratios between frameworks hold, for the cells that ran on another machine."""
    alike: dict[Cell, list[Cell]] = {}
    for cell in cells:
        alike.setdefault(cell.but(framework=FRAMEWORKS[0]), []).append(cell)
    found = {}
    for held in alike.values():
        wrong = [words for one, other in combinations(held, 2) if (words := _moved(one, other, stored, again))]
        for cell in held:
            if len(held) < 2:
                found[cell] = Verdict("not comparable", "another machine, and no other framework to form a ratio with")
            elif wrong:
                found[cell] = Verdict("shape differs", "; ".join(wrong))
            else:
                found[cell] = Verdict("shape reproduced", "another machine; the ratios between frameworks hold")
    return found


def _moved(one: Cell, other: Cell, stored: Mapping[Cell, Records], again: Mapping[Cell, Records]) -> str:
    """In words how the ratio of two cells changed, if it did by more than `SHAPE_MARGIN`."""
    before, now = (
        median(_rates(r for r in runs[one] if r.outcome.ok)) / median(_rates(r for r in runs[other] if r.outcome.ok))
        for runs in (stored, again)
    )
    if abs(math.log(now / before)) <= math.log1p(SHAPE_MARGIN):
        return ""
    return f"{one.framework} to {other.framework} was {before:.2f}, now {now:.2f}"
