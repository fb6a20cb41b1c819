"""Runs in a notebook: the page's code runs as it stands, and its tables are those of the files."""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import suite
from suite.analysis.records.load import LoadError
from suite.compare.__main__ import main
from suite.plan.command.common import OLDER, SAVED
from tests import records
from tests.documents import ROOT
from tests.records import replace

CODE = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PAGE = ROOT / "docs" / "notebook.md"


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return records.save(SAVED / "m" / "0001_smoke.json", records.launches())


def blocks() -> list[str]:
    return CODE.findall(PAGE.read_text(encoding="utf-8"))


def test_the_code_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "results").symlink_to(ROOT / "results")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in blocks():
        exec(block, names)
    assert Path("throughput.pdf").read_bytes().startswith(b"%PDF")
    assert len(names["run"].launches) == 128


def test_the_page_is_a_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat, nbclient = (pytest.importorskip(name) for name in ("nbformat", "nbclient"))
    (tmp_path / "results").symlink_to(ROOT / "results")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(block) for block in blocks()])
    done = nbclient.NotebookClient(book, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert any("text/html" in output.get("data", {}) for cell in done.cells for output in cell.outputs)


@pytest.mark.usefixtures("undrawn")
def test_the_tables_are_those_of_the_files(saved: Path) -> None:
    assert main(["0001", "--output", "out"]) == 0
    run = suite.load("0001")
    for table, name in ((run.launches, "launches.csv"), (run.cells, "cells.csv")):
        with (Path("out") / name).open(newline="") as file:
            header, *rows = csv.reader(file)
        assert (list(table.columns), len(table)) == (header, len(rows))
    assert set(run.ratios["framework"]) == {"tensorflow", "jax"}, "a row is not compared with itself"
    assert {name for name in run.cells if name.startswith("ratio")} <= {*run.ratios}


def test_the_answer_is_a_text_that_a_notebook_shows(saved: Path) -> None:
    run = suite.load(saved)
    assert isinstance(run.answer, str)
    lines = len(run.answer.splitlines())
    assert run.answer._repr_html_().count("<li>") == len(run.answer._repr_markdown_().splitlines()) == lines
    assert run.answer._repr_html_() in run._repr_html_()


def test_a_plot_is_named_and_of_a_workload(saved: Path) -> None:
    run = suite.load("smoke")
    assert run.plot("throughput").axes
    with pytest.raises(ValueError, match="throughput"):
        run.plot("throughputs")
    with pytest.raises(ValueError, match="cifar100_cnn"):
        run.plot("throughput", "imdb")


def test_runs_are_listed_and_two_of_one_machine_are_compared(saved: Path) -> None:
    records.save(OLDER[SAVED] / "m" / "0002_b.json", records.launches(n=6, run="run-b"), "run-b")
    assert dict(zip(suite.runs()["name"], suite.runs()["own"], strict=True)) == {"0001_smoke": True, "0002_b": False}
    between = suite.load("1", "2").ratios
    assert set(between["run"]) == {"run-b"}
    elsewhere = [replace(each, environment={"machine": {"cpu": "Another", "cores": 4}}) for each in records.launches()]
    records.save(saved, elsewhere)
    with pytest.raises(LoadError, match="across-machines"):
        suite.load("1", "2")


@pytest.mark.parametrize(("given", "meant"), [({"by": "batches"}, "batch"), ({"baseline": "jaxx"}, "jax")])
def test_what_is_mistyped_is_no_table_without_ratios(given: dict[str, str], meant: str, saved: Path) -> None:
    with pytest.raises(ValueError, match=f"did you mean '{meant}'"):
        suite.load(saved, **given)  # type: ignore[arg-type]


def test_importing_the_suite_imports_none_of_it() -> None:
    code = "import sys, suite; assert not {'pandas', 'numpy', 'matplotlib'} & {*sys.modules}; suite.load"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
    with pytest.raises(AttributeError):
        _ = suite.nosuch  # type: ignore[attr-defined]
