"""Training to the end: what each cell reached over its seeds, how fast, and whether the frameworks reached the same.

Frameworks share a seed's weights, order and augmentation, so that seeds are blocks, and tests are on the differences
within them. That two accuracies are the same is not the absence of a difference but a claim of its own: two one-sided
tests show that they lie within `MARGIN` of each other (Schuirmann, Journal of Pharmacokinetics and Biopharmaceutics,
1987).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import mean, median, stdev
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from suite.analysis.groups import Group, Row, RowKey
from suite.analysis.identity import verdicts
from suite.analysis.load import Launch
from suite.analysis.metrics import first_gpu, number
from suite.analysis.statistics import LEVEL, holm
from suite.record.history import Course
from suite.record.record import Record

#: Test accuracies closer than this are the same for every practical purpose: one percentage point.
MARGIN = 0.01


@dataclass(frozen=True)
class Difference:
    """Of mean accuracies over shared seeds: 95 % interval, p-values of any difference and of one beyond the margin."""

    value: float
    low: float
    high: float
    p_differs: float
    p_same: float
    seeds: int


@dataclass(frozen=True)
class Learned:
    """A group of cells that trained to their end: ``frame`` has a row per cell, in the order of ``group.rows``."""

    group: Group
    baseline: str
    frame: pd.DataFrame


def trains_to_the_end(group: Group) -> bool:
    """Whether the group's cells follow a recipe. All do or none does: the recipe is in the spec's digest."""
    return any(row.cell.recipe for row in group.rows)


def learned(group: Group, baseline: str) -> Learned:
    """The figures of a group; accuracies are compared with those of the framework ``baseline``."""
    judged = verdicts({row.key: row.ok for row in group.rows})
    to_baseline = _judged(group, lambda row: row.cell.but(framework=baseline, compile=""))
    to_fp32 = _judged(group, lambda row: row.cell.but(precision="fp32"))
    rows, target = [], target_of(group)
    for row in group.rows:
        told = _row(row, target) | _verdict("", to_baseline.get(row.key)) | _verdict("fp32_", to_fp32.get(row.key))
        rows.append(told | {"identity": str(judged[row.key]) if row.ok else "", "outcome": row.outcome})
    return Learned(group, baseline, pd.DataFrame(rows))


def epochs(launches: Iterable[Launch]) -> pd.DataFrame:
    """One row per epoch of every launch that trained to its end, as ``epochs.csv`` has them."""
    held: dict[str, list[Any]] = {}  # by columns, since rows take several times the memory
    for launch in launches:
        record, cell = launch.record, launch.record.cell
        trained = record.course.epochs if record.course else ()
        place: dict[str, Any] = {
            "run": launch.run,
            "cell": cell.id,
            "workload": cell.workload,
            "framework": cell.framework,
            "precision": cell.precision,
            "recipe": cell.recipe,
            "launch": record.launch,
            "outcome": record.outcome.status,
            "seed": record.run.get("seed"),
        }
        for count, epoch in enumerate(trained, 1):
            for name, value in (place | {"epoch": count, **vars(epoch)}).items():
                held.setdefault(name, []).append(value)
    return pd.DataFrame(held)


def courses(row: Row, target: float | None = None) -> list[Course]:
    """Of the launches that ended well, by seed; timed to another target than their own where one is given."""
    held = [record.course for record in row.ok if record.course]
    return held if target is None else [replace(course, target=target) for course in held]


def target_of(group: Group) -> float | None:
    """One for all rows, the highest that any was timed to."""
    return max((course.target for row in group.rows for course in courses(row)), default=None)


def difference(one: Mapping[int, float], other: Mapping[int, float]) -> Difference | None:
    """Of accuracies by seed, over the seeds that both have; None with fewer than three."""
    shared = sorted(one.keys() & other.keys())
    if len(shared) < 3:
        return None
    apart = np.array([one[seed] - other[seed] for seed in shared])
    value, n = float(apart.mean()), len(shared)
    if np.ptp(apart) < 1e-12:  # no scatter at all, which few but generated figures have
        return Difference(value, value, value, float(abs(value) < 1e-12), float(abs(value) >= MARGIN), n)
    from scipy import stats  # takes longer to import than most comparisons take

    found = stats.ttest_1samp(apart, 0)
    low, high = found.confidence_interval(1 - LEVEL)
    above = stats.ttest_1samp(apart, -MARGIN, alternative="greater").pvalue
    below = stats.ttest_1samp(apart, MARGIN, alternative="less").pvalue
    return Difference(value, float(low), float(high), float(found.pvalue), float(max(above, below)), n)


def verdict(found: Difference) -> str:
    """``same``, ``higher``, ``lower`` or ``undecided``; the p-values are corrected ones.

    A difference that is significant and within the margin is the same: the margin says what would matter.
    """
    if found.p_same < LEVEL:
        return "same"
    if found.p_differs < LEVEL:
        return "higher" if found.value > 0 else "lower"
    return "undecided"


def _judged(group: Group, other: Callable[[Row], Any]) -> dict[RowKey, Difference]:
    """Of every row whose counterpart is another row; Holm's correction over all of the group."""
    rows = {row.key: row for row in group.rows}
    found: dict[RowKey, Difference] = {}
    for row in group.rows:
        base = rows.get((row.run, other(row)))
        if base and base is not row and (one := difference(_accuracies(row), _accuracies(base))):
            # Those that are left of a training that diverges say nothing on whether it is the same.
            found[row.key] = replace(one, p_same=1.0) if _diverged(row) or _diverged(base) else one
    differs, same = (holm([getattr(d, name) for d in found.values()]) for name in ("p_differs", "p_same"))
    return {key: replace(d, p_differs=p, p_same=q) for (key, d), p, q in zip(found.items(), differs, same, strict=True)}


def _diverged(row: Row) -> bool:
    return any(launch.record.outcome.status == "diverged" for launch in row.launches)


def _verdict(prefix: str, found: Difference | None) -> dict[str, Any]:
    names = ("value", "low", "high", "p_differs", "p_same", "seeds")
    told: dict[str, Any] = {f"{prefix}difference_{name}": getattr(found, name) if found else None for name in names}
    return told | {f"{prefix}verdict": verdict(found) if found else ""}


def _row(row: Row, target: float | None) -> dict[str, Any]:
    held, records, cell = courses(row, target), row.ok, row.cell
    accuracies = list(_accuracies(row).values())
    low, high = _interval(accuracies)
    reached = [course.epochs_to_target for course in held]
    seconds = [course.seconds_to_target for course in held]
    return {
        "run": row.run, "cell": cell.id, "workload": cell.workload, "size": cell.size, "framework": cell.framework,
        "precision": cell.precision, "batch": cell.batch, "recipe": cell.recipe,
        "seeds": len(row.launches), "seeds_ok": len(records),
        "epochs": max((course.planned for course in held), default=None),
        "target": target if held else None,
        "reached": sum(each is not None for each in reached),
        **_spread("epochs_to_target", reached), **_spread("seconds_to_target", seconds),
        **_spread("train_s", [course.train_s[-1] for course in held]),
        **_spread("evaluation_s", [sum(epoch.evaluation_s for epoch in course.epochs) for course in held]),
        **_spread("samples_per_s", [record.samples_per_s for record in records]),
        **_spread("energy_j_to_target", [_energy(record, target) for record in records]),
        "accuracy": mean(accuracies) if accuracies else None, "accuracy_low": low, "accuracy_high": high,
        "accuracy_min": min(accuracies, default=None), "accuracy_max": max(accuracies, default=None),
        "flags": " ".join(row.flags), "machine": row.machine,
    }  # fmt: skip


def _accuracies(row: Row) -> dict[int, float]:
    """By seed; by launch where a record does not tell it."""
    told = [(record.run.get("seed"), record) for record in row.ok]
    seeds = [seed if type(seed) is int else record.launch for seed, record in told]
    return {seed: record.course.final_accuracy for seed, record in zip(seeds, row.ok, strict=True) if record.course}


def _interval(values: Sequence[float]) -> tuple[float | None, float | None]:
    """The mean's 95 % interval by Student; none of one value."""
    if len(values) < 2 or np.ptp(values) == 0:
        return None, None
    half = stdev(values) / math.sqrt(len(values)) * float(special.stdtrit(len(values) - 1, 1 - LEVEL / 2))
    return mean(values) - half, mean(values) + half


def _spread(name: str, values: Sequence[float | None]) -> Mapping[str, float | None]:
    """Median, lowest and highest of those that are there; none where one is missing: half a median would flatter."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return {name: None, f"{name}_min": None, f"{name}_max": None}
    return {name: median(known), f"{name}_min": min(known), f"{name}_max": max(known)}


def _energy(record: Record, target: float | None) -> float | None:
    """None where it was read to another target."""
    if not record.course or record.course.target != target:
        return None
    return number(first_gpu(record).get("energy_j_to_target"))
