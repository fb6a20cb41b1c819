"""Published runs drawn anew: the same figures, or nothing is replaced."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from suite.analysis.records.load import load
from suite.compare.__main__ import main as compare
from suite.record.record import Record
from suite.report import plots
from tests import records
from tests.studies.redraw import differences, main, renewed
from tests.weights import published, weight


def draw(tables: object, learned: object, folder: Path, *_: object) -> list[object]:
    (folder / "hero.png").write_bytes(b"drawn")
    return []


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A published run in the form of old: indented, every record whole, plain lines over time."""
    folder = tmp_path_factory.mktemp("made") / "results"
    run = folder / "runs" / "machine" / "0001_a.json"
    run.parent.mkdir(parents=True)
    run.write_text(json.dumps(records.saved(records.everything(gpu=False)), indent=4))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plots, "draw", draw)
        assert compare([str(run), "--publish", str(folder)]) == 0
    return folder


@pytest.fixture
def results(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(plots, "draw", draw)
    return Path(shutil.copytree(made, tmp_path / "results"))


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def without_lines(record: Record) -> Record:
    host = {name: part for name, part in record.metrics.get("host", {}).items() if name != "timeline"}
    return replace(record, metrics=record.metrics | {"host": host, "gpus": []})


def test_a_run_is_rewritten_with_the_same_records_but_for_their_lines(results: Path) -> None:
    run, _ = published(results)["0001_a"]
    before = load([run])
    saved = json.loads(run.read_text())
    new = renewed(saved)
    assert new["suite"]["failed"]
    run.write_text(json.dumps(new))
    after = load([run]).launches
    kept = [now for then, now in zip(before.launches, after, strict=True) if now == then]
    assert {each.record.cell for each in kept if each.record.outcome.ok} == {
        each.record.cell for each in after if each.record.outcome.ok
    }, "of each cell the launch that is shown is as it was: its lines were short, and whole numbers"
    assert [without_lines(each.record) for each in after] == [without_lines(each.record) for each in before.launches]
    again = renewed(json.loads(run.read_text()))
    assert json.dumps(again) == json.dumps(new), "once is enough"


def test_published_runs_are_replaced_by_lighter_ones_with_the_same_figures(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, before = contents(results), weight([results])
    (results / "README.md").write_text("mine")
    (results / "0001_a" / "old.svg").write_text("<svg/>")
    assert main([str(tmp_path / "new"), "--results", str(results)]) == 0
    assert contents(results) == old | {"README.md": b"mine", "0001_a/old.svg": b"<svg/>"}, "nothing is replaced"
    assert main([str(tmp_path / "newer"), "--results", str(results), "--in-place"]) == 0
    assert weight([results]).disk < before.disk / 2
    assert not (results / "0001_a" / "old.svg").exists()
    assert not list((results / "0001_a").glob("*.png")), "no page of documentation shows one"
    assert (results / "README.md").read_text() == "mine"
    for name in ("0001_a/cells.csv", "0001_a/launches.csv", "0001_a/table.md", "index.html"):
        assert (results / name).read_bytes() == old[name]
    assert "0001_a" in capsys.readouterr().out


def test_where_a_figure_differs_nothing_is_replaced(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = results / "0001_a" / "launches.csv"
    path.write_text(path.read_text().replace("out-of-memory", "crashed"))
    before = contents(results)
    assert main([str(tmp_path / "new"), "--results", str(results), "--in-place"]) == 1
    assert contents(results) == before
    assert "WRONG: 0001_a/launches.csv: status differs in 2 rows" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("a,b\n1,x\n", "a,b\n1,x\n", []),
        ("a\n1\n", "a,b\n1,x\n", [(False, "b is new")]),
        ("a\n0.1\n", "a\n0.10000000000000002\n", [(False, "a is rounded otherwise in 1 rows")]),
        ("a\n0.1\n", "a\n0.1000001\n", [(True, "a differs in 1 rows")]),
        ("a\nx\n", "a\ny\n", [(True, "a differs in 1 rows")]),
        ("a\n1\n", 'a\n""\n', [(True, "a differs in 1 rows")]),
        ("a,b\n1,2\n", "a\n1\n", [(True, "b is gone")]),
        ("a\n1\n2\n", "a\n1\n", [(True, "a had 2 rows and has 1")]),
        ("a\n1\n", None, [(True, "a is gone")]),
    ],
)
def test_what_differs_is_named(
    before: str, after: str | None, expected: list[tuple[bool, str]], tmp_path: Path
) -> None:
    for name, text in (("old", before), ("new", after)):
        (tmp_path / name).mkdir()
        if text is not None:
            (tmp_path / name / "cells.csv").write_text(text)
    told = [(wrong, f"new/cells.csv: {words}") for wrong, words in expected]
    assert list(differences(tmp_path / "old", tmp_path / "new")) == told
