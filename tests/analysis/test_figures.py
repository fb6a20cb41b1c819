"""The figures, intervals and verdicts of every published run, on every axis, are as they were: no words among them.

They stand in ``tests/golden/figures.json``, a row a line; ``UPDATE_GOLDEN=1 pytest tests/analysis/test_figures.py``
writes them anew. `tests/figures.py` reads them, and is the only place to adapt when findings get other names.
"""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests import figures
from tests.expected import GOLDEN
from tests.published import RESULTS, RUNS

STORED = GOLDEN / "figures.json"
#: Runs of one question that are set beside each other, besides each run by itself.
TOGETHER = (("0005_cpu", "0031_cpu"),)

#: By run, axis, row and field.
Golden = dict[str, figures.Figures]


def recompute() -> Golden:
    """Returns the figures of all that is published, rounded as they are stored."""
    files = {name: [path] for name, path in RUNS.items()}
    files |= {path.name: [path] for path in sorted((RESULTS / "submitted").glob("*.bundle"))}
    files |= {" and ".join(names): [RUNS[name] for name in names] for names in TOGETHER}
    return {name: _rounded(figures.read(paths)) for name, paths in files.items()}


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    return value if isinstance(value, str | int) else float(f"{value:.10g}")


def differences(before: Golden, after: Golden) -> Iterator[tuple[str, ...]]:
    """Yields run, axis, row, field, the value before and the one after of all that differ, rounding aside."""

    def leaves(golden: Golden) -> dict[tuple[str, ...], Any]:
        return {
            (run, axis, row, field): value
            for run, axes in golden.items()
            for axis, rows in axes.items()
            for row, fields in rows.items()
            for field, value in fields.items()
        }

    old, new = leaves(before), leaves(after)
    for place in dict.fromkeys([*old, *new]):
        if not _same(old.get(place), new.get(place)):
            yield (*place, str(old.get(place, "nothing")), str(new.get(place, "nothing")))


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, int | float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-14)
    return bool(one == other)


def write(golden: Golden) -> None:
    """Store figures, a row a line."""

    def lines(level: dict[str, Any], depth: int) -> str:
        texts = (
            f"{json.dumps(name)}: "
            + (lines(each, depth - 1) if depth else json.dumps(each, sort_keys=True, separators=(",", ":")))
            for name, each in sorted(level.items())
        )
        return "{\n" + ",\n".join(texts) + "\n}"

    STORED.write_text(lines(golden, 2) + "\n", encoding="utf-8")


@pytest.mark.drawing
def test_every_figure_interval_and_verdict_of_the_published_runs_is_as_it_was() -> None:
    made = recompute()
    if os.environ.get("UPDATE_GOLDEN"):
        write(made)
    found = list(differences(json.loads(STORED.read_text(encoding="utf-8")), made))
    by_axis = Counter((run, axis) for run, axis, *_ in found)
    shown = [f"{', '.join(place)}: {before}, {after}" for *place, before, after in found[:40]]
    counts = [f"{count} of {run}, {axis}" for (run, axis), count in by_axis.most_common(20)]
    assert not found, "\n".join([f"{len(found)} figures differ (before, after):", *shown, "", *counts])


def test_a_difference_names_its_run_axis_row_and_field() -> None:
    before: Golden = {"0001_a": {"framework": {"cell x": {"value": 1.5, "verdict": "faster", "n": 6}}}}
    after: Golden = {"0001_a": {"framework": {"cell x": {"value": 1.5 + 1e-11, "verdict": "equal"}}}}
    assert list(differences(before, after)) == [
        ("0001_a", "framework", "cell x", "verdict", "faster", "equal"),
        ("0001_a", "framework", "cell x", "n", "6", "nothing"),
    ]
