"""What limits the throughput of a row, and what the run shows about raising it.

A cell is measured in three phases: training as it is, the same steps on batches already on the device (compute), and
the loader alone (input). If training takes no longer than its steps, the steps are the limit. If it does, either the
loader is slower than the steps, or both are fast enough but do not overlap. Each launch has a share of its own, and the
95 % interval over the launches must lie on one side of a limit; else the row is `undecided`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from statistics import median

from suite.analysis.bottlenecks.watched import advise, find_causes, most_of_loading
from suite.analysis.rows.groups import Group, Row
from suite.analysis.rows.metrics import first_gpu, number
from suite.analysis.statistics import inference as statistics
from suite.analysis.statistics.inference import Estimate, Paired
from suite.analysis.statistics.ratios import blockwise
from suite.analysis.statistics.scaling import communication, is_communication_bound, phase_ratios
from suite.catalog.frameworks import FRAMEWORKS
from suite.plan.cell import AUTO, STRATEGIES_OF, Cell, Loader
from suite.plan.measuring import MARGIN
from suite.record.record import DID_NOT_FIT

#: Below these shares, of time with any kernel running and of the device's memory, a GPU counts as underused.
BUSY_LEAST_PERCENT = 70.0
MEMORY_LEAST = 0.25
#: Above the first share of its cores the CPU counts as full, below the second as idle.
CPU_FULL, CPU_IDLE = 0.8, 0.3


def symptoms(row: Row, metrics: Mapping[str, float | None]) -> list[str]:
    busy, used = metrics["gpu_utilisation_percent"], share_of_memory(row)
    words = [cause for _, cause in find_causes(row)] if row.cell.is_of_script else []
    if busy is not None and busy < BUSY_LEAST_PERCENT:
        words.append(f"the GPU is busy {busy:.0f} % of the time{_cpu(row, metrics['cpu_cores'])}")
    if used is not None and used < MEMORY_LEAST:
        words.append(f"the allocator's peak is {used:.0%} of the device's memory: there is room for a larger batch")
    return words


def _cpu(row: Row, cores: float | None) -> str:
    machine = row.ok[0].environment.get("machine") if row.ok else None
    all_cores = number(machine.get("cores")) if isinstance(machine, dict) else None
    if cores is None or not all_cores:
        return ""
    share = cores / all_cores
    if share > CPU_FULL:
        return f", while the CPU is full ({share:.0%} of its cores): preparing the data holds it back"
    if share < CPU_IDLE:
        return f" and the CPU {share:.0%}: both wait, for storage, for each other, or between small kernels"
    return ""


def share_of_memory(row: Row) -> float | None:
    shares = []
    for record in row.ok:
        peak, size = record.memory.get("allocator_peak_bytes"), number(first_gpu(record).get("memory_bytes"))
        if peak is not None and size:
            shares.append(peak / size)
    return median(shares) if shares else None


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

    ``loading`` is the share of training time that loading costs: if a step with its loader was faster than without, its
    value is 0 and its ``low`` is negative. What communication costs is in `suite.analysis.statistics.scaling`.
    """

    kind: str = ""
    loading: Estimate | None = None
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.kind} ({self.detail})" if self.detail else self.kind


def bottleneck(row: Row, group: Group) -> Bottleneck:
    """The verdict on a row, from its own phases and the group's rows with other batches."""
    compute = phase_ratios(row, "compute", "train")
    if not compute or not phase_ratios(row, "input", "train"):
        return Bottleneck()
    share = statistics.interval(compute)
    if share and row.cell.is_of_script and (least := 1 - most_of_loading(row)) > share.low:  # a bound, no measurement
        share = replace(share, value=max(share.value, least), low=least, high=share.high if share.high > least else 1.0)
    if share is None:
        single = max(0.0, 1 - compute[0])
        told = f"one launch, in which loading took {single:.0%} of a step"
        words = "; ".join(filter(None, (told, _waiting(row, UNDECIDED))))
        return Bottleneck(UNDECIDED, Estimate(single, blocks=1), words)
    loading = Estimate(max(0.0, 1 - share.value), 1 - share.high, 1 - share.low, share.blocks)
    exchange = communication(row)
    kind, detail = _kind(row, group, share, exchange)
    costs = "" if kind in ("compute-bound", "communication-bound") else f"loading costs {_percent(loading)}"
    shared = f"communication costs {_percent(exchange)} of a step" if exchange and exchange.low is not None else ""
    words = "; ".join(part for part in (detail or costs, shared, _waiting(row, kind)) if part)
    return Bottleneck(kind, loading, words)


def _kind(row: Row, group: Group, compute: Paired, exchange: Estimate | None) -> tuple[str, str]:
    waits_for_data = COVERED * compute.high < 1
    if not waits_for_data and COVERED * compute.low < 1:
        return UNDECIDED, ""
    if waits_for_data:
        loader = statistics.interval(phase_ratios(row, "input", "compute"))
        if loader is None or loader.low < 1 <= loader.high:
            return UNDECIDED, ""
        if loader.low >= 1:
            return "input-bound", ""
    # Before the test of larger batches: they also cost little where the steps wait for the exchange of gradients.
    elif exchange and (bound := is_communication_bound(exchange)) is not False:
        return "communication-bound" if bound else UNDECIDED, ""
    launch_bound, words = _launch_bound(row, group)
    if launch_bound is not False:
        return "launch-bound" if launch_bound else UNDECIDED, words
    limit = "" if waits_for_data else _largest_that_fits(row, group)
    return "poor overlap" if waits_for_data else "memory-limited" if limit else "compute-bound", limit


def _waiting(row: Row, kind: str) -> str:
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


def _percent(share: Estimate) -> str:
    bounds = [f"{100 * max(0.0, bound or 0.0):.0f}" for bound in (share.low, share.high)]
    middle = f"{100 * (share.value or 0.0):.0f} %"
    return middle if bounds[0] == bounds[1] else f"{middle}, {bounds[0]} to {bounds[1]} %"


def advice(row: Row, group: Group, limit: Bottleneck, margin: float = MARGIN) -> list[str]:
    """What helps against the bottleneck, best first, with its gain in this run; then what the run did not try."""
    if row.cell.is_of_script:  # whose settings are its own
        return advise(row, limit.kind, limit.loading)
    gains: list[tuple[float, str]] = []
    untried: list[str] = []
    used = share_of_memory(row)
    room = "" if used is None else f" (the allocator's peak is {used:.0%} of the device)"
    for name, cells in _remedies(row.cell, limit.kind):
        ran = [(cell, other) for cell in cells if (other := group.row(row.run, cell))]
        tried = [(cell, ratios) for cell, other in ran if (ratios := blockwise(other.ok, row.ok))]
        measured = [(gain, cell) for cell, ratios in tried if (gain := statistics.interval(ratios))]
        gain, cell = max(measured, key=lambda each: each[0].value, default=(None, None))
        if gain and cell and gain.value >= GAIN and gain.low > 1 + margin:
            bounds = f"{gain.low:.2f} to {gain.high:.2f}, n = {gain.blocks}"
            gains.append((gain.value, f"{_name_setting(row.cell, cell)} gave {gain.value:.2f}x ({bounds})"))
        elif not tried and all(other.ok for _, other in ran):
            untried.append(name + (room if name == "larger batch" else ""))
    by_gain = [words for _, words in sorted(gains, reverse=True)]
    return by_gain + ([f"untried: {', '.join(untried)}"] if untried else [])


def step_s(row: Row, phase: str) -> float | None:
    """The median over launches of a phase's time per step, in seconds."""
    times = [record.phases[phase].step_s for record in row.ok if phase in record.phases]
    return median(times) if times else None


def share(row: Row, phase: str) -> float | None:
    """The median over launches of a phase's time per step as a share of that launch's training step."""
    shares = phase_ratios(row, phase, "train")
    return median(shares) if shares else None


def _remedies(cell: Cell, kind: str) -> Iterable[tuple[str, list[Cell]]]:
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
            is_usual = cell.compile not in FASTER[cell.framework]
            name = "compile" if is_usual else f"compile mode {' or '.join(modes)}"
            yield name, [cell.but(compile=mode) for mode in modes]


def _name_setting(cell: Cell, other: Cell) -> str:
    settings = {
        "loader": f"loader {other.loader.id}",
        "batch": f"batch {other.batch}",
        "precision": other.precision,
        "compile": f"compile mode {other.compile}",
        "strategy": f"strategy {other.strategy}",
        "accumulate": f"accumulating {other.accumulate}",
    }
    return next((words for name, words in settings.items() if getattr(cell, name) != getattr(other, name)), "")


def _launch_bound(row: Row, group: Group) -> tuple[bool | None, str]:
    """Whether each doubling up to the run's next larger batch costs little, and in words how long that batch takes.

    False if no larger batch ran in the same blocks, None if the blocks do not decide.
    """
    larger = [other for other in _larger(row, group) if other.ok and other.cell.batch >= 2 * row.cell.batch]
    if not larger:
        return False, ""
    other = min(larger, key=lambda each: each.cell.batch)
    mine, theirs = (
        {record.block: record.phases["compute"].step_s for record in each.ok if "compute" in record.phases}
        for each in (row, other)
    )
    longer = statistics.interval([theirs[block] / step_s for block, step_s in mine.items() if block in theirs])
    times = other.cell.batch / row.cell.batch
    limit = LAUNCH_BOUND ** math.log2(times)
    if longer is None or longer.low >= limit:
        return False, ""
    words = "twice" if times == 2 else f"{times:g} times"
    bounds = f"{longer.low:.2f} to {longer.high:.2f}"
    return longer.high < limit or None, f"{words} the batch takes {longer.value:.2f} times as long, {bounds}"


def _largest_that_fits(row: Row, group: Group) -> str:
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
    if row.cell.batch == AUTO:
        return []
    same = [other for other in group.alike(row, "batch") if other.run == row.run and other.cell.batch != AUTO]
    return [other for other in same if other.cell.batch > row.cell.batch]
