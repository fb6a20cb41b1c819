"""Compares a stored cell with the same cell run again.

On the same machine the throughputs are compared: `reproduced` if the whole interval of their ratio lies within a fixed
margin, `faster` or `slower` if the whole interval lies beyond it. On another machine throughputs are not comparable, so
the ratios between frameworks are compared instead (the shape).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

from suite.analysis.records.machines import SAME, Machines, compare, identify, machine
from suite.analysis.rows.blocks import select_counting
from suite.analysis.rows.conditions import describe_changes
from suite.analysis.statistics.inference import Estimate, verdict, welch
from suite.plan.cell import FRAMEWORKS, Cell
from suite.plan.measuring import MARGIN
from suite.record.record import Record
from suite.record.text import clean

#: How far a ratio between frameworks may differ on another machine and still count as the same shape: a choice, no law.
SHAPE_MARGIN = 0.25

Records = Sequence[Record]
Stored = Mapping[Cell, Records]


@dataclass(frozen=True)
class Verdict:
    """``kind`` is `reproduced`, `faster`, `slower` or `inconclusive`; elsewhere `shape reproduced` or `shape differs`.

    Otherwise it is `not comparable`. ``ratio`` is the new throughput over the stored one; one launch has no interval.
    """

    kind: str
    detail: str = ""
    ratio: Estimate | None = None

    @property
    def good(self) -> bool:
        return self.kind in ("reproduced", "shape reproduced")


def by_cell(records: Iterable[Record]) -> dict[Cell, list[Record]]:
    """Returns the launches of each cell; cells are in the order of their first launch."""
    cells: dict[Cell, list[Record]] = {}
    for record in records:
        cells.setdefault(record.cell, []).append(record)
    return cells


def judge(stored: Stored, rerun: Stored, margin: float = MARGIN) -> dict[Cell, Verdict]:
    """Returns a verdict per stored cell. A cell that is missing in ``rerun`` is not comparable."""
    both = enumerate((stored, rerun))
    machines = Machines(_key(each, again) for again, runs in both for records in runs.values() for each in records)
    judged = {cell: _verdict(records, rerun.get(cell, ()), margin, machines) for cell, records in stored.items()}
    elsewhere = [cell for cell in judged if judged[cell].kind == "other machine"]
    return judged | _shapes(elsewhere, stored, rerun)


def changes(stored: Stored, rerun: Stored) -> list[str]:
    """Describes what differs between the stored run and the new one, each difference once."""
    lines: dict[str, None] = {}
    for cell in stored:
        then, now = (select_counting(runs.get(cell, ())) for runs in (stored, rerun))
        if then and now:
            lines |= dict.fromkeys(f"{cell.framework}: {clean(words)}" for words in differences(then, now))
    return list(lines)


def differences(stored: Records, rerun: Records) -> list[str]:
    """Describes how machine, versions, variables and the framework's settings differ."""

    def distinct(read: Callable[[Record], object]) -> tuple[list[str], list[str]]:
        then, now = (sorted({clean(read(record)) for record in records}) for records in (stored, rerun))
        return then, now

    shown = {name for record in (*stored, *rerun) for name, value in record.settings.items()
             if not isinstance(value, (dict, list, float))}  # fmt: skip
    pairs = {"machine": distinct(machine), "system": distinct(lambda record: record.environment.get("system"))}
    for name in sorted(shown - {"threads"}):
        pairs[name] = distinct(lambda record, name=name: record.settings.get(name))  # type: ignore[misc]
    lines = [
        f"{name}: {' and '.join(before)}, now {' and '.join(after)}"
        for name, (before, after) in pairs.items()
        if before != after
    ]
    likeness, why = compare(identify(stored), identify(rerun))
    if likeness != SAME and len({*pairs["machine"][0], *pairs["machine"][1]}) == 1:  # else the names say it
        lines.append(f"machine: {why}")
    lines += describe_changes(stored, rerun)
    before, after = distinct(lambda record: record.environment.get("digest"))
    if before != after and not lines:
        lines.append("installed packages: they differ, but the versions in the records are the same")
    return lines


def _key(record: Record, again: int) -> tuple[str, Record]:
    """A record with its run, by which its machine is found; ``again`` is 1 for those of the second run, else 0."""
    return f"{again} {record.run.get('id')}", record


def _verdict(stored: Records, rerun: Records, margin: float, machines: Machines) -> Verdict:
    stored_ok, rerun_ok = map(select_counting, (stored, rerun))
    if not stored_ok or not rerun_ok:
        statuses = [sorted({record.outcome.status for record in records}) for records in (stored, rerun)]
        statuses_text = f"stored {', '.join(statuses[0]) or 'nothing'}, now {', '.join(statuses[1]) or 'nothing'}"
        alike = statuses[0] == statuses[1] and not stored_ok and not rerun_ok
        return Verdict("reproduced" if alike else "not comparable", statuses_text)
    for field in ("data", "workload"):
        before, after = (getattr(records[0], field).get("digest") for records in (stored_ok, rerun_ok))
        if before != after:
            name = "data" if field == "data" else "spec"
            return Verdict("not comparable", f"another {name} ({str(before)[:12]}, now {str(after)[:12]})")
    ratio = welch(_rates(rerun_ok), _rates(stored_ok)) if min(len(stored_ok), len(rerun_ok)) > 1 else None
    likeness, why = compare(machines.find(*_key(stored_ok[0], 0)), machines.find(*_key(rerun_ok[0], 1)))
    if likeness != SAME:
        return Verdict("other machine", why)
    if not ratio:
        single = Estimate(median(_rates(rerun_ok)) / median(_rates(stored_ok)))
        return Verdict("inconclusive", "a single launch has no interval", single)
    word = verdict(ratio, margin)
    kind = "reproduced" if word == "equal" else word
    hint = "; use more --launches, or a wider --margin" if kind == "inconclusive" else ""
    return Verdict(kind, f"margin {margin:.1%}{hint}", ratio)


def _rates(records: Iterable[Record]) -> list[float]:
    return [rate for record in records if (rate := record.samples_per_s)]


def _shapes(cells: Sequence[Cell], stored: Stored, rerun: Stored) -> dict[Cell, Verdict]:
    alike: dict[Cell, list[Cell]] = {}
    for cell in cells:
        alike.setdefault(cell.but(framework=FRAMEWORKS[0]), []).append(cell)
    verdicts: dict[Cell, Verdict] = {}
    for group in alike.values():
        moved = [words for pair in combinations(group, 2) if (words := _ratio_change(pair, stored, rerun))]
        if len(group) < 2:
            verdict = Verdict("not comparable", "another machine, and no other framework to form a ratio with")
        elif moved:
            verdict = Verdict("shape differs", "; ".join(moved))
        else:
            verdict = Verdict("shape reproduced", "another machine; the ratios between frameworks hold")
        verdicts |= dict.fromkeys(group, verdict)
    return verdicts


def _ratio_change(pair: tuple[Cell, Cell], stored: Stored, rerun: Stored) -> str:
    (one, other), (stored_rates, rerun_rates) = pair, (
        [median(_rates(select_counting(runs[cell]))) for cell in pair] for runs in (stored, rerun)
    )  # fmt: skip
    before, after = stored_rates[0] / stored_rates[1], rerun_rates[0] / rerun_rates[1]
    if abs(math.log(after / before)) <= math.log1p(SHAPE_MARGIN):
        return ""
    return f"{one.framework} to {other.framework} was {before:.2f}, now {after:.2f}"
