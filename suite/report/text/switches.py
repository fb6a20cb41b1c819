"""What the free switches of a CPU gain in each framework, and how to turn them on, as one sentence."""

from __future__ import annotations

from collections.abc import Sequence

from suite.analysis.rows.groups import Group
from suite.analysis.rows.wording import listing
from suite.analysis.statistics.gains import Gain
from suite.plan.tunings import ARENAS, ARENAS_OF, KEPT, ONE_ARENA
from suite.report.format.names import WORKLOADS, count, framework, phrase, workload
from suite.report.text.clauses import span

#: What a reader adds to a training of his own.
SHELL = " ".join(f"{name}={value}" for name, value in {**KEPT, ARENAS: ONE_ARENA}.items())
OTHERWISE = listing([f"{value} for {framework(name)}'s {WORKLOADS[of]}" for (name, of), value in ARENAS_OF.items()])
TURN_ON = (
    f"to have them in a script of your own, start it as `{SHELL} python train.py` ({ARENAS}={OTHERWISE}), and in "
    "PyTorch call `torch.set_flush_denormal(True)` first"
)


def sentence(gains: Sequence[tuple[Group, Gain]]) -> str:
    """Returns what the switches gain over a framework as installed, by workload; empty where that was not measured."""
    told = [(group, gain) for group, gain in gains if gain.axis == "tuning" and gain.values == ("known", "installed")]
    if not told:
        return ""
    parts = []
    for group in dict.fromkeys(id(group) for group, _ in told):
        own = [gain for each, gain in told if id(each) == group]
        where = next(workload(each) for each, _ in told if id(each) == group)
        parts.append(f"on the {where} {listing([_gained(gain, own) for gain in own])}")
    tested = any(gain.ratio.verdict for _, gain in told)
    figures = "95 % intervals" if tested else "lowest to highest ratio, not tested"
    return (
        f"the free switches of a CPU (tuning known instead of installed) change the speed {'; '.join(parts)} "
        f"({figures}, {count(min(gain.ratio.blocks for _, gain in told), 'launch')}); {TURN_ON}"
    )


def _gained(gain: Gain, alike: Sequence[Gain]) -> str:
    ratio = gain.ratio
    several = len({each.row.batch for each in alike}) > 1
    where = f" {phrase('batch', gain.row.batch)}" if several else ""
    verdict = f", {ratio.verdict}" if ratio.verdict else ""
    bounds = span([ratio.low or 0.0, ratio.high or 0.0])
    return f"of {framework(gain.framework)}{where} by {span([ratio.value or 0.0])}x ({bounds}{verdict})"
