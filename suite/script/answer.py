"""What a reader does next with a measured script: what holds it back, and what to put before its command."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from suite.analysis.bottlenecks.bottleneck import bottleneck
from suite.analysis.identity.verdicts import Verdict, verdicts
from suite.analysis.records.load import load
from suite.analysis.rows.conditions import ARITHMETIC
from suite.analysis.rows.groups import Group, Row, RowKey, group
from suite.analysis.rows.metrics import number
from suite.analysis.statistics.inference import INCONCLUSIVE, Estimate
from suite.analysis.statistics.multiple_testing import ratios
from suite.script.variants import Variant

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

#: Of a variant with such a variable.
ARITHMETIC_WORDS = "it may change the arithmetic, so compare the losses"


#: Of a share of loading that lies above this, with no verdict on the loader alone.
LOADING_LEAST = 0.05
LOADING = "loading holds it back; whether the loader alone is as fast as the steps is not decided: try workers"
#: Shares of a step, times of a rank and bytes per second from which a cause is named.
SHARE_LEAST, RANK_TIMES, GROWS_LEAST = 0.10, 1.3, 2**20


def answers(path: Path, variants: Mapping[str, Variant]) -> Iterator[str]:
    """Yields the lines about a saved run of a script."""
    for each in groups_of(path):
        for row in each.rows:
            causes, limits = [*_causes(row)], [*_limits(row, each)]
            yield from [*limits, *causes] if _is_loading(row, each) else [*causes, *limits]
        yield from _gains(each, variants)
        seen = {row.cell.variant or "as it is": found.detail.partition("; ")[2] for row, found in _identities(each)}
        yield from (f"{name}: {words}" for name, words in seen.items() if words)
        if len(seen) > 1:
            yield "that they compute the same is not proved"


def groups_of(path: Path) -> list[Group]:
    """The rows of a saved run of a script."""
    return group(load([path]).launches, by="variant")


def _is_loading(row: Row, of: Group) -> bool:
    """Whether loading decidedly holds it back, be the loader too slow or not ahead of the steps."""
    loading = bottleneck(row, of).loading
    return bool(loading and (loading.low or 0.0) > LOADING_LEAST)


def _limits(row: Row, of: Group) -> Iterator[str]:
    found = bottleneck(row, of)
    name = f"{row.cell.variant}: " if row.cell.variant else ""
    if found.kind:
        holds = found.kind == "undecided" and _is_loading(row, of)
        advice = LOADING if holds else ADVICE.get(found.kind, "")
        workers = {watched.get("workers") for watched in _watched(row)}
        none = "; its DataLoader has no workers: num_workers=0" if workers == {0} and _is_loading(row, of) else ""
        yield f"{name}{found}: {advice}{none}".rstrip(": ")
    elif row.ok:
        yield f"{name}what loading costs was not seen: it is where a DataLoader or watch(loader) gives the batches"
    if pauses := max((number(record.settings.get("pauses")) or 0 for record in row.ok), default=0):
        yield f"{name}pauses (evaluations, checkpoints, new epochs) are no part of it: {pauses:g} in a launch"


def _watched(row: Row) -> list[dict[str, Any]]:
    return [watched for record in row.ok if isinstance(watched := record.settings.get("watched"), dict)]


def _causes(row: Row) -> Iterator[str]:
    """Yields what was seen beside the time of steps, in every launch, that holds them back."""
    seen, name = _watched(row), f"{row.cell.variant}: " if row.cell.variant else ""
    if not seen:
        return
    ranks, cpu = seen[0].get("ranks_own_s") or [], row.ok[0].settings.get("device") == "cpu"
    lines = [sum(each["lines"].values()) for each in seen]
    most = sum((Counter(each["lines"]) for each in seen), Counter[str]()).most_common(1)
    if min(each["waits"] for each in seen) > SHARE_LEAST and cpu and not ranks:
        waits = median(each["waits"] for each in seen)
        yield f"{name}it waits for {waits:.0%} of a step with nothing to compute: it sleeps, or files, a network, locks"
    if min(lines) > SHARE_LEAST / 2 and median(lines) > SHARE_LEAST:
        yield f"{name}your own code takes {median(lines):.0%} of a step, most of it at {most[0][0]}"
    slowest = {_slowest(each["ranks_own_s"]) for each in seen}
    if len(slowest) == 1 and (slow := slowest.pop()) is not None:
        times = [median(each["ranks_own_s"][rank] for each in seen) for rank in range(len(ranks))]
        most_s, others_s = times.pop(slow), median(times)
        if most_s - others_s > SHARE_LEAST * median(record.phases["train"].step_s for record in row.ok):
            beside = f"{1e3 * most_s:.3g} ms of a step beside its backward pass, {1e3 * others_s:.3g} in the others"
            yield f"{name}rank {slow} is slow: {beside}, which wait for it"
    if (grows := min(each["grows_bytes_per_s"] for each in seen)) > GROWS_LEAST:
        yield f"{name}memory grows by {grows / 2**20:.3g} MiB/s or more: something of each step is kept (graphs, lists)"
    cores = row.ok[0].metrics.get("host", {}).get("cores", 0)
    threads = seen[0].get("threads", 0) * (len(ranks) or 1)
    if cpu and 0 < threads <= cores / 2:
        yield f"{name}PyTorch computes on {threads} of {cores} cores: OMP_NUM_THREADS={cores}, no set_num_threads()"


def _slowest(times: Sequence[float]) -> int | None:
    """The rank with the longest time, if it is decidedly longer than the next."""
    first, second = [*sorted(times, reverse=True), 0.0, 0.0][:2]
    return [*times].index(first) if first > RANK_TIMES * second > 0 else None


def find_faster(path: Path) -> list[tuple[Row, Estimate]]:
    """The rows that are decidedly faster than the script as it is, the fastest first."""
    return [each for group in groups_of(path) for each in _faster(group)]


def _faster(of: Group) -> list[tuple[Row, Estimate]]:
    formed = _ratios(of)
    return sorted(
        ((row, formed[row.key]) for row in of.rows if formed[row.key].verdict == "faster"),
        key=lambda each: -(each[1].value or 0.0),
    )


def _identities(of: Group) -> list[tuple[Row, Verdict]]:
    found = verdicts({row.key: row.ok for row in of.rows})
    return [(row, found[row.key]) for row in of.rows]


def _ratios(of: Group) -> Mapping[RowKey, Estimate]:
    return ratios(of, None, verdicts({row.key: row.ok for row in of.rows}))


def _gains(of: Group, variants: Mapping[str, Variant]) -> Iterator[str]:
    faster = _faster(of)
    for row, ratio in faster:
        variant = variants.get(row.cell.variant)
        if variant and variant.prefix:
            note = f"; {ARITHMETIC_WORDS}" if any(map(ARITHMETIC.fullmatch, variant.environment)) else ""
            between = f"{ratio.value:.2f}x ({ratio.low:.2f} to {ratio.high:.2f})"
            yield f"{row.cell.variant}: {between}; put this before your command: {variant.prefix}{note}"
    undecided = [name for row in of.rows if _ratios(of)[row.key].verdict == INCONCLUSIVE and (name := row.cell.variant)]
    if undecided:
        yield f"nothing decided about: {', '.join(undecided)}"
    elif not faster and any(each.verdict for each in _ratios(of).values()):
        yield "nothing that was tried is decidedly faster"
