"""The test accuracies that cells reach which train to their end, in a sentence."""

from __future__ import annotations

from typing import Any

from suite.analysis.rows.wording import listing
from suite.analysis.statistics.accuracy import MARGIN, AccuracyComparison
from suite.report.format.names import count, counts, framework, frameworks, number


def accuracy(table: AccuracyComparison) -> str:
    """Returns which accuracy the frameworks reach, and whether their tests show a difference."""
    rows = _rows(table)
    if not rows:
        return "no training ended well"
    compared = [row for row in rows if row["verdict"]]
    epochs = count(int(max(row["epochs"] for row in rows)), "epoch")
    if not compared:
        return f"the test accuracy after {epochs} is {_range(rows)} ({_seeds(rows)}, not tested)"
    tested = [row for row in rows if row["verdict"] or _is_base(table, row, compared)]
    apart = [row for row in compared if row["verdict"] in ("higher", "lower")]
    rest = [row for row in rows if row not in tested]
    few = f"; {listing([_name(table, row) for row in rest])} had too few seeds to be tested" if rest else ""
    if apart:
        return f"{'; '.join(_say_difference(table, row) for row in apart)} after {epochs}{few}"
    reached = f"{_range(tested)} after {epochs}"
    if all(row["verdict"] == "same" for row in compared):
        who = _who(table, tested)
        same = f"the same test accuracy within {100 * MARGIN:g} point"
        return f"{who} reach {same}: {reached} ({_seeds(tested)}){few}"
    return f"{_who(table, tested)} reach {reached}; no difference is significant with {_seeds(tested)}{few}"


def short(table: AccuracyComparison) -> str:
    """Returns the same in a few words, for an index."""
    rows = _rows(table)
    if not rows:
        return "no training ended well"
    kinds = {row["verdict"] for row in rows} - {""}
    accuracy = f"accuracy {_range(rows)}"
    if not kinds:
        return f"{accuracy} (n = {min(int(row['seeds_ok']) for row in rows)}, not tested)"
    if kinds & {"higher", "lower"}:
        return f"{accuracy}, which differs"
    return f"same accuracy, {_range(rows)}" if kinds == {"same"} else f"{accuracy}, no difference decided"


def same_as_fp32(table: AccuracyComparison) -> list[object]:
    """Returns the keys of the rows whose accuracy was shown to be that of fp32."""
    rows = zip(table.group.rows, table.rows, strict=True)
    return [row.key for row, columns in rows if columns["fp32_verdict"] == "same"]


def _rows(table: AccuracyComparison) -> list[dict[str, Any]]:
    """Returns the rows that have an accuracy."""
    return [row for row in table.rows if row["accuracy"] is not None]


def _is_base(table: AccuracyComparison, row: dict[str, Any], compared: list[dict[str, Any]]) -> bool:
    alike = [each for each in compared if all(each[name] == row[name] for name in ("run", "precision", "batch"))]
    return bool(row["framework"] == table.baseline and alike)


def _who(table: AccuracyComparison, rows: list[dict[str, Any]]) -> str:
    """Returns ``all three``, or the names by precision where not every precision has all."""
    every = list(dict.fromkeys(row.cell.framework for row in table.group.rows))
    by_precision: dict[str, list[str]] = {}
    for row in rows:
        by_precision.setdefault(row["precision"], []).append(row["framework"])
    several = len({row.cell.precision for row in table.group.rows}) > 1

    def names(found: list[str]) -> str:
        distinct = list(dict.fromkeys(found))
        return f"all {number(len(every))}" if distinct == every and len(every) > 2 else frameworks(distinct)

    if not several:
        return names([row["framework"] for row in rows])
    parts = [f"{names(found)} in {precision}" for precision, found in by_precision.items()]
    return parts[0] if len(parts) == 1 else f"{', and '.join(parts)},"


def _name(table: AccuracyComparison, row: dict[str, Any]) -> str:
    several = len({each.cell.precision for each in table.group.rows}) > 1
    return f"{framework(row['framework'])} in {row['precision']}" if several else framework(row["framework"])


def _say_difference(table: AccuracyComparison, row: dict[str, Any]) -> str:
    points = 100 * abs(row["difference_value"])
    ends = sorted(100 * abs(row[f"difference_{end}"]) for end in ("low", "high"))
    interval = f"95 % interval {ends[0]:.2f} to {ends[1]:.2f}, {row['difference_seeds']:g} seeds"
    return (
        f"{_name(table, row)} ends {points:.2f} points {row['verdict']} than {framework(table.baseline)} ({interval})"
    )


def _range(rows: list[dict[str, Any]]) -> str:
    """Returns ``.88``, or ``.251 to .254`` if the accuracies of the rows differ at the second digit."""
    values = [row["accuracy"] for row in rows]
    for digits in (2, 3):
        ends = list(dict.fromkeys(f"{value:.{digits}f}".lstrip("0") for value in (min(values), max(values))))
        if len(ends) == 1:
            break
    return " to ".join(ends)


def _seeds(rows: list[dict[str, Any]]) -> str:
    return counts((int(row["seeds_ok"]) for row in rows), "seed")
