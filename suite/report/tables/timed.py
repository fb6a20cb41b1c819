"""The table of timed cells: its title, columns, notes and legend. No number stands without its n."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from statistics import median

from suite.analysis.rows.blocks import why_untested
from suite.analysis.rows.groups import Group
from suite.analysis.rows.wording import NONE, listing
from suite.analysis.statistics.inference import Estimate
from suite.analysis.statistics.ratios import counterparts, least_between
from suite.analysis.statistics.sequential import is_sequential, launches_needed
from suite.catalog.metrics import METRICS, Metric, first_gpu, monitor_metrics, number
from suite.catalog.setting import TEXT
from suite.plan.measuring import FIRST_LOOK, LAST_LOOK
from suite.record.text import clean
from suite.report.format.names import SETTING_NAMES, counts
from suite.report.format.text import in_unit
from suite.report.format.view import View
from suite.report.tables import columns as made
from suite.report.tables import footnotes
from suite.report.tables.cells import TimedCell
from suite.report.tables.columns import KEPT, MORE, NUMBER, Column, Notes, has_several
from suite.report.tables.curves import pays
from suite.report.tables.frame import Table

#: The metric whose heading names the kind of memory.
MEMORY = "peak_memory_bytes"
#: The metric that only launches with all phases have.
OF_PHASES = "train_of_compute"
#: The metric that the test of the compile modes' speed decides.
PAYS_AFTER = "break_even_steps"
#: Headline metrics that explain a result and do not decide it.
EXPLAIN = ("step_ms_median", OF_PHASES, PAYS_AFTER, "compile_s", MEMORY)

LAUNCHES = Column("n", lambda cell: made.launch_count(cell.launches_ok, cell.launches))


def view(table: Table) -> View:
    """Returns the table and its notes as strings, numbered notes last."""
    notes, second = Notes(), [of_shown(table, each, MORE) for each in shown_metrics(table)]
    columns = [*_columns(table, notes), *second]
    if table.tested:  # ratio and verdict are seen without scrolling on a narrow screen
        modes = {(row.cell.framework, row.cell.compile) for row in table.group.rows}
        one_mode = len(modes) == len({framework for framework, _ in modes})
        kept = {"ratio", "verdict", "framework", *table.group.varying} - ({"compile"} if one_mode else set())
        columns = [replace(each, where=(*each.where, KEPT)) if each.name in kept else each for each in columns]
    grid = made.grid(columns, table.cells, notes, lambda cell: cell.best)
    made_view = View(title(table.group), grid, [*foot_lines(table), *notes.lines], len(second))
    return replace(made_view, grid=replace(grid, headers=in_unit(grid.headers, table.group.unit)))


def title(group: Group) -> str:
    """Returns the title of a table, in one line."""
    size = "" if group.is_of_script else f"size {group.size}, "
    return f"{group.workload}, {size}{group.data_words}: {group.constant}"


def _columns(table: Table, notes: Notes) -> list[Column]:
    """Returns the columns of the first part: the measured values and the outcome of each row."""
    # If a framework has several modes, the question is when compiling pays.
    hidden = "compile_s" if "compile" in made.varied_settings(table.group) else PAYS_AFTER
    metrics = [each for name, each in METRICS.items() if each.headline and name != hidden]
    first, *others = (_memory(table) if each.name == MEMORY else _headline(each) for each in metrics)
    several = of_devices(table)
    others = [_of_start(table, each) if each.name == PAYS_AFTER else each for each in others]
    return [
        *names(table),
        *several[:1],
        LAUNCHES,
        first,
        *made.compared("ratio", ratio_of(table), table.tested, form=NUMBER),
        *several[1:],
        *others,
        Column("identity", lambda cell: str(cell.identity or NONE), TEXT),
        Column("outcome", lambda cell: outcome(cell, notes), TEXT),
    ]


def names(table: Table) -> list[Column]:
    """Returns the columns that identify a row."""
    shown = ("framework", *table.group.varying)
    return made.settings(shown, lambda cell, name: cell.settings.get(name, cell.framework))


def of_devices(table: Table) -> list[Column]:
    """Returns the columns that a table shows of several devices, the global batch first; none without such rows."""
    columns = [
        Column("global batch", lambda cell: cell.devices.global_batch),
        Column("communication", lambda cell: made.communication(cell.devices.communication)),
        Column("efficiency", lambda cell: made.shares(cell.devices.efficiency)),
    ]
    return columns[: has_several(table.group) * (3 if table.group.by == "devices" else 2)]


def ratio_of(table: Table) -> Callable[[TimedCell], Estimate]:
    """Returns what reads the ratio of a cell; a base with which no other row is compared has none."""
    pairs = counterparts(table.group, table.findings.base)
    bases = {other.key for row, other in pairs if other is not row}
    alone = {row.key for row, other in pairs if other is row} - bases
    rows = zip(table.group.rows, table.cells, strict=True)
    without = {id(cell) for row, cell in rows if row.key in alone}
    return lambda cell: Estimate() if id(cell) in without else cell.ratio


def outcome(cell: TimedCell, notes: Notes | None = None) -> str:
    """Returns how the launches of a cell ended, and their flags."""
    reason = f" {notes.mark(cell.reason)}" if notes and cell.reason else ""
    return "; ".join(filter(None, [f"{cell.outcome}{reason}", cell.flags]))


def _headline(metric: Metric, header: str = "") -> Column:
    column = made.of_metric(metric, (MORE,) if metric.name in EXPLAIN else (), header)
    return (
        replace(column, read=lambda cell: f"{column.read(cell)}{_fewer(cell)}") if metric.name == OF_PHASES else column
    )


def _of_start(table: Table, column: Column) -> Column:
    """Returns the column of the steps after which compiling pays, in words where there is no number."""
    told = {id(cell): pays(table, row) for row, cell in zip(table.group.rows, table.cells, strict=True)}
    return replace(column, read=lambda cell: told[id(cell)])


def _fewer(cell: TimedCell) -> str:
    """Returns the number of launches that had the phases of a figure, where not all had."""
    loading = cell.bottleneck.loading
    return f" (n = {loading.blocks})" if loading and loading.blocks < cell.launches_ok else ""


def _memory(table: Table) -> Column:
    """Returns the column of the peak memory; its header names the kind, and each row does where kinds differ."""
    kinds = {cell.peak_memory_kind for cell in table.cells} - {""}
    if len(kinds) < 2:
        return _headline(METRICS[MEMORY], f"{METRICS[MEMORY].label} ({_kind(*kinds)})" if kinds else "")
    column = _headline(METRICS[MEMORY])
    return replace(column, read=lambda cell: f"{column.read(cell)} {_kind(cell.peak_memory_kind)}".rstrip())


def _kind(name: str) -> str:
    """Returns ``RSS`` for ``rss_peak_bytes``."""
    return clean(name).removesuffix("_bytes").removesuffix("_peak").replace("_", " ").replace("rss", "RSS")


def shown_metrics(table: Table) -> list[Metric]:
    """Returns the metrics of a table's second part: those that any of its cells has."""
    measured = {name for cell in table.cells for name, value in cell.metrics.items() if value is not None}
    return [each for each in monitor_metrics() if each.label and each.name in measured]


def of_shown(table: Table, metric: Metric, *where: str) -> Column:
    """Returns the column of a metric of a table's second part; that of a cost names the currency."""
    currency = f" {table.currency}" if metric.unit == "currency" and table.currency else ""
    return made.of_metric(metric, where, f"{metric.label}{currency}")


def costs(table: Table) -> list[Column]:
    """Returns the column of what an epoch costs, or a million samples; none without a price."""
    shown = [each for each in shown_metrics(table) if each.unit == "currency"]
    return [of_shown(table, shown[-1])] if shown else []


def foot_lines(table: Table) -> list[str]:
    """Returns the notes below a table: what its figures are and from how many launches."""
    group, launched = table.group, f"{counts(table.launches, 'launch')} per cell"
    least = launches_needed(group.rows)
    why = f"a test needs at least {least}" if min(table.launches) < least else why_untested(*group.rows)
    untested = f"Significance was not tested: {'; '.join(filter(None, [launched, why]))}."
    searches = zip(group.rows, table.cells, strict=True)
    machines = list(dict.fromkeys(cell.machine for cell in table.cells if cell.machine))
    spec = " and ".join(digest[:12] for digest in group.spec_digest.split(" and "))
    return [
        *_base(table),
        *(_tests(table, launched) if table.tested else [untested]),
        *_choice_of_modes(group),
        *footnotes.detectable(table),
        *_bottlenecks(table),
        *_energy(table),
        *footnotes.known(group),
        *(f"Search for the largest batch, {group.label(row)}: {cell.batch_search}."
          for row, cell in searches if cell.batch_search),
        f"Machine: {listing(machines) or 'not recorded'}.",
        f"Digests: data {group.data_digest[:12] or 'unknown'}, spec {spec or 'unknown'}.",
    ]  # fmt: skip


def _base(table: Table) -> Iterator[str]:
    """Yields what the data mean, and what ratios are to."""
    group = table.group
    if group.data_kind != "real" and not group.is_of_script:
        yield f"{group.data_words}: the speed of the steps is real, the losses and accuracies mean nothing."
    if group.by == "machine":
        yield f"Ratios are to the same cell on {table.baseline or 'a machine that was not recorded'}."
    elif group.by == "run":
        yield f"Ratios are to the same cell of run {table.baseline}{_source(table)}."
    elif group.by != "framework":
        same = ", with the same effective batch" if group.by == "accumulate" else ""
        yield f"Ratios are within each framework, to {SETTING_NAMES.get(group.by, group.by)} {table.baseline}{same}."
    yield from [made.OTHER_LENGTHS] * ("lengths" in made.varied_settings(group))
    if group.by == "devices":
        yield (
            "The batch of each device is the same, so more devices see a larger global batch: the same work for each "
            "device, and another training, with fewer updates in an epoch. The tables of scaling also compare equal "
            "global batches."
        )
    if group.across:
        yield (
            "Runs share no blocks. Ratios between runs are ratios of medians; their bounds are the extremes over all "
            f"pairs of launches. With {least_between(group)} launches of each or more, Welch's t-test on the "
            "logarithms is used."
        )


def _source(table: Table) -> str:
    """Returns the file of the run that ratios are to."""
    sources = (each.source for row in table.group.rows if table.base.holds(row) for each in row.launches)
    return f" ({source})" if (source := next(sources, "")) else ""


def _tests(table: Table, launched: str) -> list[str]:
    """Describes what was tested and how, and which rows are undecided."""
    group = table.group
    kinds = {
        "group-sequential t-test on the logarithms of the ratios per block, looked at after each block from the "
        f"{FIRST_LOOK}th to the {LAST_LOOK}th and stopped when decided, repeated confidence intervals": True,
        "paired t-test on the logarithms of the ratios per block": False,
    }
    there = {is_sequential([row]) for row in group.rows if row.ok}
    used = ["Welch's t-test on the logarithms"] if group.across else [each for each in kinds if kinds[each] in there]
    how = " in runs that stop when decided, and in the others a ".join(used)
    tests = {cell.ratio.tests for cell in table.cells if cell.ratio.verdict}
    corrected = f"the {counts(tests, 'comparison')} of {_family(group)}"
    return [
        f"Test: {how}, Holm's correction over {corrected}, margin {table.margin:.1%}, {launched}.",
        _control(table),
        *footnotes.undecided(table),
    ]


def _family(group: Group) -> str:
    return "both runs" if group.by == "run" else "the table" if group.across else "its run"


def _control(table: Table) -> str:
    """Describes the A/A control: how copies of one cell compare."""
    results = [
        f"{table.group.label(control.row)} {test.verdict}, {test.value:.2f} ({test.low:.2f} to {test.high:.2f})"
        for control in table.controls
        if (test := control.test)
    ]
    if not results:
        return "Control: none, so the method was not checked on this machine."
    sound = all(control.sound for control in table.controls)
    meaning = "No copy differs" if sound else "A COPY DIFFERS: do not trust the verdicts of this table"
    return f"Control (a second copy of a cell, compared with the first): {listing(results)}. {meaning}."


def _choice_of_modes(group: Group) -> list[str]:
    """Says that the fastest compile mode was chosen on the launches that are compared, where there are several."""
    if group.by != "framework" or len({row.cell.framework for row in group.rows}) < 2:
        return []
    overstated = (
        "The answer compares the fastest compile mode of each framework, chosen on the same launches. That overstates "
        "its ratio: by about 1 % where modes are equally fast and launches scatter by 3 %."
    )
    return [overstated] if "compile" in made.varied_settings(group) else []


def _bottlenecks(table: Table) -> list[str]:
    """Returns the bottleneck, advice and symptoms of each row; rows with the same ones share a line."""
    cells = list(zip(map(table.group.label, table.group.rows), table.cells, strict=True))
    rows_by_words: dict[str, list[str]] = {}
    for label, cell in cells:
        if cell.bottleneck.kind:
            rows_by_words.setdefault("; ".join(filter(None, [str(cell.bottleneck), cell.advice])), []).append(label)
    return [
        *(f"Bottleneck: {listing(rows)}: {words}." for words, rows in rows_by_words.items()),
        *(
            f"{'Seen' if row.cell.is_of_script else 'Underused'}: {table.group.label(row)}: {cell.symptoms}."
            for row, cell in zip(table.group.rows, table.cells, strict=True)
            if cell.symptoms
        ),
    ]


def _energy(table: Table) -> list[str]:
    """Describes the source of energy figures, and the GPU's idle power."""
    gpus = [gpu for row in table.group.rows for record in row.ok if (gpu := first_gpu(record))]
    watts = [value for gpu in gpus if (value := number(gpu.get("idle_power_w"))) is not None]
    polled = "mJ per sample: the GPU has no energy counter, so some rows use polled power, which is less exact."
    measured = any(cell.metrics["energy_j_per_sample"] is not None for cell in table.cells)
    lines = [polled] if any(gpu.get("energy_source") == "polled power" for gpu in gpus) else []
    return lines + ([f"The energy includes the GPU's idle power, {median(watts):.0f} W."] if measured and watts else [])
