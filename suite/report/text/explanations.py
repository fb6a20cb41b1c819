"""What explains the ratios of a table, as the types of a comparison in JSON."""

from __future__ import annotations

from collections.abc import Iterable

from suite.analysis.bottlenecks import causes
from suite.report.tables.frame import Table
from suite.report.text.explanation_schema import Cause, Explanation
from suite.report.text.why import Told, told_pairs


def explanations(table: Table) -> list[Explanation]:
    """Returns what explains each pair of the table; empty if none of its launches has a profile."""
    return [_explanation(pair.row.cell.id, pair.other.cell.id, told, pair.causes) for pair, told in told_pairs(table)]


def _explanation(cell: str, other: str, told: Told, found: causes.Causes | None) -> Explanation:
    return Explanation(
        cell=cell,
        other=other,
        title=told.title,
        verdict=told.verdict,
        lines=list(told.lines),
        per=found.per if found else "",
        step_s=found.step_s if found else None,
        other_step_s=found.other_step_s if found else None,
        covered=found.row.covered if found else None,
        other_covered=found.other.covered if found else None,
        blocks=found.blocks if found else 0,
        causes=_causes(found.causes if found else ()),
        against=_causes(found.against if found else ()),
    )


def _causes(found: Iterable[causes.Cause]) -> list[Cause]:
    return [
        Cause(
            category=each.category,
            seconds=each.seconds,
            other_seconds=each.other_seconds,
            share=each.share,
            calls=each.calls[0],
            other_calls=each.calls[1],
            low=each.low,
            high=each.high,
            p=each.p,
            known=[f"{reason.words} ({reason.source})" for reason in each.known],
        )
        for each in found
    ]
