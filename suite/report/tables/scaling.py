"""Tables of weak and strong scaling: throughput against the number of devices, per framework and strategy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from suite.analysis.rows.blocks import why_untested
from suite.analysis.rows.groups import SETTINGS, Row
from suite.analysis.rows.wording import NONE, figure, listing
from suite.analysis.statistics.inference import BLOCKS_LEAST
from suite.analysis.statistics.scaling import KINDS, STRONG, WEAK, Exchange, Point, Scaling, independent_throughput
from suite.catalog.metrics import METRICS
from suite.catalog.setting import TEXT
from suite.plan.settings.strategies import has_local_statistics
from suite.record.text import clean
from suite.report.format.names import count, counts, framework, strategy, workload
from suite.report.format.view import View
from suite.report.tables.columns import (
    NAME,
    Column,
    Notes,
    communication,
    compared,
    grid,
    of_metric,
    settings,
    shares,
    varied_settings,
)
from suite.report.tables.frame import Table

#: What each kind of scaling keeps, in a title.
KEPT = {"weak": "the same batch on each device", "strong": "the same global batch"}

WHAT = {
    "weak": "Weak scaling: each device has the same batch, so more devices see a larger global batch. That is another "
    "training: fewer updates in an epoch. Compare the work done per second, not the course of the training.",
    "strong": "Strong scaling: the global batch is the same, and each device has a part of it. It is the same training "
    "in less time, with less work for each device in a step.",
}

#: In place of the latter.
LOCAL_STATISTICS = (
    "Strong scaling: the global batch is the same, and each device has a part of it, which it normalises by statistics "
    "of its own. So it is another training than one device's. Compare the work done per second."
)

#: Settings that a scaling varies, or that its own columns show.
SCALED_SETTINGS = ("devices", "strategy", "batch")

Placed = tuple[Scaling, Point]


def views(table: Table) -> list[View]:
    """Returns the tables of each kind of scaling that the rows have; none without cells of several devices."""
    by_kind = {kind: [each for each in table.scalings if each.kind == kind] for kind in KINDS}
    return [_view(table, kind, found) for kind, found in by_kind.items() if found]


def _view(table: Table, kind: str, scalings: Sequence[Scaling]) -> View:
    notes = Notes()
    tested = any(ratio.verdict for each in scalings for ratio in each.ratios)
    own = [name for name in varied_settings(table.group) if name not in SCALED_SETTINGS and _varies(name, scalings)]
    points = [
        (each, point)
        for before, each in zip((None, *scalings), scalings, strict=False)
        # The base that two strategies share is shown once.
        for point in (each.points[1:] if before and before.base.row is each.base.row else each.points)
    ]
    made = grid(_columns(table, own, tested), points, notes, drop_empty=True)
    title = f"{kind.capitalize()} scaling of the {workload(table.group)}: {KEPT[kind]}"
    return View(title, made, [explain(kind, scalings), *_notes(table, scalings, tested), *notes.lines])


def _varies(name: str, scalings: Sequence[Scaling]) -> bool:
    return len({SETTINGS[name](row) for each in scalings for row in each.rows}) > 1


def _columns(table: Table, own: Sequence[str], tested: bool) -> list[Column]:
    """Returns the columns of a point, each of which is read with its scaling."""
    rate, timed = of_metric(METRICS["samples_per_s"]), table.by_row

    def gain(name: str, base: str) -> Callable[[Placed], Any]:
        return lambda at: base if at[1] is at[0].base else getattr(at[1], name)

    return [
        Column("framework", lambda at: framework(at[0].framework), TEXT, where=(NAME,)),
        *settings(own, lambda at, name: SETTINGS[name](at[1].row)),
        Column("strategy", lambda at: strategy(at[0].strategy) if at[1].devices > 1 else "", TEXT, where=(NAME,)),
        Column("devices", lambda at: at[1].devices, where=(NAME,)),
        Column("threads each", lambda at: at[1].threads),
        Column("batch each", lambda at: at[1].row.cell.batch * at[1].row.cell.accumulate),
        Column("global batch", lambda at: at[1].global_batch),
        Column("n", lambda at: len(at[1].row.ok)),
        Column("samples/s", lambda at: rate.read(timed[at[1].row.key])),
        *compared("speed-up", gain("speed_up", "1"), tested),
        Column("efficiency", lambda at: _efficiency(gain("efficiency", "100 %")(at))),
        Column("communication", lambda at: communication(at[1].communication)),
        Column("skew", lambda at: at[1].exchange.skew or None),
        Column("all-reduce", lambda at: _allreduce(at[1].exchange)),
        Column("bottleneck", lambda at: timed[at[1].row.key].bottleneck.kind, TEXT),
    ]


def explain(kind: str, scalings: Iterable[Scaling]) -> str:
    """Says what a kind of scaling keeps, and so whether it is another training than that of one device."""
    cells = [point.row.cell for scaling in scalings for point in scaling.points]
    return LOCAL_STATISTICS if kind == STRONG and any(map(has_local_statistics, cells)) else WHAT[kind]


def _efficiency(found: Any) -> str:
    if isinstance(found, str):
        return found
    words = shares(found)
    return f"{words} linear" if found.verdict == "equal" else words


def _allreduce(found: Exchange) -> str:
    """Returns the rate of a sum of the model's gradient, and its share of the backend's peak."""
    if not found.bytes_per_s:
        return NONE
    words = f"{figure(found.bytes_per_s / 1e9)} GB/s"
    return f"{words} ({100 * found.of_peak:.0f} %)" if found.of_peak else words


def _notes(table: Table, scalings: Sequence[Scaling], tested: bool) -> list[str]:
    points = [point for each in scalings for point in each.points[1:]]
    rows = [point.row for point in points]
    launched = counts((len(row.launches) for row in rows), "launch")
    base = sorted({each.base.devices for each in scalings})
    fewest = f"that of {listing([count(n, 'device') for n in base])}" if base != [1] else "that of one device"
    lines = [f"Speed-up: samples/s relative to {fewest}, within blocks. Efficiency: speed-up per device."]
    if tested:
        tests = {ratio.tests for each in scalings for ratio in each.ratios if ratio.verdict}
        lines.append(
            "Test: paired t-test on the logarithms of the ratios per block, Holm's correction over the comparisons of "
            f"the run and all of weak and strong scaling ({counts(tests, 'test')}), margin {table.margin:.1%}, "
            f"{launched} per cell. Linear: the whole interval of the efficiency is within the margin of 100 %."
        )
    else:
        few = f"a test needs at least {BLOCKS_LEAST}" if min(len(row.launches) for row in rows) < BLOCKS_LEAST else ""
        words = filter(None, [f"{launched} per cell", few or why_untested(*rows)])
        lines.append(f"Significance was not tested: {'; '.join(words)}.")
    return [*lines, *on_threads(scalings), *_on_communication(points), *_on_instances(scalings), *_on_links(rows)]


def on_threads(scalings: Sequence[Scaling]) -> list[str]:
    """Says what was compared where devices are shares of one processor."""
    threads: dict[int, dict[str, None]] = {}
    for each in scalings:
        for point in each.points:
            if point.threads:
                threads.setdefault(point.devices, {})[point.threads] = None
    if not threads:
        return []
    parts = [f"{count(devices, 'device')}: {' or '.join(found)}" for devices, found in sorted(threads.items())]
    return [
        "On a CPU, a device is a process with its share of the cores, so several devices have no more cores than one "
        f"alone. Threads of each device, by number of devices: {'; '.join(parts)}. A speed-up of 1 is what these cores "
        "give one process already."
    ]


def _on_communication(points: Sequence[Point]) -> list[str]:
    if not any(point.communication for point in points):
        return []
    lines = [
        "Communication: the share of a step that the exchange of gradients costs, from the same steps without it (95 % "
        "interval over launches). Exchange that overlaps with compute costs nothing."
    ]
    if any(point.exchange.skew for point in points):
        lines.append("Skew: the slowest process's step without communication relative to the median one.")
    sizes = {point.exchange.gradient_bytes for point in points if point.exchange.gradient_bytes}
    if any(point.exchange.bytes_per_s for point in points):
        size = f" ({listing([f'{figure(each / 1e6)} MB' for each in sorted(sizes)], 'or')})" if sizes else ""
        lines.append(
            f"All-reduce: the rate of a sum of the model's gradient{size} over all devices, and its share of the best "
            "rate that the same backend reached with a larger array."
        )
    return lines


def _on_instances(scalings: Iterable[Scaling]) -> list[str]:
    """Says what the same devices reach as instances that train apart, where each has the same batch as one alone."""
    found = [
        f"{framework(point.row.cell.framework)} on {point.devices} {test.value:.2f} ({test.low:.2f} to {test.high:.2f})"
        for each in scalings
        for point in each.points
        if each.kind == WEAK and each.base.devices == 1 and point is not each.base
        if (test := independent_throughput(point.row, each.base.row))
    ]
    what = "as many samples as one device, in steps without a loader (times, 95 % interval over launches)"
    return [f"As instances that exchange nothing, devices take {what}: {listing(found)}."] if found else []


def _on_links(rows: Iterable[Row]) -> list[str]:
    """Says what carried the gradients, and how the devices are linked where the system tells."""
    ranks = [record.ranks for row in rows for record in row.ok if record.ranks]
    backends = dict.fromkeys(clean(each.backend, 40) for each in ranks if each.backend)
    links = dict.fromkeys(clean(link, 120) for each in ranks for link in each.links)
    lines = [f"Exchanged by {listing(list(backends))}."] if backends else []
    networks = dict.fromkeys(clean(each.interface, 40) for each in ranks if each.interface not in ("", "lo"))
    lines += [f"Network interface: {listing(list(networks))}."] if networks else []
    return [*lines, *([f"Links: {'; '.join(links)}."] if links else [])]
