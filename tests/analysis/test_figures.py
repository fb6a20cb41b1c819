"""The figures, intervals and verdicts of every published run, on every axis, are as they were: no words among them.

Recorded journals and a generated run add what no published one has. All stand in ``tests/golden/figures.json``, a row a
line; ``UPDATE_GOLDEN=1 pytest tests/analysis/test_figures.py`` writes them anew. `tests/figures.py` reads them, and is
the only place to adapt when findings get other names.
"""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from suite.plan.measuring import CONTROL
from suite.record.record import Record
from tests import figure_parts, figures, records
from tests.expected import GOLDEN
from tests.published import RESULTS, RUNS

STORED = GOLDEN / "figures.json"
#: Runs of one question that are set beside each other, besides each run by itself.
TOGETHER = (("0005_cpu", "0032_cpu"), ("0011_cpu_cnn", "0023_compiled"))

#: Of runs that are not published: the first launches on a GPU, and parts of others.
RECORDED = ("h200.jsonl", "noisy.jsonl", "settings.jsonl")

#: By run, axis, row and field.
Golden = dict[str, figures.Figures]


#: That take longest, and run no line and no branch that no other one does.
SLOW = (
    "0005_cpu", "0011_cpu_cnn", "0023_compiled", "0027_releases", "0029_inference_full", "0032_cpu", "0033_busy",
    "0005_cpu and 0032_cpu",
)  # fmt: skip
GENERATED = "generated.jsonl"


def _files() -> dict[str, list[Path]]:
    """All files whose figures are stored, but for the generated one."""
    files = {name: [path] for name, path in RUNS.items()}
    files |= {" and ".join(names): [RUNS[name] for name in names] for names in TOGETHER}
    others = [*(RESULTS / "submitted").glob("*.bundle"), *(GOLDEN / "runs" / name for name in RECORDED)]
    return files | {path.name: [path] for path in others}


FILES = _files()


def generated() -> list[Record]:
    """What no published run has: GPUs and their energy, several devices and their strategies, a control."""
    held = [*records.complete(6), *records.launches(["tensorflow", "jax"], 6, devices=2)]
    held += records.launches(["pytorch"], 6, devices=2, strategy="fsdp")
    return held + [records.record("tensorflow", CONTROL + block) for block in range(6)]


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    if isinstance(value, tuple):
        return [_rounded(each) for each in value]
    return float(f"{value:.10g}") if isinstance(value, float) else value


def differences(before: Golden, after: Golden) -> Iterator[tuple[str, ...]]:
    """Yields run, axis, row, field, the value before and the one after of all that differ, rounding aside."""

    old, new = dict(_leaves((), before)), dict(_leaves((), after))
    for place in dict.fromkeys([*old, *new]):
        if not _same(old.get(place), new.get(place)):
            yield (*place, str(old.get(place, "nothing")), str(new.get(place, "nothing")))


def _leaves(place: tuple[str, ...], value: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The values with run, axis, row and field, whose name says where in it they are."""
    if isinstance(value, list):
        value = {name: part for name, part in zip(figure_parts.PARTS, value, strict=False) if part is not None}
    if not isinstance(value, dict):
        yield place, value
        return
    for name, part in value.items():
        yield from _leaves((*place, name) if len(place) < 4 else (*place[:3], f"{place[3]} {name}"), part)


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
@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=[pytest.mark.slow] if each in SLOW else []) for each in [*FILES, GENERATED]]
)
def test_every_figure_interval_and_verdict_of_the_published_runs_is_as_it_was(name: str, tmp_path: Path) -> None:
    paths = FILES.get(name) or [records.journal(tmp_path / GENERATED, generated())]
    made = {name: _rounded(figures.read(paths))}
    stored: Golden = json.loads(STORED.read_text(encoding="utf-8"))
    if os.environ.get("UPDATE_GOLDEN"):
        write(stored := stored | made)
    found = list(differences({name: stored[name]}, made))
    by_axis = Counter((run, axis) for run, axis, *_ in found)
    shown = [f"{', '.join(place)}: {before}, {after}" for *place, before, after in found[:40]]
    counts = [f"{count} of {run}, {axis}" for (run, axis), count in by_axis.most_common(20)]
    assert not found, "\n".join([f"{len(found)} figures differ (before, after):", *shown, "", *counts])


def test_no_other_figures_are_stored() -> None:
    assert json.loads(STORED.read_text(encoding="utf-8")).keys() == {*FILES, GENERATED}


def test_a_difference_names_its_run_axis_row_and_field() -> None:
    before: Golden = {"0001_a": {"framework": {"cell x": {"ratio": [1.5, None, None, 6], "outcome": "ok"}}}}
    after: Golden = {"0001_a": {"framework": {"cell x": {"ratio": [1.5 + 1e-11], "outcome": "error"}}}}
    assert list(differences(before, after)) == [
        ("0001_a", "framework", "cell x", "ratio n", "6", "nothing"),
        ("0001_a", "framework", "cell x", "outcome", "ok", "error"),
    ]
