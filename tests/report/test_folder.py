"""What a comparison writes: nobody else's file is replaced, nothing stays half written, no text is a formula."""

from __future__ import annotations

import csv
import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from suite.analysis.records.load import LoadError
from suite.compare.__main__ import main
from suite.record.record import Outcome
from suite.report.html.folder import INDEX, LAUNCHES, is_site, place_for, stage_files
from suite.report.html.site import check
from tests import records
from tests.records import replace

pytestmark = [pytest.mark.usefixtures("undrawn"), pytest.mark.drawing]

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("reason", ["=1+1", "@SUM(A1)", "+1", "-1+1|cmd", "\t=1"])
def test_a_reason_that_begins_like_a_formula_is_text_in_every_table(reason: str, tmp_path: Path) -> None:
    bad = replace(records.record("jax"), outcome=Outcome("error", reason), phases={}, identity=None)
    path = records.save(tmp_path / "=a.json", [*records.launches(["pytorch"]), bad])
    assert main([str(path), "--output", str(tmp_path / "out")]) == 0
    for name in ("cells.csv", "launches.csv"):
        with (tmp_path / "out" / name).open(newline="") as file:
            fields = [field for row in csv.reader(file) for field in row]
        assert not [
            field for field in fields if field[:1] in tuple("=+@\t") or (field.startswith("-") and " " in field)
        ]
        assert any(reason.strip() in field for field in fields)


def test_a_run_of_the_index_s_name_gets_another_folder_and_the_site_goes_on(tmp_path: Path) -> None:
    site = tmp_path / "site"
    for name in ("index.html", "Index.HTML"):
        path = records.save(tmp_path / f"{name}.json", records.launches(n=1), run=name)
        assert main([str(path), "--publish", str(site)]) == 0
    assert (site / "index.html").is_file()
    assert (site / "run-index.html" / "report.html").is_file()
    assert (site / "run-Index.HTML" / "report.html").is_file()


def test_a_folder_in_the_place_of_the_index_is_named_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "index.html").mkdir()
    with pytest.raises(LoadError, match=r"index.html is a folder, where a page goes: rename it"):
        check(tmp_path, tmp_path / "0001_a")


def test_files_of_somebody_else_are_not_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = records.save(tmp_path / "0001_a.json", records.launches(n=1))
    out = tmp_path / "thesis"
    out.mkdir()
    (out / "table.md").write_text("my own table")
    (out / "chapter.tex").write_text("my own text")
    assert main([str(run), "--output", str(out)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "table.md was not written by the suite and is left alone: choose another folder with --output" in line
    assert {path.name: path.read_text() for path in out.iterdir()} == {
        "table.md": "my own table",
        "chapter.tex": "my own text",
    }
    (out / "table.md").unlink()
    assert main([str(run), "--output", str(out)]) == 0
    assert (out / "chapter.tex").read_text() == "my own text"
    assert main([str(run), "--output", str(out)]) == 0, "its own files are written anew"


def test_a_report_in_one_file_leads_to_no_file_beside_it(tmp_path: Path) -> None:
    run = records.save(tmp_path / "0001_a.json", records.launches(n=1))
    for name, arguments in (("beside", []), ("one", ["--one-file"])):
        assert main([str(run), "--output", str(tmp_path / name), "--extra", "none", *arguments]) == 0
        page = (tmp_path / name / "report.html").read_text(encoding="utf-8")
        assert ('href="cells.csv"' in page) == (not arguments)
        assert "index.html" not in page, "there is no index above it"


def test_what_a_killed_comparison_left_is_gone_after_the_next(tmp_path: Path) -> None:
    (tmp_path / ".partial-notes").mkdir()
    (tmp_path / ".partial-notes" / "mine.txt").write_text("mine")
    code = (
        "import os, sys; from pathlib import Path; from suite.report.html.folder import stage_files\n"
        "with stage_files(Path(sys.argv[1])) as place:\n"
        "    (place / 'table.md').write_text('half'); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, check=False)
    assert done.returncode == -signal.SIGKILL
    assert len(list(tmp_path.iterdir())) == 2
    with stage_files(tmp_path) as place:
        (place / "table.md").write_text("whole")
    assert {path.name for path in tmp_path.iterdir()} == {".partial-notes", "table.md"}
    assert (tmp_path / ".partial-notes" / "mine.txt").read_text() == "mine"


def test_a_name_of_dots_is_a_folder_of_its_own(tmp_path: Path) -> None:
    assert place_for(tmp_path, "..", ["a"]) == tmp_path / "run"


def test_a_full_disk_leaves_no_folder_and_old_files_as_they_were(tmp_path: Path) -> None:
    def fill(folder: Path) -> None:
        with stage_files(folder) as staging:
            (staging / "table.md").write_text("half")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "table.md").write_text("old")
    for name in ("new", "old"):
        with pytest.raises(OSError, match="No space"):
            fill(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
    assert [path.read_text() for path in (tmp_path / "old").iterdir()] == ["old"]


def test_a_fifo_in_the_place_of_a_file_is_no_file_and_holds_up_nobody(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for path in (tmp_path / INDEX, tmp_path / "a" / LAUNCHES):
        os.mkfifo(path)
    assert not is_site(tmp_path)
    assert place_for(tmp_path, "a", ["run-a"]) == tmp_path / "a-run-a"
