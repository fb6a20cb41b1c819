"""Tables as text: 120 columns for a terminal, or Markdown."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

from tabulate import tabulate

from suite.analysis.groups import SETTINGS
from suite.analysis.wording import DASH, NONE, figure, middle
from suite.record.text import clean
from suite.report.tables import Table, best
from suite.report.text import markdown, spread
from suite.report.words import foot_lines, title

WIDTH = 120


def terminal(table: Table, colour: bool = False) -> str:
    """The table with title and notes, in 120 columns unless its settings alone are wider; in ``colour`` for a terminal.

    A table that is too wide gets two lines a row: first the brackets of the numbers go to the second one, then words
    are folded, then the columns move together, and at last the marks of the best values go.
    """
    notes = _Notes()
    headers, rows = _columns(table, notes)
    starred = [list(row) for row in rows]
    for row, column in marked(table, headers):
        first, space, rest = rows[row][column].partition(" ")
        starred[row][column] = f"{first}*{space}{rest}"
    text = ""
    tight = [(" (", 99, 2), ("\n(", 26, 2), ("\n(", 16, 2), ("\n(", 13, 2), ("\n(", 13, 1)]
    for held, brackets, words, gap in [*((starred, *each) for each in tight), (rows, *tight[-1])]:
        folded = [[_fold(value.replace(" (", brackets), max(words, 15)) for value in row[:-2]] for row in held]
        told = [
            [_fold(row[-2].replace("same (", "same" + brackets[0] + "("), words), _fold(row[-1], words)] for row in held
        ]
        both = [[*one, *other] for one, other in zip(folded, told, strict=True)]
        text = _grid(headers, both, _align(table, headers), gap)
        if max(map(len, text.splitlines())) <= WIDTH:
            break
    foot = [line for note in [*foot_lines(table), *notes.lines] for line in wrap(note).splitlines()]
    heading = title(table)
    text = _coloured(text) if colour else text
    seen = _seen(table)
    more = [_grid(*seen, _align_seen(table, seen[0]), 2), ""] if seen else []
    return "\n".join([heading, "=" * min(len(heading), WIDTH), text, "", *more, *foot])


def in_markdown(table: Table) -> str:
    """The same for a Markdown reader; nothing of a record is taken for markup."""
    notes = _Notes()
    headers, rows = _columns(table, notes)
    shown = [[markdown(value) for value in row] for row in rows]
    for row, column in marked(table, headers):
        first, space, rest = shown[row][column].partition(" ")
        shown[row][column] = f"**{first}**{space}{rest}"
    text = tabulate(
        shown,
        headers=[header.replace("-\n", "").replace("\n", " ") for header in headers],
        tablefmt="pipe",
        disable_numparse=True,
        colalign=_align(table, headers),
    )
    foot = "\n".join(f"- {markdown(note)}" for note in [*foot_lines(table), *notes.lines])
    if seen := _seen(table):
        headers, rows = seen
        second = tabulate(
            [[markdown(value) for value in row] for row in rows],
            headers=[header.replace("\n", " ") for header in headers],
            tablefmt="pipe",
            disable_numparse=True,
            colalign=_align_seen(table, headers),
        )
        text += f"\n\n{second}"
    return f"## {markdown(title(table))}\n\n{text}\n\n{foot}\n"


def wrap(text: str) -> str:
    """Running text in 120 columns, the lines after the first indented."""
    return textwrap.fill(text, WIDTH, subsequent_indent="   ", break_on_hyphens=False)


def columns(table: Table) -> tuple[list[str], list[list[str]]]:
    """Headers, and the rows as strings, those of the second table beside those of the first."""
    headers, rows = _columns(table, _Notes())
    seen = _seen(table)
    if not seen:
        return headers, rows
    words = 1 + len(table.group.varying)
    return headers + seen[0][words:], [row + more[words:] for row, more in zip(rows, seen[1], strict=True)]


def foot(table: Table) -> list[str]:
    """The notes under a table, the numbered ones at the end."""
    notes = _Notes()
    _columns(table, notes)
    return [*foot_lines(table), *notes.lines]


def marked(table: Table, headers: Sequence[str]) -> list[tuple[int, int]]:
    """Row and column of the best values."""
    there = [header.replace("-\n", "").replace("\n", " ") for header in headers]
    names = {"samples_per_s": "samples/s", "step_ms_median": "step ms", "first_step_s": "first step s"}
    names["peak_memory_bytes"] = next((name for name in there if name.endswith("peak MiB")), "")
    shown = [(there.index(names[column]), rows) for column, rows in best(table).items() if names[column] in there]
    return [(row, place) for place, rows in shown for row in rows]


def _coloured(text: str) -> str:
    """The best values bold, verdicts in green and red: what the words say already."""
    text = re.sub(r"\S+\*(?=\s|$)", "\033[1m\\g<0>\033[0m", text)
    text = re.sub(r"\bfaster\b", "\033[32mfaster\033[0m", text)
    return re.sub(r"\bslower\b", "\033[31mslower\033[0m", text)


class _Notes:
    """Numbered notes; the same words get the same number."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def mark(self, text: str) -> str:
        return f"[{self._numbers.setdefault(text, len(self._numbers) + 1)}]"

    @property
    def lines(self) -> list[str]:
        return [f"[{number}] {text}" for text, number in self._numbers.items()]


def _columns(table: Table, notes: _Notes) -> tuple[list[str], list[list[str]]]:
    """Headers, and the rows as strings."""
    kinds = {str(kind) for kind in table.frame["peak_memory_kind"]} - {""}
    memory = f"{_memory_words(*kinds)} MiB".replace(" ", "\n") if len(kinds) == 1 else "peak memory\nMiB"
    columns: dict[str, Callable[[Any], str]] = {
        **{name: _setting(name) for name in ("framework", *table.group.varying)},
        "n": lambda row: _n(row["launches_ok"], row["launches"]),
        "samples/s": lambda row: spread(row["samples_per_s"], row["samples_per_s_min"], row["samples_per_s_max"]),
        "ratio": lambda row: _ratio(row, notes),
        **({"verdict": lambda row: row["ratio_verdict"] or NONE} if table.tested else {}),
        "step ms": lambda row: spread(row["step_ms_median"], row["step_ms_q1"], row["step_ms_q3"]),
        "of com-\npute": lambda row: _share(row["train_of_compute"]),
        "first\nstep s": lambda row: figure(row["first_step_s"]),
        # Where a framework has several modes, what counts is when compiling pays.
        **(
            {"pays\nafter": lambda row: figure(row["break_even_steps"])}
            if "compile" in _varied(table)
            else {"com-\npile s": lambda row: figure(row["compile_s"])}
        ),
        memory: lambda row: _memory(row, len(kinds) > 1),
        "identity": lambda row: row["identity"] or NONE,
        "outcome": lambda row: _outcome(row, notes),
    }
    rows = [[read(row) for read in columns.values()] for row in table.frame.to_dict("records")]
    return list(columns), rows


#: Columns of the second table: header, column of the frame, and what its figures are divided by.
SEEN = (
    ("CPU\ncores", "cpu_cores", 1.0),
    ("others'\ncores", "other_cpu_cores", 1.0),
    ("MFU %", "model_flops_utilisation", 0.01),
    ("GPU\nbusy %", "gpu_utilisation_percent", 1.0),
    ("SM\nactive %", "sm_utilisation_percent", 1.0),
    ("SM occu-\npancy %", "sm_occupancy_percent", 1.0),
    ("tensor\npipe %", "tensor_percent", 1.0),
    ("DRAM\n%", "dram_bandwidth_percent", 1.0),
    ("GPU mem\nMiB", "gpu_memory_used_bytes", 2.0**20),
    ("power\nW", "power_w", 1.0),
    ("mJ per\nsample", "energy_j_per_sample", 1e-3),
    ("cost of\n1M samples", "cost_per_million_samples", 1.0),
)


def _seen(table: Table) -> tuple[list[str], list[list[str]]] | None:
    """What was seen from outside while each row trained: the columns that some row has; None if there is none."""
    columns = [(header, name, unit) for header, name, unit in SEEN if table.frame[name].notna().any()]
    if not columns:
        return None
    words = ["framework", *table.group.varying]
    headers = [*words, *(header for header, _, _ in columns)]
    rows = [
        [*(_setting(name)(row) for name in words), *(_known(row[name], unit) for _, name, unit in columns)]
        for row in table.frame.to_dict("records")
    ]
    return headers, rows


def _known(value: float | None, unit: float) -> str:
    return figure(None if value is None or math.isnan(value) else round(value / unit, 6))  # counters' last digits


def _align_seen(table: Table, headers: Sequence[str]) -> list[str]:
    words = 1 + len(table.group.varying)
    return ["left"] * words + ["right"] * (len(headers) - words)


def _varied(table: Table) -> set[str]:
    """The settings that some framework has in more than one value."""
    held: dict[str, dict[str, set[str]]] = {}
    for row in table.group.rows:
        for name in table.group.varying:
            held.setdefault(name, {}).setdefault(row.cell.framework, set()).add(SETTINGS[name](row))
    return {name for name, found in held.items() if any(len(values) > 1 for values in found.values())}


def _setting(name: str) -> Callable[[Any], str]:
    return lambda row: middle(row[name])  # only the name of a run can be long


def _align(table: Table, headers: Sequence[str]) -> list[str]:
    words = 1 + len(table.group.varying)
    left = ["right" if header == "batch" else "left" for header in headers[:words]]
    return [*left, *["right"] * (len(headers) - words - 2), "left", "left"]


def _share(value: float | None) -> str:
    return f"{value:.2f}" if value is not None and math.isfinite(value) else NONE


def _n(ok: int, started: int) -> str:
    return str(started) if ok == started else f"{ok}/{started}"


def _ratio(row: Any, notes: _Notes) -> str:
    if row["ratio_blocks"] == 0:
        return f"{NONE} {notes.mark(row['ratio_reason'])}" if row["ratio_reason"] else NONE
    low, high = (f"{row[name]:.2f}" for name in ("ratio_min", "ratio_max"))
    caveat = f" {notes.mark(row['ratio_caveat'])}" if row["ratio_caveat"] else ""
    return f"{row['ratio']:.2f}" + (f" ({low}{DASH}{high})" if low != high else "") + caveat


def _memory(row: Any, with_kind: bool) -> str:
    words = figure(row["peak_memory_bytes"] / 2**20 if row["peak_memory_kind"] else None)
    return f"{words} {_memory_words(row['peak_memory_kind'])}" if with_kind and words != NONE else words


def _memory_words(kind: str) -> str:
    """``rss_peak_bytes`` as ``RSS peak``."""
    return clean(kind).removesuffix("_bytes").replace("_", " ").replace("rss", "RSS")


def _outcome(row: Any, notes: _Notes) -> str:
    words = row["outcome"]
    if row["reason"]:
        words += f" {notes.mark(row['reason'])}"
    return f"{words}; {row['flags']}" if row["flags"] else words


def _grid(headers: Sequence[str], rows: Sequence[Sequence[str]], align: Sequence[str], gap: int) -> str:
    """A plain table. The headers go in as a row, since tabulate makes each column two wider than its header."""
    body = [headers, *rows]
    rule = ["-" * max(len(line) for row in body for line in row[i].split("\n")) for i in range(len(headers))]
    text = str(tabulate([headers, rule, *rows], tablefmt="plain", disable_numparse=True, colalign=align))
    # tabulate parts the columns by two; it folds cells in formats of its own only, so the gap is cut afterwards.
    starts = list(accumulate((len(dashes) + 2 for dashes in rule), initial=0))[:-1]
    cut = [[line[at : at + len(dashes)] for at, dashes in zip(starts, rule, strict=True)] for line in _padded(text)]
    return "\n".join((" " * gap).join(cells).rstrip() for cells in cut)


def _padded(text: str) -> list[str]:
    lines = text.splitlines()
    width = max(map(len, lines))
    return [line.ljust(width) for line in lines]


def _fold(text: str, width: int) -> str:
    """Each line of the text in a column of ``width``."""
    lines = [textwrap.fill(line, width, break_on_hyphens=False) for line in text.split("\n")]
    return "\n".join(lines)
