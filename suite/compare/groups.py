"""Which launches make a row, and which rows may stand in one table.

Rows that differ in workload, size, or the digest of the data or the spec answer different questions: they get tables of
their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from suite.cell import COMPILES, FRAMEWORKS, KERNELS, LOADERS, PRECISIONS, SIZES, WORKLOADS, Cell
from suite.compare.load import Launch
from suite.compare.text import clean, middle
from suite.record import STATUSES, Record

#: The settings of a row besides its framework, in the order of their columns.
SETTINGS: dict[str, Callable[[Row], str]] = {
    "run": lambda row: row.run,
    "precision": lambda row: row.cell.precision,
    "batch": lambda row: row.batch,
    "compile": lambda row: row.cell.compile,
    "loader": lambda row: row.cell.loader.id,
    "accumulate": lambda row: str(row.cell.accumulate),
    "kernel": lambda row: row.cell.kernel,
}

#: How a setting is written where all rows share it; nothing is said of one that is at its default everywhere.
WORDS = {
    "run": "run {}",
    "precision": "{}",
    "batch": "batch {}",
    "compile": "{}",
    "loader": "loader {}",
    "accumulate": "accumulating {}",
    "kernel": "LSTM kernel {}",
}
DEFAULTS = {"accumulate": "1", "kernel": "auto"}

RowKey = tuple[str, Cell]


@dataclass(frozen=True)
class Row:
    """All launches of one cell in one run. Launches of two runs are never pooled: other days, other machines."""

    run: str
    cell: Cell
    launches: tuple[Launch, ...]
    control: tuple[Launch, ...] = ()  # a second copy of the cell, in the same blocks

    @property
    def key(self) -> RowKey:
        return self.run, self.cell

    @property
    def ok(self) -> list[Record]:
        """The launches that ended well, by block."""
        return sorted((x.record for x in self.launches if x.record.outcome.ok), key=lambda record: record.launch)

    @property
    def batch(self) -> str:
        """The cell's, or ``auto`` and what was found."""
        found = sorted({record.effective_batch // record.cell.accumulate for record in self.ok})
        return str(self.cell.batch or " ".join(["auto", *map(str, found)]))

    @property
    def outcome(self) -> str:
        """``ok``, or for instance ``out-of-memory``, or ``ok 2, timeout 1`` where launches ended differently."""
        counts = Counter(x.record.outcome.status for x in self.launches)
        ordered = sorted(counts, key=STATUSES.index)
        return ordered[0] if len(ordered) == 1 else ", ".join(f"{status} {counts[status]}" for status in ordered)

    @property
    def reasons(self) -> list[str]:
        """Why launches did not end well, each reason once."""
        failed = [x.record.outcome for x in self.launches if not x.record.outcome.ok]
        return list(dict.fromkeys(f"{o.status}: {clean(o.reason) or 'no reason was recorded'}" for o in failed))

    @property
    def flags(self) -> list[str]:
        """What the launches are flagged with, each with the number of launches where it is not all of them."""
        counts = Counter(flag for x in self.launches for flag in dict.fromkeys(_flags(x.record)))
        n = len(self.launches)
        return [flag if count == n else f"{flag} {count}/{n}" for flag, count in sorted(counts.items())]

    @property
    def machine(self) -> str:
        """Processor, cores and GPUs that the launches ran on, as recorded; empty if they say nothing."""
        machines = dict.fromkeys(machine(x.record) for x in self.launches)
        return "; ".join(each for each in machines if each)


@dataclass(frozen=True)
class Group:
    """Rows of one workload, size, data and spec. ``data_kind`` is ``real``, ``synthetic`` or ``unknown``."""

    workload: str
    size: str
    data_kind: str
    data_digest: str
    spec_digest: str
    rows: tuple[Row, ...]

    @cached_property
    def varying(self) -> list[str]:
        """The settings besides the framework in which the rows differ."""
        return [name for name, read in SETTINGS.items() if len({read(row) for row in self.rows}) > 1]

    @property
    def constant(self) -> str:
        """The settings that all rows share, in words."""
        one = {name: read(self.rows[0]) for name, read in SETTINGS.items() if name not in self.varying}
        return ", ".join(WORDS[name].format(value) for name, value in one.items() if value != DEFAULTS.get(name))

    @property
    def data_words(self) -> str:
        """Loud where the data are not the real ones."""
        return {"real": "real data", "synthetic": "SYNTHETIC DATA"}.get(self.data_kind, "DATA OF UNKNOWN KIND")

    def label(self, row: Row, mark: str = " · ", without: Sequence[str] = ()) -> str:
        """The framework and the settings in which rows differ, but for those ``without``: ``jax · b128 · compile``."""
        forms = {"batch": "b{}", "accumulate": "a{}"}
        shown = [
            forms.get(name, "{}").format(middle(SETTINGS[name](row))) for name in self.varying if name not in without
        ]
        return mark.join([row.cell.framework, *shown])


def group(launches: Iterable[Launch]) -> list[Group]:
    """The groups in the order of `suite.cell`; within a group the rows by settings, then framework."""
    found: dict[tuple[str, ...], dict[RowKey, list[Launch]]] = {}
    # Those that know their data go first, so that the others find the table that they belong to.
    for launch in sorted(launches, key=lambda each: not each.record.data.get("digest")):
        place = _group_key(launch) if launch.record.data.get("digest") else _home(launch, found)
        found.setdefault(place, {}).setdefault((launch.run, launch.record.cell), []).append(launch)
    groups = []
    for (workload, size, kind, data, spec), rows in found.items():
        made = [_row(run, cell, held) for (run, cell), held in rows.items()]
        groups.append(Group(workload, size, kind, data, spec, tuple(sorted(made, key=_order))))
    return sorted(groups, key=lambda g: (WORKLOADS.index(g.workload), SIZES.index(g.size), g.data_kind, g.data_digest))


def machine(record: Record) -> str:
    """``AMD EPYC 7R13, 2 cores; NVIDIA H100`` from ``record.environment["machine"]``."""
    held = record.environment.get("machine")
    if not isinstance(held, dict):
        return ""
    gpus = held.get("gpus")
    names = Counter(clean(gpu, 60) for gpu in gpus) if isinstance(gpus, list) else Counter[str]()
    parts = [clean(held.get("cpu", "unknown processor"), 60), f"{clean(held.get('cores', '?'), 10)} cores"]
    cards = "; ".join(name if n == 1 else f"{n} x {name}" for name, n in names.items())
    return ", ".join(parts) + ("; " + cards if cards else "")


def _flags(record: Record) -> list[str]:
    train = record.phases.get("train")
    unsteady = ["unsteady"] if train and not train.steady else []
    return [*(clean(flag, 40) for flag in record.flags), *unsteady]


def _group_key(launch: Launch) -> tuple[str, str, str, str, str]:
    record = launch.record
    kind, data = (clean(record.data.get(name, "")) for name in ("kind", "digest"))
    kind = kind if kind in ("real", "synthetic") else "unknown"
    return record.cell.workload, record.cell.size, kind, data, clean(record.workload.get("digest", ""))


def _home(launch: Launch, found: dict[tuple[str, ...], dict[RowKey, list[Launch]]]) -> tuple[str, ...]:
    """Where a launch belongs that failed before it knew its data: with its cell, else its run, else its workload."""
    cell = launch.record.cell
    near = {key: rows for key, rows in found.items() if key[:2] == (cell.workload, cell.size)}
    same_cell = [key for key, rows in near.items() if (launch.run, cell) in rows]
    same_run = [key for key, rows in near.items() if any(run == launch.run for run, _ in rows)]
    return next(iter([*same_cell, *same_run, *near]), _group_key(launch))


def _row(run: str, cell: Cell, held: Iterable[Launch]) -> Row:
    ordered = sorted(held, key=_block)
    control = tuple(launch for launch in ordered if launch.record.control)
    # A control of nothing is launches like any other.
    launches = tuple(launch for launch in ordered if not launch.record.control) or control
    return Row(run, cell, launches, control if launches != control else ())


def _block(launch: Launch) -> int:
    return launch.record.launch


def _order(row: Row) -> tuple[Any, ...]:
    cell = row.cell
    loader = (LOADERS.index(cell.loader.kind), cell.loader.workers, cell.loader.id)
    settings = (PRECISIONS.index(cell.precision), cell.batch, cell.accumulate, *loader, KERNELS.index(cell.kernel))
    return row.run, *settings, FRAMEWORKS.index(cell.framework), COMPILES.index(cell.compile)
