"""One self-contained HTML file: the summary in words, tables that sort and filter, the plots, and every launch.

Nothing in it is fetched, and nothing of a record is taken for markup: a policy in the page forbids the first, and all
text goes through `html.escape`.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd

from suite.compare import accuracy_words
from suite.compare.accuracy import Learned
from suite.compare.groups import Group
from suite.compare.load import Loaded
from suite.compare.notes import legend, title
from suite.compare.page import SCRIPT, STYLE
from suite.compare.plots import described
from suite.compare.render import columns, foot
from suite.compare.tables import Table, launches
from suite.compare.text import DASH, NONE, clean, figure
from suite.record import Record

#: Columns in which the best value of a table is marked, and whether more is better.
BEST = {"samples_per_s": True, "step_ms_median": False, "first_step_s": False, "peak_memory_bytes": False}


def report(
    tables: Sequence[Table], loaded: Loaded, plots: Iterable[Path], sources: Sequence[str],
    learned: Sequence[Learned] = (), baseline: str = "pytorch",
) -> str:  # fmt: skip
    """The page. ``plots`` are PNG files, which go into it; ``sources`` are the names of the files that were read."""
    groups = [each.group for each in (*tables, *learned)]
    body = [
        f"<h1>{escape(_headline(groups))}</h1>",
        f"<p class=muted>{escape(_subtitle(groups, loaded))}</p>",
        "<h2>In words</h2><ul>",
        *(f"<li>{escape(sentence)}</li>" for each in tables for sentence in sentences(each)),
        *(f"<li>{escape(sentence)}</li>" for each in learned for sentence in accuracy_words.sentences(each)),
        "</ul>",
        *(_section(each, number) for number, each in enumerate(tables)),
        *([f"<p class=notes>{escape(legend(baseline))}</p>"] if tables else []),
        *(_learned(each, number) for number, each in enumerate(learned)),
        "<h2>Plots</h2>",
        *(_image(path) for path in plots),
        "<h2>Every launch</h2>",
        _launches(loaded),
        "<h2>Environment</h2>",
        _environment(launch.record for launch in loaded.launches),
        "<h2>Run it again</h2>",
        f"<pre>python -m suite.reproduce {escape(' '.join(map(clean, sources)))}</pre>",
        *(f"<p class=notes>{escape(note)}</p>" for note in loaded.notes),
    ]
    policy = f"default-src 'none'; img-src data:; style-src '{_hash(STYLE)}'; script-src '{_hash(SCRIPT)}'"
    head = [
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        f"<title>{escape(_headline(groups))}</title><style>{STYLE}</style>",
    ]
    parts = ["<!doctype html>", '<html lang="en"><head>', *head, "</head><body>", *body]
    return "\n".join([*parts, f"<script>{SCRIPT}</script>", "</body></html>", ""])


def sentences(table: Table) -> list[str]:
    """What the table says, row by row against its baseline, with what each figure stands on."""
    told = []
    for row, cell in zip(table.group.rows, table.frame.to_dict("records"), strict=True):
        if not cell["ratio_blocks"] or row.cell.framework == table.baseline or cell["ratio"] is None:
            continue
        name = f"For {table.group.workload} ({table.group.label(row, ', ')})"
        bounds = f"{cell['ratio_min']:.2f} to {cell['ratio_max']:.2f}"
        stands = f"n = {cell['ratio_blocks']} blocks"
        verdict = cell["ratio_verdict"]
        if verdict in ("faster", "slower"):
            factor = cell["ratio"] if verdict == "faster" else 1 / cell["ratio"]
            told.append(
                f"{name} {row.cell.framework} is {factor:.2f}x {verdict} than {table.baseline} "
                f"(ratio {cell['ratio']:.2f}, 95 % interval {bounds}, {stands})."
            )
        elif verdict == "equal":
            told.append(
                f"{name} {row.cell.framework} and {table.baseline} are equal within {table.margin:.1%} "
                f"(ratio {cell['ratio']:.2f}, 95 % interval {bounds}, {stands})."
            )
        elif verdict:
            told.append(f"{name} nothing can be said of {row.cell.framework} against {table.baseline} yet ({stands}).")
        else:
            told.append(
                f"{name} {row.cell.framework} ran at {cell['ratio']:.2f} times {table.baseline}'s throughput "
                f"({bounds}, {stands}; not tested)."
            )
    return told


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
    best = _best(table)
    names = [header.replace("-\n", "").replace("\n", " ") for header in headers]
    lines = [
        [(value, (index, name) in best) for name, value in zip(names, row, strict=True)]
        for index, row in enumerate(rows)
    ]
    notes = "".join(f"<li>{escape(note)}</li>" for note in foot(table))
    return f"<h2>{escape(title(table))}</h2>\n{_table(f'table{number}', names, lines)}\n<ul class=notes>{notes}</ul>"


def _learned(table: Learned, number: int) -> str:
    told = accuracy_words.words(table)
    rows = [[(value, False) for value in row] for row in told.rows]
    notes = "".join(f"<li>{escape(note)}</li>" for note in told.notes)
    headers = [header.replace("\n", " ") for header in told.headers]
    return f"<h2>{escape(told.title)}</h2>\n{_table(f'learned{number}', headers, rows)}\n<ul class=notes>{notes}</ul>"


def _best(table: Table) -> set[tuple[int, str]]:
    """Row and header of the best value of each column that has one, among rows that ended well."""
    names = {"samples_per_s": "samples/s", "step_ms_median": "step ms", "first_step_s": "first step s"}
    found = set()
    for column, more in BEST.items():
        values = pd.to_numeric(table.frame[column], errors="coerce")
        if column in names and values.notna().sum() > 1:
            found.add((int(values.argmax() if more else values.argmin()), names[column]))
    return found


def _table(name: str, headers: Sequence[str], rows: Sequence[Sequence[tuple[str, bool]]]) -> str:
    head = "".join(f"<th>{escape(header)}</th>" for header in headers)
    body = "\n".join(
        "<tr>" + "".join(f"<td{' class=best' if best else ''}>{escape(value)}</td>" for value, best in row) + "</tr>"
        for row in rows
    )
    return (
        f'<input type=search data-table={name} placeholder="filter rows" aria-label="filter rows">'
        f"<div class=wide><table id={name}><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table></div>"
    )


def _launches(loaded: Loaded) -> str:
    frame = launches(loaded.launches)
    shown = [name for name in SHOWN if name in frame.columns]
    rows = [[(_cell(value), False) for value in row] for row in frame[shown].values.tolist()]
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


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
