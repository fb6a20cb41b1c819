"""What the settings of a run gain within a framework, in sentences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from suite.analysis.bottleneck import GAIN
from suite.analysis.gains import Gain
from suite.analysis.groups import Group
from suite.analysis.wording import listing
from suite.report.clauses import span
from suite.report.names import PHRASES, SUBJECTS, count, framework, frameworks, times, workload

#: Names of axes in a sentence, where they differ from those of the options.
NAMES = {"batch": "batch size", "compile": "compile mode", "kernel": "LSTM kernel", "accumulate": "accumulation"}


def best_setting(gains: Sequence[tuple[Group, Gain]]) -> str:
    """Returns which setting pays most in which framework, and what it does to the others; empty without any gain."""
    if not gains:
        return ""
    tested = [each for each in gains if each[1].ratio.verdict]
    decided = [each for each in tested if each[1].ratio.verdict == "faster"]
    names = listing([NAMES.get(name, name) for name in dict.fromkeys(gain.axis for _, gain in gains)], "or")
    if tested and not decided:
        return f"no other {names} makes a framework decidedly faster"
    group, gain = max(decided or gains, key=lambda each: each[1].ratio.value or 0.0)
    if (gain.ratio.value or 0.0) < GAIN:
        return f"no other {names} gained {GAIN - 1:.0%} or more"
    verb = "pays" if decided else "gained"
    words = f"{_change(gain)} {verb} most with {framework(gain.framework)} on the {workload(group)}: {_ratio(gain)}"
    return f"{words}{_others(gain, [each for other, each in gains if other is group])}"


def along(group: Group, gains: Sequence[Gain], base: str) -> str:
    """Returns what a table along an axis shows; ``base`` is the value that its ratios are to."""
    if not gains:
        return f"no two cells differ in nothing but the {_axis(group)}"
    best = _best(gains)
    parts = [
        f"{framework(name)} {'gains' if gain.ratio.verdict else 'gained'} most {_place(gain)}, {_ratio(gain)}"
        for name, gain in best.items()
    ]
    rest = [name for name in dict.fromkeys(gain.framework for gain in gains) if name not in best]
    if rest:
        untested = not any(gain.ratio.verdict for gain in gains)
        verb = (
            "ran no faster" if untested else "is not decidedly faster" if len(rest) == 1 else "are not decidedly faster"
        )
        reference = f"another {_axis(group)} than {'the usual one' if group.by == 'compile' else base}"
        parts.append(f"{frameworks(rest)} {verb} with {reference}")
    return "; ".join(parts)


def along_card(group: Group, gains: Sequence[Gain]) -> str:
    """Returns the same in a line for an index."""
    best = _best(gains)
    if not best:
        return f"no other {_axis(group)} is faster" if gains else "nothing to compare"
    tested = any(gain.ratio.verdict for gain in gains)
    note = "" if tested else f" (n = {min(gain.ratio.blocks for gain in gains)}, not tested)"
    words = [f"{framework(name)} {span([gain.ratio.value or 0.0])}x {_place(gain)}" for name, gain in best.items()]
    return f"{', '.join(words)}{note}"


def _axis(group: Group) -> str:
    return NAMES.get(group.by, group.by)


def _best(gains: Sequence[Gain]) -> dict[str, Gain]:
    """Returns each framework's largest gain: of those that are decided, or if nothing was tested, of those above 1."""
    best: dict[str, Gain] = {}
    for name in dict.fromkeys(gain.framework for gain in gains):
        own = [gain for gain in gains if gain.framework == name]
        decided = [gain for gain in own if gain.ratio.verdict == "faster"]
        above = [gain for gain in own if not gain.ratio.verdict and (gain.ratio.value or 0.0) > 1]
        if decided or above:
            best[name] = max(decided or above, key=lambda gain: gain.ratio.value or 0.0)
    return best


def training_time(gains: Sequence[Gain], same_accuracy: Iterable[object]) -> str:
    """Returns which setting shortens the training, and whether the accuracy stays the same; empty if none does.

    ``same_accuracy`` holds the keys of the rows whose accuracy was shown to be that of their counterpart.
    """
    decided = [gain for gain in gains if gain.ratio.verdict == "faster"]
    if not decided:
        return ""
    best = max(decided, key=lambda gain: gain.ratio.value or 0.0)
    alike = [gain for gain in decided if gain.axis == best.axis and gain.values == best.values]
    values = [gain.ratio.value or 0.0 for gain in alike]
    names = frameworks([gain.framework for gain in alike])
    known = set(same_accuracy)
    accuracy = ", at the same accuracy" if all(gain.row.key in known for gain in alike) else ""
    low, high = min(gain.ratio.low or 0.0 for gain in alike), max(gain.ratio.high or 0.0 for gain in alike)
    interval = f"95 % interval{'s within' if len(alike) > 1 else ''} {span([low, high])}"
    bounds = f"{span(values)}x as fast as {best.values[1]}, {interval}, {_n(alike, 'seed')}"
    if all(1.9 <= value <= 2.1 for value in values):
        text = f"{_change(best, short=True)} halves the training time of {names} ({bounds}){accuracy}"
    else:
        text = f"{_change(best, short=True)} shortens the training of {names} ({bounds}){accuracy}"
    return f"{text}{_others(best, [gain for gain in gains if gain not in alike])}"


def _change(gain: Gain, short: bool = False) -> str:
    value, before = gain.values
    subject = SUBJECTS[gain.axis].format(value)
    return subject if short and gain.axis == "precision" else f"{subject} instead of {before}"


def _place(gain: Gain) -> str:
    return PHRASES[gain.axis][0].format(gain.values[0])


def _ratio(gain: Gain) -> str:
    ratio = gain.ratio
    figures = span([ratio.value or 0.0])
    bounds = span([ratio.low or 0.0, ratio.high or 0.0])
    n = count(ratio.blocks, "launch")
    words = f"95 % interval {bounds}, {n}" if ratio.verdict else f"{bounds} in {n}" if ratio.low != ratio.high else n
    return f"{figures}x as fast as {PHRASES[gain.axis][0].format(gain.values[1])} ({words})"


def _others(best: Gain, gains: Sequence[Gain]) -> str:
    """Returns what the same change does to the other frameworks, all other settings being those of the best."""
    cell = best.row.cell.but(compile="")
    alike = [
        gain
        for gain in gains
        if gain.axis == best.axis and gain.values == best.values and gain.framework != best.framework
        and gain.row.cell.but(framework=best.framework, compile="") == cell
    ]  # fmt: skip
    words = {
        "faster": ("is faster with it", "are faster with it"),
        "slower": ("is slower with it", "are slower with it"),
        "": ("ran at", "ran at"),
    }
    parts = []
    for verdict in ("faster", "slower", "equal", "inconclusive", ""):
        some = [gain for gain in alike if gain.ratio.verdict == verdict]
        if not some:
            continue
        names = frameworks([gain.framework for gain in some])
        ratios = listing([f"{span([gain.ratio.value or 0.0])}x" for gain in some])
        if verdict in ("equal", "inconclusive"):
            parts.append(f"for {names} no difference is decided ({ratios})")
        elif verdict:
            parts.append(f"{names} {words[verdict][len(some) > 1]} ({ratios})")
        else:
            n = min(gain.ratio.blocks for gain in some)
            few = "" if not best.ratio.verdict else f", {times(n)} only and not tested"
            parts.append(f"{names} ran at {ratios}{few}")
    return "".join(f"; {part}" for part in parts)


def _n(gains: Sequence[Gain], unit: str) -> str:
    blocks = {gain.ratio.blocks for gain in gains}
    return count(max(blocks), unit) if len(blocks) == 1 else f"{min(blocks)} to {count(max(blocks), unit)}"
