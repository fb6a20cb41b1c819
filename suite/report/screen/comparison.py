"""A comparison as JSON, for other programs: the findings behind all tables, with the schema of their types.

The schema stands in ``results/comparison.schema.json``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import msgspec

from suite.analysis.bottlenecks.causes import Cause
from suite.analysis.findings import ExplainedPair
from suite.analysis.records.load import Loaded
from suite.analysis.rows.groups import Group
from suite.analysis.rows.runs import counts
from suite.analysis.statistics.accuracy import AccuracyComparison
from suite.analysis.statistics.inference import Estimate
from suite.analysis.statistics.power import Power
from suite.analysis.statistics.saving import SavingCost
from suite.analysis.statistics.serving import Serving
from suite.catalog.metrics import monitor_metrics
from suite.record.json_schema import schema_of
from suite.record.text import clean
from suite.report.tables.cells import Spread, TimedCell
from suite.report.tables.frame import Table
from suite.report.tables.timed import title
from suite.report.text.answer import answer
from suite.report.text.why import PairExplanation, explain_pairs

#: Version of the format. It grows when a field is removed or changes its meaning, not when one is added.
SCHEMA = 3

Kind = TypeVar("Kind")


@dataclass(frozen=True, kw_only=True)
class ScalingPoint:
    """A cell of a scaling. ``efficiency`` is the speed-up per device; one that is equal (to 1) is linear."""

    cell: str
    devices: int
    global_batch: int
    speed_up: Estimate
    efficiency: Estimate


@dataclass(frozen=True, kw_only=True)
class Scaling:
    """Cells that differ in the number of devices alone, the base first.

    ``kind`` is ``weak``, with the same batch on each device, or ``strong``, with the same global batch.
    """

    kind: str
    framework: str
    strategy: str
    points: list[ScalingPoint]


@dataclass(frozen=True, kw_only=True)
class ReleaseStep:
    """A release of a line, with its ratios to the one before and to the oldest, which itself has none."""

    cell: str
    release: str
    to_before: Estimate | None
    to_oldest: Estimate | None


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """What makes the steps of ``cell`` longer or shorter than those of ``other``, from their profiles.

    ``lines`` are the same in words. ``causes`` are the largest first and name 90 % of the difference where they can,
    ``against`` go the other way. ``per`` is step or sample. ``covered`` and ``other_covered`` are the profiled steps
    over the timed ones, to which all times are scaled. Without both profiles there are only ``lines``, which say so.
    """

    cell: str
    other: str
    title: str
    verdict: str
    lines: Sequence[str]
    per: str = ""
    step_s: float | None = None
    other_step_s: float | None = None
    covered: float | None = None
    other_covered: float | None = None
    blocks: int = 0
    causes: Sequence[Cause] = ()
    against: Sequence[Cause] = ()


@dataclass(frozen=True, kw_only=True)
class TimedTable:
    """Cells of one workload, size, data and spec. Their ratios are along ``by``, relative to ``baseline``.

    ``verdict`` is the answer of the table in a line. ``why`` explains its ratios, and is empty without any profile.
    ``scalings`` are those of its cells of several devices, ``releases`` its lines of a framework's releases;
    ``inference`` and ``checkpoints`` are there where launches measured them.
    """

    workload: str
    size: str
    title: str
    verdict: str
    data_kind: str
    data_digest: str
    spec_digest: str
    by: str
    baseline: str
    margin: float
    power: Power
    cells: Sequence[TimedCell]
    why: list[Explanation]
    scalings: list[Scaling]
    releases: list[list[ReleaseStep]]
    inference: Sequence[Serving] = ()
    checkpoints: Sequence[SavingCost] = ()


@dataclass(frozen=True, kw_only=True)
class ComparedAccuracy:
    """A difference of mean test accuracies over shared seeds, which are its ``blocks``, with its 95 % interval.

    Its p-value is that of no difference, ``p_same`` that of a difference beyond one point, both after Holm. The verdict
    is same, higher, lower or undecided.
    """

    difference: Estimate
    p_same: float
    verdict: str


@dataclass(frozen=True, kw_only=True)
class TrainedCell:
    """A cell that trained to its end: one row of an accuracy table.

    ``accuracy`` is the mean over seeds with its 95 % interval in ``accuracy_low`` and ``accuracy_high``. Spreads are
    over seeds, and null unless all of them reached ``target``.
    """

    run: str
    cell: str
    framework: str
    precision: str
    batch: int
    recipe: str
    seeds: int
    seeds_ok: int
    epochs: int | None
    accuracy: float | None
    accuracy_low: float | None
    accuracy_high: float | None
    to_baseline: ComparedAccuracy | None
    to_fp32: ComparedAccuracy | None
    target: float | None
    reached: int
    epochs_to_target: Spread
    seconds_to_target: Spread
    train_s: Spread
    evaluation_s: Spread
    samples_per_s: Spread
    energy_j_to_target: Spread
    identity: str
    outcome: str
    flags: str
    machine: str


@dataclass(frozen=True, kw_only=True)
class AccuracyTable:
    """Cells of one workload, size, data and recipe that trained to their end."""

    workload: str
    size: str
    title: str
    verdict: str
    data_kind: str
    data_digest: str
    recipe_digest: str
    baseline: str
    cells: list[TrainedCell]


@dataclass(frozen=True, kw_only=True)
class Run:
    """How many launches of a run were read, and how many were planned; null if the files do not say."""

    id: str
    launches: int
    planned: int | None


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A comparison: its answer in sentences, the runs that were read, and its tables."""

    sentences: Sequence[str]
    machine: str
    sources: list[str]
    runs: list[Run]
    tables: list[TimedTable]
    accuracies: list[AccuracyTable]
    notes: Sequence[str]


def json_schema() -> dict[str, Any]:
    """Returns the JSON Schema of `to_json`."""
    schema = schema_of(Comparison, SCHEMA, "Made by `UPDATE_GOLDEN=1 pytest tests/report` from the types of findings.")
    metrics = {each.name: _describe(each.meaning, each.unit) for each in monitor_metrics()}
    schema["$defs"]["TimedCell"]["properties"]["metrics"] = {"type": "object", "properties": metrics}
    return schema


def _describe(meaning: str, unit: str) -> dict[str, Any]:
    return {"anyOf": [{"type": "number"}, {"type": "null"}], "description": f"{meaning} ({unit})"}


def to_json(
    tables: Sequence[Table], learned: Sequence[AccuracyComparison], loaded: Loaded,
    sources: Sequence[str], notes: Sequence[str],
) -> str:  # fmt: skip
    """Returns the comparison as JSON, with a line break at its end."""
    found = answer(tables, learned)
    cards = iter(found.cards)
    comparison = Comparison(
        sentences=found.sentences,
        machine=found.machine,
        sources=[clean(source) for source in sources],
        runs=[Run(id=each.run, launches=each.launches, planned=each.planned) for each in counts(loaded)],
        tables=[_encode_timed(table, card.verdict) for table, card in zip(tables, cards, strict=False)],
        accuracies=[_encode_trained(table, card.verdict) for table, card in zip(learned, cards, strict=True)],
        notes=notes,
    )
    values = msgspec.to_builtins(comparison)
    for each in values["tables"]:
        for name in {"inference", "checkpoints"} - {name for name, held in each.items() if held}:
            del each[name]
    return msgspec.json.format(msgspec.json.encode({"schema": SCHEMA, **values}), indent=1).decode() + "\n"


def _take(kind: type[Kind], finding: object, **others: Any) -> Kind:
    """Returns a type of this file with the finding's attributes, besides the ``others``."""
    names = {each.name for each in fields(kind)} - others.keys()  # type: ignore[arg-type]
    return kind(**{name: getattr(finding, name) for name in names}, **others)


def _head(group: Group, verdict: str) -> dict[str, Any]:
    names = ("workload", "size", "data_kind", "data_digest")
    return {"title": title(group), "verdict": verdict, **{name: getattr(group, name) for name in names}}


def _encode_timed(table: Table, verdict: str) -> TimedTable:
    scalings = [
        _take(Scaling, each, points=[_take(ScalingPoint, point, cell=point.row.cell.id) for point in each.points])
        for each in table.scalings
    ]
    return _take(
        TimedTable, table, **_head(table.group, verdict), spec_digest=table.group.spec_digest, by=table.group.by,
        why=[_explanation(*each) for each in explain_pairs(table)], scalings=scalings,
        releases=[[_take(ReleaseStep, step, cell=step.row.cell.id) for step in line]
                  for line in table.findings.releases],
        inference=[*table.findings.servings.values()], checkpoints=[*table.findings.savings.values()],
    )  # fmt: skip


def _explanation(pair: ExplainedPair, told: PairExplanation) -> Explanation:
    values: dict[str, Any] = {"cell": pair.row.cell.id, "other": pair.other.cell.id, **vars(told)}
    if not (causes := pair.causes):
        return Explanation(**values)
    return _take(Explanation, causes, **values, covered=causes.row.covered, other_covered=causes.other.covered)


def _encode_trained(table: AccuracyComparison, verdict: str) -> AccuracyTable:
    head = _head(table.group, verdict) | {"recipe_digest": table.group.spec_digest, "baseline": table.baseline}
    return AccuracyTable(**head, cells=[_encode_trained_cell(row) for row in table.rows])


def _encode_trained_cell(row: Mapping[str, Any]) -> TrainedCell:
    values: dict[str, Any] = {
        each.name: _spread(row, each.name) if each.type == "Spread" else row.get(each.name)
        for each in fields(TrainedCell)
    }
    return TrainedCell(**values | {"to_baseline": _difference(row, ""), "to_fp32": _difference(row, "fp32_")})


def _spread(row: Mapping[str, Any], name: str) -> Spread:
    return Spread(median=row[name], low=row[f"{name}_min"], high=row[f"{name}_max"])


def _difference(row: Mapping[str, Any], prefix: str) -> ComparedAccuracy | None:
    if not (verdict := row[f"{prefix}verdict"]):
        return None
    names = ("value", "low", "high", "seeds", "p_differs", "p_same")
    value, low, high, seeds, p, p_same = (row[f"{prefix}difference_{name}"] for name in names)
    return ComparedAccuracy(difference=Estimate(value, low, high, seeds, p=p), p_same=p_same, verdict=verdict)
