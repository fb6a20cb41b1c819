"""What several devices gain over one, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from suite.analysis.rows.groups import SETTINGS
from suite.analysis.statistics.scaling import WEAK, Point, Scaling
from suite.plan.cell import REFERENCE_STRATEGY
from suite.report.format.names import PHRASES, framework, number, phrase, strategy
from suite.report.text.voice import change, span

#: Settings that the sentence says in its own words.
OWN = ("devices", "strategy", "compile", "run")


def sentence(scalings: Sequence[Scaling], what: str) -> str:
    """Returns what the most devices do to the training of ``what``; empty without any scaling.

    It is weak scaling where there is any, by the usual strategy of each framework where that was measured.
    """
    chosen = _choose_points(scalings)
    if not chosen:
        return ""
    devices, base = map(number, _devices(chosen))
    told = [
        (f"{framework(scaling.framework)} with {strategy(scaling.strategy)}", point.speed_up, _further(point))
        for scaling, point in chosen
    ]
    where = _where([point for _, point in chosen], scalings)
    kept = "" if chosen[0][0].kind == WEAK else ", with the same global batch"
    subject = f"training on {devices} devices instead of {base}"
    return f"{change(subject, what + where, told)}{kept}{_threads(chosen)}"


def card(scalings: Sequence[Scaling]) -> str:
    """Returns the same in a line for an index."""
    chosen = _choose_points(scalings)
    if not chosen:
        return "nothing to compare"
    devices, base = _devices(chosen)
    note = "" if all(point.speed_up.verdict for _, point in chosen) else ", not tested"
    words = [f"{framework(each.framework)} {span([point.speed_up.value or 0.0])}x" for each, point in chosen]
    return f"{devices} devices over {base}: {', '.join(words)}{note}"


def _choose_points(scalings: Sequence[Scaling]) -> list[tuple[Scaling, Point]]:
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


def _further(point: Point) -> list[str]:
    efficiency, cost = point.efficiency.value, point.communication
    words = [f"efficiency {100 * efficiency:.0f} %"] if efficiency else []
    return words + ([f"communication costs {100 * cost.share:.0f} %"] if cost else [])


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
