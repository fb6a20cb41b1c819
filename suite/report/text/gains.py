"""What the settings of a run gain within a framework, in sentences."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from suite.analysis.bottlenecks.bottleneck import GAIN
from suite.analysis.rows.axes import OF_A_FRAMEWORK
from suite.analysis.rows.groups import SETTINGS, Group
from suite.analysis.rows.wording import listing
from suite.analysis.statistics.gains import Gain
from suite.report.format.names import (
    PHRASES,
    SETTING_NAMES,
    SUBJECTS,
    count,
    counts,
    framework,
    frameworks,
    phrase,
    times,
    workload,
)
from suite.report.text.clauses import CARD, span


def best_setting(gains: Sequence[tuple[Group, Gain]]) -> str:
    """Returns the largest gain of a setting, and what it does to the other frameworks; empty without any gain.

    Settings are tested against the usual one and not against each other, so the largest gain is one that was measured.
    """
    if not gains:
        return ""
    tested = [each for each in gains if each[1].ratio.verdict]
    decided = [each for each in tested if each[1].ratio.verdict == "faster"]
    lost = [each for each in tested if each[1].ratio.verdict == "slower"]
    names = listing([SETTING_NAMES.get(name, name) for name in dict.fromkeys(gain.axis for _, gain in gains)], "or")
    loss = min(lost, key=lambda each: each[1].ratio.value or 0.0, default=None)
    if tested and not decided:
        nothing = f"no other {names} makes a framework decidedly faster"
        return f"{nothing}; {_largest('loss', *loss, gains)}" if loss else nothing
    group, gain = max(decided or gains, key=lambda each: each[1].ratio.value or 0.0)
    if (gain.ratio.value or 0.0) < GAIN:
        return f"no other {names} gained {GAIN - 1:.0%} or more"
    words = _largest("gain", group, gain, gains)
    # What loses more than anything gains is the more important news.
    return f"{words}; {_largest('loss', *loss, gains)}" if loss and _size(loss[1]) > _size(gain) else words


def _largest(kind: str, group: Group, gain: Gain, gains: Sequence[tuple[Group, Gain]]) -> str:
    """Returns the largest gain or loss, and what the same change does to the other frameworks."""
    own = [each for other, each in gains if other is group]
    where = f"{framework(gain.framework)}'s on the {workload(group)}{_among(gain, own)}"
    verb = "is" if gain.ratio.verdict else "was"
    return f"the largest measured {kind} is {where}: {_place(gain)} it {verb} {_ratio(gain)}{_others(gain, own)}"


def _size(gain: Gain) -> float:
    """Returns how large a difference is in either direction: half as fast is as far as twice as fast."""
    return abs(math.log(gain.ratio.value or 1.0))


def along(group: Group, gains: Sequence[Gain], base: str) -> str:
    """Returns what a table along an axis shows; ``base`` is the value that its ratios are to."""
    if not gains:
        return f"no two cells differ in nothing but the {_axis(group)}"
    largest = _differences(gains)
    parts = [
        f"{framework(name)}'s largest measured {_kind(gain)} is {_place(gain)}{_among(gain, gains)}, {_ratio(gain)}"
        for name, gain in largest.items()
    ]
    if rest := [name for name in dict.fromkeys(gain.framework for gain in gains) if name not in largest]:
        reference = f"another {_axis(group)} than {'the usual one' if group.by in OF_A_FRAMEWORK else base}"
        parts.append(f"for {frameworks(rest)} no difference of {reference} is decided")
    return "; ".join(parts)


def along_card(group: Group, gains: Sequence[Gain]) -> str:
    """Returns the same in a line for an index."""
    largest = _differences(gains)
    if not largest:
        return f"no other {_axis(group)} makes a decided difference" if gains else "nothing to compare"
    tested = any(gain.ratio.verdict for gain in gains)
    note = "" if tested else f" (n = {min(gain.ratio.blocks for gain in gains)}, not tested)"
    words = [f"{framework(name)} {span([gain.ratio.value or 0.0])}x {_place(gain)}" for name, gain in largest.items()]
    fitting = (", ".join(words[:n]) + note for n in range(len(words), 0, -1))
    return next((text for text in fitting if len(text) <= CARD), f"{words[0]}{note}")


def _kind(gain: Gain) -> str:
    return "gain" if (gain.ratio.value or 0.0) >= 1 else "loss"


def _axis(group: Group) -> str:
    return SETTING_NAMES.get(group.by, group.by)


def _differences(gains: Sequence[Gain]) -> dict[str, Gain]:
    """Returns each framework's largest difference in either direction: of the decided ones, or of untested ones."""
    largest: dict[str, Gain] = {}
    for name in dict.fromkeys(gain.framework for gain in gains):
        own = [gain for gain in gains if gain.framework == name]
        decided = [gain for gain in own if gain.ratio.verdict in ("faster", "slower")]
        if known := decided or [gain for gain in own if not gain.ratio.verdict]:
            largest[name] = max(known, key=_size)
    return largest


def training_time(
    gains: Sequence[Gain], same_accuracy: Iterable[object], seconds: Mapping[object, float] | None = None
) -> str:
    """Returns which setting shortens the training, and whether the accuracy stays the same; empty if none does.

    ``same_accuracy`` holds the keys of the rows whose accuracy was shown to be that of fp32, ``seconds`` the time that
    a row trains in all. Without it the sentence is about speed.
    """
    decided = [gain for gain in gains if gain.ratio.verdict == "faster"]
    if not decided:
        return ""
    best = max(decided, key=lambda gain: gain.ratio.value or 0.0)
    alike = [gain for gain in decided if _is_same_change(gain, best)]
    values = [gain.ratio.value or 0.0 for gain in alike]
    names = frameworks([gain.framework for gain in alike])
    low, high = min(gain.ratio.low or 0.0 for gain in alike), max(gain.ratio.high or 0.0 for gain in alike)
    interval = f"95 % interval{'s within' if len(alike) > 1 else ''} {span([low, high])}"
    seeds = counts((gain.ratio.blocks for gain in alike), "seed")
    bounds = f"{span(values)}x as fast as {best.values[1]}, {interval}, {seeds}"
    change, where = _change(best, short=True), _among(best, gains)
    shares = _shares(alike, seconds or {})
    if shares and all(0.475 <= share <= 0.525 for share in shares):
        text = f"{change} halves the training time of {names}{where}"
    elif shares and all(share < 1 for share in shares):
        text = f"{change} shortens the training time of {names}{where}"
    elif all(1.9 <= value <= 2.1 for value in values):
        text = f"{names} {'train' if len(alike) > 1 else 'trains'} twice as fast with {change}{where}"
    else:
        text = f"{names} {'train' if len(alike) > 1 else 'trains'} faster with {change}{where}"
    return f"{text} ({bounds}){_accuracy(alike, set(same_accuracy))}{_others(best, gains, alike)}"


def _shares(gains: Sequence[Gain], seconds: Mapping[object, float]) -> list[float]:
    """Returns the training time of each row over that before; empty unless all are known."""
    if any(row.key not in seconds for gain in gains for row in (gain.row, gain.before)):
        return []
    return [seconds[gain.row.key] / seconds[gain.before.key] for gain in gains]


def _accuracy(gains: Sequence[Gain], same_as_fp32: set[object]) -> str:
    """Returns whether the accuracy stays; the tests of accuracy compare precisions with fp32 and no other settings."""
    if any(gain.axis != "precision" or gain.before.cell.precision != "fp32" for gain in gains):
        return "; their accuracies were not compared"
    if all(gain.row.key in same_as_fp32 for gain in gains):
        return ", at the same accuracy"
    return "; the accuracy was not shown to be the same"


def _is_same_change(gain: Gain, best: Gain) -> bool:
    """Returns whether both change the same setting in the same way, all other settings being the same."""
    cell, other = gain.row.cell, best.row.cell
    alike = cell.but(framework=other.framework, compile="") == other.but(compile="")
    # Compile modes differ by framework, so only another mode of the same framework is another setting.
    mode = gain.framework != best.framework or cell.compile == other.compile
    return alike and mode and (gain.axis, gain.values, gain.row.run) == (best.axis, best.values, best.row.run)


def _among(gain: Gain, gains: Sequence[Gain]) -> str:
    """Returns the settings that tell this gain from others of the same change in the same framework."""
    alike = [each for each in gains if each.framework == gain.framework and each.axis == gain.axis]
    alike = [each for each in alike if each.values == gain.values]
    names = [name for name in PHRASES if name != gain.axis and len({SETTINGS[name](each.row) for each in alike}) > 1]
    if len({each.row.cell.strategy for each in alike} - {""}) < 2:  # the number of devices implies it
        names = [name for name in names if name != "strategy"]
    return "".join(f" {phrase(name, SETTINGS[name](gain.row))}" for name in names)


def _change(gain: Gain, short: bool = False) -> str:
    value, before = gain.values
    subject = SUBJECTS[gain.axis].format(value)
    return subject if short and gain.axis == "precision" else f"{subject} instead of {before}"


def _place(gain: Gain) -> str:
    return phrase(gain.axis, gain.values[0])


def _ratio(gain: Gain) -> str:
    ratio = gain.ratio
    figures = span([ratio.value or 0.0])
    bounds = span([ratio.low or 0.0, ratio.high or 0.0])
    n = count(ratio.blocks, "launch")
    words = f"95 % interval {bounds}, {n}" if ratio.verdict else f"{bounds} in {n}" if ratio.low != ratio.high else n
    return f"{figures}x as fast as {phrase(gain.axis, gain.values[1])} ({words})"


def _others(best: Gain, gains: Sequence[Gain], told: Sequence[Gain] = ()) -> str:
    """Returns what the same change does to the other frameworks, all other settings being those of the best."""
    alike = [gain for gain in gains if gain.framework != best.framework and _is_same_change(gain, best)]
    alike = [gain for gain in alike if gain not in told]
    words = {
        "faster": ("is faster with it", "are faster with it"),
        "slower": ("is slower with it", "are slower with it"),
        "equal": ("is equally fast with it", "are each equally fast with it"),
    }
    parts = []
    for verdict in ("faster", "slower", "equal", "inconclusive", ""):
        some = [gain for gain in alike if gain.ratio.verdict == verdict]
        if not some:
            continue
        names = frameworks([gain.framework for gain in some])
        ratios = listing([f"{span([gain.ratio.value or 0.0])}x" for gain in some])
        if verdict == "inconclusive":
            parts.append(f"for {names} no difference is decided ({ratios})")
        elif verdict:
            parts.append(f"{names} {words[verdict][len(some) > 1]} ({ratios})")
        else:
            n = min(gain.ratio.blocks for gain in some)
            few = "" if not best.ratio.verdict else f", {times(n)} only and not tested"
            parts.append(f"{names} ran at {ratios}{few}")
    return "".join(f"; {part}" for part in parts)
