"""A page of leaderboards, a part for each kind of device; ranges over runs of one kind, and no ranking across them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from suite.analysis.records.load import REPORT
from suite.analysis.records.machines import distinguish
from suite.analysis.rows.wording import DASH, figure, fill
from suite.catalog.setting import TEXT
from suite.plan.cell import FRAMEWORKS
from suite.record.text import clean
from suite.report.format.names import count
from suite.report.format.names import framework as named
from suite.report.format.text import spread
from suite.report.format.view import Grid
from suite.report.html.document import render
from suite.report.html.stored import Standing, Standings
from suite.report.tables.columns import MORE, NAME, Column, bounded, grid

PAGE = "leaderboards.html"

#: Columns that say nothing where all rows have one value; two of them are then above the table.
SHARED = {"precision": "in {}", "devices": "on {} devices", "price of a million": ""}

Entry = tuple[str, Standings, Standing]  # the folder of a run, what it says, and one of its rows


def page(runs: Sequence[tuple[str, Standings]]) -> str:
    """Returns the page; kinds of device with more runs come first, and rows in the order of their dates."""
    kinds: dict[str, list[tuple[str, Standings]]] = {}
    labels = distinguish(each.hardware for _, each in runs if each.hardware)
    for folder, each in sorted(runs, key=lambda one: (one[1].date, one[0])):
        kind = each.hardware.processor(labels[each.hardware]) if each.hardware else each.kind
        kinds.setdefault(clean(kind, 120), []).append((folder, each))
    ordered = sorted(kinds.items(), key=lambda each: (-len(each[1]), each[0]))
    return render(
        "leaderboards.html.jinja",
        title="Leaderboards by device",
        counted=f"{count(len(runs), 'submitted run')} on {count(len(kinds), 'kind')} of devices",
        boards=[_board(kind, held) for kind, held in ordered],
    )


def _board(kind: str, runs: Sequence[tuple[str, Standings]]) -> dict[str, Any]:
    """Returns all runs of one kind of device."""
    entries = [(folder, each, row) for folder, each in runs for row in each.rows]
    dates = [each.date for _, each in runs]
    rows = grid(_columns(entries), entries)
    places = {name: rows.headers.index(name) for name in SHARED}
    single = {name: rows.rows[0][at] for name, at in places.items() if len({row[at] for row in rows.rows}) == 1}
    words = [fill(SHARED[name], text) for name, text in single.items() if SHARED[name]]
    return {
        "kind": kind,
        "counted": ", ".join([count(len(runs), "run"), DASH.join(dict.fromkeys([dates[0], dates[-1]])), *words]),
        "rows": replace(rows, more=rows.more | {places[name] for name in single}),
        "ranges": _ranges(entries) if len(runs) > 1 else None,
    }


def _columns(entries: Sequence[Entry]) -> list[Column]:
    """Returns the columns of an entry; the last two lead to its report and its bundle."""
    return [
        *_of_question(lambda entry: entry[2], lambda entry: _batch(entry, entries)),
        Column("samples/s", lambda entry: spread(*entry[2].samples_per_s)),
        Column("to the fastest", lambda entry: bounded(entry[2].to_fastest)),
        Column("verdict", lambda entry: clean(entry[2].verdict, 120), TEXT),
        Column("n", lambda entry: entry[2].n),
        Column("price of a million", lambda entry: entry[2].price),
        Column("agrees with", lambda entry: _agreeing(entry, entries), TEXT),
        Column("version", lambda entry: clean(entry[2].version, 120), TEXT, where=(MORE,)),
        Column("report", lambda entry: clean(entry[1].date, 120), TEXT, link=_report),
        Column("bundle", lambda entry: clean(entry[1].checked, 120), TEXT, link=_bundle),
    ]


def _of_question(standing: Callable[[Any], Standing], batch: Callable[[Any], str]) -> list[Column]:
    """Returns the columns of a framework and its setting."""
    return [
        Column("framework", lambda row: clean(named(standing(row).framework), 120), TEXT, where=(NAME,)),
        Column("workload", lambda row: clean(standing(row).workload, 120), TEXT),
        Column("precision", lambda row: clean(standing(row).precision, 120), TEXT),
        Column("devices", lambda row: standing(row).devices),
        Column("batch", lambda row: clean(batch(row), 120), TEXT),
    ]


def _report(entry: Entry) -> str:
    return f"{quote(entry[0], safe='')}/{REPORT}"


def _bundle(entry: Entry) -> str:
    """Where the bundle lies; empty for an address that leads out of the site."""
    folder, standings, _ = entry
    parts = standings.bundle.split("/")
    below = parts[1:] if parts[0] == ".." else [folder, *parts]
    leads_out = not below or not all(below) or ".." in below or ":" in below[0] or "\\" in standings.bundle
    return "" if leads_out else "/".join([*map(quote, below[:-1]), below[-1]])


def _batch(entry: Entry, entries: Sequence[Entry]) -> str:
    """The batch, and whether it is the best of several that the framework ran with in this run."""
    folder, _, row = entry
    others = [each for at, _, each in entries if at == folder and _question(each)[:-1] == _question(row)[:-1]]
    best = len(others) > 1 and row.samples_per_s == max(each.samples_per_s for each in others)
    return f"{row.batch} (best)" if best else row.batch


def _agreeing(entry: Entry, entries: Sequence[Entry]) -> str:
    """How many other runs of the kind measured the same cell in a range that overlaps this one's."""
    _, run, row = entry
    # No two runs are equal to the last digit: those are one.
    others = [each for _, other, each in entries if other.run != run.run and each.cell == row.cell
              and each.samples_per_s != row.samples_per_s]  # fmt: skip
    near = [each for each in others if each.samples_per_s[1] <= row.samples_per_s[2]
            and row.samples_per_s[1] <= each.samples_per_s[2]]  # fmt: skip
    return f"{len(near)} of {count(len(others), 'other')}" if others else "no other yet"


def _question(row: Standing) -> tuple[str, ...]:
    return row.framework, row.workload, row.precision, str(row.devices), row.batch


def _place(question: tuple[str, ...]) -> tuple[str, str, int, int, int]:
    framework, workload, precision, devices, batch = question
    at = FRAMEWORKS.index(framework) if framework in FRAMEWORKS else len(FRAMEWORKS)
    return workload, precision, int(devices), int(batch) if batch.isdecimal() else 0, at


def _ranges(entries: Sequence[Entry]) -> Grid:
    """The lowest and the highest median of each framework and setting over all runs."""
    alike: dict[tuple[str, ...], list[Entry]] = {}
    for each in sorted(entries, key=lambda each: _place(_question(each[2]))):
        alike.setdefault(_question(each[2]), []).append(each)
    columns = [
        *_of_question(lambda held: held[0][2], lambda held: held[0][2].batch),
        Column("runs", lambda held: len({run.run for _, run, _ in held})),
        Column("samples/s", lambda held: _range(row.samples_per_s[0] for _, _, row in held)),
    ]
    return grid(columns, alike.values())


def _range(values: Iterable[float]) -> str:
    ordered = sorted(values)
    return DASH.join(dict.fromkeys(map(figure, (ordered[0], ordered[-1]))))
