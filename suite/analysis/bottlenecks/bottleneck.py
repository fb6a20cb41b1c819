"""What limits the throughput of a row, and what the run shows about raising it.

A cell is measured in three phases: training as it is, the same steps on batches already on the device (compute), and
the loader alone (input). If training takes no longer than its steps, the steps are the limit. If it does, either the
loader is slower than the steps, or both are fast enough but do not overlap.

The verdicts are `compute-bound`, `input-bound` and `poor overlap`; a row that does not wait for data can also be
`communication-bound` (`suite.analysis.scaling.communication`), `launch-bound` or `memory-limited`. Each launch has a
share of its own, and the 95 % interval over the launches (Student's t on the logarithms) must lie on one side of a
limit; else the row is `undecided`, as is a row of one launch.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from suite.analysis.bottlenecks.underutilisation import share_of_memory
from suite.analysis.rows.groups import Group, Row
from suite.analysis.scaling.communication import Communication, communication
from suite.analysis.statistics import inference as statistics
from suite.analysis.statistics.inference import Paired
from suite.analysis.statistics.ratios import by_block
from suite.catalog.frameworks import FRAMEWORKS
from suite.plan.cell import AUTO, STRATEGIES_OF, Cell, Loader
from suite.plan.measuring import MARGIN
from suite.record.record import DID_NOT_FIT

#: Training that takes at most this many times as long as its steps alone is limited by them.
COVERED = 1.05
#: If a step with a doubled batch takes less than this many times as long, the device waits for kernel launches.
LAUNCH_BOUND = 1.2
#: Compile modes that a framework offers beyond its usual one.
FASTER = {name: each.faster for name, each in FRAMEWORKS.items()}
#: The least measured gain that is mentioned, if its interval also lies beyond the margin of all ratios.
GAIN = 1.05

#: From this share of a step without anything to do on, a device waits for the host; below the other, it does not.
WAITS, BUSY = 0.30, 0.10

UNDECIDED = "undecided"


@dataclass(frozen=True)
class Bottleneck:
    """``kind`` is one of the verdicts above or `UNDECIDED`, and empty if the phases were not measured.

    ``loading`` is the share of training time that loading costs, ``low`` and ``high`` its 95 % interval. If a step with
    its loader was faster than without, ``loading`` is 0 and ``low`` is negative. What communication costs is in
    `suite.analysis.scaling.communication`.
    """

    kind: str = ""
    loading: float | None = None
    detail: str = ""
    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        return f"{self.kind} ({self.detail})" if self.detail else self.kind


def bottleneck(row: Row, group: Group) -> Bottleneck:
    """The verdict on a row, from its own phases and the group's rows with other batches."""
    compute = share(row, "compute")
    if compute is None or share(row, "input") is None:
        return Bottleneck()
    compute_share = statistics.interval(shares(row, "compute"))
    if compute_share is None:
        words = "; ".join(filter(None, ("one launch", _waiting(row, UNDECIDED))))
        return Bottleneck(UNDECIDED, max(0.0, 1 - compute), words)
    loading, low, high = max(0.0, 1 - compute_share.value), 1 - compute_share.high, 1 - compute_share.low
    exchange = communication(row)
    kind, detail = _kind(row, group, compute_share, exchange)
    costs = "" if kind in ("compute-bound", "communication-bound") else f"loading costs {_percent(loading, low, high)}"
    words = "; ".join(part for part in (detail or costs, _exchange(exchange), _waiting(row, kind)) if part)
    return Bottleneck(kind, loading, words, low, high)


def _kind(row: Row, group: Group, compute_share: Paired, exchange: Communication | None) -> tuple[str, str]:
    """The verdict, and the reason if that is not what loading costs."""
    waits_for_data = COVERED * compute_share.high < 1
    if not waits_for_data and COVERED * compute_share.low < 1:
        return UNDECIDED, ""
    if waits_for_data and (slower := _loader_is_slower(row)) is not False:
        return "input-bound" if slower else UNDECIDED, ""
    # Before the test of larger batches: they also cost little where the steps wait for the exchange of gradients.
    if exchange and not waits_for_data and exchange.bound is not False:
        return "communication-bound" if exchange.bound else UNDECIDED, ""
    launch_bound, words = _launch_bound(row, group)
    if launch_bound is not False:
        return "launch-bound" if launch_bound else UNDECIDED, words
    limit = "" if waits_for_data else _largest_that_fits(row, group)
    return "poor overlap" if waits_for_data else "memory-limited" if limit else "compute-bound", limit


def _waiting(row: Row, kind: str) -> str:
    """How long the device did nothing by the profile, and whether that fits the verdict; empty without a profile."""
    profiles = [record.profile for record in row.ok if record.profile and record.profile.gaps]
    if not profiles:
        return ""
    idle = median(each.idle or 0.0 for each in profiles)
    between = median(each.gaps.median_s for each in profiles if each.gaps)
    figures = f"the device had nothing to do for {idle:.0%} of the step, {1e6 * between:.3g} µs between kernels"
    agrees, refutes = ("the profile agrees", "the profile does not")
    expected = {
        "launch-bound": (agrees, refutes),
        **dict.fromkeys(("compute-bound", "memory-limited"), (refutes, agrees)),
    }
    waits, works = expected.get(kind, ("by the profile", "by the profile"))
    return f"{waits if idle >= WAITS else works if idle < BUSY else 'by the profile'}: {figures}"


def _loader_is_slower(row: Row) -> bool | None:
    """Whether the loader alone takes longer than the steps alone; None if the launches do not decide."""
    timed_phases = [record.phases for record in row.ok if {"input", "compute"} <= record.phases.keys()]
    loader = statistics.interval([phases["input"].step_s / phases["compute"].step_s for phases in timed_phases])
    if loader is None or loader.low < 1 <= loader.high:
        return None
    return loader.low >= 1


def _exchange(exchange: Communication | None) -> str:
    """What communication costs, in words; empty for one device."""
    if exchange is None or exchange.low is None or exchange.high is None:
        return ""
    return f"communication costs {_percent(exchange.share, exchange.low, exchange.high)} of a step"


def _percent(value: float, low: float, high: float) -> str:
    """``12 %, 8 to 15 %``; a negative bound is shown as 0, since hidden loading costs nothing."""
    bounds = [f"{100 * max(0.0, bound):.0f}" for bound in (low, high)]
    middle = f"{100 * value:.0f} %"
    return middle if bounds[0] == bounds[1] else f"{middle}, {bounds[0]} to {bounds[1]} %"


def advice(row: Row, group: Group, limit: Bottleneck, margin: float = MARGIN) -> list[str]:
    """What helps against the bottleneck, best first, with its gain in this run; then what the run did not try.

    The 95 % interval of a gain lies beyond ``margin``, the margin of the table's ratios.
    """
    gains: list[tuple[float, str]] = []
    untried: list[str] = []
    for name, cells in _remedies(row.cell, limit.kind):
        tried = [(remedy, ratios) for remedy in cells if (ratios := _gains(row, group, remedy))]
        measured = [(remedy, gain) for remedy, ratios in tried if (gain := statistics.interval(ratios))]
        best = max(measured, key=lambda each: each[1].value, default=None)
        if best and best[1].value >= GAIN and best[1].low > 1 + margin:
            remedy, gain = best
            bounds = f"{gain.low:.2f} to {gain.high:.2f}, n = {gain.blocks}"
            gains.append((gain.value, f"{_name_setting(row.cell, remedy)} gave {gain.value:.2f}x ({bounds})"))
        elif not tried and not _has_failed(row, group, cells):
            untried.append(name + (_room(row) if name == "larger batch" else ""))
    by_gain = [words for _, words in sorted(gains, reverse=True)]
    return by_gain + ([f"untried: {', '.join(untried)}"] if untried else [])


def step_s(row: Row, phase: str) -> float | None:
    """The median over launches of a phase's time per step, in seconds."""
    times = [record.phases[phase].step_s for record in row.ok if phase in record.phases]
    return median(times) if times else None


def share(row: Row, phase: str) -> float | None:
    """The median over launches of a phase's time per step as a share of that launch's training step."""
    return median(shares(row, phase)) if shares(row, phase) else None


def shares(row: Row, phase: str) -> list[float]:
    """That share in each launch that has both phases."""
    timed_phases = [record.phases for record in row.ok if {"train", phase} <= record.phases.keys()]
    return [phases[phase].step_s / phases["train"].step_s for phases in timed_phases]


def _remedies(cell: Cell, kind: str) -> Iterable[tuple[str, list[Cell]]]:
    """What may help a cell with this bottleneck: each remedy's name, and the cells that apply it."""
    loaders = [cell.but(loader=loader) for loader in (Loader(), *(Loader("workers", n) for n in (1, 2, 4, 8)))]
    if kind in ("input-bound", "poor overlap"):
        yield "more workers", [other for other in loaders if other != cell]
        if cell.loader.kind != "resident":
            yield "resident loader", [cell.but(loader=Loader("resident"))]
    if kind == "communication-bound":
        strategies = [name for name in STRATEGIES_OF[cell.framework] if name != cell.strategy]
        yield "another strategy", [cell.but(strategy=name) for name in strategies]
        yield "accumulating", [cell.but(accumulate=cell.accumulate * factor) for factor in (2, 4, 8)]
    if kind in ("launch-bound", "compute-bound", "communication-bound") and cell.batch != AUTO:
        yield "larger batch", [cell.but(batch=cell.batch * factor) for factor in (2, 4, 8, 16, 32, 64)]
    if kind in ("compute-bound", "memory-limited", "launch-bound"):
        if cell.precision in ("fp32", "tf32"):
            yield "bf16", [cell.but(precision="bf16")]
        if modes := [mode for mode in FASTER[cell.framework] if mode != cell.compile]:
            yield "compile", [cell.but(compile=mode) for mode in modes]


def _name_setting(cell: Cell, other: Cell) -> str:
    """The setting in which another cell differs."""
    settings = {
        "loader": f"loader {other.loader.id}",
        "batch": f"batch {other.batch}",
        "precision": other.precision,
        "compile": f"compile mode {other.compile}",
        "strategy": f"strategy {other.strategy}",
        "accumulate": f"accumulating {other.accumulate}",
    }
    return next((words for name, words in settings.items() if getattr(cell, name) != getattr(other, name)), "")


def _gains(row: Row, group: Group, cell: Cell) -> list[float]:
    """The throughput of this cell in the same run over the row's, in each block that has both."""
    other = group.row(row.run, cell)
    return by_block(other, row) if other else []


def _has_failed(row: Row, group: Group, cells: Iterable[Cell]) -> bool:
    """Whether the run tried one of these cells and it failed."""
    return any((other := group.row(row.run, cell)) and not other.ok for cell in cells)


def _room(row: Row) -> str:
    """How much of the device's memory is in use, in words; empty if unknown."""
    used = share_of_memory(row)
    return "" if used is None else f" (the allocator's peak is {used:.0%} of the device)"


def _launch_bound(row: Row, group: Group) -> tuple[bool | None, str]:
    """Whether each doubling up to the run's next larger batch costs little, and in words how long that batch takes.

    False if no larger batch ran in the same blocks, None if the blocks do not decide.
    """
    larger = [other for other in _larger(row, group) if other.ok and other.cell.batch >= 2 * row.cell.batch]
    if not larger:
        return False, ""
    other = min(larger, key=lambda each: each.cell.batch)
    steps_s, other_steps_s = (
        {record.block: record.phases["compute"].step_s for record in each.ok if "compute" in record.phases}
        for each in (row, other)
    )
    ratios = [other_steps_s[block] / step_s for block, step_s in steps_s.items() if block in other_steps_s]
    longer = statistics.interval(ratios)
    if longer is None:
        return False, ""
    times = other.cell.batch / row.cell.batch
    limit = LAUNCH_BOUND ** math.log2(times)
    if longer.low >= limit:
        return False, ""
    words = "twice" if times == 2 else f"{times:g} times"
    bounds = f"{longer.low:.2f} to {longer.high:.2f}"
    decided = True if longer.high < limit else None
    return decided, f"{words} the batch takes {longer.value:.2f} times as long, {bounds}"


def _largest_that_fits(row: Row, group: Group) -> str:
    """How the run showed that no larger batch fits, in words; empty if it did not."""
    if row.cell.batch == AUTO:
        searches = [record.settings.get("batch_search") for record in row.ok]
        tries = [each for search in searches if isinstance(search, list) for each in search if isinstance(each, dict)]
        return "the largest batch that fits" if any(each.get("status") in DID_NOT_FIT for each in tries) else ""
    larger = _larger(row, group)
    if not larger or any(other.outcome != "out-of-memory" for other in larger):
        return ""
    smallest = min(other.cell.batch for other in larger)
    return f"the largest batch that fits of those tried: {smallest} does not"


def _larger(row: Row, group: Group) -> list[Row]:
    """The run's rows that differ in nothing but a larger batch."""
    if row.cell.batch == AUTO:
        return []
    same = [other for other in group.alike(row, "batch") if other.run == row.run and other.cell.batch != AUTO]
    return [other for other in same if other.cell.batch > row.cell.batch]
