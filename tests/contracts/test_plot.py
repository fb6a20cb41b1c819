"""A further kind of plot is one file in `suite/report/plots/kinds/`, and no other place names it; it draws figures."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.collections import Collection
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from suite.analysis.records.load import Launch
from suite.analysis.rows.groups import group
from suite.analysis.statistics.accuracy import compare_accuracies
from suite.compare.__main__ import main
from suite.record.parts.history import Epoch, TrainingHistory
from suite.record.record import Record
from suite.report.plots import charts, kinds, layout, use_style
from suite.report.plots.traces import Axis, Chart, Panel
from suite.report.tables.frame import Table
from tests import records
from tests.documents import blocks

#: The measured fields of a record.
MEASURED = (
    "startup", "compile_s", "first_step_s", "phases", "memory", "metrics", "profile", "inference", "course"
)  # fmt: skip

#: The example of CONTRIBUTING.md.
(FAKE,) = [block.text for block in blocks() if block.page.name == "CONTRIBUTING.md" and "@kind(" in block.text]


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    folder = tmp_path / "kinds"
    folder.mkdir()
    (folder / "imports.py").write_text(FAKE)
    kinds.find_kinds(kinds.TIMED)  # so that those of the suite are known already
    monkeypatch.setattr(kinds, "__path__", [*kinds.__path__, str(folder)])
    monkeypatch.setattr(kinds, "_KINDS", dict(kinds._KINDS))
    yield "imports"
    sys.modules.pop("suite.report.plots.kinds.imports", None)


def launches(table: Table) -> Chart:
    """Bar chart of how many launches each cell has."""
    rows = charts.stack_rows(table)
    counts = {y: (len(row.ok), len(row.ok), len(row.ok)) for y, row in rows.places.items()}
    return charts.rows_chart(table, Panel(charts.bars(rows, counts, ""), Axis("launches"), rows=rows), "Launches", "")


def test_a_plot_is_one_file(fake: str, tmp_path: Path) -> None:
    run = records.save(tmp_path / "0001_a.json", records.launches(n=2))
    assert main([str(run), "--output", str(tmp_path / "out")]) == 0
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert {f"{fake}-cifar100_cnn-full.png", f"{fake}-cifar100_cnn-full.svg"} <= written
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    (picture,) = [each for each in page.split("<figure") if "Bar chart of the time to import the framework" in each]
    for words in (
        "Bar: median over launches.",
        "Imports of the CIFAR-100 CNN, by framework",
        ">JAX<",
        " s</title>",
    ):
        assert words in picture, words
    assert page.index("Bar chart of training throughput") < page.index(picture) < page.index("Box plot of"), "its place"


def slower(value: Any, factor: float) -> Any:
    """The same with every measured number times about a factor; whole numbers only if they are bytes."""
    if isinstance(value, dict):
        return {name: slower(each, factor * (1 + 0.001 * at)) for at, (name, each) in enumerate(value.items())}
    if isinstance(value, list | tuple):
        return [slower(each, factor) for each in value]
    if isinstance(value, float) or (type(value) is int and value > 10_000):
        return type(value)(value * factor)
    return value


def otherwise(held: Sequence[Record]) -> list[Record]:
    """The same launches with other figures, each changed by a factor of its own."""
    made = [record.to_json() for record in held]
    factors = [0.9 + 0.01 * (number % 7) for number in range(len(made))]
    changed = [
        {name: slower(value, factor) if name in MEASURED else value for name, value in each.items()}
        for each, factor in zip(made, factors, strict=True)
    ]
    found = [Record.from_json(each) for each in changed]
    return [
        replace(each, ranks=records.ranks(each.cell, each.phases["train"].step_s)) if each.ranks else each
        for each in found
    ]


def trained(devices: int = 1) -> list[Record]:
    """Launches that train to their end."""
    passes = tuple(Epoch(100, 2.0, 3.0, 2.0, 0.2 * n, 0.5) for n in range(1, 4))
    course = TrainingHistory("modern", 3, 0.5, passes, tuple(4.6 * 0.99**step for step in range(100)))
    return [
        records.record(name, seed, recipe="modern", course=course, devices=count)
        for name, seed, count in product(("pytorch", "jax"), range(3), range(1, devices + 1))
    ]


def subject(of: str, held: Sequence[Record]) -> tuple[Any, ...]:
    """What a kind of plot is drawn of."""
    timed = [] if held[0].cell.recipe else records.tables(held)
    groups = group([Launch(each, "run-a", "a.json") for each in held]) if held[0].cell.recipe else []
    learned = [compare_accuracies(each, "pytorch") for each in groups]
    return (timed, learned) if of == kinds.COMPARISON else (timed[0] if of == kinds.TIMED else learned[0],)


def shapes(chart: Chart | None) -> list[Any]:
    """Where all lines, bars and marks of a plot are, in the units of its axes."""
    assert chart is not None, "nothing to draw"
    plot = layout.draw(chart)
    drawn: list[Any] = []
    for axes in plot.axes:
        drawn += [line.get_xydata() for line in axes.findobj(Line2D) if line.axes is axes]
        patches = [each for each in axes.patches if isinstance(each, Patch)]
        drawn += [each.get_path().transformed(each.get_patch_transform()).vertices for each in patches]
        for each in axes.findobj(Collection):
            drawn += [each.get_offsets(), *(path.vertices for path in each.get_paths())]
    return [np.round(np.asarray(each, float), 6).tolist() for each in drawn]


def draws_figures(kind: kinds.Kind) -> bool:
    """Whether a kind of plot looks otherwise where launches have other figures."""
    if kind.of == kinds.TRAINED:
        held = trained(devices=2 if kind.name == "accuracy-devices" else 1)
    else:
        held = records.complete()
    with use_style():
        return shapes(kind.chart(*subject(kind.of, held))) != shapes(kind.chart(*subject(kind.of, otherwise(held))))


@pytest.mark.drawing
@pytest.mark.parametrize("of", [kinds.TIMED, kinds.TRAINED, kinds.COMPARISON])
def test_every_kind_draws_what_was_measured(of: str) -> None:
    assert [kind.name for kind in kinds.find_kinds(of) if not draws_figures(kind)] == []


@pytest.mark.drawing
def test_a_plot_that_draws_a_constant_is_noticed() -> None:
    assert not draws_figures(kinds.Kind(1.5, kinds.TIMED, launches))
