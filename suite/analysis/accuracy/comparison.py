"""Training to the end: the accuracy that each cell reached over its seeds, how fast, and whether frameworks agree.

Frameworks share a seed's weights, order and augmentation, so seeds are blocks, and the tests are on the differences
within them. That two accuracies are the same is a claim of its own, not the absence of a difference: two one-sided
tests show that they lie within `MARGIN` of each other (Schuirmann, Journal of Pharmacokinetics and Biopharmaceutics,
1987).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import mean, median, stdev
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from suite.analysis.findings import Findings
from suite.analysis.identity.verdicts import Verdict, verdicts
from suite.analysis.records.load import Launch
from suite.analysis.rows.axes import AXES, base
from suite.analysis.rows.blocks import why_untested
from suite.analysis.rows.groups import Group, Row, RowKey
from suite.analysis.rows.metrics import first_gpu, number
from suite.analysis.statistics.inference import LEVEL, holm
from suite.analysis.statistics.multiple_testing import ratios
from suite.plan.cell import Cell
from suite.plan.measuring import SEEDS_LEAST
from suite.record.parts.history import TrainingHistory
from suite.record.record import Record
from workloads.spec import is_loss

if TYPE_CHECKING:
    import pandas as pd

#: Test accuracies closer than this count as the same: one percentage point.
MARGIN = 0.01


@dataclass(frozen=True)
class Difference:
    """A difference of mean accuracies over shared seeds, its 95 % interval, and the p-values of two tests.

    ``p_differs`` is that of no difference, ``p_same`` that of a difference beyond the margin.
    """

    value: float
    low: float
    high: float
    p_differs: float
    p_same: float
    seeds: int


@dataclass(frozen=True)
class AccuracyComparison:
    """A group of cells that trained to the end; ``rows`` are as in `accuracy.csv`, in the order of ``group.rows``."""

    group: Group
    baseline: str
    rows: Sequence[dict[str, Any]]
    identities: Mapping[RowKey, Verdict]

    @cached_property
    def frame(self) -> pd.DataFrame:
        """The rows for pandas."""
        from pandas import DataFrame  # which no command needs

        return DataFrame(self.rows)

    @cached_property
    def findings(self) -> Findings:
        """What the tests of its throughput say."""
        group = replace(self.group, by="framework")
        at = base(AXES[group.by], group.rows, self.baseline)
        return Findings(group, at, ratios(group, self.baseline, self.identities), self.identities)


def trains_to_the_end(group: Group) -> bool:
    """Whether the group's cells follow a recipe. All do or none does: the recipe is in the spec's digest."""
    return any(row.cell.recipe for row in group.rows)


def compare_accuracies(group: Group, baseline: str) -> AccuracyComparison:
    """The figures of a group; accuracies are compared with those of the framework ``baseline``."""
    identities = verdicts({row.key: row.ok for row in group.rows})
    to_baseline = _differences(group, lambda row: row.cell.but(framework=baseline, compile=""))
    to_fp32 = _differences(group, lambda row: row.cell.but(precision="fp32"))
    rows, target = [], target_of(group)
    for row in group.rows:
        columns = _row(row, target) | _verdict("", to_baseline.get(row.key)) | _verdict("fp32_", to_fp32.get(row.key))
        rows.append(columns | {"identity": str(identities[row.key]) if row.ok else "", "outcome": row.outcome})
    return AccuracyComparison(group, baseline, rows, identities)


def epochs(launches: Iterable[Launch]) -> dict[str, list[Any]]:
    """The columns of one row per epoch of every launch that trained to the end, as in ``epochs.csv``."""
    columns: dict[str, list[Any]] = {}  # not rows, which take several times the memory
    for launch in launches:
        record, cell = launch.record, launch.record.cell
        trained = record.course.epochs if record.course else ()
        launch_columns: dict[str, Any] = {
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
            for name, value in (launch_columns | {"epoch": count, **vars(epoch)}).items():
                columns.setdefault(name, []).append(value)
    return columns


def training_histories(row: Row, target: float | None = None) -> list[TrainingHistory]:
    """The training courses of the successful launches, by seed; timed to ``target`` if given, else to their own."""
    recorded = [record.course for record in row.ok if record.course]
    return recorded if target is None else [replace(course, target=target) for course in recorded]


def target_of(group: Group) -> float | None:
    """The target of all rows: the highest accuracy that any was timed to, or else the lowest loss."""
    targets = {course.target for row in group.rows for course in training_histories(row)}
    accuracies = {each for each in targets if not is_loss(each)}
    return max(accuracies) if accuracies else min(targets, default=None)


def difference(accuracies: Mapping[int, float], base: Mapping[int, float]) -> Difference | None:
    """The difference of two rows' accuracies by seed, over the seeds that both have; None with fewer than three."""
    shared = sorted(accuracies.keys() & base.keys())
    if len(shared) < SEEDS_LEAST:
        return None
    differences = np.array([accuracies[seed] - base[seed] for seed in shared])
    value, n = float(differences.mean()), len(shared)
    if np.ptp(differences) < 1e-12:  # no scatter at all, which hardly any but generated figures have
        return Difference(value, value, value, float(abs(value) < 1e-12), float(abs(value) >= MARGIN), n)
    from scipy import stats  # here, since its import takes longer than most comparisons

    test = stats.ttest_1samp(differences, 0)
    low, high = test.confidence_interval(1 - LEVEL)
    above = stats.ttest_1samp(differences, -MARGIN, alternative="greater").pvalue
    below = stats.ttest_1samp(differences, MARGIN, alternative="less").pvalue
    return Difference(value, float(low), float(high), float(test.pvalue), float(max(above, below)), n)


def verdict(difference: Difference) -> str:
    """``same``, ``higher``, ``lower`` or ``undecided``, from corrected p-values.

    A significant difference within the margin counts as the same: the margin says what matters.
    """
    if difference.p_same < LEVEL:
        return "same"
    if difference.p_differs < LEVEL:
        return "higher" if difference.value > 0 else "lower"
    return "undecided"


def _differences(group: Group, counterpart: Callable[[Row], Cell]) -> dict[RowKey, Difference]:
    """The difference of each row to its counterpart, if that is another row; Holm's correction is over the group."""
    rows = {row.key: row for row in group.rows}
    by_row: dict[RowKey, Difference] = {}
    for row in group.rows:
        base = rows.get((row.run, counterpart(row)))
        if not base or base is row or why_untested(row, base):
            continue
        if to_base := difference(_accuracies(row), _accuracies(base)):
            # If some launches diverged, the others don't show that the accuracies are the same.
            by_row[row.key] = replace(to_base, p_same=1.0) if _has_diverged(row) or _has_diverged(base) else to_base
    differs, same = (holm([getattr(each, name) for each in by_row.values()]) for name in ("p_differs", "p_same"))
    return {
        key: replace(each, p_differs=p_differs, p_same=p_same)
        for (key, each), p_differs, p_same in zip(by_row.items(), differs, same, strict=True)
    }


def _has_diverged(row: Row) -> bool:
    return any(launch.record.outcome.status == "diverged" for launch in row.launches)


def _verdict(prefix: str, to_base: Difference | None) -> dict[str, Any]:
    """The columns of a difference and its verdict, empty if there is none."""
    names = ("value", "low", "high", "p_differs", "p_same", "seeds")
    figures = {f"{prefix}difference_{name}": getattr(to_base, name) if to_base else None for name in names}
    return figures | {f"{prefix}verdict": verdict(to_base) if to_base else ""}


def _row(row: Row, target: float | None) -> dict[str, Any]:
    row_courses, records, cell = training_histories(row, target), row.ok, row.cell
    accuracies = list(_accuracies(row).values())
    low, high = _interval(accuracies)
    epochs_to_target = [course.epochs_to_target for course in row_courses]
    seconds_to_target = [course.seconds_to_target for course in row_courses]
    return {
        "run": row.run, "cell": cell.id, "workload": cell.workload, "size": cell.size, "framework": cell.framework,
        "precision": cell.precision, "batch": cell.batch, "recipe": cell.recipe,
        "seeds": len(row.launches), "seeds_ok": len(records),
        "epochs": max((course.planned for course in row_courses), default=None),
        "target": target if row_courses else None,
        "reached": sum(epoch is not None for epoch in epochs_to_target),
        **_spread("epochs_to_target", epochs_to_target), **_spread("seconds_to_target", seconds_to_target),
        **_spread("train_s", [course.train_s[-1] for course in row_courses]),
        **_spread("evaluation_s", [sum(epoch.evaluation_s for epoch in course.epochs) for course in row_courses]),
        **_spread("samples_per_s", [record.samples_per_s for record in records]),
        **_spread("energy_j_to_target", [_energy(record, target) for record in records]),
        "accuracy": mean(accuracies) if accuracies else None, "accuracy_low": low, "accuracy_high": high,
        "accuracy_min": min(accuracies, default=None), "accuracy_max": max(accuracies, default=None),
        "flags": " ".join(row.flags), "machine": row.machine,
    }  # fmt: skip


def _accuracies(row: Row) -> dict[int, float]:
    """Final accuracies by seed, or by launch where the record has no seed."""
    by_seed: dict[int, float] = {}
    for record in row.ok:
        if record.course:
            seed = record.run.get("seed")
            by_seed[seed if type(seed) is int else record.launch] = record.course.final_accuracy
    return by_seed


def _interval(values: Sequence[float]) -> tuple[float | None, float | None]:
    """The mean's 95 % interval by Student's t; none with fewer than two values or without scatter."""
    if len(values) < 2 or np.ptp(values) == 0:
        return None, None
    half_width = stdev(values) / math.sqrt(len(values)) * float(special.stdtrit(len(values) - 1, 1 - LEVEL / 2))
    return mean(values) - half_width, mean(values) + half_width


def _spread(name: str, values: Sequence[float | None]) -> Mapping[str, float | None]:
    """Median, lowest and highest value; none if a value is missing, since a median of the rest would flatter."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return {name: None, f"{name}_min": None, f"{name}_max": None}
    return {name: median(known), f"{name}_min": min(known), f"{name}_max": max(known)}


def _energy(record: Record, target: float | None) -> float | None:
    """The energy to the target in joules; None if the record's target is another one."""
    if not record.course or record.course.target != target:
        return None
    return number(first_gpu(record).get("energy_j_to_target"))
