"""A further kind of plot is one file in `suite/report/plots/kinds/`, and no other place names it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from suite.compare.__main__ import main
from suite.report.plots import kinds
from tests import records

FAKE = '''
"""How many launches each cell has."""

from suite.report.plots import charts
from suite.report.plots.kinds import kind
from suite.report.plots.traces import Axis, Panel


@kind("launch-count", "Bar chart of the number of launches", place=1.5)
def launch_count(table):
    rows = charts.stack_rows(table)
    counts = {y: (len(row.ok),) * 3 for y, row in rows.places.items()}
    panel = Panel(charts.bars(rows, counts, "launches"), Axis("launches (more is better)"), rows=rows)
    return charts.rows_chart(table, panel, "Launches", ["A caption of its own."])
'''


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    folder = tmp_path / "kinds"
    folder.mkdir()
    (folder / "launch_count.py").write_text(FAKE)
    kinds.find_kinds(kinds.TIMED)  # so that those of the suite are known already
    monkeypatch.setattr(kinds, "__path__", [*kinds.__path__, str(folder)])
    monkeypatch.setattr(kinds, "_KINDS", dict(kinds._KINDS))
    yield "launch-count"
    sys.modules.pop("suite.report.plots.kinds.launch_count", None)


def test_a_plot_is_one_file(fake: str, tmp_path: Path) -> None:
    run = records.save(tmp_path / "0001_a.json", records.launches(n=2))
    assert main([str(run), "--output", str(tmp_path / "out")]) == 0
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert {f"{fake}-cifar100_cnn-full.png", f"{fake}-cifar100_cnn-full.svg"} <= written
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    (picture,) = [each for each in page.split("<figure") if "Bar chart of the number of launches" in each]
    for words in (
        "A caption of its own.",
        "Launches of the CIFAR-100 CNN, by framework",
        ">JAX<",
        "launches</title>",
    ):
        assert words in picture, words
    assert page.index("Bar chart of training throughput") < page.index(picture) < page.index("Box plot of"), "its place"
