"""What the bars of the overview are: the rows that answer a run, their values, and the words beside each bar."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from suite.analysis.accuracy.comparison import AccuracyComparison, training_histories
from suite.analysis.rows.groups import SETTINGS, Group, Row
from suite.analysis.rows.wording import figure
from suite.catalog.settings import OF_A_FRAMEWORK
from suite.catalog.settings import SETTINGS as CATALOG
from suite.report.plots.style.bars import Reading, rates_of
from suite.report.plots.style.canvas import stack_rows
from suite.report.plots.style.naming import among, name_of, varying
from suite.report.tables.frame import Table

#: Settings that the rows of one set share; within a set only the framework's own settings differ.
SET = tuple(name for name in SETTINGS if name not in OF_A_FRAMEWORK)
#: A panel shows all rows up to this number; of more, so many sets.
ALL, SETS = 10, 2
#: The height of a row in inches.
HEIGHT_IN = 0.28


@dataclass(frozen=True)
class Panel:
    """Bars of one workload: rows by their y, headings, labels, the readings and words of each row, and bold rows."""

    group: Group
    places: dict[float, Row]
    headings: dict[float, str]
    names: list[str]
    readings: dict[float, list[Reading]]
    words: dict[float, str]
    bold: frozenset[float]
    title: str
    unit: str
    noun: str = "launch"

    @property
    def height(self) -> float:
        """Inches that the rows take."""
        return HEIGHT_IN * (max(self.places) + 1)


def throughputs(table: Table) -> Panel:
    """Returns bars of throughput with each row's ratio to the baseline and its verdict."""
    rows = choose_rows(table)
    places, headings, names = stack_rows(table, rows)
    figures = {row.key: each for row, each in zip(table.group.rows, table.frame.to_dict("records"), strict=True)}
    leaders = table.leaders.get("samples_per_s", frozenset())
    return Panel(
        among(table, rows),
        places,
        headings,
        names,
        {y: rates_of(row) for y, row in places.items()},
        {y: _verdict(table, row, figures[row.key]) for y, row in places.items()},
        frozenset(y for y, row in places.items() if row.key in leaders),
        "training throughput",
        "samples per second (higher is better)",
    )


def choose_rows(table: Table) -> list[Row]:
    """Returns all rows, since they are what the run varied; of many, those of the most usual set of settings and of the
    set that holds the fastest row.

    Of many, ratios between frameworks are shown for the usual compile mode of each, and for the fastest row. Along an
    axis, all of its values are shown.
    """
    rows = [row for row in table.group.rows if any(record.samples_per_s for record in row.ok)]
    if len(rows) <= ALL:
        return rows
    sets: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        sets.setdefault(tuple(SETTINGS[name](row) for name in SET if name != table.group.by), []).append(row)
    fastest = max(rows, key=lambda row: median(record.samples_per_s or 0.0 for record in row.ok))
    kept = list(sets.values())
    if len(kept) > SETS:
        usual = max(kept, key=lambda each: (len({row.cell.framework for row in each}), _is_usual(each[0]), len(each)))
        kept = [each for each in kept if each is usual or fastest in each]
    if table.group.by != "framework":
        return [row for each in kept for row in each]
    return [row for each in kept for row in each if row is fastest or row in _usual_modes(each)]


def _is_usual(row: Row) -> bool:
    given = ("batch", "size", *OF_A_FRAMEWORK)  # of which none is more usual than another
    settings = (each for name, each in CATALOG.items() if name in SET and name not in given)
    return all(getattr(row.cell, each.name) == each.default for each in settings)


def _usual_modes(rows: Sequence[Row]) -> list[Row]:
    """Returns a row of each framework: that of its usual compile mode and strategy, else its first."""
    usual: dict[str, Row] = {}
    for row in sorted(rows, key=lambda row: row.cell != row.cell.but(framework=row.cell.framework)):
        usual.setdefault(row.cell.framework, row)
    return list(usual.values())


def _verdict(table: Table, row: Row, figures: Mapping[Any, Any]) -> str:
    """Returns the median, and the ratio with its verdict: ``126 · 0.99x, inconclusive``."""
    value, ratio = figure(figures["samples_per_s"]), figures["ratio"]
    if ratio is None or math.isnan(ratio):
        return f"{value} · no ratio"
    if table.base.holds(row) and ratio == 1:
        return f"{value} · baseline"
    return f"{value} · {ratio:.2f}x, {figures['ratio_verdict'] or 'not tested'}"


def training_times(learned: AccuracyComparison) -> Panel:
    """Returns bars of the time that all epochs took, with the final accuracy and its verdict."""
    group = learned.group
    rows = [row for row in group.rows if training_histories(row)]
    figures = {row.key: each for row, each in zip(group.rows, learned.frame.to_dict("records"), strict=True)}
    words = {}
    for at, row in enumerate(rows):
        accuracy, verdict = figures[row.key]["accuracy"], figures[row.key]["verdict"]
        seconds = median(course.train_s[-1] for course in training_histories(row))
        words[float(at)] = f"{figure(seconds)} s · {accuracy:.3f}{f', {verdict}' if verdict else ''}"
    epochs = max(len(course.epochs) for row in rows for course in training_histories(row))
    return Panel(
        group,
        {float(at): row for at, row in enumerate(rows)},
        {},
        [name_of(row, [name for name in varying(group) if name != "run"]) for row in rows],
        {
            float(at): [
                (course.train_s[-1], f"{figure(course.train_s[-1])} s, one seed") for course in training_histories(row)
            ]
            for at, row in enumerate(rows)
        },
        words,
        frozenset(),
        f"time of {epochs} epoch{'' if epochs == 1 else 's'}, final accuracy",
        "seconds of training (lower is better)",
        "seed",
    )
