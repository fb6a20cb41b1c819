"""What a reader does next with a measured script: what holds it back, and what to put before its command."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from suite.analysis.bottlenecks.bottleneck import bottleneck
from suite.analysis.bottlenecks.watched import advise, find_causes, find_loading
from suite.analysis.identity.comparability import judge
from suite.analysis.records.load import load
from suite.analysis.rows.conditions import ARITHMETIC
from suite.analysis.rows.groups import Group, Row, RowKey, group
from suite.analysis.rows.metrics import number
from suite.analysis.statistics.inference import INCONCLUSIVE, Estimate
from suite.analysis.statistics.multiple_testing import ratios
from suite.script.variants import Variant

#: Of a variant with such a variable.
ARITHMETIC_WORDS = "it may change the arithmetic, so compare the losses"


def answers(path: Path, variants: Mapping[str, Variant]) -> Iterator[str]:
    """Yields the lines about a saved run of a script."""
    for each in groups_of(path):
        for row in each.rows:
            name = f"{row.cell.variant}: " if row.cell.variant else ""
            yield from (f"{name}{line}" for line in _limits(row, each))
        yield from _gains(each, variants)
        found = judge(each.rows)
        seen = {row.cell.variant or "as it is": found[row.key].detail.partition("; ")[2] for row in each.rows}
        yield from (f"{name}: {words}" for name, words in seen.items() if words)
        if len(seen) > 1:
            yield "that they compute the same is not proved"


def groups_of(path: Path) -> list[Group]:
    """The rows of a saved run of a script."""
    return group(load([path]).launches, by="variant")


def _limits(row: Row, of: Group) -> Iterator[str]:
    found = bottleneck(row, of)
    words = "what loading costs was not seen: it is where a DataLoader or watch(loader) gives the batches"
    if found.kind:
        words = f"{found}: {'; '.join(advise(row, found.kind, found.loading))}".rstrip(": ")
    limits = [*find_causes(row), *([(find_loading(row, found.loading), words)] if row.ok else [])]
    yield from (words for _, words in sorted(limits, reverse=True))
    if pauses := max((number(record.settings.get("pauses")) or 0 for record in row.ok), default=0):
        yield f"pauses (evaluations, checkpoints, new epochs) are no part of it: {pauses:g} in a launch"


def find_faster(path: Path) -> list[tuple[Row, Estimate]]:
    """The rows that are decidedly faster than the script as it is, the fastest first."""
    return [each for group in groups_of(path) for each in _faster(group, _ratios(group))]


def _faster(of: Group, formed: Mapping[RowKey, Estimate]) -> list[tuple[Row, Estimate]]:
    return sorted(
        ((row, formed[row.key]) for row in of.rows if formed[row.key].verdict == "faster"),
        key=lambda each: -(each[1].value or 0.0),
    )


def _ratios(of: Group) -> Mapping[RowKey, Estimate]:
    return ratios(of, None, judge(of.rows))


def _gains(of: Group, variants: Mapping[str, Variant]) -> Iterator[str]:
    formed = _ratios(of)
    faster = _faster(of, formed)
    for row, ratio in faster:
        variant = variants.get(row.cell.variant)
        if variant and variant.prefix:
            note = f"; {ARITHMETIC_WORDS}" if any(map(ARITHMETIC.fullmatch, variant.environment)) else ""
            between = f"{ratio.value:.2f}x ({ratio.low:.2f} to {ratio.high:.2f})"
            yield f"{row.cell.variant}: {between}; put this before your command: {variant.prefix}{note}"
    undecided = [name for row in of.rows if formed[row.key].verdict == INCONCLUSIVE and (name := row.cell.variant)]
    if undecided:
        yield f"nothing decided about: {', '.join(undecided)}"
    elif not faster and any(each.verdict for each in formed.values()):
        yield "nothing that was tried is decidedly faster"
