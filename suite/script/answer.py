"""What a reader does next with a measured script: what holds it back, and what to put before its command."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from suite.analysis.bottlenecks.bottleneck import bottleneck
from suite.analysis.identity.verdicts import verdicts
from suite.analysis.records.load import load
from suite.analysis.rows.groups import Group, Row, RowKey, group
from suite.analysis.rows.metrics import number
from suite.analysis.statistics.inference import Estimate
from suite.analysis.statistics.multiple_testing import ratios
from suite.script.variants import CHANGES_NUMBERS, Variant

#: What to try by the kind of limit, in the terms of a script.
ADVICE = {
    "input-bound": "its loader cannot deliver as fast as the steps take: give it workers (where an argument chooses "
    "them, --vary num-workers=0,2,4), or do less for each sample",
    "poor overlap": "loader and steps are fast enough alone and wait for each other: load ahead (workers, prefetching, "
    "pinned memory)",
    "compute-bound": "loading costs next to nothing; the steps are the limit: --try all, then compiling, a narrower "
    "precision, a larger batch",
    "undecided": "not decided: more launches tell (--launches 8)",
}


def answers(path: Path, variants: Mapping[str, Variant]) -> Iterator[str]:
    """Yields the lines about a saved run of a script."""
    for each in group(load([path]).launches, by="variant"):
        for row in each.rows:
            yield from _limits(row, each)
        identities = verdicts({row.key: row.ok for row in each.rows})
        yield from _gains(each, ratios(each, None, identities), variants)


def _limits(row: Row, of: Group) -> Iterator[str]:
    found = bottleneck(row, of)
    name = f"{row.cell.variant}: " if row.cell.variant else ""
    if found.kind:
        yield f"{name}{found}: {ADVICE.get(found.kind, '')}".rstrip(": ")
    elif row.ok:
        yield f"{name}what loading costs was not seen: it is where a DataLoader or watch(loader) gives the batches"
    if pauses := max((number(record.settings.get("pauses")) or 0 for record in row.ok), default=0):
        yield f"{name}pauses (evaluations, checkpoints, new epochs) are no part of it: {pauses:g} in a launch"


def _gains(of: Group, formed: Mapping[RowKey, Estimate], variants: Mapping[str, Variant]) -> Iterator[str]:
    tested = [(row, ratio) for row in of.rows if (ratio := formed[row.key]).verdict]
    faster = sorted(
        ((row, ratio) for row, ratio in tested if ratio.verdict == "faster"), key=lambda each: -(each[1].value or 0)
    )
    for row, ratio in faster:
        variant = variants.get(row.cell.variant)
        if variant and variant.prefix:
            note = "; it changes the arithmetic" if row.cell.variant in CHANGES_NUMBERS else ""
            yield f"{row.cell.variant}: {ratio.value:.2f}x; put this before your command: {variant.prefix}{note}"
    if tested and not faster:
        yield "nothing that was tried is decidedly faster"
