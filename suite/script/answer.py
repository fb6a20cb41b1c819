"""What a reader does next with a measured script: what holds it back, and what to put before its command."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from suite.analysis.bottlenecks.bottleneck import bottleneck
from suite.analysis.bottlenecks.causes import Costs, costs
from suite.analysis.bottlenecks.watched import advise, find_causes, find_loading
from suite.analysis.identity.comparability import judge
from suite.analysis.identity.self_checks import find_norms_apart
from suite.analysis.records.load import load
from suite.analysis.rows.conditions import ARITHMETIC
from suite.analysis.rows.groups import Group, Row, RowKey, group
from suite.analysis.rows.metrics import number
from suite.analysis.statistics.inference import INCONCLUSIVE, Estimate
from suite.analysis.statistics.multiple_testing import ratios
from suite.record.text import clean
from suite.script.variants import AS_IT_IS, Variant
from suite.watch import NORM_STEPS
from suite.worker.profilers.rules import FROM_DEVICE

#: Categories of a profiled step that are told.
CATEGORIES_MOST = 5
TO_HOST = "copies from the device to the host in a step: {:.0f} ({}); .item(), float() and a printed loss wait for them"
#: Of a variant with such a variable.
ARITHMETIC_WORDS = "it may change the arithmetic, so compare the losses"
OTHER_WEIGHTS = (
    f"after {NORM_STEPS} steps the norm of its weights is {{:.0e}} off that of {{}}: other batches, "
    "draws or arithmetic, so it does not train the same"
)


def answers(path: Path, variants: Mapping[str, Variant]) -> Iterator[str]:
    """Yields the lines about a saved run of a script."""
    for each in groups_of(path):
        for row in each.rows:
            name = f"{row.cell.variant}: " if row.cell.variant else ""
            yield from (f"{name}{line}" for line in _limits(row, each))
        yield from _gains(each, variants)
        usual = _as_it_is(each).cell.variant or "the script as it is"
        yield from (f"{row.cell.variant}: {OTHER_WEIGHTS.format(apart, usual)}" for row, apart in _changed(each))
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
    yield from _costs(row)
    if pauses := max((number(record.settings.get("pauses")) or 0 for record in row.ok), default=0):
        yield f"pauses (evaluations, checkpoints, new epochs) are no part of it: {pauses:g} in a launch"


def _costs(row: Row) -> Iterator[str]:
    """Yields where the time of a profiled step goes, or why that is not known."""
    if held := costs(row):
        most = sorted(held.seconds.items(), key=lambda each: -each[1])[:CATEGORIES_MOST]
        parts = (f"{name} {share:.0%}{_operation(held, name)}" for name, s in most if (share := s / held.step_s) > 0.01)
        yield f"where the time of a step goes: {', '.join(parts)} (n = {held.launches})"
        fetches = [each for each in held.operations if FROM_DEVICE.search(each.name)]
        if (calls := sum(each.calls for each in fetches)) >= 1:
            yield TO_HOST.format(calls, clean(fetches[0].name, 40))
    for reason in {str(why) for record in row.ok if (why := record.settings.get("no_profile"))}:
        yield f"no profile: {clean(reason, 200)}"


def _operation(held: Costs, category: str) -> str:
    largest = held.largest(category) if category == "other" else None
    return f" ({clean(largest.name, 40)})" if largest else ""


def find_faster(path: Path) -> list[tuple[Row, Estimate]]:
    """The rows that are decidedly faster than the script as it is, the fastest first."""
    return [each for group in groups_of(path) for each in _faster(group, _ratios(group))]


def _ratios(of: Group) -> Mapping[RowKey, Estimate]:
    return ratios(of, None, judge(of.rows))


def _faster(of: Group, formed: Mapping[RowKey, Estimate]) -> list[tuple[Row, Estimate]]:
    others = {row.key for row, _ in _changed(of) if not _changes_numbers(row, of)}
    found = [(row, of_row) for row in of.rows if (of_row := formed[row.key]).verdict == "faster"]
    return sorted((each for each in found if each[0].key not in others), key=lambda each: -(each[1].value or 0.0))


def _changed(of: Group) -> Iterator[tuple[Row, float]]:
    """Yields the rows whose weights are others after the first steps, with how far off their norm is."""
    for row in of.rows:
        if apart := find_norms_apart(row.ok, _as_it_is(of).ok):
            yield row, apart


def _as_it_is(of: Group) -> Row:
    return next((row for row in of.rows if row.cell.variant == AS_IT_IS), of.rows[0])


def _changes_numbers(row: Row, of: Group) -> bool:
    """Whether it is a variable of the row's that asks for another arithmetic."""
    own, usual = row.conditions, _as_it_is(of).conditions
    return any(ARITHMETIC.fullmatch(name.lstrip("$")) and own.of(name) != usual.of(name) for name in own.values)


def _gains(of: Group, variants: Mapping[str, Variant]) -> Iterator[str]:
    formed = _ratios(of)
    for row, ratio in _faster(of, formed):
        variant = variants.get(row.cell.variant)
        if variant and variant.prefix:
            note = f"; {ARITHMETIC_WORDS}" if any(map(ARITHMETIC.fullmatch, variant.environment)) else ""
            between = f"{ratio.value:.2f}x ({ratio.low:.2f} to {ratio.high:.2f})"
            yield f"{row.cell.variant}: {between}; put this before your command: {variant.prefix}{note}"
    undecided = [name for row in of.rows if formed[row.key].verdict == INCONCLUSIVE and (name := row.cell.variant)]
    if undecided:
        yield f"nothing decided about: {', '.join(undecided)}"
    elif (said := {each.verdict for each in formed.values()} - {""}) and "faster" not in said:
        yield "nothing that was tried is decidedly faster"
