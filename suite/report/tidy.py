"""Every launch as one row of a tidy table: `launches.csv`, or with typed columns `launches.parquet`.

The columns are documented in results/SCHEMA.md, which is generated from this module.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from sys import intern
from typing import Any

import pandas as pd

from suite.analysis.groups import machine
from suite.analysis.load import Launch
from suite.analysis.statistics import quartiles
from suite.analysis.wording import NONE
from suite.record.record import PHASES, Record
from suite.record.text import clean

#: Version of the columns. It grows when a column is removed or changes its meaning, not when one is added.
SCHEMA = 1

TEXT, WHOLE, NUMBER, FLAG = "text", "whole number", "number", "true or false"


@dataclass(frozen=True)
class Column:
    """``unit`` may be empty. A column that does not apply to a launch is empty there, never zero."""

    name: str
    kind: str
    unit: str
    meaning: str


def _of_phase(name: str, words: str) -> tuple[Column, ...]:
    return (
        Column(
            f"{name}_samples_per_s",
            NUMBER,
            "samples/s",
            f"{words}: all samples divided by the total time of its windows",
        ),
        Column(f"{name}_step_ms_median", NUMBER, "ms", "median over the windows of the mean time per step"),
        Column(f"{name}_step_ms_q1", NUMBER, "ms", "first quartile over the windows"),
        Column(f"{name}_step_ms_q3", NUMBER, "ms", "third quartile over the windows"),
        Column(f"{name}_windows", WHOLE, "windows", "number of timed windows"),
        Column(
            f"{name}_warmup_windows", WHOLE, "windows", "number of warm-up windows before them, which are not timed"
        ),
        Column(f"{name}_steady", FLAG, "", "whether the windows were steady: their two halves agreed"),
    )


COLUMNS = (
    Column("schema", WHOLE, "", "version of these columns"),
    Column("run", TEXT, "", "id of the run"),
    Column("source", TEXT, "", "name of the file that held the launch"),
    Column("cell", TEXT, "", "all settings in one readable id"),
    Column("workload", TEXT, "", "name of the workload"),
    Column("size", TEXT, "", "`full`, or `small`, a smaller network that is a workload of its own"),
    Column("framework", TEXT, "", "`pytorch`, `tensorflow` or `jax`"),
    Column("precision", TEXT, "", "number format"),
    Column("batch", WHOLE, "samples", "samples per step; empty if the largest batch that fits was searched for"),
    Column(
        "effective_batch",
        WHOLE,
        "samples",
        "samples per update: batch times accumulate, or the size that the search found",
    ),
    Column("compile", TEXT, "", "compile mode"),
    Column("loader", TEXT, "", "loader that made the batches"),
    Column("accumulate", WHOLE, "batches", "batches per update"),
    Column("kernel", TEXT, "", "kernel of the LSTM"),
    Column("recipe", TEXT, "", "recipe of a cell that trained to its end; empty if steps were timed"),
    Column("launch", WHOLE, "", "block that the launch ran in, from 0; ratios are formed within blocks"),
    Column("control", FLAG, "", "whether the launch belongs to the A/A control, a second copy of its cell"),
    Column("started", TEXT, "ISO 8601, UTC", "when the process was started"),
    Column("status", TEXT, "", "`ok`, or how else the launch ended"),
    Column("reason", TEXT, "", "reason, if the status is not `ok`"),
    Column("flags", TEXT, "", "problems while it ran, separated by spaces"),
    Column("data_kind", TEXT, "", "`real` or `synthetic`"),
    Column("data_digest", TEXT, "SHA-256", "digest of the data"),
    Column("spec_digest", TEXT, "SHA-256", "digest of the sizes and hyperparameters"),
    Column("environment_digest", TEXT, "SHA-256", "digest of all installed packages and versions"),
    Column("machine", TEXT, "", "processor, cores, GPUs"),
    *_of_phase("train", "training with its loader"),
    *_of_phase("compute", "the same steps on batches already on the device"),
    *_of_phase("input", "only the loader and the transfer to the device"),
    Column("first_step_s", NUMBER, "s", "time from everything being ready to the first loss, compiling included"),
    Column("compile_s", NUMBER, "s", "part of it that was spent compiling"),
    Column("seed", WHOLE, "", "seed of weights, order, augmentation and dropout"),
    Column("epochs", WHOLE, "epochs", "epochs trained; this and the following columns are empty if steps were timed"),
    Column("test_accuracy", NUMBER, "share", "accuracy on the whole test split after the last epoch"),
    Column(
        "seconds_to_target", NUMBER, "s", "training time until the target accuracy was reached; empty if it was not"
    ),
)

#: Columns by the prefix of their names, for values that not every framework and device has.
FAMILIES = (
    Column("startup_", NUMBER, "s", "time from the start to the first step, by part: `startup_import_s` and others"),
    Column(
        "memory_", WHOLE, "bytes", "memory by kind: `memory_rss_peak_bytes`, `memory_allocator_peak_bytes` and others"
    ),
    Column(
        "profile_",
        NUMBER,
        "ms",
        "time of a profiled step, `profile_step_ms`, and of its categories: `profile_matrix_product_ms` and others",
    ),
)

#: The order of the phases of a worker's start; others follow.
_PARTS = ("interpreter_s", "import_s", "data_s", "build_s", "first_batch_s")


def launches(loaded: Iterable[Launch]) -> pd.DataFrame:
    """Returns one row per launch, failed ones included; the columns of `COLUMNS`, then those of `FAMILIES`."""
    known = [each.name for each in COLUMNS]  # no name of a function: Python 3.12.1 would not find it below
    columns: dict[str, list[Any]] = {name: [] for name in known}
    count = 0
    # By columns, since rows of tens of thousands of launches take several times the memory.
    for count, launch in enumerate(loaded, 1):
        for name, value in _row(launch).items():
            values = columns.setdefault(name, [])
            values += [None] * (count - 1 - len(values))  # launches that did not have it
            values.append(value)
    first = [f"startup_{part}" for part in _PARTS]
    extra = columns.keys() - set(known)
    extra_names = sorted(
        extra, key=lambda name: (not name.startswith("startup_"), name not in first, _sort_key(name, first))
    )
    return pd.DataFrame({name: _series(name, columns.pop(name), count) for name in [*known, *extra_names]})


def column(name: str) -> Column:
    """Returns the definition of a column, by its name or its prefix."""
    return _NAMED.get(name) or next(each for each in FAMILIES if name.startswith(each.name))


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
        values = [_whole(value) for value in frame[name]] if definition.kind == WHOLE else frame[name]
        columns.append(pa.array(values, types[definition.kind], from_pandas=True))
    schema = pa.schema(fields, metadata={"suite_schema": str(SCHEMA)})
    parquet.write_table(pa.Table.from_arrays(columns, schema=schema), path)


def documented() -> str:
    """Returns the documentation of the columns in Markdown."""
    lines = ["| column | kind | unit | meaning |", "|:--|:--|:--|:--|"]
    for each in [*COLUMNS, *FAMILIES]:
        name = f"{each.name}*" if each in FAMILIES else each.name
        lines.append(f"| `{name}` | {each.kind} | {each.unit or NONE} | {each.meaning} |")
    return "\n".join(
        [
            "# Every launch: `launches.csv`",
            "",
            f"Schema {SCHEMA}. One row per launch, failed ones included. A column that does not apply to a launch is",
            "empty. A file in which no launch has a column that ends in `*` may lack that column. The version is in",
            "the column `schema`, and in the metadata of the Parquet file as `suite_schema`. It grows when a column is",
            "removed or changes its meaning, not when one is added.",
            "",
            "`python -m suite.compare RUN --output DIR` also writes `launches.parquet`, the same table with typed",
            "columns. One line loads either file:",
            "",
            "```python",
            'pandas.read_csv("launches.csv")',
            'pandas.read_parquet("launches.parquet")',
            "```",
            "",
            "The records in journals and saved runs have a JSON Schema:",
            "[record.schema.json](record.schema.json). The output of `suite.compare --format json`, which has all",
            "ratios, intervals and verdicts, has another one: [comparison.schema.json](comparison.schema.json).",
            "",
            *lines,
            "",
            "Made by `UPDATE_GOLDEN=1 pytest` from `suite/report/tidy.py`.",
            "",
        ]
    )


def _series(name: str, values: list[Any], count: int) -> Any:
    """Returns a column of ``count`` launches; missing values at the end are filled with None.

    Whole numbers stay whole even if some are missing; pandas would make them floats.
    """
    return pd.Series([*values, *[None] * (count - len(values))], dtype=_DTYPES[column(name).kind])


def _row(launch: Launch) -> dict[str, Any]:
    record, cell = launch.record, launch.record.cell
    row: dict[str, Any] = {
        "schema": SCHEMA,
        "run": launch.run,
        "source": launch.source,
        "cell": intern(cell.id),  # which many launches share
        "workload": cell.workload,
        "size": cell.size,
        "framework": cell.framework,
        "precision": cell.precision,
        "batch": cell.batch or None,
        "effective_batch": record.effective_batch or None,
        "compile": cell.compile,
        "loader": cell.loader.id,
        "accumulate": cell.accumulate,
        "kernel": cell.kernel,
        "recipe": cell.recipe,
        "launch": record.block,
        "control": record.control,
        "started": clean(record.started, 40),
        "status": record.outcome.status,
        "reason": clean(record.outcome.reason),
        "flags": " ".join(clean(flag, 40) for flag in record.flags),
        "data_kind": intern(clean(record.data.get("kind", ""), 20)),
        "data_digest": intern(clean(record.data.get("digest", ""), 80)),
        "spec_digest": intern(clean(record.workload.get("digest", ""), 80)),
        "environment_digest": intern(clean(record.environment.get("digest", ""), 80)),
        "machine": intern(machine(record)),
    }
    for name in PHASES:
        row |= _phase(record, name)
    row |= {"first_step_s": record.first_step_s, "compile_s": record.compile_s}
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


def _sort_key(name: str, first: Sequence[str]) -> Any:
    return (first.index(name), "") if name in first else (0, name)


def _whole(value: Any) -> int | None:
    """Returns the number as an integer; None for a missing one and for one beyond 64 bits."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    return int(value) if abs(value) < 2**63 else None


_NAMED = {column.name: column for column in COLUMNS}
_DTYPES: dict[str, Any] = {TEXT: None, WHOLE: object, NUMBER: float, FLAG: None}
