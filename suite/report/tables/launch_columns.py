"""The columns of `launches.csv`: name, kind, unit and meaning of each, and where a launch has it.

results/SCHEMA.md is made from them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from sys import intern
from typing import Any

from suite.analysis.records.hardware import machine
from suite.analysis.records.load import Launch
from suite.analysis.rows.groups import flags_of
from suite.analysis.rows.wording import NONE
from suite.catalog.metrics import METRICS, Metric
from suite.catalog.phases import PHASES
from suite.catalog.setting import TEXT, WHOLE
from suite.catalog.settings import SETTINGS
from suite.record.text import clean
from suite.report.tables import inference

#: Version of the columns. It grows when a column is removed or changes its meaning, not when one is added.
SCHEMA = 1

NUMBER, FLAG = "number", "true or false"


@dataclass(frozen=True)
class Column:
    """``unit`` may be empty. A column that does not apply to a launch is empty there, never zero.

    ``read`` returns its value of a launch; those that not every launch has are added by `_row`.
    """

    name: str
    kind: str
    unit: str
    meaning: str
    read: Callable[[Launch], Any] | None = None


def of_metric(metric: Metric) -> Column:
    """Returns the column of a metric."""
    return Column(metric.name, NUMBER, metric.unit, metric.meaning, lambda launch: metric.value(launch.record))


#: The settings whose columns come first.
FIRST = ("workload", "size", "framework", "precision", "batch")


def of_setting(name: str) -> Column:
    """Returns the column of a setting."""
    setting = SETTINGS[name]
    return Column(
        name, setting.kind, setting.unit, setting.meaning,
        lambda launch: setting.cell_value(getattr(launch.record.cell, name)),
    )  # fmt: skip


def _text(facts: Mapping[str, Any], name: str, limit: int = 80) -> str:
    return intern(clean(facts.get(name, ""), limit))  # which many launches share


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


COLUMNS: tuple[Column, ...] = (
    Column("schema", WHOLE, "", "version of these columns", lambda _: SCHEMA),
    Column("run", TEXT, "", "id of the run", lambda launch: launch.run),
    Column("source", TEXT, "", "name of the file that held the launch", lambda launch: launch.source),
    Column("cell", TEXT, "", "all settings in one readable id", lambda launch: intern(launch.record.cell.id)),
    *map(of_setting, FIRST),
    Column("effective_batch", WHOLE, "samples",
        "samples per update of all devices: batch times accumulate times devices, or what the search found",
        lambda launch: launch.record.effective_batch or None),
    *(of_setting(name) for name in SETTINGS if name not in (*FIRST, "recipe")),
    Column("global_batch", WHOLE, "samples", "another name of `effective_batch`",
           lambda launch: launch.record.effective_batch or None),
    of_setting("recipe"),
    Column("launch", WHOLE, "", "block that the launch ran in, from 0; ratios are formed within blocks",
           lambda launch: launch.record.block),
    Column("control", FLAG, "", "whether the launch belongs to the A/A control, a second copy of its cell",
           lambda launch: launch.record.control),
    Column("started", TEXT, "ISO 8601, UTC", "when the process was started",
           lambda launch: clean(launch.record.started, 40)),
    Column("status", TEXT, "", "`ok`, or how else the launch ended", lambda launch: launch.record.outcome.status),
    Column("reason", TEXT, "", "reason, if the status is not `ok`", lambda launch: clean(launch.record.outcome.reason)),
    Column("flags", TEXT, "", "problems while it ran, separated by spaces",
           lambda launch: " ".join(flags_of(launch.record))),
    Column("data_kind", TEXT, "", "`real` or `synthetic`", lambda launch: _text(launch.record.data, "kind", 20)),
    Column("data_digest", TEXT, "SHA-256", "digest of the data", lambda launch: _text(launch.record.data, "digest")),
    Column("spec_digest", TEXT, "SHA-256", "digest of the sizes and hyperparameters",
           lambda launch: _text(launch.record.workload, "digest")),
    Column("environment_digest", TEXT, "SHA-256", "digest of all installed packages and versions",
           lambda launch: _text(launch.record.environment, "digest")),
    Column("machine", TEXT, "", "processor, cores, GPUs", lambda launch: intern(machine(launch.record))),
    *(column for each in PHASES.values() if each.of_every_cell for column in _of_phase(each.name, each.meaning)),
    Column("local_samples_per_s", NUMBER, "samples/s",
        f"{PHASES['local'].meaning}, of several devices"),
    Column("local_step_ms_median", NUMBER, "ms", "median over the windows of the mean time per step"),
    Column("communication_percent", NUMBER, "%",
        "share of a step of `compute` that communication costs; negative if steps without it took longer"),
    Column("skew", NUMBER, "times", "step of the slowest process without communication relative to the median one"),
    of_metric(METRICS["first_step_s"]),
    of_metric(METRICS["compile_s"]),
    Column("seed", WHOLE, "", "seed of weights, order, augmentation and dropout"),
    Column("epochs", WHOLE, "epochs", "epochs trained; this and the next two columns are empty if steps were timed"),
    Column("test_accuracy", NUMBER, "share", "accuracy on the whole test split after the last epoch"),
    Column("seconds_to_target", NUMBER, "s",
        "training time until the target accuracy was reached; empty if it was not"),
)  # fmt: skip

#: Columns by the prefix of their names, for values that not every framework and device has.
FAMILIES = (
    Column("startup_", NUMBER, "s", "time from the start to the first step, by part: `startup_import_s` and others"),
    Column(
        "memory_", WHOLE, "bytes", "memory by kind: `memory_rss_peak_bytes`, `memory_allocator_peak_bytes` and others"
    ),
    Column(
        "infer_",
        NUMBER,
        "in the name",
        "inference of launches that measured it: `infer_samples_per_s`, `infer_loaded_samples_per_s`, "
        "`infer_latency_ms_median`, `_p95`, `_p99`, `_worst` of `infer_requests`, `infer_first_request_ms`, "
        "`infer_first_batch_ms`, `infer_memory_bytes`; see `inference.csv` below",
    ),
    Column(
        "profile_",
        NUMBER,
        "ms",
        "time of a profiled step, `profile_step_ms`, and of its categories: `profile_matrix_product_ms` and others",
    ),
)


def columns() -> list[Column]:
    """Returns all columns but those of `FAMILIES`; metrics that a launch has are the last."""
    known = {each.name for each in COLUMNS}
    return [*COLUMNS, *(of_metric(each) for each in METRICS.values() if each.launches and each.name not in known)]


def column(name: str) -> Column:
    """Returns the definition of a column, by its name or its prefix."""
    exact = (each for each in columns() if each.name == name)
    return next(exact, None) or next(each for each in FAMILIES if name.startswith(each.name))


def document_columns() -> str:
    """Returns the documentation of the columns in Markdown."""
    lines = ["| column | kind | unit | meaning |", "|:--|:--|:--|:--|"]
    for each in [*columns(), *FAMILIES]:
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
            "## Metrics of a cell",
            "",
            "Columns of `cells.csv`, and keys of a cell's `metrics` in JSON. *Launch*: `launches.csv` has it too.",
            "",
            "| column | unit | better | launch | meaning |",
            "|:--|:--|:--|:--|:--|",
            *(
                f"| `{each.name}` | {each.unit or NONE} | {each.better or NONE} | {'yes' if each.launches else NONE} "
                f"| {each.meaning} |"
                for each in METRICS.values()
            ),
            "",
            "## Inference",
            "",
            "`inference.csv` has a row for each cell that served: `workload`, `size`, `run`, `cell`, `launches`, the",
            "fewest `requests` of a launch, and these figures, each the median over launches with a 95 % interval in",
            "`_low` and `_high`. Of `samples_per_s` and `latency_ms_median`, `_ratio`, its ends and `_verdict` say how",
            "many times as fast the cell is as the one that its table compares with.",
            "",
            *inference.document_columns(),
            "",
            "Made by `UPDATE_GOLDEN=1 pytest` from `suite/report/tables/launch_columns.py` and",
            "`suite/catalog/metrics.py`.",
            "",
        ]
    )
