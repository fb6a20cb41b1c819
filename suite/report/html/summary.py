"""The summary of a comparison: `run.json`, from which the index, the page of releases and leaderboards are made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from math import isfinite
from statistics import mean, median

from suite.analysis.bottlenecks.causes import causes, costs
from suite.analysis.findings import EXPLAINED
from suite.analysis.records.load import Loaded
from suite.analysis.records.machines import Machine, Machines, gpus, identify, processor
from suite.analysis.rows.blocks import flags_of
from suite.analysis.rows.groups import SETTINGS, Group, Row
from suite.analysis.rows.metrics import Prices
from suite.analysis.rows.runs import Count, counts
from suite.analysis.statistics.accuracy import AccuracyComparison, training_histories
from suite.analysis.statistics.changes import Step
from suite.analysis.statistics.fastest import FastestBySetting
from suite.analysis.statistics.inference import Estimate
from suite.analysis.statistics.sequential import is_sequential
from suite.catalog.settings import OF_A_FRAMEWORK
from suite.plan.cell import Cell
from suite.record.record import Record
from suite.record.text import clean
from suite.report.format.names import name_value, workload
from suite.report.html import stored
from suite.report.html.stored import CELLS_MOST, Entry, Figure, Standings, Summary
from suite.report.tables.frame import Table, excerpt
from suite.report.tables.releases import python_of, release_name
from suite.report.text import served
from suite.report.text.answer import Answer

#: The least share of a step that is named.
WORTH = 0.05

FASTEST, UNTESTED, ALONE, UNDECIDED = "fastest", "not tested", "alone", "not decided"
#: The verdict on the fastest row, seen from one of the others.
SEEN = {"faster": "slower", "equal": "equal", "inconclusive": "inconclusive", "": UNTESTED}


def summary(
    loaded: Loaded,
    tables: Sequence[Table],
    learned: Sequence[AccuracyComparison],
    answer: Answer,
    standings: Standings | None = None,
) -> Summary:
    """Returns the summary of a comparison, whose cards in the ``answer`` are in the order of its tables."""
    launches = loaded.launches
    records = [launch.record for launch in launches]
    # A launch that failed early does not know the device.
    known = [record for record in records if record.outcome.ok] or records
    machines = Machines((launch.run, launch.record) for launch in launches)
    hardware: dict[str, Machine] = {}
    for launch in launches:
        if launch.record.outcome.ok and (name := machines.name(launch.run, launch.record)):
            hardware.setdefault(name, machines.find(launch.run, launch.record))
    days = sorted({clean(record.started, 40)[:10] for record in records if record.started})
    return Summary(
        runs=_distinct(launch.run for launch in launches),
        dates=_distinct([*days[:1], *days[-1:]]),
        machines=_distinct(map(processor, known)),
        devices=_distinct(gpus(record) or ("CPU" if processor(record) else "") for record in known),
        versions=tuple(sorted(_distinct(map(_version, known)))),
        data=_distinct(clean(record.data.get("kind", ""), 20) for record in records),
        workloads=tuple(sorted(_distinct(f"{r.cell.workload} {r.cell.size}" for r in records))),
        cells=len({(launch.run, launch.record.cell) for launch in launches}),
        launches=len(launches),
        ok=sum(record.outcome.ok for record in records),
        started=max((clean(record.started, 40) for record in records), default=""),
        entries=_entries(tables, learned, answer, counts(loaded)),
        hardware=tuple(hardware.items())[:CELLS_MOST],
        releases=tuple(_line(table, steps) for table in tables for steps in table.findings.releases)[
            : stored.LINES_MOST
        ],
        standings=standings,
    )


def _entries(
    tables: Sequence[Table], learned: Sequence[AccuracyComparison], answer: Answer, counts: Sequence[Count]
) -> tuple[Entry, ...]:
    partial = [f"partial: {each.missing} of {each.planned} launches missing" for each in counts if each.missing]
    cards = iter(answer.cards)
    parts = [(stored.THROUGHPUT, each.group, _rates(each), next(cards)) for each in tables]
    parts += [(stored.ACCURACY, each.group, _accuracies(each), next(cards)) for each in learned]
    of_tables = zip(tables, answer.cards, strict=False)
    parts += [
        (stored.INFERENCE, each.group, _inferences(each), replace(card, verdict=served.card(each)))
        for each, card in of_tables
        if each.group.by == stored.FRAMEWORK and each.findings.servings
    ]
    return tuple(
        Entry(
            kind=kind,
            workload=f"{group.workload} {group.size} {group.data_kind}",
            title=card.title,
            machine=next((row.machine for row in group.rows if row.machine), ""),
            verdict=card.verdict,
            n=_n(group),
            flags=(*partial, *_flags(group, bool(partial))),
            same=f"{group.data_digest[:12]} {group.spec_digest[:12]}",
            suite=next((clean(record.run["suite"], 40) for record in _records(group) if record.run.get("suite")), ""),
            by=group.by,
            figures=figures,
        )
        for kind, group, figures, card in parts
    )


def _rates(table: Table) -> tuple[Figure, ...]:
    shown = excerpt(table)
    values = zip(shown.group.rows, (vars(cell.samples_per_s).values() for cell in shown.cells), strict=True)
    known = [(row, each) for row, each in values if all(end is not None and isfinite(end) for end in each)]
    known.sort(key=lambda each: _count_unusual(each[0]))
    return tuple(_figure(table.group, *each) for each in known)


def _inferences(table: Table) -> tuple[Figure, ...]:
    ordered = sorted(table.group.rows, key=_count_unusual)
    rows = [(row, each) for row in ordered if (each := table.findings.servings.get(row.key))]
    figures = ((row, each.figures.get("samples_per_s")) for row, each in rows[:CELLS_MOST])
    known = ((row, each, each.value) for row, each in figures if each and each.value)
    ends = ((row, [value, each.low or value, each.high or value]) for row, each, value in known)
    return tuple(_figure(table.group, *each) for each in ends)


def _count_unusual(row: Row) -> int:
    """Returns how many settings of a row are not the usual ones; the index shows the row with the fewest."""
    usual = Cell(row.cell.workload, row.cell.framework)
    return sum(getattr(row.cell, each.name) != getattr(usual, each.name) for each in fields(Cell))


def _accuracies(table: AccuracyComparison) -> tuple[Figure, ...]:
    figures = []
    for row in table.group.rows[:CELLS_MOST]:
        seeds = [[epoch.test_accuracy for epoch in course.epochs] for course in training_histories(row)]
        if seeds:
            figures.append(
                _figure(table.group, row, [mean(values) for values in zip(*seeds, strict=False)][: stored.VALUES_MOST])
            )
    return tuple(figures)


def _figure(group: Group, row: Row, values: Iterable[float]) -> Figure:
    version = next(filter(None, map(_version, row.ok)), "")
    names = dict.fromkeys(["precision", "batch", *group.varying])
    shared = [name for name in names if name in SETTINGS and name not in (*OF_A_FRAMEWORK, "run")]
    setting = ", ".join(name_value(name, SETTINGS[name](row)) for name in shared)
    return Figure(row.cell.id, row.cell.framework, version, tuple(map(_short, values)), clean(setting, 200))


def _version(record: Record) -> str:
    """Returns the framework's package, which is the first in the record, and its version."""
    packages = record.environment.get("packages")
    if not isinstance(packages, dict) or not packages:
        return ""
    name, number = next(iter(packages.items()))
    return f"{clean(name, 40)} {clean(number, 40)}"


def _records(group: Group) -> list[Record]:
    return [launch.record for row in group.rows for launch in (*row.launches, *row.control)]


def _n(group: Group) -> tuple[int, int]:
    counts = [len(row.ok) for row in group.rows if row.ok] or [0]
    return min(counts), max(counts)


def _flags(group: Group, partial: bool) -> tuple[str, ...]:
    """Returns what is wrong with some launches, each with the number of launches."""
    records = _records(group)
    failed = sum(not record.outcome.ok and record.outcome.status != "unsupported" for record in records)
    flags = [*(each for row in group.rows for each in row.flags_of_launches)]
    flags += [flags_of(launch.record) for row in group.rows for launch in row.control]
    counts = Counter(flag for each in flags for flag in each)
    uneven = not partial and not is_sequential(group.rows) and len({len(row.launches) for row in group.rows}) > 1
    words = [f"{name} {count}/{len(records)}" for name, count in sorted(counts.items())]
    return (*([f"failed {failed}/{len(records)}"] if failed else []), *(["partial"] if uneven else []), *words)


def _distinct(words: Iterable[str] | Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for word in words if word))


def standings(tables: Sequence[Table], checked: str, address: str, price_hour: float | None) -> Standings | None:
    """Returns the place of a bundle on the leaderboards; None without a row to show.

    ``checked`` is what the rules said of it, ``address`` where it lies, seen from its report.
    """
    contests = [(table, contest) for table in tables for contest in table.findings.contests]
    rows = tuple(row for table, contest in contests for row in _standings(table, contest, Prices(price_hour)))
    if not rows:
        return None
    record = contests[0][1].rows[0].ok[0]
    kind, run = _device(record), clean(record.run.get("id", ""), 80)
    records = [each for table, _ in contests for row in table.group.rows for each in row.ok]
    hardware = identify(records, run) if kind == processor(record) else None
    date = clean(record.started, 40)[:10]
    return Standings(run, kind, date, checked, address, rows[: stored.ROWS_MOST], hardware)


def _device(record: Record) -> str:
    """Returns the kind of device that a launch trained on: the GPU's name, or the processor with its cores."""
    names = (record.environment.get("machine") or {}).get("gpus")
    if record.settings.get("device") != "cpu" and isinstance(names, list) and names:
        return clean(names[0], 80)
    return processor(record) or "device not recorded"


def _standings(table: Table, contest: FastestBySetting, prices: Prices) -> Iterator[stored.Standing]:
    for row in contest.rows:
        name, cell, rates = row.cell.framework, row.cell, _range(row)
        gap = None if name == contest.top else contest.gap(name, contest.top)
        yield stored.Standing(
            f"{cell.workload} {table.group.size}", cell.precision, cell.devices, row.batch, name, cell.id,
            _version(row.ok[0]), len(row.ok), rates, _bounds(gap), _verdict(contest, name),
            prices.of_a_million(rates[0], None),
        )  # fmt: skip


def _verdict(contest: FastestBySetting, name: str) -> str:
    if name != contest.top:
        return SEEN[contest.gap(contest.top, name).verdict]
    if not contest.rivals:
        return ALONE
    if contest.is_untested:
        return UNTESTED
    return FASTEST if len(contest.behind) == len(contest.rivals) else UNDECIDED


def _line(table: Table, steps: Sequence[Step]) -> stored.Line:
    row = steps[0].row
    days = [clean(record.started, 40)[:10] for step in steps for record in step.row.ok]
    return stored.Line(
        workload(table.group), row.cell.framework, row.cell.but(release="").id, row.machine, max(days),
        tuple(map(_release, steps, [None, *steps]))[-stored.STEPS_MOST:],
    )  # fmt: skip


def _release(step: Step, before: Step | None) -> stored.Release:
    known, others = costs(step.row), costs(before.row) if before else None
    shares, changed = [], []
    if known:
        ordered = sorted(known.seconds.items(), key=lambda each: -each[1])[: stored.NAMED_MOST]
        shares = [(name, _short(seconds / known.step_s)) for name, seconds in ordered]
    if known and others and step.to_before and step.to_before.verdict in EXPLAINED:
        why = causes(known, others)
        parts = [] if why.alike else [each for each in why.causes if each.certain is not False]
        changed = [(each.category, _short(1e3 * (each.seconds - each.other_seconds))) for each in parts]
    return stored.Release(
        release_name(step), python_of(step.row), len(step.row.ok), _range(step.row), _change(step.to_before),
        _change(step.to_oldest), tuple(each for each in shares if each[1] >= WORTH),
        tuple(changed[:stored.NAMED_MOST]),
    )  # fmt: skip


def _change(ratio: Estimate | None) -> stored.Change | None:
    bounds = _bounds(ratio)
    return stored.Change(bounds, ratio.verdict) if ratio and bounds else None


def _bounds(ratio: Estimate | None) -> stored.Range | None:
    """Returns a ratio with its bounds; None without."""
    if ratio and ratio.value and ratio.low and ratio.high:
        return _short(ratio.value), _short(ratio.low), _short(ratio.high)
    return None


def _range(row: Row) -> stored.Range:
    """Returns the median throughput of a row's launches, the lowest and the highest."""
    rates = [rate for record in row.ok if (rate := record.samples_per_s)] or [0.0]
    return _short(median(rates)), _short(min(rates)), _short(max(rates))


def _short(value: float) -> float:
    """Returns the value with the digits that a page shows."""
    return float(f"{value:.4g}")
