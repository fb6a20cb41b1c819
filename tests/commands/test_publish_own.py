"""``compare RUN --publish results/``: a run of one's own moves to the published ones, or stays where it is."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from suite.compare.__main__ import main
from suite.plan.command.common import OLDER, SAVED
from suite.report import plots
from tests import large, records

pytestmark = pytest.mark.usefixtures("undrawn")
DRAW = plots.draw


def test_a_run_of_one_s_own_moves_to_the_published_ones_and_replaces_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    own = records.save(SAVED / "m" / "0001_a.json", records.launches(n=1))
    content = own.read_bytes()
    assert main(["0001", "--publish", "results"]) == 0
    moved = OLDER[SAVED] / "m" / "0001_a.json.gz"
    assert (own.exists(), gzip.decompress(moved.read_bytes())) == (False, content)
    assert "../runs/m/0001_a.json.gz" in Path("results/0001_a/report.html").read_text()
    records.save(own, records.launches(n=2))
    capsys.readouterr()
    assert main([str(own), "--publish", "results"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert (own.exists(), gzip.decompress(moved.read_bytes())) == (True, content)
    own.write_bytes(content)
    assert main([str(own), "--publish", "results"]) == 0, "one that was killed after the copy is completed"
    assert (own.exists(), gzip.decompress(moved.read_bytes())) == (False, content)


@pytest.mark.drawing
def test_lines_over_time_are_drawn_from_a_run_that_moves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plots, "draw", DRAW)
    held = [large.noted(record, points=20, gpus=0) for record in records.launches(n=2)]
    own = records.save(SAVED / "m" / "0001_a.json", held)
    assert main(["0001", "--publish", "results"]) == 0
    assert not own.exists()
    assert Path("results/0001_a/run.json").exists()


def test_a_run_that_changes_while_it_is_published_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    own = records.save(SAVED / "m" / "0001_a.json", records.launches(n=1))
    monkeypatch.setattr(plots, "draw", lambda *_: [] if own.write_text("theirs") else None)
    assert main(["0001", "--publish", "results"]) == 0
    assert own.read_text() == "theirs"
    assert "not removed" in capsys.readouterr().err


def test_a_page_that_cannot_be_written_leaves_the_run_and_the_next_try_publishes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    own = records.save(SAVED / "m" / "0001_a.json", records.launches(n=1))

    def fill(*_: object) -> None:
        raise OSError("No space left on device")

    with monkeypatch.context() as full:
        full.setattr(plots, "draw", fill)
        assert main(["0001", "--publish", "results"]) == 2
    assert own.exists()
    assert main(["0001", "--publish", "results"]) == 0
    assert not own.exists()
    assert Path("results/0001_a/run.json").exists()


@pytest.mark.parametrize("case", ["no run", "a link", "one folder", "a site of another's"])
def test_what_cannot_be_published_is_not_moved(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    own = named = records.save(SAVED / "m" / "0001_a.json", records.launches(n=1))
    if case == "no run":
        own.write_text('{"benchmarks": [')
    elif case == "a link":
        named = Path("link.json")
        named.symlink_to(own)
    elif case == "one folder":
        OLDER[SAVED].parent.mkdir()
        OLDER[SAVED].symlink_to(SAVED.resolve())
    else:
        OLDER[SAVED].parent.mkdir()
        (OLDER[SAVED].parent / "index.html").write_text("theirs")
    content = own.read_bytes()
    assert main([str(named), "--publish", "results"]) == (0 if case == "a link" else 2)
    assert (own.is_symlink(), own.read_bytes()) == (False, content)
    assert named.exists()
    assert case == "one folder" or not list(OLDER[SAVED].rglob("*.json*"))
