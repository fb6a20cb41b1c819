"""What held a row back, and what the run says about getting rid of it.

A cell is measured in three phases: training as it is, the same steps on batches already on the device (compute), and
the loader alone (input). If training takes no longer than its steps do, the steps are the limit; if it does, either the
loader is slower than the steps, or both would be fast enough and do not overlap.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from suite.analysis.groups import Group, Row
from suite.analysis.statistics import MARGIN
from suite.analysis.underutilisation import allocated
from suite.plan.cell import AUTO, Cell, Loader
from suite.record.record import DID_NOT_FIT

#: Training that takes no more than this over its steps alone is limited by them.
COVERED = 1.05
#: A doubled batch that costs less than this many times the step: the device waits for its orders.
LAUNCH_BOUND = 1.2
#: Compile modes that a framework offers beyond its usual one.
FASTER = {"pytorch": ("compile", "max"), "tensorflow": ("compile",), "jax": ()}
#: A measured gain is worth a line from this ratio on, if the worst of its blocks is beyond the margin of all ratios.
GAIN = 1.05


@dataclass(frozen=True)
class Bottleneck:
    """``kind`` is `compute-bound`, `input-bound`, `poor overlap`, `launch-bound`, `memory-limited` or empty.

    ``loading`` is the share of training time that loading costs.
    """

    kind: str = ""
    loading: float | None = None
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.kind} ({self.detail})" if self.detail else self.kind


def bottleneck(row: Row, group: Group) -> Bottleneck:
    """The verdict on a row, from its own phases and from the group's rows with other batches."""
    compute, given = share(row, "compute"), share(row, "input")
    if compute is None or given is None:
        return Bottleneck()
    loading = max(0.0, 1 - compute)
    costs = f"loading costs {loading:.0%}"
    covered = COVERED * compute >= 1
    if not covered and given >= compute:
        return Bottleneck("input-bound", loading, costs)
    if waits := _waits(row, group):
        return Bottleneck("launch-bound", loading, waits)
    if not covered:
        return Bottleneck("poor overlap", loading, costs)
    if limit := _largest_that_fits(row, group):
        return Bottleneck("memory-limited", loading, limit)
    return Bottleneck("compute-bound", loading)


def advice(row: Row, group: Group, found: Bottleneck, apart: float = MARGIN) -> list[str]:
    """What would help against it, best first: with the gain where this run measured it, else as untried.

    A gain has all of its blocks beyond ``apart``, the margin of the table's ratios.
    """
    gains: list[tuple[float, str]] = []
    untried: list[str] = []
    for name, changed in _remedies(row.cell, found.kind):
        tried = [(other, gained) for other in changed if (gained := _gains(row, group, other))]
        best = max(tried, key=lambda each: median(each[1]), default=None)
        if best and median(best[1]) >= GAIN and min(best[1]) > 1 + apart:
            middle = median(best[1])
            gains.append((middle, f"{_named(row.cell, best[0])} gave {middle:.2f}x (n = {len(best[1])})"))
        elif not best and not _failed(row, group, changed):
            untried.append(name + (_room(row) if name == "larger batch" else ""))
    measured = [words for _, words in sorted(gains, reverse=True)]
    return measured + ([f"untried: {', '.join(untried)}"] if untried else [])


def step_s(row: Row, phase: str) -> float | None:
    """The median over launches of a phase's time per step."""
    times = [record.phases[phase].step_s for record in row.ok if phase in record.phases]
    return median(times) if times else None


def share(row: Row, phase: str) -> float | None:
    """The median over launches of a phase's time per step as a share of that launch's training step."""
    held = [record.phases for record in row.ok if {"train", phase} <= record.phases.keys()]
    return median(phases[phase].step_s / phases["train"].step_s for phases in held) if held else None


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
    if other is None:
        return []
    ours, theirs = ({record.block: record.samples_per_s for record in each.ok} for each in (row, other))
    return [base / rate for block, rate in ours.items() if rate and (base := theirs.get(block))]


def _failed(row: Row, group: Group, cells: Iterable[Cell]) -> bool:
    """Whether the run tried one of them, and it did not end well."""
    return any((other := group.row(row.run, cell)) and not other.ok for cell in cells)


def _room(row: Row) -> str:
    """How much of the device's memory is in use, where both are known."""
    used = allocated(row)
    return "" if used is None else f" (the allocator's peak is {used:.0%} of the device)"


def _waits(row: Row, group: Group) -> str:
    """The next larger batch of the run, where each doubling on the way to it costs little; else nothing."""
    compute = step_s(row, "compute")
    larger = [other for other in _larger(row, group) if other.ok and other.cell.batch >= 2 * row.cell.batch]
    if not larger or compute is None:
        return ""
    other = min(larger, key=lambda each: each.cell.batch)
    longer, times = step_s(other, "compute"), other.cell.batch / row.cell.batch
    if longer is None or (longer / compute) ** (1 / math.log2(times)) >= LAUNCH_BOUND:
        return ""
    words = "twice" if times == 2 else f"{times:g} times"
    return f"{words} the batch takes {longer / compute:.2f} times as long"


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
