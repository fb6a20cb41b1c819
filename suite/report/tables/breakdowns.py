"""Where the time of a step goes, and how near each part of it comes to what the device can do: tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from suite.analysis.bottlenecks.causes import AGREES, Costs
from suite.analysis.bottlenecks.roofline import RooflinePart, RooflineRow, roofline
from suite.analysis.findings import ComparedRows
from suite.analysis.rows.groups import SETTINGS, WORDS, Row
from suite.analysis.rows.wording import NONE, figure, fill, listing, middle
from suite.record.parts.profile import CATEGORIES
from suite.record.text import clean
from suite.report.format.names import count
from suite.report.format.view import LEFT, RIGHT, Grid, View
from suite.report.tables.frame import Table

#: Shares of a step below this are left out.
SHARE_LEAST = 0.001
#: From this share of the roof on, the FLOPs or a peak cannot be right.
ROOF_EXCEEDED = 1.05
#: A framework's counter that is further from the spec's FLOPs than this misses something, or counts more.
COUNTERS_AGREE = 0.2


def breakdowns(table: Table) -> list[View]:
    """Returns the tables of categories, one for each set of rows that are compared, and of the roofline."""
    views = [_breakdown(table, each) for each in table.findings.compared]
    placed = roofline(table.group)
    return [*views, *([_roofline(table, placed)] if placed else [])]


def _name(table: Table, row: Row) -> str:
    return table.group.label(row, ", ")


def _breakdown(table: Table, each: ComparedRows) -> View:
    """Returns milliseconds and share of every category, a column per row."""
    held = [each.costs[row.key] for row in each.rows]
    names = [name for name in CATEGORIES if any(cell.seconds[name] >= SHARE_LEAST * cell.step_s for cell in held)]
    rows = [[name, *(_time(cell.seconds[name], cell.step_s) for cell in held)] for name in names]
    rows.append(["timed step", *(f"{figure(1e3 * cell.step_s)} ms" for cell in held)])
    rows.append(["sum as profiled", *(_time(cell.covered * cell.step_s, cell.step_s) for cell in held)])
    labels = [_name(table, row) for row in each.rows]
    grid = Grid(["category", *labels], rows, [LEFT, *[RIGHT] * len(held)])
    title = (
        f"Where the time of a step goes: {table.group.workload}, size {table.group.size}{_name_settings(table, each)}"
    )
    notes = [
        "Per step and in % of the timed step, to which all times are scaled; medians over launches with a profile."
    ]
    merged = _merge((label, remarks(cell)) for label, cell in zip(labels, held, strict=True))
    return View(title, grid, [*notes, *merged])


def _merge(by_label: Iterable[tuple[str, Sequence[str]]]) -> list[str]:
    """Returns each remark once, after the names of all cells that it is about."""
    about: dict[str, list[str]] = {}
    for label, lines in by_label:
        for words in lines:
            about.setdefault(words, []).append(label)
    return [f"{'; '.join(labels)}: {words}" for words, labels in about.items()]


def _name_settings(table: Table, each: ComparedRows) -> str:
    names = [name for name in table.group.varying if len({SETTINGS[name](row) for row in each.rows}) == 1]
    return "".join(f", {fill(WORDS[name], middle(SETTINGS[name](each.rows[0])))}" for name in names)


def remarks(cell: Costs) -> list[str]:
    """Describes how far a row's profile can be trusted."""
    profile = cell.typical
    facts = [f"{count(cell.launches, 'launch')} with a profile of {count(profile.steps, 'step')}"]
    facts.append(f"a profiled step takes {cell.cost:.2f} times as long as a timed one")
    if cell.threads > 1:
        facts.append(f"{cell.threads} threads worked at once, so times are shares of the wall clock")
    lines = [f"{'; '.join(facts)}."]
    if abs(cell.covered - 1) > AGREES:
        lines.append(
            f"As profiled, the sum is {100 * cell.covered:.0f} % of the timed step. {clean(profile.note, 600)}".rstrip()
        )
    elif profile.note:
        lines.append(clean(profile.note, 600))
    if held := [operation for operation in profile.operations if operation.holds][:3]:
        fused = (f"{middle(clean(each.name), 40)} ({listing([clean(n, 40) for n in each.holds[:6]])})" for each in held)
        lines.append(f"Fused kernels, the largest: {'; '.join(fused)}.")
    return lines


def _time(seconds: float, step_s: float) -> str:
    return f"{figure(1e3 * seconds)} ms ({100 * seconds / step_s:.0f} %)" if seconds else NONE


def _roofline(table: Table, placed: Sequence[RooflineRow]) -> View:
    """Returns a line for each part of each row's step: its rate, and how near that is to the roof."""
    rows = [
        [_name(table, each.row), part.name, figure(part.flops / 1e9), *_rates(part, each)]
        for each in placed
        for part in each.parts
    ]
    headers = ["cell", "part", "GFLOP", "FLOP per byte", "GFLOP/s", "% of roof", "bound by"]
    grid = Grid(headers, rows, [LEFT, LEFT, RIGHT, RIGHT, RIGHT, RIGHT, LEFT], 2)
    roofs = dict.fromkeys(
        f"{each.row.cell.precision}: {figure(each.roof.flops_per_s / 1e9)} GFLOP/s and "
        f"{figure(each.roof.bytes_per_s / 1e9)} GB/s, which meet at {figure(each.roof.ridge)} FLOP per byte"
        for each in placed
    )
    notes = [
        f"Measured peaks: {'; '.join(roofs)}.",
        "FLOPs are the spec's, the same for all frameworks; bytes are those of the profile's shapes, each operand "
        "once. Bound by neither: below a tenth of the roof, so overhead or a slow kernel is the limit.",
        *_explain_excess(placed),
        *_counts(table, placed),
        *_streams(table, placed),
    ]
    return View(f"Roofline: {table.group.workload}, size {table.group.size}", grid, notes)


def _rates(part: RooflinePart, each: RooflineRow) -> list[str]:
    share = part.share(each.roof)
    percent = NONE if share is None else f"{100 * share:.0f}"
    return [figure(part.intensity), figure(part.flops_per_s / 1e9), percent, part.bound(each.roof) or NONE]


def _explain_excess(placed: Sequence[RooflineRow]) -> list[str]:
    """Explains shares of more than the roof, where there are any."""
    shares = [share for each in placed for part in each.parts if (share := part.share(each.roof)) is not None]
    if max(shares, default=0.0) < ROOF_EXCEEDED:
        return []
    words = (
        "a kernel does fewer FLOPs than the spec counts (as Winograd's algorithm does), or finds its data in a cache"
    )
    return [f"More than 100 %: {words}, or a peak was measured too low."]


def _counts(table: Table, placed: Sequence[RooflineRow]) -> list[str]:
    counted = [(each.row, each.counted) for each in placed if each.counted is not None]
    if not counted:
        return []
    words = listing([f"{_name(table, row)} {figure(100 * share, 2)} %" for row, share in counted])
    apart = any(abs(share - 1) > COUNTERS_AGREE for _, share in counted)
    reason = " A counter may miss a kernel, count a loop's body once, or add padding and element-wise work."
    return [f"FLOPs by the framework's own counter, relative to the spec: {words}.{reason if apart else ''}"]


def _streams(table: Table, placed: Sequence[RooflineRow]) -> list[str]:
    """Describes how much of the memory bandwidth the largest parts without FLOPs use."""
    lines = []
    for each in placed:
        used = sorted(each.bandwidth.items(), key=lambda item: -item[1])[:3]
        if used:
            words = listing([f"{name} {100 * share:.0f} %" for name, share in used])
            lines.append(f"Share of the memory bandwidth, {_name(table, each.row)}: {words}.")
    return lines
