"""Which launches form a row, and which rows share a table.

Rows that differ in workload, size, or the digest of the data or the spec answer different questions, so each gets a
table of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from suite.analysis.records.load import Launch
from suite.analysis.records.machines import Machines
from suite.analysis.rows.axes import AXES, BETWEEN_RUNS, order
from suite.analysis.rows.blocks import UNSOUND_RELEASE, flags_of, say_too_busy, select_counting
from suite.analysis.rows.conditions import Conditions, conditions, tuning
from suite.analysis.rows.runs import Runs
from suite.analysis.rows.wording import fill, middle
from suite.catalog import settings
from suite.catalog.metrics import common_unit, unit_of
from suite.catalog.setting import Setting
from suite.plan.cell import SIZES, WORKLOADS, Cell
from suite.plan.settings.tunings import OTHER
from suite.record.disturbance import is_disturbed
from suite.record.record import STATUSES, Record
from suite.record.text import clean


def _reader(setting: Setting) -> Callable[[Row], str]:
    return lambda row: setting.text(getattr(row.cell, setting.name))


#: The settings of a row besides its framework, in the order of their columns.
SETTINGS: dict[str, Callable[[Row], str]] = {
    "run": lambda row: row.run,
    "machine": lambda row: row.machine,
    **{name: _reader(settings.SETTINGS[name]) for name in settings.OF_ROWS},
    "batch": lambda row: row.batch,
    "tuning": lambda row: row.conditions.tuning or (OTHER if row.is_older else row.cell.tuning),
}

#: The settings in which the rows of one table differ only if the user asked for it.
ON_DEMAND = ("machine", "size")

#: How a setting that all rows share is written; one that is at its default everywhere is left out.
WORDS = {"run": "run {}", "machine": "on {}", **{name: settings.SETTINGS[name].words for name in settings.OF_ROWS}}
SHORT = {"run": "{}", "machine": "{}", **{name: settings.SETTINGS[name].short for name in settings.OF_ROWS}}
DEFAULTS = {
    name: each.text(each.default)
    for name, each in settings.SETTINGS.items()
    if name in SETTINGS and not each.is_always_named
}

RowKey = tuple[str, Cell]
#: Workload, recipe, size, data kind, data digest and spec digest.
GroupKey = tuple[str, str, str, str, str, str]


@dataclass(frozen=True)
class Row:
    """All launches of one cell in one run. Launches of two runs, on other days or machines, are never pooled.

    ``busy`` says why the machine was too busy in this run for any answer. ``is_older``: than any tuning of today.
    """

    run: str
    cell: Cell
    launches: tuple[Launch, ...]
    control: tuple[Launch, ...] = ()  # a second copy of the cell, in the same blocks
    machines: tuple[str, ...] = ()  # the names of those that they ran on, each of one machine of the comparison
    busy: str = ""
    is_older: bool = False

    @property
    def key(self) -> RowKey:
        return self.run, self.cell

    @cached_property
    def ok(self) -> list[Record]:
        """The records of the successful launches that count, by block: of disturbed ones, only if all are."""
        return select_counting(launch.record for launch in self.launches)

    @cached_property
    def set_aside(self) -> list[Record]:
        """The records of the successful launches that were disturbed and do not count."""
        counting = {record.key for record in self.ok}
        return [x.record for x in self.launches if x.record.outcome.ok and x.record.key not in counting]

    @property
    def is_disturbed(self) -> bool:
        return not self.cell.recipe and bool(self.ok) and all(map(is_disturbed, self.ok))

    @cached_property
    def conditions(self) -> Conditions:
        return conditions(self.ok)

    @cached_property
    def batch(self) -> str:
        """The cell's batch, or ``auto`` and the sizes that the search chose."""
        sizes = sorted({record.effective_batch // (record.cell.accumulate * record.cell.devices) for record in self.ok})
        return str(self.cell.batch or " ".join(["auto", *map(str, sizes)]))

    @property
    def outcome(self) -> str:
        """``ok``, or for instance ``out-of-memory``, or ``ok 2, timeout 1`` where launches ended differently."""
        counts = Counter(launch.record.outcome.status for launch in self.launches)
        ordered = sorted(counts, key=STATUSES.index)
        return ordered[0] if len(ordered) == 1 else ", ".join(f"{status} {counts[status]}" for status in ordered)

    @property
    def reasons(self) -> list[str]:
        failed = [launch.record.outcome for launch in self.launches if not launch.record.outcome.ok]
        reasons = (f"{outcome.status}: {clean(outcome.reason) or 'no reason was recorded'}" for outcome in failed)
        return list(dict.fromkeys(reasons))

    @cached_property
    def flags_of_launches(self) -> list[tuple[str, ...]]:
        return [flags_of(launch.record) for launch in self.launches]

    @cached_property
    def flags(self) -> list[str]:
        """The launches' flags, with their number unless all have it; an unsound release is named by a note instead."""
        counts = Counter(flag for flags in self.flags_of_launches for flag in flags if flag != UNSOUND_RELEASE)
        n = len(self.launches)
        return [flag if count == n else f"{flag} {count}/{n}" for flag, count in sorted(counts.items())]

    @cached_property
    def effective_batches(self) -> list[int]:
        return sorted({record.effective_batch for record in self.ok})

    @property
    def unit(self) -> str:
        return common_unit(map(unit_of, self.ok))

    @property
    def machine(self) -> str:
        return "; ".join(self.machines)


@dataclass(frozen=True)
class Group:
    """Rows of one workload, size, data and spec. ``data_kind`` is ``real``, ``synthetic`` or ``unknown``.

    ``by`` names the axis that ratios are formed along; along ``size`` a group has several sizes and specs. ``across``
    says whether rows of different runs and machines may enter one ratio. ``part`` says which rows of a larger group
    these are, if they are not all of them. ``runs`` has the launches of the other groups, too.
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
    runs: Runs = field(default_factory=Runs, compare=False, repr=False)

    @cached_property
    def varying(self) -> list[str]:
        """The settings besides the framework in which the rows differ."""
        demanded = {"machine": self.across, "size": self.by == "size"}
        if self.is_of_script:
            demanded |= {name: name in ("run", "machine", *settings.OF_SCRIPTS) for name in SETTINGS}
        return [
            name for name, read in SETTINGS.items() if demanded.get(name, True) and len({*map(read, self.rows)}) > 1
        ]

    @cached_property
    def settled(self) -> bool:
        strategies = {(row.cell.framework, row.cell.strategy) for row in self.rows if row.cell.strategy}
        return len(strategies) == len({framework for framework, _ in strategies})

    @property
    def constant(self) -> str:
        known = ("run", *settings.OF_SCRIPTS) if self.is_of_script else SETTINGS
        names = [name for name in known if name not in ON_DEMAND and name not in self.varying]
        values = {name: SETTINGS[name](self.rows[0]) for name in names}
        words = [fill(WORDS[name], value) for name, value in values.items() if value != DEFAULTS.get(name)]
        return ", ".join([*([self.part] if self.part else []), *words])

    @property
    def is_of_script(self) -> bool:
        """Whether it is of a reader's own script, of which only the variants are known."""
        return self.rows[0].cell.is_of_script

    @property
    def unit(self) -> str:
        """What its throughputs count, ``samples`` unless there are only ``steps``."""
        return common_unit(row.unit for row in self.rows if row.ok)

    @property
    def data_words(self) -> str:
        if self.is_of_script:
            return "its own data"
        return {"real": "real data", "synthetic": "SYNTHETIC DATA"}.get(self.data_kind, "DATA OF UNKNOWN KIND")

    def label(self, row: Row, mark: str = " · ", without: Sequence[str] = ()) -> str:
        """The framework and the settings in which rows differ, except ``without``: ``jax · b128 · compile``."""
        names = [name for name in self.varying if name not in without and not (name == "strategy" and self.settled)]
        values = [SHORT[name].format(middle(text)) for name in names if (text := SETTINGS[name](row))]
        return mark.join([row.cell.framework, *filter(None, values)])

    def row(self, run: str, cell: Cell) -> Row | None:
        return self._by_key.get((run, cell))

    def alike(self, row: Row, *free: str) -> list[Row]:
        """The rows of all runs whose cells differ from this row's in nothing but ``free``, itself included."""
        if free not in self._alike:
            by_cell: dict[tuple[Any, ...], list[Row]] = {}
            for each in self.rows:
                by_cell.setdefault(_ignoring(each.cell, free), []).append(each)
            self._alike[free] = by_cell
        return self._alike[free].get(_ignoring(row.cell, free), [])

    @cached_property
    def _by_key(self) -> dict[RowKey, Row]:
        return {row.key: row for row in self.rows}

    @cached_property
    def _alike(self) -> dict[tuple[str, ...], dict[tuple[Any, ...], list[Row]]]:
        return {}


def group(launches: Iterable[Launch], by: str = "framework", across: bool = False) -> list[Group]:
    """The groups in the order of `suite.plan.cell`; within a group the rows by settings, then along the axis ``by``."""
    launches = list(launches)
    by_group: dict[GroupKey, dict[RowKey, list[Launch]]] = {}
    # Launches that know their data go first, so that the others can join an existing group.
    for launch in sorted(launches, key=lambda each: not each.record.data.get("digest")):
        group_key = _group_key(launch, by) if launch.record.data.get("digest") else _nearest_group(launch, by_group, by)
        by_group.setdefault(group_key, {}).setdefault((launch.run, launch.record.cell), []).append(launch)
    runs = Runs(launches)
    ranks = {run: rank for rank, run in enumerate(runs.launches if across else sorted(runs.launches))}
    axis_order = order(AXES[by])
    machines = Machines((launch.run, launch.record) for launch in launches)

    def sort_key(row: Row) -> tuple[Any, ...]:
        return (*axis_order(row), ranks[row.run]) if by in BETWEEN_RUNS else (ranks[row.run], *axis_order(row))

    of_runs = {run: [each.record for each in of_run] for run, of_run in runs.launches.items()}
    known = {run: (say_too_busy(each), OTHER in map(tuning, each)) for run, each in of_runs.items()}
    groups = []
    for (workload, _, _, kind, data, own_spec), by_row in by_group.items():
        made = (_row(run, cell, each, machines, *known[run]) for (run, cell), each in by_row.items())
        rows = sorted(made, key=sort_key)
        size = "-and-".join(size for size in SIZES if any(row.cell.size == size for row in rows))
        specs = sorted({_spec(launch) for each in by_row.values() for launch in each} - {""})
        spec = " and ".join(digest[:12] for digest in specs) if by == "size" else own_spec
        groups.append(Group(workload, size, kind, data, spec, tuple(rows), by, across, runs=runs))
    return sorted(
        groups,
        key=lambda g: (_place(g.workload), SIZES.index(g.rows[0].cell.size), g.data_kind, g.data_digest),
    )


def _place(workload: str) -> tuple[int, str]:
    return (WORKLOADS.index(workload) if workload in WORKLOADS else len(WORKLOADS), workload)


def _ignoring(cell: Cell, free: Collection[str]) -> tuple[Any, ...]:
    return tuple(getattr(cell, name) for name in settings.SETTINGS if name not in free)


def _group_key(launch: Launch, by: str) -> GroupKey:
    record = launch.record
    kind, data = (clean(record.data.get(name, "")) for name in ("kind", "digest"))
    kind = kind if kind in ("real", "synthetic") else "unknown"
    size, spec = ("", "") if by == "size" else (record.cell.size, _spec(launch))
    return record.cell.workload, record.cell.recipe, size, kind, data, spec


def _spec(launch: Launch) -> str:
    return clean(launch.record.workload.get("digest", ""))


def _nearest_group(launch: Launch, by_group: Mapping[GroupKey, Mapping[RowKey, list[Launch]]], by: str) -> GroupKey:
    cell = launch.record.cell
    own_key = _group_key(launch, by)
    candidates = {key: rows for key, rows in by_group.items() if key[:3] == own_key[:3]}
    same_cell = [key for key, rows in candidates.items() if (launch.run, cell) in rows]
    same_run = [key for key, rows in candidates.items() if any(run == launch.run for run, _ in rows)]
    return next(iter([*same_cell, *same_run, *candidates]), own_key)


def _row(run: str, cell: Cell, launches: Iterable[Launch], machines: Machines, *of_run: Any) -> Row:
    ordered = sorted(launches, key=lambda launch: (launch.record.block, launch.record.launch))
    control = tuple(launch for launch in ordered if launch.record.control)
    # A control without the cell that it controls counts as ordinary launches.
    ordinary = tuple(launch for launch in ordered if not launch.record.control) or control
    # A launch that failed early does not know its GPUs.
    known = [each for each in ordinary if each.record.outcome.ok] or ordinary
    names = dict.fromkeys(machines.name(run, each.record) for each in known)
    return Row(run, cell, ordinary, control if ordinary != control else (), tuple(filter(None, names)), *of_run)
