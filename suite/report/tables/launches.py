"""Every launch as a row: `launches.csv`, `launches.parquet` with types, and results/SCHEMA.md on all columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from sys import intern
from typing import Any

from suite.analysis.records.load import Launch
from suite.analysis.records.machines import Machines
from suite.analysis.rows.blocks import flags_of
from suite.analysis.rows.conditions import tuning
from suite.analysis.rows.wording import NONE
from suite.analysis.statistics.inference import quartiles
from suite.analysis.statistics.serving import FIGURES
from suite.catalog.metrics import METRICS
from suite.catalog.phases import PHASES
from suite.catalog.setting import TEXT, WHOLE
from suite.catalog.settings import SETTINGS
from suite.plan.settings.tunings import OTHER
from suite.record.record import Phase, Record
from suite.record.text import clean
from suite.report.tables import inference
from suite.report.tables.columns import FLAG, NUMBER, Column

#: Version of the columns. It grows when a column is removed or changes its meaning, not when one is added.
SCHEMA = 1

#: The settings whose columns come first.
FIRST = ("workload", "size", "framework", "precision", "batch")


def _of_metric(name: str) -> Column:
    metric = METRICS[name]
    return _of_record(name, metric.value, NUMBER, metric.unit, metric.meaning)


def _of_setting(name: str) -> Column:
    setting = SETTINGS[name]

    def read(record: Record) -> Any:
        return setting.cell_value(getattr(record.cell, name))

    return _of_record(name, read, setting.kind, setting.unit, setting.meaning)


def _of_record(name: str, read: Callable[[Record], Any], form: str, unit: str, meaning: str) -> Column:
    return Column(name, lambda launch: read(launch.record), form, unit, meaning)


def _text(facts: Mapping[str, Any], name: str, limit: int = 80) -> str:
    return intern(clean(facts.get(name, ""), limit))  # which many launches share


def _step_ms(phase: Phase) -> tuple[float, float, float]:
    return quartiles([1e3 * seconds for seconds in phase.step_times_s])


#: Of a phase: the end of a column's name, its value without the phase, its form, unit and meaning, and its reading.
OF_PHASE: tuple[tuple[str, Any, str, str, str, Callable[[Record, Phase], Any]], ...] = (
    ("samples_per_s", None, NUMBER, "samples/s", "{}: all samples divided by the total time of its windows",
     lambda record, phase: record.effective_batch / phase.step_s),
    ("step_ms_median", None, NUMBER, "ms", "median over the windows of the mean time per step",
     lambda _, phase: _step_ms(phase)[1]),
    ("step_ms_q1", None, NUMBER, "ms", "first quartile over the windows", lambda _, phase: _step_ms(phase)[0]),
    ("step_ms_q3", None, NUMBER, "ms", "third quartile over the windows", lambda _, phase: _step_ms(phase)[2]),
    ("windows", 0, WHOLE, "windows", "number of timed windows", lambda _, phase: len(phase.windows)),
    ("warmup_windows", 0, WHOLE, "windows", "number of warm-up windows before them, which are not timed",
     lambda _, phase: len(phase.warmup)),
    ("steady", None, FLAG, "", "whether the windows were steady: their two halves agreed",
     lambda _, phase: phase.steady),
)  # fmt: skip


def _of_phase(phase: str, words: str) -> list[Column]:
    def reader(read: Callable[[Record, Phase], Any], missing: Any) -> Callable[[Record], Any]:
        return lambda record: read(record, record.phases[phase]) if phase in record.phases else missing

    return [
        _of_record(f"{phase}_{end}", reader(read, missing), form, unit, meaning.format(words))
        for end, missing, form, unit, meaning, read in OF_PHASE
    ]


def _communication(record: Record) -> float | None:
    local, compute = record.phases.get("local"), record.phases.get("compute")
    return 100 * (1 - local.step_s / compute.step_s) if local and compute else None


def _seed(record: Record) -> int | None:
    seed = record.run.get("seed")
    return seed if isinstance(seed, int) else None


def _of_course(name: str, read: Callable[[Any], Any], form: str, unit: str, meaning: str) -> Column:
    return _of_record(name, lambda record: read(record.course) if record.course else None, form, unit, meaning)


COLUMNS: tuple[Column, ...] = (
    Column("schema", lambda _: SCHEMA, WHOLE, "", "version of these columns"),
    Column("run", lambda launch: launch.run, TEXT, "", "id of the run"),
    Column("source", lambda launch: launch.source, TEXT, "", "name of the file that held the launch"),
    _of_record("cell", lambda record: intern(record.cell.id), TEXT, "", "all settings in one readable id"),
    *map(_of_setting, FIRST),
    _of_record("effective_batch", lambda record: record.effective_batch or None, WHOLE, "samples",
               "samples per update of all devices: batch times accumulate times devices, or what the search found"),
    *(_of_setting(name) for name in SETTINGS if name not in (*FIRST, "recipe")),
    _of_record("global_batch", lambda record: record.effective_batch or None, WHOLE, "samples",
               "another name of `effective_batch`"),
    _of_setting("recipe"),
    _of_record("launch", lambda record: record.block, WHOLE, "",
               "block that the launch ran in, from 0; ratios are formed within blocks"),
    _of_record("control", lambda record: record.control, FLAG, "",
               "whether the launch belongs to the A/A control, a second copy of its cell"),
    _of_record("started", lambda record: clean(record.started, 40), TEXT, "ISO 8601, UTC",
               "when the process was started"),
    _of_record("status", lambda record: record.outcome.status, TEXT, "", "`ok`, or how else the launch ended"),
    _of_record("reason", lambda record: clean(record.outcome.reason), TEXT, "", "reason, if the status is not `ok`"),
    _of_record("flags", lambda record: " ".join(flags_of(record)), TEXT, "",
               "problems while it ran, separated by spaces"),
    _of_record("data_kind", lambda record: _text(record.data, "kind", 20), TEXT, "", "`real` or `synthetic`"),
    _of_record("data_digest", lambda record: _text(record.data, "digest"), TEXT, "SHA-256", "digest of the data"),
    _of_record("spec_digest", lambda record: _text(record.workload, "digest"), TEXT, "SHA-256",
               "digest of the sizes and hyperparameters"),
    _of_record("environment_digest", lambda record: _text(record.environment, "digest"), TEXT, "SHA-256",
               "digest of all installed packages and versions"),
    Column("machine", form=TEXT, meaning="processor, cores, GPUs"),  # which takes all launches to name
    *(column for each in PHASES.values() if each.of_every_cell for column in _of_phase(each.name, each.meaning)),
    *_of_phase("local", f"{PHASES['local'].meaning}, of several devices")[:2],
    _of_record("communication_percent", _communication, NUMBER, "%",
               "share of a step of `compute` that communication costs; negative if steps without it took longer"),
    _of_record("skew", lambda record: record.ranks.skew if record.ranks else None, NUMBER, "times",
               "step of the slowest process without communication relative to the median one"),
    _of_metric("first_step_s"),
    _of_metric("compile_s"),
    _of_record("seed", _seed, WHOLE, "", "seed of weights, order, augmentation and dropout"),
    _of_course("epochs", lambda course: len(course.epochs), WHOLE, "epochs",
               "epochs trained; this and the next two columns are empty if steps were timed"),
    _of_course("test_accuracy", lambda course: course.final_accuracy if course.finished else None, NUMBER, "share",
               "accuracy on the whole test split after the last epoch"),
    _of_course("seconds_to_target", lambda course: course.seconds_to_target, NUMBER, "s",
               "training time until the target accuracy was reached; empty if it was not"),
)  # fmt: skip


def _inference(record: Record) -> dict[str, Any]:
    values = {name: value for name, read in FIGURES.items() if record.inference and (value := read(record))}
    return {"requests": record.inference.requests, **values} if record.inference else {}


def _profile(record: Record) -> dict[str, float]:
    if not record.profile:
        return {}
    parts = {name.replace(" ", "_").replace("-", "_"): each for name, each in record.profile.categories.items()}
    return {"step_ms": 1e3 * record.profile.step_s} | {f"{name}_ms": 1e3 * part.seconds for name, part in parts.items()}


#: Columns by the prefix of their names, for values that not every framework and device has, by the rest of the name.
FAMILIES = (
    _of_record("startup_", lambda record: {clean(name, 40): seconds for name, seconds in record.startup.items()},
               NUMBER, "s", "time from the start to the first step, by part: `startup_import_s` and others"),
    _of_record("memory_", lambda record: {clean(name, 40): size for name, size in record.memory.items()},
               WHOLE, "bytes", "memory by kind: `memory_rss_peak_bytes`, `memory_allocator_peak_bytes` and others"),
    _of_record("infer_", _inference, NUMBER, "in the name",
               "inference of launches that measured it: `infer_samples_per_s`, `infer_loaded_samples_per_s`, "
               "`infer_latency_ms_median`, `_p95`, `_p99`, `_worst` of `infer_requests`, `infer_first_request_ms`, "
               "`infer_first_batch_ms`, `infer_memory_bytes`; see `inference.csv` below"),
    _of_record("profile_", _profile, NUMBER, "ms",
               "time of a profiled step, `profile_step_ms`, and of its categories: `profile_matrix_product_ms` "
               "and others"),
)  # fmt: skip


def columns() -> list[Column]:
    """Returns all columns but those of `FAMILIES`; metrics that a launch has are the last."""
    known = {each.name for each in COLUMNS}
    return [*COLUMNS, *(_of_metric(name) for name, each in METRICS.items() if each.launches and name not in known)]


def column(name: str) -> Column:
    """Returns the definition of a column, by its name or its prefix."""
    exact = (each for each in columns() if each.name == name)
    return next(exact, None) or next(each for each in FAMILIES if name.startswith(each.name))


#: The order of the phases of a worker's start; others follow.
PARTS = ("interpreter_s", "import_s", "data_s", "build_s", "first_batch_s")


def launch_table(loaded: Iterable[Launch]) -> dict[str, list[Any]]:
    """Returns a value per launch, failed ones included, by column; rows of them would take several times the memory."""
    declared, launches = columns(), list(loaded)
    table: dict[str, list[Any]] = {each.name: list(map(each.read, launches)) for each in declared}
    machines = Machines((launch.run, launch.record) for launch in launches)
    table["machine"] = [intern(machines.name(launch.run, launch.record)) for launch in launches]
    older = {launch.run for launch in launches if tuning(launch.record) == OTHER}
    table["tuning"] = [tuning(launch.record, launch.run in older) for launch in launches]
    for each in FAMILIES:
        of_launches = [each.read(launch) for launch in launches]
        for rest in dict.fromkeys(rest for values in of_launches for rest in values):
            table[f"{each.name}{rest}"] = [values.get(rest) for values in of_launches]
    order = {name: at for at, name in enumerate([*(each.name for each in declared), *(f"startup_{x}" for x in PARTS)])}
    names = sorted(table, key=lambda name: (order.get(name, len(order)), not name.startswith("startup_"), name))
    return {name: table[name] for name in names}


def write_parquet(table: Mapping[str, Sequence[Any]], path: Path) -> None:
    """Write the columns with their types, units and version. Raises `ImportError` without pyarrow."""
    import pyarrow as pa
    from pyarrow import parquet

    types = {TEXT: pa.string(), WHOLE: pa.int64(), NUMBER: pa.float64(), FLAG: pa.bool_()}
    kinds, arrays = [], []
    for name, values in table.items():
        declared = column(name)
        kind, known = types[declared.form], values
        kinds.append(pa.field(name, kind, metadata={"unit": declared.unit, "meaning": declared.meaning}))
        if declared.form == WHOLE:
            known = [value if value is not None and abs(value) < 2**63 else None for value in values]
        arrays.append(pa.array(known, kind))
    schema = pa.schema(kinds, metadata={"suite_schema": str(SCHEMA)})
    parquet.write_table(pa.Table.from_arrays(arrays, schema=schema), path)


DOCUMENT = """\
# Every launch: `launches.csv`

Schema {schema}. One row per launch, failed ones included. A column that does not apply to a launch is
empty. A file in which no launch has a column that ends in `*` may lack that column. The version is in
the column `schema`, and in the metadata of the Parquet file as `suite_schema`. It grows when a column is
removed or changes its meaning, not when one is added.

`training-suite compare RUN --output DIR` also writes `launches.parquet`, the same table with typed
columns. One line loads either file:

```python
pandas.read_csv("launches.csv")
pandas.read_parquet("launches.parquet")
```

The records in journals and saved runs have a JSON Schema:
[record.schema.json](record.schema.json). The output of `training-suite compare --format json`, which has all
ratios, intervals and verdicts, has another one: [comparison.schema.json](comparison.schema.json).

| column | kind | unit | meaning |
|:--|:--|:--|:--|
{launches}

## Metrics of a cell

Columns of `cells.csv`, and keys of a cell's `metrics` in JSON. *Launch*: `launches.csv` has it too.

| column | unit | better | launch | meaning |
|:--|:--|:--|:--|:--|
{metrics}

## Inference

`inference.csv` has a row for each cell that served: `workload`, `size`, `run`, `cell`, `launches`, the
fewest `requests` of a launch, and these figures, each the median over launches with a 95 % interval in
`_low` and `_high`. Of `samples_per_s` and `latency_ms_median`, `_ratio`, its ends and `_verdict` say how
many times as fast the cell is as the one that its table compares with.

| column | unit | meaning |
|:--|:--|:--|
{served}

Made by `UPDATE_GOLDEN=1 pytest` from `suite/report/tables/launches.py` and
`suite/catalog/metrics.py`.
"""


def document_columns() -> str:
    """Returns the documentation of the columns in Markdown."""
    names = [*((each.name, each) for each in columns()), *((f"{each.name}*", each) for each in FAMILIES)]
    launches = [f"| `{name}` | {each.form} | {each.unit or NONE} | {each.meaning} |" for name, each in names]
    metrics = [
        f"| `{each.name}` | {each.unit or NONE} | {each.better or NONE} | {'yes' if each.launches else NONE} "
        f"| {each.meaning} |"
        for each in METRICS.values()
    ]
    served = [f"| `{each.name}` | {each.unit} | {each.meaning} |" for each in inference.COLUMNS]
    return DOCUMENT.format(
        schema=SCHEMA, launches="\n".join(launches), metrics="\n".join(metrics), served="\n".join(served)
    )
