"""Training to the end: the accuracy that each cell reached over its seeds, how fast, and whether frameworks agree.

Frameworks share a seed's weights, order and augmentation, so seeds are blocks. That two accuracies are the same is a
claim of its own: two one-sided tests show that they lie within `MARGIN` of each other (Schuirmann, Journal of
Pharmacokinetics and Biopharmaceutics, 1987).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import mean, median
from typing import TYPE_CHECKING, Any

from suite.analysis.findings import Findings
from suite.analysis.identity.comparability import judge
from suite.analysis.identity.verdicts import Verdict
from suite.analysis.records.load import Launch
from suite.analysis.rows.axes import AXES, base
from suite.analysis.rows.blocks import seed_of, why_untested
from suite.analysis.rows.groups import Group, Row, RowKey
from suite.analysis.rows.metrics import first_gpu, number
from suite.analysis.statistics.inference import LEVEL, Estimate, Key, holm, mean_test
from suite.analysis.statistics.multiple_testing import ratios
from suite.plan.cell import Cell
from suite.plan.measuring import SEEDS_LEAST
from suite.record.parts.history import TrainingHistory
from suite.record.record import Record
from workloads.spec import is_loss, specification

if TYPE_CHECKING:
    import pandas as pd

#: Test accuracies closer than this count as the same: one percentage point.
MARGIN = 0.01


@dataclass(frozen=True)
class Difference:
    """A difference of mean accuracies over shared seeds: ``found``, whose blocks are the seeds.

    Its p-value is that of no difference, ``p_same`` that of a difference beyond the margin.
    """

    found: Estimate
    p_same: float

    @property
    def value(self) -> float:
        return self.found.value or 0.0

    @property
    def p_differs(self) -> float:
        return self.found.p or 0.0


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
        group = replace(self.group, by="framework")
        at = base(AXES[group.by], group.rows, self.baseline)
        return Findings(group, at, ratios(group, self.baseline, self.identities), self.identities)


def trains_to_the_end(group: Group) -> bool:
    """Whether the group's cells follow a recipe. All do or none does: the recipe is in the spec's digest."""
    return any(row.cell.recipe for row in group.rows)


def compare_accuracies(group: Group, baseline: str) -> AccuracyComparison:
    """The figures of a group; accuracies are compared with those of the framework ``baseline``."""
    identities = judge(group.rows)
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
            "run": launch.run, "cell": cell.id, "workload": cell.workload, "framework": cell.framework,
            "precision": cell.precision, "recipe": cell.recipe, "launch": record.launch,
            "outcome": record.outcome.status, "seed": record.run.get("seed"),
        }  # fmt: skip
        for count, epoch in enumerate(trained, 1):
            for name, value in (launch_columns | {"epoch": count, **vars(epoch)}).items():
                columns.setdefault(name, []).append(value)
    return columns


def training_histories(row: Row, target: float | None = None) -> list[TrainingHistory]:
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
    value, low, high, p_differs, p_same = mean_test([accuracies[seed] - base[seed] for seed in shared], MARGIN)
    return Difference(Estimate(value, low, high, len(shared), p=p_differs), p_same)


def verdict(difference: Difference) -> str:
    """``same``, ``higher``, ``lower`` or ``undecided``, from corrected p-values."""
    if difference.p_same < LEVEL:
        return "same"
    if difference.p_differs < LEVEL:
        return "higher" if difference.value > 0 else "lower"
    return "undecided"


def correct(differences: Mapping[Key, Difference]) -> dict[Key, Difference]:
    """The same with p-values after Holm's correction over all of them."""
    differs = holm([each.p_differs for each in differences.values()])
    same = holm([each.p_same for each in differences.values()])
    return {
        key: Difference(replace(each.found, p=p_differs), p_same)
        for (key, each), p_differs, p_same in zip(differences.items(), differs, same, strict=True)
    }


def _differences(group: Group, counterpart: Callable[[Row], Cell]) -> dict[RowKey, Difference]:
    rows = {row.key: row for row in group.rows}
    by_row: dict[RowKey, Difference] = {}
    for row in group.rows:
        base = rows.get((row.run, counterpart(row)))
        if not base or base is row or why_untested(row, base):
            continue
        if to_base := difference(_accuracies(row), _accuracies(base)):
            # If some launches diverged, the others don't show that the accuracies are the same.
            by_row[row.key] = replace(to_base, p_same=1.0) if _has_diverged(row) or _has_diverged(base) else to_base
    return correct(by_row)


def _has_diverged(row: Row) -> bool:
    return any(launch.record.outcome.status == "diverged" for launch in row.launches)


def _verdict(prefix: str, to_base: Difference | None) -> dict[str, Any]:
    names = ("value", "low", "high", "p_differs", "p_same", "seeds")
    found = to_base.found if to_base else Estimate()
    values = found.value, found.low, found.high, found.p, to_base and to_base.p_same, found.blocks or None
    figures = {f"{prefix}difference_{name}": value for name, value in zip(names, values, strict=True)}
    return figures | {f"{prefix}verdict": verdict(to_base) if to_base else ""}


def _row(row: Row, target: float | None) -> dict[str, Any]:
    row_courses, records, cell = training_histories(row, target), row.ok, row.cell
    accuracies = list(_accuracies(row).values())
    ends = mean_test(accuracies)[1:3] if len({*accuracies}) > 1 else (None, None)
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
        "accuracy": mean(accuracies) if accuracies else None, "accuracy_low": ends[0], "accuracy_high": ends[1],
        "accuracy_min": min(accuracies, default=None), "accuracy_max": max(accuracies, default=None),
        "flags": " ".join(row.flags), "machine": row.machine,
    }  # fmt: skip


def _accuracies(row: Row) -> dict[int, float]:
    return {seed_of(record): record.course.final_accuracy for record in row.ok if record.course}


def _spread(name: str, values: Sequence[float | None]) -> Mapping[str, float | None]:
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return {name: None, f"{name}_min": None, f"{name}_max": None}
    return {name: median(known), f"{name}_min": min(known), f"{name}_max": max(known)}


def _energy(record: Record, target: float | None) -> float | None:
    if not record.course or record.course.target != target:
        return None
    return number(first_gpu(record).get("energy_j_to_target"))


ByBlock = Mapping[Cell, Mapping[int, Record]]


def reference(cells: Sequence[Cell], records: ByBlock) -> Cell | None:
    """The cell that the accuracy of the others is compared with: fp32, at the batch nearest to the workload's own."""

    def distance(cell: Cell) -> tuple[bool, float, int]:
        own = specification(cell.workload).batch
        return cell.precision != "fp32", abs(math.log(cell.effective_batch / own)), -len(records[cell])

    return min((cell for cell in cells if records.get(cell)), key=distance, default=None)


def find_worse_learners(cells: Iterable[Cell], records: ByBlock, base: Cell | None) -> dict[Cell, str]:
    """The cells whose final test accuracy is significantly lower than that of ``base``, beyond a percentage point."""
    base_accuracies = _by_block(records.get(base, {})) if base else {}
    differences = {
        cell: tested
        for cell in cells
        if cell != base and (tested := difference(_by_block(records.get(cell, {})), base_accuracies))
    }
    return {
        cell: f"its accuracy is {-100 * each.value:.1f} points below that of {base.id} (p {each.p_differs:.2g})"
        for cell, each in correct(differences).items()
        if base and verdict(each) == "lower"
    }


def _by_block(records: Mapping[int, Record]) -> dict[int, float]:
    return {block: record.course.final_accuracy for block, record in records.items() if record.course}
