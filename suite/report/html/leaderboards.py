"""A page of leaderboards, a part for each kind of device; ranges over runs of one kind, and no ranking across them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from suite.analysis.records.load import REPORT
from suite.analysis.records.machines import distinguish
from suite.analysis.rows.wording import DASH, NONE, figure, fill
from suite.plan.cell import FRAMEWORKS
from suite.record.text import clean
from suite.report.format.names import count
from suite.report.format.names import framework as named
from suite.report.format.view import LEFT, RIGHT
from suite.report.html.document import GENERATOR, PageTable, render
from suite.report.html.standings import Standing, Standings

PAGE = "leaderboards.html"

PRICE, VERSION = "price of a million", "version"
#: Two columns follow, with the links of a row.
COLUMNS = (
    "framework", "workload", "precision", "devices", "batch", "samples/s", "to the fastest", "verdict", "n", PRICE,
    "agrees with", VERSION,
)  # fmt: skip
NUMBERS = {"devices", "samples/s", "to the fastest", "n", PRICE}
#: Columns that say nothing where all rows have one value, which is then above the table.
SHARED = {"precision": "in {}", "devices": "on {} devices"}
RANGES = ("framework", "workload", "precision", "devices", "batch", "runs", "samples/s")

Entry = tuple[str, Standings, Standing]  # the folder of a run, what it says, and one of its rows


@dataclass(frozen=True)
class Board:
    """All runs of one kind of device. ``links`` are the report and the bundle of each row of ``table``."""

    id: str
    kind: str
    counted: str
    table: PageTable
    links: Sequence[tuple[str, str]]
    ranges: PageTable | None


def page(found: Sequence[tuple[str, Standings]]) -> str:
    """Returns the page; kinds of device with more runs come first, and rows in the order of their dates."""
    kinds: dict[str, list[tuple[str, Standings]]] = {}
    labels = distinguish(each.hardware for _, each in found if each.hardware)
    for folder, each in sorted(found, key=lambda one: (one[1].date, one[0])):
        kind = each.hardware.processor(labels[each.hardware]) if each.hardware else each.kind
        kinds.setdefault(clean(kind, 120), []).append((folder, each))
    ordered = sorted(kinds.items(), key=lambda each: (-len(each[1]), each[0]))
    return render(
        "leaderboards.html.jinja",
        title="Leaderboards by device",
        generator=GENERATOR,
        counted=f"{count(len(found), 'submitted run')} on {count(len(kinds), 'kind')} of devices",
        boards=[_board(number, kind, runs) for number, (kind, runs) in enumerate(ordered)],
    )


def _board(number: int, kind: str, runs: Sequence[tuple[str, Standings]]) -> Board:
    entries = [(folder, each, row) for folder, each in runs for row in each.rows]
    dates = sorted(each.date for _, each in runs)
    align = [*(RIGHT if name in NUMBERS else LEFT for name in COLUMNS), LEFT, LEFT]
    rows = [_texts(each, entries) for each in entries]
    single = {name: rows[0][COLUMNS.index(name)] for name in (*SHARED, PRICE)
              if len({row[COLUMNS.index(name)] for row in rows}) == 1}  # fmt: skip
    words = [fill(SHARED[name], text) for name, text in single.items() if name in SHARED]  # fmt: skip
    more = frozenset(COLUMNS.index(name) for name in (*single, VERSION))
    caption = f"Best setting of each framework on {kind}, by date. Rows of different runs are not ranked."
    return Board(
        f"board-{number}",
        kind,
        ", ".join([count(len(runs), "run"), DASH.join(dict.fromkeys([dates[0], dates[-1]])), *words]),
        PageTable(f"board-{number}-rows", caption, [*COLUMNS, "report", "bundle"], rows, align, more=more),
        [(f"{quote(folder, safe='')}/{REPORT}", _address(folder, each)) for folder, each, _ in entries],
        _ranges(number, kind, entries) if len(runs) > 1 else None,
    )


def _address(folder: str, standings: Standings) -> str:
    """Where the bundle lies; empty for an address that leads out of the site."""
    parts = standings.bundle.split("/")
    below = parts[1:] if parts[0] == ".." else [folder, *parts]
    leads_out = not below or not all(below) or ".." in below or ":" in below[0] or "\\" in standings.bundle
    return "" if leads_out else "/".join([*map(quote, below[:-1]), below[-1]])


def _texts(entry: Entry, entries: Sequence[Entry]) -> list[str]:
    _, run, row = entry
    middle, low, high = row.samples_per_s
    ratio = (
        f"{row.to_fastest[0]:.2f} ({row.to_fastest[1]:.2f}{DASH}{row.to_fastest[2]:.2f})" if row.to_fastest else NONE
    )
    texts = [
        named(row.framework), row.workload, row.precision, str(row.devices), _batch(entry, entries),
        f"{figure(middle)} ({figure(low)}{DASH}{figure(high)})", ratio, row.verdict, str(row.n),
        NONE if row.price is None else figure(row.price), _agreeing(entry, entries), row.version,
        run.date, run.checked,
    ]  # fmt: skip
    return [clean(text, 120) or NONE for text in texts]


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


def _ranges(number: int, kind: str, entries: Sequence[Entry]) -> PageTable:
    """The lowest and the highest median of each framework and setting over all runs."""
    held: dict[tuple[str, ...], list[Entry]] = {}
    for each in entries:
        held.setdefault(_question(each[2]), []).append(each)
    rows = []
    for question, found in sorted(held.items(), key=lambda each: _place(each[0])):
        medians = sorted(row.samples_per_s[0] for _, _, row in found)
        span = DASH.join(dict.fromkeys(figure(end) for end in (medians[0], medians[-1])))
        runs = len({run.run for _, run, _ in found})
        rows.append([named(question[0]), *(clean(text, 80) for text in question[1:]), str(runs), span])
    align = [RIGHT if name in ("devices", "runs", "samples/s") else LEFT for name in RANGES]
    return PageTable(f"board-{number}-ranges", f"Medians over runs on {kind}.", RANGES, rows, align)
