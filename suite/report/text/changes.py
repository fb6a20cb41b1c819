"""What the settings of a run change within a framework, a line for each change.

``IMDB LSTM, throughput with batch 64 instead of 32 (6 launches): PyTorch 0.86x (0.81 to 0.92, slower), ...``
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence

from suite.analysis.bottlenecks.bottleneck import GAIN
from suite.analysis.rows.groups import SETTINGS
from suite.analysis.rows.wording import listing
from suite.analysis.statistics.changes import Speedup
from suite.analysis.statistics.inference import Estimate
from suite.analysis.statistics.scaling import WEAK, Point, Scaling
from suite.plan.cell import REFERENCE_STRATEGY
from suite.plan.settings.tunings import ARENAS, ARENAS_OF, KEPT_MEMORY, ONE_ARENA
from suite.report.format.names import SETTING_NAMES, SUBJECTS, WORKLOADS, framework, name_value, strategy
from suite.report.text.fastest import CARD, bounded, decided, label, state, without_bounds

#: What a reader adds to a training of his own.
SHELL = " ".join(f"{name}={value}" for name, value in {**KEPT_MEMORY, ARENAS: ONE_ARENA}.items())
OTHERWISE = listing([f"{value} for {framework(name)}'s {WORKLOADS[of]}" for (name, of), value in ARENAS_OF.items()])
TURN_ON = (
    f"To have the allocator and denormal settings in a script of your own, start it as {SHELL} python train.py "
    f"({ARENAS}={OTHERWISE}), and in PyTorch call torch.set_flush_denormal(True) first"
)

#: A gain, and the workload of its table in words.
Gain = tuple[str, Speedup]


def largest(gains: Sequence[Gain]) -> list[str]:
    """Returns the largest gain of a setting, and the largest loss if it is larger; each with the other frameworks.

    Settings are tested against the usual one and not against each other, so the largest gain is one that was measured.
    """
    if not gains:
        return []
    names = listing([SETTING_NAMES.get(name, name) for name in dict.fromkeys(gain.axis for _, gain in gains)], "or")
    tested = any(gain.ratio.verdict for _, gain in gains)
    faster, slower = ([each for each in gains if each[1].ratio.verdict == word] for word in ("faster", "slower"))
    best = max(faster or gains, key=lambda each: each[1].ratio.value or 0.0)
    if tested and not faster:
        lines = [f"no other {names} makes a framework decidedly faster"]
    elif (best[1].ratio.value or 0.0) < GAIN:
        return [f"no other {names} gained {GAIN - 1:.0%} or more"]
    else:
        lines = [f"largest gain: {_line(*best, gains)}"]
    if not slower:
        return lines
    worst = max(slower, key=lambda each: _size(each[1]))
    is_larger = _size(worst[1]) > _size(best[1]) and not _is_same_change(worst[1], best[1])
    return [*lines, f"largest loss: {_line(*worst, gains)}"] if is_larger or not faster else lines


def axis_sentence(where: str, by: str, gains: Sequence[Speedup]) -> tuple[list[str], list[str]]:
    """Returns what a table along an axis shows: the changes that make the largest difference in some framework.

    These are lines with what was decided, and sentences with all ratios.
    """
    axis, told = SETTING_NAMES.get(by, by), ""
    if not gains:
        told = f"{where}: nothing to compare, since no second {axis} was measured with the same other settings"
    elif not (largest := _differences(gains)):
        told = f"{where}: no other {axis} makes a decided difference"
    if told:
        return [told], [told]
    every = [(where, gain) for gain in gains]
    forms = ([_line(where, gain, every, short=short) for gain in largest.values()] for short in (True, False))
    lines, sentences = ([*dict.fromkeys(each)] for each in forms)
    return lines, sentences


def axis_card(by: str, gains: Sequence[Speedup]) -> str:
    """Returns the same in a line for an index."""
    differences = _differences(gains)
    if not differences:
        return f"no other {SETTING_NAMES.get(by, by)} makes a decided difference" if gains else "nothing to compare"
    untested = not any(gain.ratio.verdict for gain in gains)
    note = f" (n = {min(gain.ratio.blocks for gain in gains)}, not tested)" if untested else ""
    words = [
        f"{framework(name)} {_value(gain.ratio)} ({name_value(gain.axis, gain.values[0])})"
        for name, gain in differences.items()
    ]
    fitting = (", ".join(words[:n]) + note for n in range(len(words), 0, -1))
    return next((text for text in fitting if len(text) <= CARD), f"{words[0]}{note}")


def training_time(where: str, gains: Sequence[Speedup], same_accuracy: Collection[object]) -> list[str]:
    """Returns which setting trains fastest, and whether the accuracy stays the same; empty if none is faster.

    ``same_accuracy`` holds the keys of the rows whose accuracy was shown to be that of fp32, with which the tests of
    accuracy compare other precisions and no other settings.
    """
    decided = [gain for gain in gains if gain.ratio.verdict == "faster"]
    if not decided:
        return []
    best = max(decided, key=lambda gain: gain.ratio.value or 0.0)
    faster = [gain for gain in _alike(best, gains) if gain.ratio.verdict == "faster"]
    if any(gain.axis != "precision" or gain.before.cell.precision != "fp32" for gain in faster):
        words = "the accuracies were not compared"
    elif all(gain.row.key in same_accuracy for gain in faster):
        words = "where it is faster, the accuracy is the same"
    else:
        words = "the accuracy was not shown to be the same"
    return [f"{_line(where, best, [(where, gain) for gain in gains], 'seed')}; {words}"]


def switches(gains: Sequence[Gain]) -> list[str]:
    """Returns what allocator and denormal settings change, and how to make them; empty where that was not measured."""
    own = [each for each in gains if each[1].axis == "tuning" and each[1].values == ("recommended", "default")]
    return [*dict.fromkeys(_line(*each, own) for each in own), TURN_ON] if own else []


def devices(where: str, scalings: Sequence[Scaling]) -> list[str]:
    """Returns what the most devices gain; empty without any scaling.

    It is weak scaling where there is any, by the usual strategy of each framework where that was measured.
    """
    points = _choose_points(scalings)
    if not points:
        return []
    (scaling, point), *_ = points
    rows = [row for each in scalings for row in each.rows if row.cell.devices > 1]
    varying = [name for name in SUBJECTS if name not in ("devices", "strategy", "compile", "run")]
    values = {name: {SETTINGS[name](each.row) for _, each in points} for name in varying}
    named = [
        f", {name_value(name, min(shown))}"
        for name, shown in values.items()
        if len(shown) == 1 and len({SETTINGS[name](row) for row in rows}) > 1
    ]
    what = f"{where}{''.join(named)}, {point.devices} devices instead of {scaling.base.devices}"
    kept = "" if scaling.kind == WEAK else ", with the same global batch"
    ratios = [
        f"{framework(each.framework)} with {strategy(each.strategy)} {bounded(at.speed_up, note=_describe(at))}"
        for each, at in points
    ]
    start = label(what + kept, [at.speed_up for _, at in points], "launch")
    threads = {(at.threads, each.base.threads) for each, at in points}
    fewer = [pair for pair in threads if all(pair) and len({*pair}) == len({*threads}) + 1]
    own = "".join(f"; each device has {few} of the processor's {many} threads" for few, many in fewer)
    return [f"{start}: {', '.join(ratios)}{own}"]


def devices_card(scalings: Sequence[Scaling]) -> str:
    """Returns the same in a line for an index."""
    points = _choose_points(scalings)
    if not points:
        return "nothing to compare"
    words = [f"{framework(each.framework)} {_value(point.speed_up)}" for each, point in points]
    note = "" if all(point.speed_up.verdict for _, point in points) else ", not tested"
    (scaling, point), *_ = points
    return f"{point.devices} devices over {scaling.base.devices}: {', '.join(words)}{note}"


def _describe(point: Point) -> str:
    efficiency, cost = point.efficiency.value, point.communication
    words = [state(point.speed_up), f"efficiency {100 * efficiency:.0f} %" if efficiency else ""]
    shared = f"communication {100 * (cost.value or 0.0):.0f} %" if cost else ""
    return ", ".join(filter(None, [*words, shared]))


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
    base = next(iter(by_framework.values())).base.devices
    return [
        (each, point)
        for each in by_framework.values()
        for point in each.points[1:]
        if point.devices == most and point.speed_up.value and each.base.devices == base
    ]


def _line(where: str, gain: Speedup, gains: Sequence[Gain], unit: str = "launch", short: bool = False) -> str:
    """Returns the line of a change, with the same change in each other framework; ``short`` with decided ratios."""
    own = [each for of, each in gains if of == where]
    alike = _alike(gain, own)
    value, before = gain.values
    change = f"{where}{_among(gain, own)}, throughput with {name_value(gain.axis, value)} instead of {before}"
    if short:
        return f"{change}: {decided([(framework(each.framework), each.ratio) for each in alike])}"
    tested = any(each.ratio.verdict for each in alike)
    ratios = [f"{framework(each.framework)} {bounded(each.ratio, note=state(each.ratio) * tested)}" for each in alike]
    return f"{label(change, [each.ratio for each in alike], unit)}: {', '.join(ratios)}"


def _value(ratio: Estimate) -> str:
    return bounded(without_bounds(ratio))


def _alike(best: Speedup, gains: Iterable[Speedup]) -> list[Speedup]:
    """Returns this gain and the same change in each other framework, all other settings being the same."""
    by_framework = {best.framework: best}
    for gain in gains:
        if _is_same_change(gain, best):
            by_framework.setdefault(gain.framework, gain)
    return sorted(by_framework.values(), key=lambda gain: list(REFERENCE_STRATEGY).index(gain.framework))


def _is_same_change(gain: Speedup, best: Speedup) -> bool:
    cell, other = gain.row.cell, best.row.cell
    if (gain.axis, gain.values, gain.row.run) != (best.axis, best.values, best.row.run) or cell.batch != other.batch:
        return False
    return cell.but(framework=other.framework, compile="") == other.but(compile="")


def _size(gain: Speedup) -> float:
    """Returns how large a difference is in either direction: half as fast is as far as twice as fast."""
    return abs(math.log(gain.ratio.value or 1.0))


def _differences(gains: Sequence[Speedup]) -> dict[str, Speedup]:
    """Returns each framework's largest difference in either direction: of the decided ones, or of untested ones."""
    differences: dict[str, Speedup] = {}
    for name in dict.fromkeys(gain.framework for gain in gains):
        own = [gain for gain in gains if gain.framework == name]
        decided = [gain for gain in own if gain.ratio.verdict in ("faster", "slower")]
        if known := decided or [gain for gain in own if not gain.ratio.verdict]:
            differences[name] = max(known, key=_size)
    return differences


def _among(gain: Speedup, gains: Sequence[Speedup]) -> str:
    """Returns the settings that tell this gain from others of the same change in the same framework."""
    alike = [each for each in gains if (each.framework, each.axis) == (gain.framework, gain.axis)]
    alike = [each for each in alike if each.values == gain.values]
    names = [name for name in SUBJECTS if name != gain.axis and len({SETTINGS[name](each.row) for each in alike}) > 1]
    if len({each.row.cell.strategy for each in alike} - {""}) < 2:  # the number of devices implies it
        names = [name for name in names if name != "strategy"]
    return "".join(f", {name_value(name, SETTINGS[name](gain.row))}" for name in names)
