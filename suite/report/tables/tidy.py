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
from suite.catalog.setting import TEXT, WHOLE
from suite.report.tables.columns import FLAG, NUMBER, Column
from suite.report.tables.launch_columns import FAMILIES, SCHEMA, column, columns

#: The order of the phases of a worker's start; others follow.
PARTS = ("interpreter_s", "import_s", "data_s", "build_s", "first_batch_s")


def fields(launch: Launch, declared: Iterable[Column]) -> dict[str, Any]:
    """Returns the values of a launch by the names of their columns."""
    of_families = {f"{each.name}{rest}": value for each in FAMILIES for rest, value in each.read(launch).items()}
    return {each.name: each.read(launch) for each in declared} | of_families


def launch_frame(loaded: Iterable[Launch]) -> pd.DataFrame:
    """Returns one row per launch, failed ones included; the columns of `COLUMNS`, then those of `FAMILIES`."""
    declared = columns()
    values_by_name: dict[str, list[Any]] = {each.name: [] for each in declared}
    launches, count = list(loaded), 0
    machines = Machines((launch.run, launch.record) for launch in launches)
    # By columns, since rows of tens of thousands of launches take several times the memory.
    for count, launch in enumerate(launches, 1):
        machine = intern(machines.name(launch.run, launch.record))
        for name, value in (fields(launch, declared) | {"machine": machine}).items():
            values = values_by_name.setdefault(name, [])
            values += [None] * (count - 1 - len(values))  # launches that did not have it
            values.append(value)
    first = [f"startup_{part}" for part in PARTS]
    order = {name: at for at, name in enumerate([*(each.name for each in declared), *first])}
    names = sorted(
        values_by_name, key=lambda name: (order.get(name, len(order)), not name.startswith("startup_"), name)
    )
    return pd.DataFrame({name: _series(name, values_by_name.pop(name), count) for name in names})


def _series(name: str, values: list[Any], count: int) -> Any:
    """Returns a column of ``count`` launches; missing values at the end are filled with None.

    Whole numbers stay whole even if some are missing; pandas would make them floats.
    """
    return pd.Series([*values, *[None] * (count - len(values))], dtype=_DTYPES[column(name).form])


_DTYPES: dict[str, Any] = {TEXT: None, WHOLE: object, NUMBER: float, FLAG: None}


def write_parquet(frame: pd.DataFrame, path: Path) -> None:
    """Write the frame with typed columns and their version as metadata. Raises `ImportError` without pyarrow."""
    import pyarrow as pa
    from pyarrow import parquet

    types = {TEXT: pa.string(), WHOLE: pa.int64(), NUMBER: pa.float64(), FLAG: pa.bool_()}
    kinds, values_of = [], []
    for name in frame.columns:
        declared = column(name)
        metadata = {"unit": declared.unit, "meaning": declared.meaning}
        kinds.append(pa.field(name, types[declared.form], metadata=metadata))
        values = [_to_integer(value) for value in frame[name]] if declared.form == WHOLE else frame[name]
        values_of.append(pa.array(values, types[declared.form], from_pandas=True))
    schema = pa.schema(kinds, metadata={"suite_schema": str(SCHEMA)})
    parquet.write_table(pa.Table.from_arrays(values_of, schema=schema), path)


def _to_integer(value: Any) -> int | None:
    """Returns the number as an integer; None for a missing one and for one beyond 64 bits."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    return int(value) if abs(value) < 2**63 else None
