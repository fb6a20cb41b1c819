"""Every launch as one row of a tidy table: `launches.csv`, or with typed columns `launches.parquet`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from sys import intern
from typing import Any

import pandas as pd

from suite.analysis.records.load import Launch
from suite.analysis.records.machines import Machines
from suite.analysis.statistics.inference import quartiles
from suite.analysis.statistics.serving import FIGURES
from suite.catalog.setting import TEXT, WHOLE
from suite.record.record import PHASES, Record
from suite.record.text import clean
from suite.report.tables.launch_columns import FLAG, NUMBER, SCHEMA, Column, column, columns

#: The order of the phases of a worker's start; others follow.
_PARTS = ("interpreter_s", "import_s", "data_s", "build_s", "first_batch_s")


def launch_frame(loaded: Iterable[Launch]) -> pd.DataFrame:
    """Returns one row per launch, failed ones included; the columns of `COLUMNS`, then those of `FAMILIES`."""
    declared = columns()
    known = [each.name for each in declared]  # no name of a function: Python 3.12.1 would not find it below
    values_by_name: dict[str, list[Any]] = {name: [] for name in known}
    launches, count = list(loaded), 0
    machines = Machines((launch.run, launch.record) for launch in launches)
    # By columns, since rows of tens of thousands of launches take several times the memory.
    for count, launch in enumerate(launches, 1):
        machine = intern(machines.name(launch.run, launch.record))
        for name, value in (_row(launch, declared) | {"machine": machine}).items():
            values = values_by_name.setdefault(name, [])
            values += [None] * (count - 1 - len(values))  # launches that did not have it
            values.append(value)
    first = [f"startup_{part}" for part in _PARTS]
    extra = values_by_name.keys() - set(known)
    extra_names = sorted(
        extra,
        key=lambda name: (
            not name.startswith("startup_"),
            name not in first,
            first.index(name) if name in first else 0,
            name,
        ),
    )
    return pd.DataFrame({name: _series(name, values_by_name.pop(name), count) for name in [*known, *extra_names]})


def write_parquet(frame: pd.DataFrame, path: Path) -> None:
    """Write the frame with typed columns and their version as metadata. Raises `ImportError` without pyarrow."""
    import pyarrow as pa
    from pyarrow import parquet

    types = {TEXT: pa.string(), WHOLE: pa.int64(), NUMBER: pa.float64(), FLAG: pa.bool_()}
    fields, columns = [], []
    for name in frame.columns:
        definition = column(name)
        metadata = {"unit": definition.unit, "meaning": definition.meaning}
        fields.append(pa.field(name, types[definition.kind], metadata=metadata))
        values = [_to_integer(value) for value in frame[name]] if definition.kind == WHOLE else frame[name]
        columns.append(pa.array(values, types[definition.kind], from_pandas=True))
    schema = pa.schema(fields, metadata={"suite_schema": str(SCHEMA)})
    parquet.write_table(pa.Table.from_arrays(columns, schema=schema), path)


def _series(name: str, values: list[Any], count: int) -> Any:
    """Returns a column of ``count`` launches; missing values at the end are filled with None.

    Whole numbers stay whole even if some are missing; pandas would make them floats.
    """
    return pd.Series([*values, *[None] * (count - len(values))], dtype=_DTYPES[column(name).kind])


def _row(launch: Launch, declared: Iterable[Column]) -> dict[str, Any]:
    record = launch.record
    row = {each.name: each.read(launch) for each in declared if each.read}
    for name in PHASES:
        row |= _phase(record, name)
    row |= _of_several(record)
    if record.inference:
        values = {f"infer_{name}": read(record) for name, read in FIGURES.items()}
        row |= {"infer_requests": record.inference.requests, **{n: value for n, value in values.items() if value}}
    seed, course = record.run.get("seed"), record.course
    row["seed"] = seed if isinstance(seed, int) else None
    if course:
        row |= {"epochs": len(course.epochs), "seconds_to_target": course.seconds_to_target}
        row["test_accuracy"] = course.final_accuracy if course.finished else None
    row |= {f"startup_{clean(name, 40)}": seconds for name, seconds in record.startup.items()}
    if profile := record.profile:
        row["profile_step_ms"] = 1e3 * profile.step_s
        for name, share in profile.categories.items():
            row[f"profile_{name.replace(' ', '_').replace('-', '_')}_ms"] = 1e3 * share.seconds
    return row | {f"memory_{clean(name, 40)}": size for name, size in record.memory.items()}


def _phase(record: Record, name: str) -> dict[str, Any]:
    phase = record.phases.get(name)
    if not phase:
        return {f"{name}_windows": 0, f"{name}_warmup_windows": 0}
    q1, middle, q3 = quartiles([1e3 * t for t in phase.step_times_s])
    return {
        f"{name}_samples_per_s": record.effective_batch / phase.step_s,
        f"{name}_step_ms_median": middle,
        f"{name}_step_ms_q1": q1,
        f"{name}_step_ms_q3": q3,
        f"{name}_windows": len(phase.windows),
        f"{name}_warmup_windows": len(phase.warmup),
        f"{name}_steady": phase.steady,
    }


def _of_several(record: Record) -> dict[str, Any]:
    """Returns the columns that only cells of several devices have."""
    row: dict[str, Any] = {"skew": record.ranks.skew} if record.ranks else {}
    if local := record.phases.get("local"):
        _, middle, _ = quartiles([1e3 * t for t in local.step_times_s])
        row |= {"local_samples_per_s": record.effective_batch / local.step_s, "local_step_ms_median": middle}
        if compute := record.phases.get("compute"):
            row["communication_percent"] = 100 * (1 - local.step_s / compute.step_s)
    return row


def _to_integer(value: Any) -> int | None:
    """Returns the number as an integer; None for a missing one and for one beyond 64 bits."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    return int(value) if abs(value) < 2**63 else None


_DTYPES: dict[str, Any] = {TEXT: None, WHOLE: object, NUMBER: float, FLAG: None}
