"""The overview of a run: what it shows of which launches, and what it says beside the bars."""

from __future__ import annotations

from pathlib import Path

import pytest

from suite.plan.cell import Loader
from suite.report import plots
from suite.report.plots.kinds.hero import choose_rows, hero, throughputs
from tests import records
from tests.drawn import said, traces
from tests.records import only
from tests.studies.hero import main


def test_every_launch_is_a_dot_and_the_verdict_stands_beside_the_bar() -> None:
    table = only(records.launches(n=6))
    panel = throughputs(table)
    assert panel.rows
    assert panel.rows.names == ["PyTorch", "TensorFlow", "JAX"]
    baseline, faster, slower = panel.beside.values()
    assert baseline.endswith("\u00b7 baseline")
    assert faster.endswith("x, faster")
    assert slower.endswith("x, slower")
    chart = hero([table])
    assert len(traces(chart, "points")[0].x) == 18
    for words in (baseline, faster, slower, "n = 6 launches", "PyTorch with the same settings"):
        assert words in said(chart)


def test_of_many_settings_the_usual_ones_and_the_fastest_are_shown() -> None:
    held = [
        *records.launches(),
        *records.launches(loader=Loader("naive")),
        *records.launches(loader=Loader("resident")),
    ]
    held += [records.timed(1e-3, "jax", launch, precision="bf16") for launch in range(3)]
    held += records.launches(["pytorch"], compile="compile")
    everything = only(records.launches(loader=Loader("naive")) + records.launches(["pytorch"], compile="compile"))
    assert choose_rows(everything) == list(everything.group.rows), "of few rows, all: they are what the run varied"
    table = only(held)
    assert [row.cell.id for row in choose_rows(table)] == [
        "cifar100_cnn-pytorch-fp32-b32-eager-tuned",
        "cifar100_cnn-tensorflow-fp32-b32-graph-tuned",
        "cifar100_cnn-jax-fp32-b32-compile-tuned",
        "cifar100_cnn-jax-bf16-b32-compile-tuned",
    ]
    assert "4 of 11 cells" in said(hero([table]))


def test_there_is_no_overview_of_nothing(tmp_path: Path) -> None:
    table = only([records.failed(each) for each in records.launches()])
    assert hero([table]) is None
    assert hero([]) is None
    assert plots.draw([table], [], tmp_path) == []


def test_synthetic_data_is_named() -> None:
    assert "SYNTHETIC DATA" in said(hero([only(records.launches(kind="synthetic"))]))


def test_the_pictures_of_the_readme_are_those_of_the_published_runs(tmp_path: Path) -> None:
    assert main(["--output", str(tmp_path / "a.png")]) == 0
    for end in (".png", "-dark.png"):
        kept, made = Path(__file__).parents[2] / "docs" / f"hero{end}", tmp_path / f"a{end}"
        assert kept.read_bytes() == made.read_bytes(), "draw it anew: python -m tests.studies.hero"


def test_the_picture_of_the_readme_is_of_one_machine(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["0011_cpu_cnn", "0025_evidence"])
    assert "the runs are of 2 machines" in capsys.readouterr().err


def test_what_was_not_tested_or_has_no_ratio_says_so() -> None:
    words = said(hero([only(records.launches(n=2))]))
    assert "x, not tested" in words
    assert "fewer than 6 launches nothing is tested" in words
    assert "faster" not in words
    panel = throughputs(only(records.launches(["tensorflow", "jax"])))
    assert all(words.endswith("no ratio") for words in panel.beside.values())
