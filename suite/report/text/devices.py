"""What several devices gain over one, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from suite.analysis.rows.groups import SETTINGS
from suite.analysis.rows.wording import listing
from suite.analysis.scaling.efficiency import WEAK, Point, Scaling
from suite.analysis.statistics.ratios import Ratio
from suite.plan.cell import REFERENCE_STRATEGY
from suite.report.format.names import PHRASES, count, framework, number, phrase, strategy
from suite.report.text.clauses import span

#: Settings that the sentence says in its own words.
OWN = ("devices", "strategy", "compile", "run")


def sentence(scalings: Sequence[Scaling]) -> str:
    """Returns what the most devices gain in each framework; empty without any scaling.

    It is weak scaling where there is any, by the usual strategy of each framework where that was measured.
    """
    chosen = _chosen(scalings)
    if not chosen:
        return ""
    (devices, base), parts = _devices(chosen), []
    for at, (scaling, point) in enumerate(chosen):
        told = _gain(point.speed_up, number(base) if not at else "")
        in_one = f"in {framework(scaling.framework)} with {strategy(scaling.strategy)}"
        parts.append(f"{told} {in_one} ({_evidence(point, first=not at)})")
    where = _where([point for _, point in chosen], scalings)
    kept = "" if chosen[0][0].kind == WEAK else ", with the same global batch"
    return f"{number(devices)} devices train {listing(parts)}{where}{kept}{_threads(chosen)}"


def card(scalings: Sequence[Scaling]) -> str:
    """Returns the same in a line for an index."""
    chosen = _chosen(scalings)
    if not chosen:
        return "nothing to compare"
    devices, base = _devices(chosen)
    note = "" if all(point.speed_up.verdict for _, point in chosen) else ", not tested"
    words = [f"{framework(each.framework)} {span([point.speed_up.value or 0.0])}x" for each, point in chosen]
    return f"{devices} devices over {base}: {', '.join(words)}{note}"


def _chosen(scalings: Sequence[Scaling]) -> list[tuple[Scaling, Point]]:
    """Returns one scaling of each framework, and its point at the most devices that all of them have."""
    kinds = [each for each in scalings if each.kind == WEAK] or [*scalings]
    by_framework: dict[str, Scaling] = {}
    for each in sorted(kinds, key=lambda each: each.strategy != REFERENCE_STRATEGY[each.framework]):
        if any(point.speed_up.value for point in each.points[1:]):
            by_framework.setdefault(each.framework, each)
    counts = [{p.devices for p in each.points[1:] if p.speed_up.value} for each in by_framework.values()]
    if not counts:
        return []
    most = max(set.intersection(*counts) or counts[0])
    found = ((each, point) for each in by_framework.values() for point in each.points[1:] if point.devices == most)
    base = next(iter(by_framework.values())).base.devices
    return [(each, point) for each, point in found if point.speed_up.value and each.base.devices == base]


def _devices(chosen: Sequence[tuple[Scaling, Point]]) -> tuple[int, int]:
    scaling, point = chosen[0]
    return point.devices, scaling.base.devices


def _gain(ratio: Ratio, base: str) -> str:
    """Returns ``1.83x as fast as one``; without ``base`` the first clause of the sentence has said it."""
    value = span([ratio.value or 0.0])
    if ratio.verdict == "equal":
        return f"as fast as {base} ({value}x)" if base else f"equally fast ({value}x)"
    if ratio.verdict in ("faster", "slower"):
        return f"{value}x as fast as {base}" if base else f"{value}x as fast"
    return f"at {value}x the speed of {base}" if base else f"at {value}x the speed"


def _evidence(point: Point, first: bool) -> str:
    """Returns the bounds, efficiency and costs of a point; the first time also what the bounds are."""
    ratio, n = point.speed_up, count(point.speed_up.blocks, "launch")
    bounds = span([ratio.low or 0.0, ratio.high or 0.0])
    if ratio.verdict:
        words = [f"95 % interval {bounds}, {n}" if first else bounds]
        words += ["not decided"] if ratio.verdict == "inconclusive" else []
    else:
        words = [f"{bounds} in {n}, not tested" if first else bounds]
    if point.efficiency.value:
        words.append(f"efficiency {100 * point.efficiency.value:.0f} %")
    if point.communication:
        words.append(f"communication costs {100 * point.communication.share:.0f} %")
    return ", ".join(words)


def _where(points: Sequence[Point], scalings: Sequence[Scaling]) -> str:
    """Returns the settings that tell these points from those of other scalings, where all of them share a value."""
    rows = [row for each in scalings for row in each.rows if row.cell.devices > 1]
    names = [name for name in PHRASES if name not in OWN and name in SETTINGS]
    names = [name for name in names if len({SETTINGS[name](row) for row in rows}) > 1]
    values = {name: {SETTINGS[name](point.row) for point in points} for name in names}
    return "".join(f" {phrase(name, found.pop())}" for name, found in values.items() if len(found) == 1)


def _threads(chosen: Sequence[tuple[Scaling, Point]]) -> str:
    """Returns the threads of each device where they are fewer than those of the base, as on a CPU."""
    threads = {(point.threads, scaling.base.threads) for scaling, point in chosen}
    if len(threads) != 1:
        return ""
    several, alone = threads.pop()
    if not several or not alone or several == alone:
        return ""
    return f"; each has {_of_threads(several)} of the processor, where {number(chosen[0][0].base.devices)} has {alone}"


def _of_threads(threads: str) -> str:
    return f"{threads} thread{'' if threads == '1' else 's'}"
