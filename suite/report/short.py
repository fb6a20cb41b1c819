"""A short comparison of a run for the end of `pytest suite`: a few columns per workload, at most one screen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from suite.analysis.accuracy import learned, trains_to_the_end
from suite.analysis.groups import Group, group
from suite.analysis.load import Launch
from suite.analysis.statistics import LEAST
from suite.analysis.wording import DASH, NONE, middle
from suite.plan.cell import FRAMEWORKS
from suite.record.record import Record
from suite.record.text import clean
from suite.report.accuracy import view
from suite.report.tables import table
from suite.report.text import spread
from suite.report.words import title

#: Lines of the screen that are left for the rest of pytest's summary.
REST = 8

#: Characters of a table cell, at most.
CELL_MOST = 40

UNTESTED = (
    f"Significance was not tested: a test takes at least {LEAST} launches of each cell. Read small ratios as noise."
)


def short(records: Iterable[Record], run: str, columns: int, lines: int) -> str:
    """Returns a comparison of the records that fits into ``columns`` and ``lines``; it says if rows are left out."""
    groups = group(Launch(record, clean(run, 80), "") for record in records)
    blocks = [_accuracy(each) if trains_to_the_end(each) else _throughput(each) for each in groups]
    tested = all(trains_to_the_end(each) or _launches(each) >= LEAST for each in groups)
    notes = [] if tested else [UNTESTED]
    room = max(1, (lines - REST - len(notes)) // max(1, len(blocks)) - 3)  # of each: title, header and an empty line
    shown = [line for block in blocks for line in [*_cut(block, room), ""]]
    if len(shown) > (most := max(4, lines - REST - len(notes))):  # so many workloads that not even a row each fits
        shown = [*shown[: most - 1], "…: python -m suite.compare shows all"]
    return "\n".join(line if len(line) < columns else f"{line[: columns - 2]}…" for line in [*shown, *notes])


def _throughput(cells: Group) -> list[str]:
    """Returns title, header and a line per row."""
    compared = table(cells)
    rows = [
        {name: middle(str(row[name])) for name in ("framework", *cells.varying)}
        | {
            "n": _count(row["launches_ok"], row["launches"]),
            "samples/s": spread(row["samples_per_s"], row["samples_per_s_min"], row["samples_per_s_max"]),
            f"to {compared.baseline}": _ratio(row),
            **({"verdict": row["ratio_verdict"] or NONE} if compared.tested else {}),
            "identity": row["identity_kind"] or NONE,
            "outcome": "; ".join(filter(None, [row["outcome"], row["flags"]])),
        }
        for row in compared.frame.to_dict("records")
    ]
    return [title(compared), *_aligned(rows)]


def _accuracy(cells: Group) -> list[str]:
    """Returns the same for cells that train to their end."""
    accuracies = view(learned(cells, FRAMEWORKS[0]))
    headers = [header.replace("\n", " ") for header in accuracies.grid.headers]
    return [accuracies.title, *_aligned([dict(zip(headers, row, strict=True)) for row in accuracies.grid.rows])]


def _launches(cells: Group) -> int:
    return min(len(row.launches) for row in cells.rows)


def _count(ok: int, started: int) -> str:
    return str(started) if ok == started else f"{ok}/{started}"


def _ratio(row: Mapping[Any, Any]) -> str:
    if not row["ratio_blocks"]:
        return NONE
    low, high = (f"{row[name]:.2f}" for name in ("ratio_min", "ratio_max"))
    return f"{row['ratio']:.2f}" + (f" ({low}{DASH}{high})" if low != high else "")


def _aligned(rows: Sequence[Mapping[str, str]]) -> list[str]:
    """Returns the header and the rows, in columns as wide as their widest cell."""
    cells = [[clean(cell, CELL_MOST) for cell in line] for line in ([*rows[0]], *(row.values() for row in rows))]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells]


def _cut(block: Sequence[str], room: int) -> list[str]:
    """Returns the block's title, header and as many rows as fit, and how many rows are left out."""
    heading, rows = block[:2], block[2:]
    if len(rows) <= room:
        return [*block]
    kept = rows[: max(0, room - 1)]
    return [*heading, *kept, f"… and {len(rows) - len(kept)} rows more: python -m suite.compare"]
