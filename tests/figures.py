"""Every figure, interval and verdict that the suite finds in recorded runs, under the names of this file.

`tests/analysis/test_figures.py` compares them with ``tests/golden/figures.json``. **This file is the only place to
adapt** when the suite names a finding otherwise or keeps it elsewhere: change how it is read, never what it is called
here, and the stored figures stay. No sentence, header or type name of the suite is among them; a verdict is the word
that files and programs read.

The figures are nested dicts: by run, by axis, by row, by field. `along` reads all axes, and `whole` what has none.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from suite.analysis.accuracy.comparison import AccuracyComparison, compare_accuracies, epochs, trains_to_the_end
from suite.analysis.bottlenecks.explained_pairs import Pair
from suite.analysis.bottlenecks.roofline import roofline
from suite.analysis.records.load import Launch, LoadError, load
from suite.analysis.rows.axes import AXES
from suite.analysis.rows.groups import Row, group
from suite.analysis.rows.metrics import Prices
from suite.analysis.scaling.time_to_accuracy import find_time_speedups
from suite.analysis.search.effects import effects
from suite.analysis.search.elimination import race
from suite.analysis.statistics.fastest import FastestBySetting
from suite.analysis.statistics.multiple_testing import standing
from suite.analysis.statistics.regress import changes
from suite.plan.cell import FRAMEWORKS, Cell
from suite.plan.objective import Question
from suite.record.record import Record
from suite.report.tables.accuracy import rows as trained_rows
from suite.report.tables.curves import speed_ups
from suite.report.tables.frame import Table, table
from suite.report.tables.tidy import launch_frame
from suite.reproduce.verdicts import judge

#: Values by field; those that are missing or empty are left out.
Fields = dict[str, Any]
#: Fields by row, by axis.
Figures = dict[str, dict[str, Fields]]

#: The parts of an estimate here, and the attributes that hold them.
ESTIMATE = {
    "value": "value", "low": "low", "high": "high", "n": "blocks", "p": "p", "verdict": "verdict", "base": "baseline",
    "to_decide": "blocks_to_decide", "level": "level", "tests": "tests", "alone_low": "alone_low",
    "alone_high": "alone_high", "probably": "probably",
}  # fmt: skip
COMMUNICATION = "share low high launches bound"
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
    axes = [name for name in AXES if name != "machine" and (name == "framework" or _varies(launches, name))]
    others = {f"framework to {name}": along(launches, "framework", name) for name in FRAMEWORKS[1:]}
    return {name: along(launches, name) for name in axes} | others | {"none": whole(launches)}


def along(launches: Sequence[Launch], by: str, baseline: str | None = None, across: bool = False) -> dict[str, Fields]:
    """Returns the figures of all tables along an axis; those that no axis changes only along the first one."""
    found: dict[str, Fields] = {}
    plain = by == "framework" and not baseline and not across
    for each in group(launches, by, across):
        if trains_to_the_end(each):
            found |= (
                _of_trained(compare_accuracies(each, baseline or FRAMEWORKS[0]), plain) if plain or baseline else {}
            )
            continue
        made = table(each, baseline, PRICES)
        place = f"{each.workload} {each.size}"
        found[f"table {place}"] = _flat(rows=len(made.cells), baseline=made.baseline, power=_power(made))
        for row, cell in zip(each.rows, made.cells, strict=True):
            name = f"cell {row.run} {row.cell.id}" if across else f"cell {row.cell.id}"
            if plain or (cell.ratio.value and cell.ratio.baseline != row.cell.id):
                found[name] = _flat(_estimate(cell.ratio)) | (_of_cell(made, row, cell) if plain else {})
        found |= _of_findings(made, place) if plain else {}
    return found


def whole(launches: Sequence[Launch]) -> dict[str, Fields]:
    """Returns what has no axis: columns of launches and epochs, stopping, reproduction, and a search over the cells."""
    records = [launch.record for launch in launches]
    state = standing(records)
    found = {"stopping": _flat(tests=state.tests, decided=state.decided, cells=len(state.cells), busy=bool(state.busy))}
    for name, frame in (("launches", launch_frame(launches)), ("epochs", epochs(launches))):
        found |= {f"{name} {column}": _column(frame[column].dropna()) for column in frame.columns}
    odd, even = ([launch for launch in launches if launch.record.block % 2 == part] for part in (1, 0))
    for cell, verdict in judge(_by_cell(even), _by_cell(odd)).items():
        found[f"reproduced {cell.id}"] = _flat(_take(verdict, "kind ratio low high"))
    found |= _compare_runs([*even, *(Launch(each.record, f"{each.run} again", each.source) for each in odd)])
    return found | _search(records)


def _of_cell(made: Table, row: Row, cell: Any) -> Fields:
    """The figures of a row that are the same along every axis."""
    gains = re.findall(r"([\d.]+)x \(([\d.]+) to ([\d.]+), n = (\d+)\)", cell.advice)
    numbers = "launches launches_ok outcome windows loader_efficiency metrics first_step_s compile_s break_even_steps"
    return _flat(
        _take(cell, f"{numbers} peak_memory_bytes"),
        flagged=sum(map(bool, row.flags_of_launches)), set_aside=len(row.set_aside),
        rate=_take(cell.samples_per_s, "median low high"), step_ms=_take(cell.step_ms, "median low high"),
        bottleneck=_take(cell.bottleneck, "kind loading low high"),
        remedies=[float(figure) for gain in gains for figure in gain],
        identity=_take(cell.identity, "kind losses updates provisional"),
        tried_batches=len(cell.batch_search.split(", ")) if cell.batch_search else 0, best=" ".join(sorted(cell.best)),
        control=_estimate(cell.control),
        control_n=next((len(each.ratios) for each in made.controls if each.row is row), 0),
        devices=_take(cell.devices, "global_batch threads_per_device allreduce_of_peak"),
        efficiency=_estimate(cell.devices.efficiency), communication=_take(cell.devices.communication, COMMUNICATION),
        exchange=_take(cell.devices.exchange, "skew gradient_bytes bytes_per_s"),
    )  # fmt: skip


def _of_findings(made: Table, place: str) -> dict[str, Fields]:
    """What a table of frameworks finds besides its cells."""
    found, findings = {}, made.findings
    for contest in findings.contests:
        found |= _contest(contest, place)
    for line in findings.releases:
        for step in line:
            found[f"release {step.row.cell.id}"] = _flat(
                release=step.release, before=_estimate(step.to_before), oldest=_estimate(step.to_oldest)
            )
    for scaling in made.scalings:
        for point in scaling.points:
            found[f"{scaling.kind} scaling {scaling.strategy} {point.row.cell.id}"] = _flat(
                speed_up=_estimate(point.speed_up), efficiency=_estimate(point.efficiency), batch=point.global_batch,
                communication=_take(point.communication, COMMUNICATION),
            )  # fmt: skip
    for (_, cell), served in findings.servings.items():
        figures = {name: _estimate(each) for name, each in served.figures.items()}
        ratios = {name: _estimate(each) for name, each in served.ratios.items()}
        found[f"served {cell.id}"] = _flat(_take(served, "launches requests"), ratio=ratios, **figures)
    for gain in findings.gains:
        found[f"gain {gain.axis} {gain.row.cell.id}"] = _flat(_estimate(gain.ratio))
    for pair in findings.pairs:
        found[f"pair {pair.row.cell.id} to {pair.other.cell.id}"] = _pair(pair)
    for each in speed_ups(made):
        found[f"speed-up {each.row.cell.id}"] = _flat(_estimate(each))
    return found | dict(_profiles(made))


def _profiles(made: Table) -> Iterator[tuple[str, Fields]]:
    for compared in made.findings.compared:
        for row in compared.rows:
            costs = compared.costs[row.key]
            parts = {
                name: {k: v for k, v in getattr(costs, name).items() if v} for name in ("seconds", "calls", "moved")
            }
            figures = _take(costs, "step_s covered cost threads launches")
            yield f"profile {row.cell.id}", _flat(figures, compared=len(compared.rows), **parts)
    for placed in roofline(made.group):
        for part in placed.parts:
            yield f"roofline {part.name} {placed.row.cell.id}", _flat(
                _take(part, "flops seconds bytes"), _take(placed, "counted bandwidth"), share=part.share(placed.roof),
                bound=part.bound(placed.roof), roof=part.intensity and placed.roof.at(part.intensity),
            )  # fmt: skip


def _pair(pair: Pair) -> Fields:
    """What makes the steps of two rows differ."""
    causes = pair.causes
    found = _flat(_estimate(pair), lacking=len(pair.lacking))
    if not causes:
        return found
    names = "seconds other_seconds share low high p operation_share"
    parts = {
        each.category: _take(each, names) | {"calls": [*each.calls], "known": len(each.known)}
        for each in (*causes.causes, *causes.against)
    }
    order = ", ".join(each.category for each in causes.causes)
    figures = _take(causes, "per step_s other_step_s blocks named alike")
    return found | _flat(profiled=figures, order=order, unknown=[*causes.unknown], cause=parts)


def _contest(contest: FastestBySetting, place: str) -> dict[str, Fields]:
    setting = " ".join(f"{name}={value}" for name, value in contest.settings)
    fields = _flat(
        order=" ".join(row.cell.framework for row in contest.rows), leaders=len(contest.leaders), tie=contest.tie,
        behind=len(contest.behind), untested=len(contest.untested), unranked=" ".join(contest.unranked),
        own=_take(contest, "modes strategies releases"),
        gap={f"{one} to {other}": _estimate(gap) for (one, other), gap in contest.gaps.items()},
    )  # fmt: skip
    return {f"fastest {place} {setting}": fields}


def _of_trained(made: AccuracyComparison, every: bool) -> dict[str, Fields]:
    """The figures of cells that trained to their end; speeds and what they gained with ``every`` one."""
    found, place, rows = {}, f"{made.group.workload} {made.group.size}", trained_rows(made)
    for row, columns in zip(made.group.rows, rows, strict=True):
        figures = {name: value for name, value in columns.items() if name not in NOT_OF_TRAINING}
        proof = _take(made.identities[row.key], "kind losses updates")
        found[f"trained {row.cell.id}"] = _flat(figures, identity=proof)
    target = next((row["target"] for row in rows if row["target"]), None)
    for (_, cell), gain in find_time_speedups(made.group, target).items():
        found[f"sooner {cell.id}"] = _flat(_take(gain, "value low high seeds kind"))
    for contest in made.findings.contests if every else ():
        found |= _contest(contest, place)
    for gain in made.findings.gains if every else ():
        found[f"gain {gain.axis} {gain.row.cell.id}"] = _flat(_estimate(gain.ratio))
    return found


def _compare_runs(launches: Sequence[Launch]) -> dict[str, Fields]:
    """How each cell changed between two runs."""
    try:
        tested, obstacles = changes(launches)
    except LoadError:
        return {"changes": {"refused": 1}}
    found = {f"changed {each.cell.id}": _flat(_take(each, "ratio low high p")) for each in tested}
    return found | {"changes": _flat(tested=len(tested), obstacles=len(obstacles))}


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
        found[f"search {task}"] = _flat(
            _take(ended, "blocks launches risk agreed"), left=[step.left for step in ended.path],
            ranked=" ".join(cell.id for cell in ended.ranked),
        )  # fmt: skip
        for cell, out in ended.out.items():
            found[f"dropped {cell.id}"] = _flat(_take(out, "kind blocks launches launched"))
        for each in effects(ended.cells, ended.scores[0], ended.fits[0]) if ended.fits else ():
            found[f"effect {task} {each.setting} {each.value} to {each.base}"] = _flat(
                _take(each.ratio, "value low high pairs"), _take(each, "p depends_on"),
                by={name: _take(ratio, "value low high") for name, ratio in (each.by_value or {}).items()},
            )  # fmt: skip
    return found


def _power(made: Table) -> Fields:
    ranges = {name: [*getattr(made.power, name)] for name in ("noise_range", "smallest_range", "launches_range")}
    figures = _take(made.power, "blocks smallest launches")
    return figures | ranges | {"noise": _take(made.power.noise, "deviation freedom of_control")}


def _estimate(found: Any) -> Fields:
    """The parts of a ratio, difference, gain or share; ``none`` says that a reason stands in its place."""
    parts = {name: getattr(found, attribute, None) for name, attribute in ESTIMATE.items()}
    words = {"none": getattr(found, "reason", ""), "caveat": getattr(found, "caveat", "")}
    return parts | {name: bool(text) for name, text in words.items()}


def _take(found: Any, names: str) -> Fields:
    """These attributes, None where there is nothing to have them."""
    return {name: getattr(found, name, None) for name in names.split()}


def _column(values: Any) -> Fields:
    """How many values a column has; the sum of numbers, and how many different words."""
    if values.dtype.kind in "bif" or all(isinstance(value, int | float) for value in values):
        return _flat(n=len(values), sum=math.fsum(map(float, values)))
    return _flat(n=len(values), different=values.nunique())


def _by_cell(launches: Iterable[Launch]) -> Mapping[Cell, list[Record]]:
    found: dict[Cell, list[Record]] = {}
    for launch in launches:
        if not launch.record.control:
            found.setdefault(launch.record.cell, []).append(launch.record)
    return found


def _varies(launches: Iterable[Launch], axis: str) -> bool:
    return any(axis in each.varying for each in group(launches, axis))


def _flat(*fields: Mapping[str, Any], **more: Any) -> Fields:
    """Nested fields as one level, with dots; without those that are missing, empty or false."""
    found: Fields = {}
    for name, value in (item for each in (*fields, more) for item in each.items()):
        if isinstance(value, Mapping):
            found |= {f"{name}.{part}": each for part, each in _flat(value).items()}
        elif isinstance(value, list):
            found |= _flat({f"{name}.{at}": each for at, each in enumerate(value)})
        elif value is not None and value is not False and value != "" and value == value:
            found[name] = value
    return found
