"""Which launches make a row, and which rows may stand in one table.

Rows that differ in workload, size, or the digest of the data or the spec answer different questions: they get tables of
their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from suite.analysis.axes import AXES, order
from suite.analysis.load import Launch
from suite.analysis.wording import middle
from suite.plan.cell import COMPILES, FRAMEWORKS, KERNELS, PRECISIONS, SIZES, WORKLOADS, Cell, Loader
from suite.record.record import STATUSES, Record
from suite.record.text import clean

#: The settings of a row besides its framework, in the order of their columns.
SETTINGS: dict[str, Callable[[Row], str]] = {
    "run": lambda row: row.run,
    "machine": lambda row: row.machine,
    "size": lambda row: row.cell.size,
    "precision": lambda row: row.cell.precision,
    "batch": lambda row: row.batch,
    "compile": lambda row: row.cell.compile,
    "loader": lambda row: row.cell.loader.id,
    "accumulate": lambda row: str(row.cell.accumulate),
    "kernel": lambda row: row.cell.kernel,
}

#: Of these, those in which the rows of one table differ only where it was asked for.
ON_DEMAND = ("machine", "size")

#: How a setting is written where all rows share it; nothing is said of one that is at its default everywhere.
WORDS = {
    "run": "run {}",
    "machine": "on {}",
    "size": "size {}",
    "precision": "{}",
    "batch": "batch {}",
    "compile": "{}",
    "loader": "loader {}",
    "accumulate": "accumulating {}",
    "kernel": "LSTM kernel {}",
}
DEFAULTS = {"accumulate": "1", "kernel": "auto"}

#: A value of each setting, for cells in which it is left open.
OPEN: dict[str, Any] = {
    "framework": FRAMEWORKS[0],
    "precision": PRECISIONS[0],
    "batch": 1,
    "compile": COMPILES[0],
    "loader": Loader(),
    "size": SIZES[0],
    "accumulate": 1,
    "kernel": KERNELS[0],
}

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

    @cached_property
    def ok(self) -> list[Record]:
        """The launches that ended well, by block."""
        return sorted((x.record for x in self.launches if x.record.outcome.ok), key=lambda record: record.launch)

    @cached_property
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

    @cached_property
    def machine(self) -> str:
        """Processor, cores and GPUs that the launches ran on, as recorded; empty if they say nothing."""
        # A launch that failed early does not know its GPUs.
        known = self.ok or [x.record for x in self.launches]
        return "; ".join(each for each in dict.fromkeys(map(machine, known)) if each)


@dataclass(frozen=True)
class Group:
    """Rows of one workload, size, data and spec. ``data_kind`` is ``real``, ``synthetic`` or ``unknown``.

    ``by`` names the axis that ratios are formed along; along ``size`` the sizes and specs are several. ``across`` says
    whether rows of different runs and machines may enter one ratio. ``part`` says which rows of a larger group these
    are, if they are not all.
    """

    workload: str
    size: str
    data_kind: str
    data_digest: str
    spec_digest: str
    rows: tuple[Row, ...]
    by: str = "framework"
    across: bool = False
    part: str = ""

    @cached_property
    def varying(self) -> list[str]:
        """The settings besides the framework in which the rows differ."""
        there = [name for name in SETTINGS if name not in ON_DEMAND or self._demanded(name)]
        return [name for name in there if len({SETTINGS[name](row) for row in self.rows}) > 1]

    @property
    def constant(self) -> str:
        """The settings that all rows share, in words."""
        there = [name for name in SETTINGS if name not in ON_DEMAND and name not in self.varying]
        one = {name: SETTINGS[name](self.rows[0]) for name in there}
        shared = [WORDS[name].format(value) for name, value in one.items() if value != DEFAULTS.get(name)]
        return ", ".join([*([self.part] if self.part else []), *shared])

    @property
    def data_words(self) -> str:
        """Loud where the data are not the real ones."""
        return {"real": "real data", "synthetic": "SYNTHETIC DATA"}.get(self.data_kind, "DATA OF UNKNOWN KIND")

    def label(self, row: Row, mark: str = " · ", without: Sequence[str] = ()) -> str:
        """The framework and the settings in which rows differ, but those ``without``: ``jax · b128 · compile``."""
        forms = {"batch": "b{}", "accumulate": "a{}"}
        shown = [
            forms.get(name, "{}").format(middle(SETTINGS[name](row))) for name in self.varying if name not in without
        ]
        return mark.join([row.cell.framework, *shown])

    def row(self, run: str, cell: Cell) -> Row | None:
        """The row of this cell in this run."""
        return self._by_key.get((run, cell))

    def alike(self, row: Row, *free: str) -> list[Row]:
        """The rows, of all runs, whose cells differ from this one's in no setting but these; itself among them."""
        if free not in self._alike:
            found: dict[Cell, list[Row]] = {}
            for each in self.rows:
                found.setdefault(_opened(each.cell, free), []).append(each)
            self._alike[free] = found
        return self._alike[free].get(_opened(row.cell, free), [])

    @cached_property
    def _by_key(self) -> dict[RowKey, Row]:
        return {row.key: row for row in self.rows}

    @cached_property
    def _alike(self) -> dict[tuple[str, ...], dict[Cell, list[Row]]]:
        return {}

    def _demanded(self, name: str) -> bool:
        return self.across if name == "machine" else self.by == name


def group(launches: Iterable[Launch], by: str = "framework", across: bool = False) -> list[Group]:
    """The groups in the order of `suite.plan.cell`; within a group the rows by settings, then along the axis ``by``.

    Along ``size`` the sizes of a workload share a group. With ``across`` the runs stay in the order of their files.
    """
    given = list(launches)
    found: dict[tuple[str, ...], dict[RowKey, list[Launch]]] = {}
    # Those that know their data go first, so that the others find the table that they belong to.
    for launch in sorted(given, key=lambda each: not each.record.data.get("digest")):
        place = _group_key(launch, by) if launch.record.data.get("digest") else _home(launch, found, by)
        found.setdefault(place, {}).setdefault((launch.run, launch.record.cell), []).append(launch)
    runs = list(dict.fromkeys(launch.run for launch in given))
    ranks = {run: rank for rank, run in enumerate(runs if across else sorted(runs))}
    ranked = order(AXES[by])

    def place_of(row: Row) -> tuple[Any, ...]:
        return (*ranked(row), ranks[row.run]) if by == "machine" else (ranks[row.run], *ranked(row))

    groups = []
    for (workload, _, _, kind, data, own), held in found.items():
        rows = sorted((_row(run, cell, each) for (run, cell), each in held.items()), key=place_of)
        size = "-and-".join(size for size in SIZES if any(row.cell.size == size for row in rows))
        specs = sorted({_spec(launch) for each in held.values() for launch in each} - {""})
        spec = " and ".join(digest[:12] for digest in specs) if by == "size" else own
        groups.append(Group(workload, size, kind, data, spec, tuple(rows), by, across))
    return sorted(
        groups,
        key=lambda g: (WORKLOADS.index(g.workload), SIZES.index(g.rows[0].cell.size), g.data_kind, g.data_digest),
    )


def machine(record: Record) -> str:
    """``AMD EPYC 7R13, 2 cores; NVIDIA H100`` from ``record.environment["machine"]``."""
    return "; ".join(part for part in (processor(record), gpus(record)) if part)


def processor(record: Record) -> str:
    """``AMD EPYC 7R13, 2 cores``; empty where the record does not say."""
    held = record.environment.get("machine")
    if not isinstance(held, dict):
        return ""
    return f"{clean(held.get('cpu', 'unknown processor'), 60)}, {clean(held.get('cores', '?'), 10)} cores"


def gpus(record: Record) -> str:
    """``2 x NVIDIA H100``, or with several models ``NVIDIA H100; NVIDIA A100``; empty without any."""
    held = record.environment.get("machine")
    names = held.get("gpus") if isinstance(held, dict) else None
    counts = Counter(clean(gpu, 60) for gpu in names) if isinstance(names, list) else Counter[str]()
    return "; ".join(name if n == 1 else f"{n} x {name}" for name, n in counts.items())


def _opened(cell: Cell, free: Iterable[str]) -> Cell:
    """The cell with these settings at one and the same value."""
    return replace(cell, **{name: OPEN[name] for name in free})


def _flags(record: Record) -> list[str]:
    train = record.phases.get("train")
    unsteady = ["unsteady"] if train and not train.steady else []
    return [*(clean(flag, 40) for flag in record.flags), *unsteady]


def _group_key(launch: Launch, by: str) -> tuple[str, str, str, str, str, str]:
    record = launch.record
    kind, data = (clean(record.data.get(name, "")) for name in ("kind", "digest"))
    kind = kind if kind in ("real", "synthetic") else "unknown"
    size, spec = ("", "") if by == "size" else (record.cell.size, _spec(launch))
    return record.cell.workload, record.cell.recipe, size, kind, data, spec


def _spec(launch: Launch) -> str:
    return clean(launch.record.workload.get("digest", ""))


def _home(launch: Launch, found: dict[tuple[str, ...], dict[RowKey, list[Launch]]], by: str) -> tuple[str, ...]:
    """Where a launch belongs that failed before it knew its data: with its cell, else its run, else its workload."""
    cell = launch.record.cell
    own = _group_key(launch, by)
    near = {key: rows for key, rows in found.items() if key[:3] == own[:3]}
    same_cell = [key for key, rows in near.items() if (launch.run, cell) in rows]
    same_run = [key for key, rows in near.items() if any(run == launch.run for run, _ in rows)]
    return next(iter([*same_cell, *same_run, *near]), own)


def _row(run: str, cell: Cell, held: Iterable[Launch]) -> Row:
    ordered = sorted(held, key=_block)
    control = tuple(launch for launch in ordered if launch.record.control)
    # A control of nothing is launches like any other.
    launches = tuple(launch for launch in ordered if not launch.record.control) or control
    return Row(run, cell, launches, control if launches != control else ())


def _block(launch: Launch) -> int:
    return launch.record.launch
