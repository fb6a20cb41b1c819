"""What the settings of a run change within a framework, in sentences."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from suite.analysis.bottlenecks.bottleneck import GAIN
from suite.analysis.rows.groups import SETTINGS, Group
from suite.analysis.rows.wording import fill, listing
from suite.analysis.statistics.changes import Speedup
from suite.catalog.settings import OF_A_FRAMEWORK
from suite.plan.settings.tunings import ARENAS, ARENAS_OF, KEPT, ONE_ARENA
from suite.report.format.names import (
    PHRASES,
    SETTING_NAMES,
    SUBJECTS,
    WORKLOADS,
    framework,
    frameworks,
    phrase,
    workload,
)
from suite.report.text.fastest import CARD
from suite.report.text.voice import change, span

#: What a reader adds to a training of his own.
SHELL = " ".join(f"{name}={value}" for name, value in {**KEPT, ARENAS: ONE_ARENA}.items())
OTHERWISE = listing([f"{value} for {framework(name)}'s {WORKLOADS[of]}" for (name, of), value in ARENAS_OF.items()])
TURN_ON = (
    f"to have them in a script of your own, start it as `{SHELL} python train.py` ({ARENAS}={OTHERWISE}), and in "
    "PyTorch call `torch.set_flush_denormal(True)` first"
)


def best_setting(gains: Sequence[tuple[Group, Speedup]]) -> str:
    """Returns the largest gain of a setting, and what it does to the other frameworks; empty without any gain.

    Settings are tested against the usual one and not against each other, so the largest gain is one that was measured.
    """
    if not gains:
        return ""
    tested = [each for each in gains if each[1].ratio.verdict]
    decided = [each for each in tested if each[1].ratio.verdict == "faster"]
    lost = [each for each in tested if each[1].ratio.verdict == "slower"]
    names = listing([SETTING_NAMES.get(name, name) for name in dict.fromkeys(gain.axis for _, gain in gains)], "or")
    loss = min(lost, key=lambda each: _value(each[1]), default=None)
    if tested and not decided:
        nothing = f"no other {names} makes a framework decidedly faster"
        return f"{nothing}; {_largest('loss', *loss, gains)}" if loss else nothing
    group, gain = max(decided or gains, key=lambda each: _value(each[1]))
    if _value(gain) < GAIN:
        return f"no other {names} gained {GAIN - 1:.0%} or more"
    words = _largest("gain", group, gain, gains)
    # What loses more than anything gains is the more important news, unless the same change has just been told.
    if not loss or _size(loss[1]) <= _size(gain) or (loss[0] is group and _is_same_change(loss[1], gain)):
        return words
    return f"{words}; {_largest('loss', *loss, gains)}"


def along(group: Group, gains: Sequence[Speedup], base: str) -> str:
    """Returns what a table along an axis shows: each framework's largest difference to ``base``."""
    if not gains:
        return f"on the {workload(group)}, no two cells differ in nothing but the {_axis(group)}"
    largest, told = _differences(gains), dict[str, list[Speedup]]()
    for gain in largest.values():
        told.setdefault(f"{gain.values}{_among(gain, gains)}", []).append(gain)
    parts = [
        _change(each, (f"the {workload(group)}" if not at else "it") + _among(each[0], gains))
        for at, each in enumerate(told.values())
    ]
    if rest := [name for name in dict.fromkeys(gain.framework for gain in gains) if name not in largest]:
        usual = "the oldest" if group.by == "release" else "the usual one" if group.by in OF_A_FRAMEWORK else base
        reference = f"another {_axis(group)} than {usual}"
        where = "" if parts else f" on the {workload(group)}"
        parts.append(f"for {frameworks(rest)} no difference of {reference} is decided{where}")
    return "; ".join(parts)


def along_card(group: Group, gains: Sequence[Speedup]) -> str:
    """Returns the same in a line for an index."""
    largest = _differences(gains)
    if not largest:
        return f"no other {_axis(group)} makes a decided difference" if gains else "nothing to compare"
    tested = any(gain.ratio.verdict for gain in gains)
    note = "" if tested else f" (n = {min(gain.ratio.blocks for gain in gains)}, not tested)"
    words = [
        f"{framework(name)} {span([_value(gain)])}x {phrase(gain.axis, gain.values[0])}"
        for name, gain in largest.items()
    ]
    fitting = (", ".join(words[:n]) + note for n in range(len(words), 0, -1))
    return next((text for text in fitting if len(text) <= CARD), f"{words[0]}{note}")


def training_time(gains: Sequence[Speedup], same_accuracy: Iterable[object]) -> str:
    """Returns which setting trains fastest, and whether the accuracy stays the same; empty if none is faster.

    ``same_accuracy`` holds the keys of the rows whose accuracy was shown to be that of fp32.
    """
    decided = [gain for gain in gains if gain.ratio.verdict == "faster"]
    if not decided:
        return ""
    best = max(decided, key=_value)
    alike = _alike(best, gains)
    faster = [gain for gain in alike if gain.ratio.verdict == "faster"]
    return f"{_change(alike, f'training{_among(best, gains)}', 'seed')}{_accuracy(faster, set(same_accuracy))}"


def switches(gains: Sequence[tuple[Group, Speedup]]) -> str:
    """Returns what the free switches of a CPU change, and how to turn them on; empty where that was not measured."""
    own = [(group, gain) for group, gain in gains if gain.axis == "tuning" and gain.values == ("known", "installed")]
    parts: dict[str, str] = {}
    for group, gain in own:
        alike = _alike(gain, [each for other, each in own if other is group])
        what = f"the {workload(group)}{_among(gain, [each for other, each in own if other is group])}"
        parts.setdefault(what, _change(alike, what))
    return f"the free switches of a CPU: {'; '.join(parts.values())}; {TURN_ON}" if parts else ""


def _change(alike: Sequence[Speedup], what: str, unit: str = "launch") -> str:
    value, before = alike[0].values
    told = [(framework(gain.framework), gain.ratio, ()) for gain in alike]
    return change(f"{fill(SUBJECTS[alike[0].axis], value)} instead of {before}", what, told, unit)


def _largest(kind: str, group: Group, gain: Speedup, gains: Sequence[tuple[Group, Speedup]]) -> str:
    own = [each for other, each in gains if other is group]
    return f"largest {kind} by a setting: {_change(_alike(gain, own), f'the {workload(group)}{_among(gain, own)}')}"


def _alike(best: Speedup, gains: Iterable[Speedup]) -> list[Speedup]:
    """Returns this gain, then the same change in each other framework, all other settings being the same."""
    by_framework = {best.framework: best}
    for gain in gains:
        if _is_same_change(gain, best):
            by_framework.setdefault(gain.framework, gain)
    return [*by_framework.values()]


def _is_same_change(gain: Speedup, best: Speedup) -> bool:
    cell, other = gain.row.cell, best.row.cell
    alike = cell.but(framework=other.framework, compile="") == other.but(compile="")
    return alike and (gain.axis, gain.values, gain.row.run) == (best.axis, best.values, best.row.run)


def _value(gain: Speedup) -> float:
    return gain.ratio.value or 0.0


def _size(gain: Speedup) -> float:
    """Returns how large a difference is in either direction: half as fast is as far as twice as fast."""
    return abs(math.log(gain.ratio.value or 1.0))


def _axis(group: Group) -> str:
    return SETTING_NAMES.get(group.by, group.by)


def _differences(gains: Sequence[Speedup]) -> dict[str, Speedup]:
    """Returns each framework's largest difference in either direction: of the decided ones, or of untested ones."""
    largest: dict[str, Speedup] = {}
    for name in dict.fromkeys(gain.framework for gain in gains):
        own = [gain for gain in gains if gain.framework == name]
        decided = [gain for gain in own if gain.ratio.verdict in ("faster", "slower")]
        if known := decided or [gain for gain in own if not gain.ratio.verdict]:
            largest[name] = max(known, key=_size)
    return largest


def _accuracy(gains: Sequence[Speedup], same_as_fp32: set[object]) -> str:
    """Returns whether the accuracy stays; the tests of accuracy compare precisions with fp32 and no other settings."""
    if any(gain.axis != "precision" or gain.before.cell.precision != "fp32" for gain in gains):
        return "; the accuracies were not compared"
    if all(gain.row.key in same_as_fp32 for gain in gains):
        return "; where it is faster, the accuracy is the same"
    return "; the accuracy was not shown to be the same"


def _among(gain: Speedup, gains: Sequence[Speedup]) -> str:
    """Returns the settings that tell this gain from others of the same change in the same framework."""
    alike = [each for each in gains if (each.framework, each.axis) == (gain.framework, gain.axis)]
    alike = [each for each in alike if each.values == gain.values]
    names = [name for name in PHRASES if name != gain.axis and len({SETTINGS[name](each.row) for each in alike}) > 1]
    if len({each.row.cell.strategy for each in alike} - {""}) < 2:  # the number of devices implies it
        names = [name for name in names if name != "strategy"]
    return "".join(f" {phrase(name, SETTINGS[name](gain.row))}" for name in names)
