"""One self-contained HTML file: the summary in words, tables that sort and filter, the plots, and every launch.

Nothing in it is fetched, and nothing of a record is taken for markup: a policy in the page forbids the first, and all
text goes through `html.escape`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd

from suite.analysis.accuracy import Learned
from suite.analysis.groups import WORDS, Group, Row
from suite.analysis.load import Loaded
from suite.analysis.wording import DASH, NONE, figure
from suite.record.record import Record
from suite.record.text import clean
from suite.report import accuracy as accuracy_words
from suite.report.document import SCRIPT, head
from suite.report.plots import described
from suite.report.sparklines import timelines
from suite.report.tables import Table
from suite.report.terminal import columns, foot, marked
from suite.report.tidy import launches
from suite.report.words import legend, title


def report(
    tables: Sequence[Table],
    loaded: Loaded,
    plots: Iterable[Path],
    sources: Sequence[str],
    *,
    frame: pd.DataFrame | None = None,
    learned: Sequence[Learned] = (),
) -> str:
    """The page. ``plots`` are PNG files, which go into it; ``sources`` are the names of the files that were read.

    ``frame`` holds the launches, where `launches` was called already; ``learned`` the cells that trained to their end.
    """
    groups = [each.group for each in tables] + [each.group for each in learned]
    body = [
        f"<h1>{escape(_headline(groups))}</h1>",
        f"<p class=muted>{escape(_subtitle(groups, loaded))}</p>",
        "<h2>In words</h2><ul>",
        *(f"<li>{escape(sentence)}</li>" for each in tables for sentence in sentences(each)),
        *(f"<li>{escape(sentence)}</li>" for each in learned for sentence in accuracy_words.sentences(each)),
        "</ul>",
        *(_section(each, number) for number, each in enumerate(tables)),
        *([f"<p class=notes>{escape(legend(tables))}</p>"] if tables else []),
        *(_learned(each, number) for number, each in enumerate(learned)),
        "<h2>Plots</h2>",
        *(_image(path) for path in plots),
        *timelines(launch.record for launch in loaded.launches),
        "<h2>Every launch</h2>",
        _launches(launches(loaded.launches) if frame is None else frame),
        "<h2>Environment</h2>",
        _environment(launch.record for launch in loaded.launches),
        "<h2>Run it again</h2>",
        f"<pre>python -m suite.reproduce {escape(' '.join(map(clean, sources)))}</pre>",
        *(f"<p class=notes>{escape(note)}</p>" for note in loaded.notes),
    ]
    return "\n".join([*head(_headline(groups)), "<body>", *body, f"<script>{SCRIPT}</script>", "</body></html>", ""])


def sentences(table: Table) -> list[str]:
    """What the table says, row by row against its baseline, with what each figure stands on."""
    told = []
    for row, cell in zip(table.group.rows, table.frame.to_dict("records"), strict=True):
        if not cell["ratio_blocks"] or table.base.holds(row) or cell["ratio"] is None:
            continue
        one, other = _sides(table, row)
        name = f"For {table.group.workload} ({table.group.label(row, ', ')})"
        bounds = f"{cell['ratio_min']:.2f} to {cell['ratio_max']:.2f}"
        unit = "launches of each" if " of run " in cell["ratio_baseline"] else "blocks"
        stands = f"n = {cell['ratio_blocks']} {unit}"
        verdict = cell["ratio_verdict"]
        if verdict in ("faster", "slower"):
            factor = cell["ratio"] if verdict == "faster" else 1 / cell["ratio"]
            told.append(
                f"{name} {one} is {factor:.2f}x {verdict} than {other} "
                f"(ratio {cell['ratio']:.2f}, 95 % interval {bounds}, {stands})."
            )
        elif verdict == "equal":
            told.append(
                f"{name} {one} and {other} are equal within {table.margin:.1%} "
                f"(ratio {cell['ratio']:.2f}, 95 % interval {bounds}, {stands})."
            )
        elif verdict:
            told.append(f"{name} nothing can be said of {one} against {other} yet ({stands}).")
        else:
            told.append(
                f"{name} {one} ran at {cell['ratio']:.2f} times {other}'s throughput ({bounds}, {stands}; not tested)."
            )
    return told


def _sides(table: Table, row: Row) -> tuple[str, str]:
    """What is held against what, in words."""
    if table.group.by == "framework":
        return row.cell.framework, table.baseline
    words, axis = WORDS[table.group.by], table.base.axis
    return words.format(axis.value(row)), words.format(table.base.values[row.cell.framework])


def _headline(groups: Sequence[Group]) -> str:
    return "Training benchmarks: " + ", ".join(dict.fromkeys(group.workload for group in groups))


def _subtitle(groups: Sequence[Group], loaded: Loaded) -> str:
    machines = dict.fromkeys(row.machine for group in groups for row in group.rows if row.machine)
    kinds = dict.fromkeys(group.data_words for group in groups)
    days = sorted({clean(launch.record.started, 40)[:10] for launch in loaded.launches if launch.record.started})
    return "; ".join(
        [*machines, *kinds, DASH.join(dict.fromkeys([*days[:1], *days[-1:]])), f"{len(loaded.launches)} launches"]
    )


def _section(table: Table, number: int) -> str:
    headers, rows = columns(table)
    best = marked(table, headers)
    names = [header.replace("-\n", "").replace("\n", " ") for header in headers]
    lines = [[(value, (index, place) in best) for place, value in enumerate(row)] for index, row in enumerate(rows)]
    notes = "".join(f"<li>{escape(note)}</li>" for note in foot(table))
    return f"<h2>{escape(title(table))}</h2>\n{_table(f'table{number}', names, lines)}\n<ul class=notes>{notes}</ul>"


def _learned(table: Learned, number: int) -> str:
    told = accuracy_words.words(table)
    rows = [[(value, False) for value in row] for row in told.rows]
    notes = "".join(f"<li>{escape(note)}</li>" for note in told.notes)
    headers = [header.replace("\n", " ") for header in told.headers]
    return f"<h2>{escape(told.title)}</h2>\n{_table(f'learned{number}', headers, rows)}\n<ul class=notes>{notes}</ul>"


def _table(name: str, headers: Sequence[str], rows: Iterable[Iterable[tuple[str, bool]]]) -> str:
    head = "".join(f"<th>{escape(header)}</th>" for header in headers)
    body = "\n".join(
        "<tr>" + "".join(f"<td{' class=best' if best else ''}>{escape(value)}</td>" for value, best in row) + "</tr>"
        for row in rows
    )
    return (
        f'<input type=search data-table={name} placeholder="filter rows" aria-label="filter rows">'
        f"<div class=wide><table id={name}><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table></div>"
    )


def _launches(frame: pd.DataFrame) -> str:
    shown = [name for name in SHOWN if name in frame.columns]
    # One row at a time: all of them at once take more memory than the launches themselves.
    rows = (((_cell(value), False) for value in row) for row in zip(*(frame[name] for name in shown), strict=True))
    return _table("launches", [name.replace("_", " ") for name in shown], rows)


#: Of `launches.csv`; all columns are there.
SHOWN = (
    "cell", "launch", "control", "status", "flags", "train_samples_per_s", "compute_samples_per_s",
    "input_samples_per_s", "train_step_ms_median", "first_step_s", "compile_s", "memory_rss_peak_bytes", "reason",
)  # fmt: skip


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and value != value):  # noqa: PLR0124 - not a number
        return NONE
    return figure(value) if isinstance(value, float) else clean(value)


def _environment(records: Iterable[Record]) -> str:
    """Versions and switches by framework, as the first launch of each recorded them."""
    told: dict[str, Mapping[str, Any]] = {}
    for record in records:
        if record.environment.get("packages"):
            told.setdefault(record.cell.framework, record.environment)
    shown = {
        framework: {name: held.get(name) for name in ("system", "python", "packages", "variables", "digest")}
        for framework, held in told.items()
    }
    return f"<pre>{escape(json.dumps(shown, indent=2, ensure_ascii=True))}</pre>"


def _image(path: Path) -> str:
    data = base64.b64encode(path.read_bytes()).decode()
    return f'<p><img alt="{escape(described(path))}" src="data:image/png;base64,{data}"></p>'
