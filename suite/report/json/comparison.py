"""A comparison as JSON, for other programs: everything that the tables show, with its types."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import msgspec

from suite.analysis.accuracy.comparison import Learned
from suite.analysis.records.load import Loaded
from suite.analysis.rows.groups import ON_DEMAND, SETTINGS, Group
from suite.analysis.rows.missing import counts
from suite.analysis.scaling.efficiency import Scaling as Found
from suite.analysis.statistics.ratios import Ratio as Formed
from suite.record.text import clean
from suite.report.json.comparison_schema import (
    SCHEMA,
    AccuracyTable,
    Bottleneck,
    Cell,
    Comparison,
    Control,
    Devices,
    Difference,
    Identity,
    Power,
    Run,
    Spread,
    TimedTable,
    TrainedCell,
)
from suite.report.json.ratio_schema import Interval, Ratio, Scaling, ScalingPoint
from suite.report.tables.columns import MONITORED
from suite.report.tables.frame import Table, best
from suite.report.text.answer import answer
from suite.report.text.explanations import explanations


def to_json(
    tables: Sequence[Table], learned: Sequence[Learned], loaded: Loaded, sources: Sequence[str], notes: Sequence[str]
) -> str:
    """Returns the comparison as JSON, with a line break at its end."""
    found = answer(tables, learned)
    verdicts = [card.verdict for card in found.cards]
    comparison = Comparison(
        sentences=list(found.sentences),
        machine=found.machine,
        sources=[clean(source) for source in sources],
        runs=[Run(id=each.run, launches=each.launches, planned=each.planned) for each in counts(loaded)],
        tables=[_timed(table, verdict) for table, verdict in zip(tables, verdicts, strict=False)],
        accuracies=[_trained(table, verdict) for table, verdict in zip(learned, verdicts[len(tables) :], strict=True)],
        notes=list(notes),
    )
    text = msgspec.json.encode({"schema": SCHEMA, **msgspec.to_builtins(comparison)})
    return msgspec.json.format(text, indent=1).decode() + "\n"


def _timed(table: Table, verdict: str) -> TimedTable:
    group, power = table.group, table.power
    marked = best(table)
    low, high = power.noise.interval if power.noise else (None, None)
    rows = [{str(name): value for name, value in row.items()} for row in table.frame.to_dict("records")]
    return TimedTable(
        **_described(group, verdict),
        spec_digest=group.spec_digest,
        by=group.by,
        baseline=table.baseline,
        margin=table.margin,
        power=Power(
            deviation=power.noise.deviation if power.noise else None,
            deviation_low=low,
            deviation_high=high,
            of_control=bool(power.noise and power.noise.of_control),
            blocks=power.blocks,
            smallest=power.smallest,
            smallest_low=power.smallest_range[0],
            smallest_high=power.smallest_range[1],
            launches=power.launches,
            launches_low=power.launches_range[0],
            launches_high=power.launches_range[1],
        ),
        cells=[_cell(row, [name for name, places in marked.items() if at in places]) for at, row in enumerate(rows)],
        why=explanations(table),
        scalings=[_scaling(each) for each in table.scalings],
    )


def _scaling(found: Found) -> Scaling:
    points = [
        ScalingPoint(
            cell=point.row.cell.id,
            devices=point.devices,
            global_batch=point.global_batch,
            speed_up=_ratio(point.speed_up),
            efficiency=_ratio(point.efficiency),
        )
        for point in found.points
    ]
    return Scaling(kind=found.kind, framework=found.framework, strategy=found.strategy, points=points)


def _ratio(found: Formed) -> Ratio:
    return Ratio(**{each.name: getattr(found, each.name) for each in fields(Ratio)})


def _devices(row: Mapping[str, Any]) -> Devices:
    shares = {end: _number(row[f"communication_percent{end}"]) for end in ("", "_min", "_max")}
    value, low, high = (None if share is None else share / 100 for share in shares.values())
    return Devices(
        devices=int(row["devices"]),
        strategy=row["strategy"],
        global_batch=_whole(row["global_batch"]),
        threads_per_device=row["threads_per_device"],
        communication=None if value is None else Interval(value=value, low=low, high=high),
        **{name: _number(row[name]) for name in ("skew", "allreduce_bytes_per_s", "allreduce_of_peak")},
    )


def _described(group: Group, verdict: str) -> dict[str, Any]:
    return {
        "workload": group.workload,
        "size": group.size,
        "title": f"{group.workload}, size {group.size}, {group.data_words}: {group.constant}",
        "verdict": verdict,
        "data_kind": group.data_kind,
        "data_digest": group.data_digest,
    }


def _cell(row: Mapping[str, Any], best_columns: Sequence[str]) -> Cell:
    number: dict[str, Any] = {name: _number(value) for name, value in row.items()}
    ratio: dict[str, Any] = {
        name: number[f"ratio{end}"] for name, end in (("value", ""), ("low", "_min"), ("high", "_max"), ("p", "_p"))
    }
    control: dict[str, Any] = {
        name: number[f"control_{end}"] for name, end in (("value", "ratio"), ("low", "min"), ("high", "max"))
    }
    return Cell(
        settings={name: row[name] for name in SETTINGS if name not in ON_DEMAND} | {"size": row["size"]},
        samples_per_s=_spread(row, "samples_per_s", ("", "_min", "_max")),
        ratio=Ratio(
            **ratio,
            **{name: row[f"ratio_{name}"] for name in ("blocks", "baseline", "verdict", "reason", "caveat")},
            blocks_to_decide=_whole(row["ratio_blocks_to_decide"]),
        ),
        devices=_devices(row),
        control=Control(**control, verdict=row["control_verdict"]) if control["value"] is not None else None,
        step_ms=_spread(row, "step_ms", ("_median", "_q1", "_q3")),
        loader_efficiency=number["train_of_compute"],
        bottleneck=Bottleneck(
            kind=row["bottleneck"],
            detail=row["bottleneck_detail"],
            loading=number["loading_share"],
            low=number["loading_share_low"],
            high=number["loading_share_high"],
            advice=row["advice"],
            symptoms=row["symptoms"],
        ),
        peak_memory_bytes=_whole(row["peak_memory_bytes"]),
        identity=Identity(
            kind=row["identity_kind"],
            text=row["identity"],
            losses_deviation=number["identity_losses_deviation"],
            updates_deviation=number["identity_updates_deviation"],
        ),
        metrics={name: number[name] for _, name, _ in MONITORED},
        best=list(best_columns),
        **{name: number[name] for name in ("first_step_s", "compile_s", "break_even_steps")},
        **{name: row[name] for name in ("cell", "framework", "launches", "launches_ok", "peak_memory_kind")},
        **{name: row[name] for name in ("outcome", "reason", "flags", "batch_search", "machine")},
    )


def _trained(table: Learned, verdict: str) -> AccuracyTable:
    rows = [{str(name): value for name, value in row.items()} for row in table.frame.to_dict("records")]
    return AccuracyTable(
        **_described(table.group, verdict),
        recipe_digest=table.group.spec_digest,
        baseline=table.baseline,
        cells=[_trained_cell(row) for row in rows],
    )


def _trained_cell(row: Mapping[str, Any]) -> TrainedCell:
    spreads = (
        "epochs_to_target",
        "seconds_to_target",
        "train_s",
        "evaluation_s",
        "samples_per_s",
        "energy_j_to_target",
    )
    plain = ("run", "cell", "framework", "precision", "batch", "recipe", "seeds", "seeds_ok", "reached")
    known: dict[str, Any] = {name: _spread(row, name, ("", "_min", "_max")) for name in spreads}
    known |= {name: _number(row[name]) for name in ("accuracy", "accuracy_low", "accuracy_high", "target")}
    return TrainedCell(
        **known,
        **{name: row[name] for name in (*plain, "identity", "outcome", "flags", "machine")},
        epochs=_whole(row["epochs"]),
        to_baseline=_difference(row, ""),
        to_fp32=_difference(row, "fp32_"),
    )


def _difference(row: Mapping[str, Any], prefix: str) -> Difference | None:
    if not row[f"{prefix}verdict"]:
        return None
    names = ("value", "low", "high", "p_differs", "p_same")
    figures = {name: float(row[f"{prefix}difference_{name}"]) for name in names}
    return Difference(**figures, seeds=int(row[f"{prefix}difference_seeds"]), verdict=row[f"{prefix}verdict"])


def _spread(row: Mapping[str, Any], name: str, ends: tuple[str, str, str]) -> Spread:
    median, low, high = (_number(row[name + end]) for end in ends)
    return Spread(median=median, low=low, high=high)


def _number(value: Any) -> float | None:
    """Returns the number; None for a missing one, which a frame may hold as NaN."""
    known = isinstance(value, (int, float)) and math.isfinite(value)
    return float(value) if known else None


def _whole(value: Any) -> int | None:
    number = _number(value)
    return None if number is None else int(number)
