"""Every figure, interval and verdict that the suite finds in recorded runs, under the names of this file.

`tests/analysis/test_figures.py` compares them with ``tests/golden/figures.json``. **This file is the only place to
adapt** when the suite names a finding otherwise or keeps it elsewhere: change how it is read, never what it is called
here, and the stored figures stay. No sentence, header or type name of the suite is among them; a verdict is the word
that files and programs read.

The figures are nested dicts: by axis, by row, by field. `along` reads an axis, and `whole` what has none. An estimate
(a ratio, a gain, a share, a spread) is one value, a tuple in the order of `PARTS`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from suite.analysis.bottlenecks.roofline import roofline
from suite.analysis.records.load import Launch, LoadError, load
from suite.analysis.rows.axes import AXES
from suite.analysis.rows.groups import group
from suite.analysis.rows.metrics import Prices
from suite.analysis.search.effects import effects
from suite.analysis.search.elimination import race
from suite.analysis.statistics.accuracy import compare_accuracies, epochs, trains_to_the_end
from suite.analysis.statistics.changes import changes
from suite.analysis.statistics.multiple_testing import standing
from suite.analysis.statistics.scaling import find_time_speedups
from suite.plan.cell import FRAMEWORKS
from suite.plan.objective import Question
from suite.record.record import Record
from suite.report.tables.curves import speed_ups
from suite.report.tables.frame import table
from suite.report.tables.launches import launch_table
from suite.reproduce.verdicts import by_cell, judge
from tests.figure_parts import (
    OTHERS,
    Fields,
    cause_of,
    communication_of,
    estimate_of,
    fields_of,
    first_name_of,
    power_of,
    sums_of,
    take,
    with_verdict,
)

#: Values by field; those that are missing or empty are left out. And fields by row, by axis.
Figures = dict[str, dict[str, Fields]]

#: Columns of a training that are no figures, or the row itself.
NOT_OF_TRAINING = {
    "run", "cell", "workload", "size", "framework", "precision", "recipe", "identity", "flags", "machine",
}  # fmt: skip
#: So that costs have figures.
PRICES = Prices(2.0, 0.3)


def read(paths: Sequence[Path]) -> Figures:
    """Returns all figures of these files, by axis; of several files the ratios across runs, too."""
    launches = load(paths).launches
    if len({launch.run for launch in launches}) > 1:
        return {f"{by} across runs": along(launches, by, across=True) for by in ("framework", "machine")} | {
            "first against second run": _compare_runs(launches)
        }
    varying = {name: any(name in each.varying for each in group(launches, name)) for name in AXES if name != "machine"}
    axes = ["framework", *(name for name, varies in varying.items() if varies)]
    other = {f"framework to {FRAMEWORKS[-1]}": along(launches, "framework", FRAMEWORKS[-1])}
    return {name: along(launches, name) for name in axes} | other | {"none": whole(launches)}


def along(launches: Sequence[Launch], by: str, baseline: str | None = None, across: bool = False) -> dict[str, Fields]:
    """Returns the figures of all tables along an axis; those that no axis changes only along the first one."""
    found: dict[str, Fields] = {}
    plain = by == "framework" and not baseline and not across
    for each in group(launches, by, across):
        if trains_to_the_end(each):
            if plain or baseline:
                found |= _of_trained(compare_accuracies(each, baseline or FRAMEWORKS[0]), every=plain)
            continue
        made = table(each, baseline, PRICES)
        place = f"{each.workload} {each.size}"
        bases = " ".join(sorted({first_name_of(by, value) for value in made.base.values.values()}))
        found[f"table {place}"] = fields_of(rows=len(made.cells), base=bases, power=power_of(made))
        for row, cell in zip(each.rows, made.cells, strict=True):
            name = f"cell {row.run} {row.cell.id}" if across else f"cell {row.cell.id}"
            fields = _of_cell(made, row, cell) if plain else {}
            if cell.ratio.baseline != row.cell.id:
                fields |= fields_of(ratio=estimate_of(cell.ratio))
            if plain or cell.ratio.value:
                found |= {name: fields} if fields else {}
        found |= _of_findings(made, place) if plain else {}
    return found


def whole(launches: Sequence[Launch]) -> dict[str, Fields]:
    """Returns what has no axis: columns of launches and epochs, stopping, reproduction, and a search over the cells."""
    records = [launch.record for launch in launches]
    state = standing(records)
    found = {"stopping": fields_of(take(state, "tests decided"), cells=len(state.cells), busy=bool(state.busy))}
    for name, columns in (("launches", launch_table(launches)), ("epochs", epochs(launches))):
        found[name] = sums_of(columns)
    even, odd = ([launch for launch in launches if launch.record.block % 2 == part] for part in (0, 1))
    for cell, made in judge(*(by_cell(each.record for each in half) for half in (even, odd))).items():
        found[f"reproduced {cell.id}"] = fields_of(take(made, "kind"), ratio=getattr(made.ratio, "value", None))
    found |= _compare_runs([*even, *(Launch(each.record, f"{each.run} again", each.source) for each in odd)])
    return found | _search(records)


def _of_cell(made: Any, row: Any, cell: Any) -> Fields:
    """The figures of a row that are the same along every axis."""
    gains = re.findall(r"([\d.]+)x \(([\d.]+) to ([\d.]+), n = (\d+)\)", cell.advice)
    numbers = "launches launches_ok outcome windows loader_efficiency metrics first_step_s compile_s break_even_steps"
    devices, tries = cell.devices, len(cell.batch_search.split(", ")) if cell.batch_search else None
    return fields_of(
        take(cell, f"{numbers} peak_memory_bytes"), best=" ".join(sorted(cell.best)), tried_batches=tries,
        flagged=sum(map(bool, row.flags_of_launches)) or None, set_aside=len(row.set_aside) or None,
        rate=estimate_of(cell.samples_per_s, value="median"), step_ms=estimate_of(cell.step_ms, value="median"),
        bottleneck=with_verdict(cell.bottleneck.loading, cell.bottleneck.kind, OTHERS),
        remedy=[tuple(map(float, gain)) for gain in gains],
        identity=take(cell.identity, "kind losses updates provisional"), control=estimate_of(cell.control, OTHERS),
        control_n=next((len(each.ratios) for each in made.controls if each.row is row), None),
        devices=take(devices, "global_batch threads_per_device allreduce_of_peak"),
        efficiency=estimate_of(devices.efficiency), communication=communication_of(devices.communication),
        exchange=take(devices.exchange, "skew gradient_bytes bytes_per_s"),
    )  # fmt: skip


def _of_findings(made: Any, place: str) -> dict[str, Fields]:
    found, findings = {}, made.findings
    for contest in findings.contests:
        found |= _contest(contest, place)
    for line in findings.releases:
        for step in line:
            found[f"release {step.row.cell.id}"] = fields_of(
                release=step.release, before=estimate_of(step.to_before), oldest=estimate_of(step.to_oldest, "base")
            )
    for scaling in made.scalings:
        for point in scaling.points:
            found[f"{scaling.kind} scaling {scaling.strategy} {point.row.cell.id}"] = fields_of(
                speed_up=estimate_of(point.speed_up), efficiency=estimate_of(point.efficiency),
                batch=point.global_batch, communication=communication_of(point.communication),
            )  # fmt: skip
    for (_, cell), served in findings.servings.items():
        figures = {name: estimate_of(each, OTHERS) for name, each in served.figures.items()}
        ratios = {name: estimate_of(each) for name, each in served.ratios.items()}
        found[f"served {cell.id}"] = fields_of(take(served, "launches requests"), ratio=ratios, **figures)
    found |= _gains(findings.gains)
    for pair in findings.pairs:
        found[f"pair {pair.row.cell.id} to {pair.other.cell.id}"] = _pair(pair)
    for each in speed_ups(made):
        found[f"speed-up {each.row.cell.id}"] = fields_of(ratio=estimate_of(each.ratio, f"{OTHERS[2:]} verdict caveat"))
    return found | dict(_profiles(made))


def _gains(gains: Iterable[Any]) -> dict[str, Fields]:
    rest = "tests alone_low alone_high base"  # as along the axis itself
    return {f"gain {each.axis} {each.row.cell.id}": fields_of(ratio=estimate_of(each.ratio, rest)) for each in gains}


def _profiles(made: Any) -> Iterator[tuple[str, Fields]]:
    for compared in made.findings.compared:
        for row in compared.rows:
            costs = compared.costs[row.key]
            parts = {
                name: {k: v for k, v in getattr(costs, name).items() if v} for name in ("seconds", "calls", "moved")
            }
            figures = take(costs, "step_s covered cost threads launches")
            yield f"profile {row.cell.id}", fields_of(figures, compared=len(compared.rows), **parts)
    for placed in roofline(made.group):
        parts = {
            part.name: take(part, "flops bytes") | {"share": part.share(placed.roof), "bound": part.bound(placed.roof)}
            for part in placed.parts
        }
        roof = take(placed.roof, "flops_per_s bytes_per_s")
        yield f"roofline {placed.row.cell.id}", fields_of(take(placed, "counted bandwidth"), roof=roof, part=parts)


def _pair(pair: Any) -> Fields:
    """What makes the steps of two rows differ."""
    causes = pair.causes
    found = fields_of(ratio=estimate_of(pair.ratio, f"{OTHERS[2:]} caveat"), lacking=len(pair.lacking) or None)
    if not causes:
        return found
    parts = {
        each.category: {
            "share": cause_of(each), "largest": each.operation_share or None,
            "known": len(each.known) or None,
        }
        for each in (*causes.causes, *causes.against)
    }  # fmt: skip
    order = ", ".join(each.category for each in causes.causes)
    figures = take(causes, "per step_s other_step_s blocks named alike")
    return found | fields_of(profiled=figures, order=order, unknown=[*causes.unknown], cause=parts)


def _contest(contest: Any, place: str) -> dict[str, Fields]:
    setting = " ".join(f"{name}={first_name_of(name, value)}" for name, value in contest.settings)
    fields = fields_of(
        order=" ".join(row.cell.framework for row in contest.rows), leaders=len(contest.leaders), tie=contest.tie,
        behind=len(contest.behind), untested=len(contest.untested), unranked=" ".join(contest.unranked),
        own=take(contest, "modes strategies releases"),
        gap={f"{one} to {other}": estimate_of(gap, "base") for (one, other), gap in contest.gaps.items()},
    )  # fmt: skip
    return {f"fastest {place} {setting}": fields}


def _of_trained(made: Any, every: bool) -> dict[str, Fields]:
    """The figures of cells that trained to their end; speeds and what they gained with ``every`` one."""
    found, place, rows = {}, f"{made.group.workload} {made.group.size}", made.rows
    for row, columns in zip(made.group.rows, rows, strict=True):
        figures = {name: value for name, value in columns.items() if name not in NOT_OF_TRAINING}
        proof = take(made.identities[row.key], "kind losses updates")
        found[f"trained {row.cell.id}"] = fields_of(figures, identity=proof)
    target = next((row["target"] for row in rows if row["target"]), None)
    for (_, cell), gain in find_time_speedups(made.group, target).items():
        found[f"sooner {cell.id}"] = fields_of(seconds=with_verdict(gain.ratio, gain.kind, OTHERS[2:]))
    for contest in made.findings.contests if every else ():
        found |= _contest(contest, place)
    return found | _gains(made.findings.gains if every else ())


def _compare_runs(launches: Sequence[Launch]) -> dict[str, Fields]:
    """How each cell changed between two runs."""
    try:
        tested, obstacles = changes(launches)
    except LoadError:
        return {"changes": {"refused": 1}}
    found = {f"changed {each.cell.id}": fields_of(ratio=estimate_of(each.ratio, "n tests")) for each in tested}
    return found | {"changes": fields_of(tested=len(tested), obstacles=len(obstacles))}


def _search(records: Iterable[Record]) -> dict[str, Fields]:
    """What a search for throughput makes of the records, as if they were its own."""
    found: dict[str, Fields] = {}
    by_task: dict[str, list[Record]] = {}
    for record in sorted(records, key=lambda each: each.block):
        if not record.control and not record.cell.recipe:
            task = f"{record.cell.workload} {record.cell.size}"
            by_task.setdefault(task, []).append(replace(record, launch=record.block))
    for task, own in by_task.items():
        ended = race(list(dict.fromkeys(record.cell for record in own)), own, Question())
        found[f"search {task}"] = fields_of(
            take(ended, "blocks launches risk agreed"), left=" ".join(str(step.left) for step in ended.path),
            ranked=" ".join(cell.id for cell in ended.ranked),
        )  # fmt: skip
        for cell, out in ended.out.items():
            found[f"dropped {cell.id}"] = fields_of(take(out, "kind blocks launches launched"))
        for each in effects(ended.cells, ended.scores[0], ended.fits[0]) if ended.fits else ():
            values = " to ".join(first_name_of(each.setting, value) for value in (each.value, each.base))
            found[f"effect {task} {each.setting} {values}"] = fields_of(
                take(each, "p depends_on"), ratio=estimate_of(each.ratio, OTHERS[2:]),
                by={first_name_of(each.depends_on, name): estimate_of(ratio, OTHERS[2:])
                    for name, ratio in (each.by_value or {}).items()},
            )  # fmt: skip
    return found
