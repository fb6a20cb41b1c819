"""What held a row back, and what the run says about getting rid of it.

A cell is measured in three phases: training as it is, the same steps on batches already on the device (compute), and
the loader alone (input). If training takes no longer than its steps do, the steps are the limit; if it does, either the
loader is slower than the steps, or both would be fast enough and do not overlap.

The words for it: `compute-bound`, `input-bound`, `poor overlap`; of what does not wait for data also `launch-bound` and
`memory-limited`. Each launch gives a share of its own, and the 95 % interval over the launches (Student's t on the
logarithms) has to lie on one side of a limit; else the row is `undecided`, and so is any row of one launch.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from suite.analysis import statistics
from suite.analysis.groups import Group, Row
from suite.analysis.ratios import by_block
from suite.analysis.statistics import MARGIN, Paired
from suite.analysis.underutilisation import allocated
from suite.plan.cell import AUTO, Cell, Loader
from suite.record.record import DID_NOT_FIT

#: Training that takes no more than this over its steps alone is limited by them.
COVERED = 1.05
#: A doubled batch that costs less than this many times the step: the device waits for its orders.
LAUNCH_BOUND = 1.2
#: Compile modes that a framework offers beyond its usual one.
FASTER = {"pytorch": ("compile", "max"), "tensorflow": ("compile",), "jax": ()}
#: A measured gain is worth a line from this ratio on, if its interval lies beyond the margin of all ratios.
GAIN = 1.05

UNDECIDED = "undecided"


@dataclass(frozen=True)
class Bottleneck:
    """``kind`` is one of the words above or `UNDECIDED`, and empty without phases to tell by.

    ``loading`` is the share of training time that loading costs, ``low`` and ``high`` its 95 % interval; where a step
    with its loader was faster than without, it is 0, and the lower bound below.
    """

    kind: str = ""
    loading: float | None = None
    detail: str = ""
    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        return f"{self.kind} ({self.detail})" if self.detail else self.kind


def bottleneck(row: Row, group: Group) -> Bottleneck:
    """The verdict on a row, from its own phases and from the group's rows with other batches."""
    compute = share(row, "compute")
    if compute is None or share(row, "input") is None:
        return Bottleneck()
    covered = statistics.interval(shares(row, "compute"))
    if covered is None:
        return Bottleneck(UNDECIDED, max(0.0, 1 - compute), "one launch")
    loading, low, high = max(0.0, 1 - covered.value), 1 - covered.high, 1 - covered.low
    kind, detail = _kind(row, group, covered)
    costs = "" if kind == "compute-bound" else f"loading costs {_percent(loading, low, high)}"
    return Bottleneck(kind, loading, detail or costs, low, high)


def _kind(row: Row, group: Group, covered: Paired) -> tuple[str, str]:
    """The verdict, and why, where that is something else than what loading costs."""
    behind = COVERED * covered.high < 1
    if not behind and COVERED * covered.low < 1:
        return UNDECIDED, ""
    if behind and (slower := _loader_is_slower(row)) is not False:
        return "input-bound" if slower else UNDECIDED, ""
    waits, words = _waits(row, group)
    if waits is not False:
        return "launch-bound" if waits else UNDECIDED, words
    limit = "" if behind else _largest_that_fits(row, group)
    return "poor overlap" if behind else "memory-limited" if limit else "compute-bound", limit


def _loader_is_slower(row: Row) -> bool | None:
    """Whether the loader alone takes longer than the steps alone; None where the launches do not decide."""
    timed = [record.phases for record in row.ok if {"input", "compute"} <= record.phases.keys()]
    loader = statistics.interval([phases["input"].step_s / phases["compute"].step_s for phases in timed])
    if loader is None or loader.low < 1 <= loader.high:
        return None
    return loader.low >= 1


def _percent(value: float, low: float, high: float) -> str:
    """``12 %, 8 to 15 %``; what is hidden costs nothing."""
    bounds = [f"{100 * max(0.0, bound):.0f}" for bound in (low, high)]
    middle = f"{100 * value:.0f} %"
    return middle if bounds[0] == bounds[1] else f"{middle}, {bounds[0]} to {bounds[1]} %"


def advice(row: Row, group: Group, held: Bottleneck, margin: float = MARGIN) -> list[str]:
    """What would help against it, best first: with the gain where this run measured it, else as untried.

    The 95 % interval of a gain lies beyond ``margin``, that of the table's ratios.
    """
    gains: list[tuple[float, str]] = []
    untried: list[str] = []
    for name, changed in _remedies(row.cell, held.kind):
        tried = [(other, ratios) for other in changed if (ratios := _gains(row, group, other))]
        measured = [(other, gain) for other, ratios in tried if (gain := statistics.interval(ratios))]
        best = max(measured, key=lambda each: each[1].value, default=None)
        if best and best[1].value >= GAIN and best[1].low > 1 + margin:
            cell, gain = best
            bounds = f"{gain.low:.2f} to {gain.high:.2f}, n = {gain.blocks}"
            gains.append((gain.value, f"{_named(row.cell, cell)} gave {gain.value:.2f}x ({bounds})"))
        elif not tried and not _failed(row, group, changed):
            untried.append(name + (_room(row) if name == "larger batch" else ""))
    decided = [words for _, words in sorted(gains, reverse=True)]
    return decided + ([f"untried: {', '.join(untried)}"] if untried else [])


def step_s(row: Row, phase: str) -> float | None:
    """The median over launches of a phase's time per step, in seconds."""
    times = [record.phases[phase].step_s for record in row.ok if phase in record.phases]
    return median(times) if times else None


def share(row: Row, phase: str) -> float | None:
    """The median over launches of a phase's time per step as a share of that launch's training step."""
    return median(shares(row, phase)) if shares(row, phase) else None


def shares(row: Row, phase: str) -> list[float]:
    """That share in each launch: its phases took turns, so that what drifts hits both."""
    timed = [record.phases for record in row.ok if {"train", phase} <= record.phases.keys()]
    return [phases[phase].step_s / phases["train"].step_s for phases in timed]


def _remedies(cell: Cell, kind: str) -> Iterable[tuple[str, list[Cell]]]:
    loaders = [cell.but(loader=loader) for loader in (Loader(), *(Loader("workers", n) for n in (1, 2, 4, 8)))]
    if kind in ("input-bound", "poor overlap"):
        yield "more workers", [other for other in loaders if other != cell]
        if cell.loader.kind != "resident":
            yield "resident loader", [cell.but(loader=Loader("resident"))]
    if kind in ("launch-bound", "compute-bound") and cell.batch != AUTO:
        yield "larger batch", [cell.but(batch=cell.batch * factor) for factor in (2, 4, 8, 16, 32, 64)]
    if kind in ("compute-bound", "memory-limited", "launch-bound"):
        if cell.precision in ("fp32", "tf32"):
            yield "bf16", [cell.but(precision="bf16")]
        if modes := [mode for mode in FASTER[cell.framework] if mode != cell.compile]:
            yield "compile", [cell.but(compile=mode) for mode in modes]


def _named(cell: Cell, other: Cell) -> str:
    """The setting in which another cell differs."""
    words = {
        "loader": f"loader {other.loader.id}",
        "batch": f"batch {other.batch}",
        "precision": other.precision,
        "compile": f"compile mode {other.compile}",
    }
    return next((said for name, said in words.items() if getattr(cell, name) != getattr(other, name)), "")


def _gains(row: Row, group: Group, cell: Cell) -> list[float]:
    """Throughput of the run's other cell over the row's, in each block that has both."""
    other = group.row(row.run, cell)
    return by_block(other, row) if other else []


def _failed(row: Row, group: Group, cells: Iterable[Cell]) -> bool:
    """Whether the run tried one of them, and it did not end well."""
    return any((other := group.row(row.run, cell)) and not other.ok for cell in cells)


def _room(row: Row) -> str:
    """How much of the device's memory is in use, where both are known."""
    used = allocated(row)
    return "" if used is None else f" (the allocator's peak is {used:.0%} of the device)"


def _waits(row: Row, group: Group) -> tuple[bool | None, str]:
    """Whether each doubling on the way to the run's next larger batch costs little, and in words what that batch takes.

    False where no larger batch ran in the same blocks, None where the blocks do not decide.
    """
    larger = [other for other in _larger(row, group) if other.ok and other.cell.batch >= 2 * row.cell.batch]
    if not larger:
        return False, ""
    other = min(larger, key=lambda each: each.cell.batch)
    here, there = (
        {r.block: r.phases["compute"].step_s for r in each.ok if "compute" in r.phases} for each in (row, other)
    )
    longer = statistics.interval([there[block] / step_s for block, step_s in here.items() if block in there])
    if longer is None:
        return False, ""
    times = other.cell.batch / row.cell.batch
    limit = LAUNCH_BOUND ** math.log2(times)
    if longer.low >= limit:
        return False, ""
    words = "twice" if times == 2 else f"{times:g} times"
    bounds = f"{longer.low:.2f} to {longer.high:.2f}"
    return (
        True if longer.high < limit else None
    ), f"{words} the batch takes {longer.value:.2f} times as long, {bounds}"


def _largest_that_fits(row: Row, group: Group) -> str:
    """How the run showed that no larger batch fits; nothing where it did not."""
    if row.cell.batch == AUTO:
        searches = [record.settings.get("batch_search") for record in row.ok]
        tries = [one for found in searches if isinstance(found, list) for one in found if isinstance(one, dict)]
        return "the largest batch that fits" if any(one.get("status") in DID_NOT_FIT for one in tries) else ""
    larger = _larger(row, group)
    if not larger or any(other.outcome != "out-of-memory" for other in larger):
        return ""
    least = min(other.cell.batch for other in larger)
    return f"the largest batch that fits of those tried: {least} does not"


def _larger(row: Row, group: Group) -> list[Row]:
    """The run's rows that differ in nothing but a larger batch."""
    if row.cell.batch == AUTO:
        return []
    same = [other for other in group.alike(row, "batch") if other.run == row.run and other.cell.batch != AUTO]
    return [other for other in same if other.cell.batch > row.cell.batch]
