from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from suite.analysis.records.load import Loaded, load
from suite.compare.__main__ import main
from suite.report import plots
from tests import records
from tests.records import mixed
from workloads.data import progress

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.drawing


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A saved run in the default storage of an otherwise empty working directory."""
    monkeypatch.chdir(tmp_path)
    return records.save(tmp_path / "results" / "runs" / "machine" / "0001_smoke.json", mixed())


def test_the_latest_run_is_compared_and_everything_is_written(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    said = capsys.readouterr()
    head, *_, answer, _, _ = said.out.splitlines()
    assert head == "0001_smoke.json: 21 launches on Example CPU 3000, 8 cores, no GPU"
    assert answer.startswith("CIFAR-100 CNN, batch 32: ")
    assert "\ncifar100_cnn, size full, real data" in said.out
    assert str(run.parent) not in said.out
    folder = Path("runs/0001_smoke")
    assert {path.name for path in folder.iterdir()} >= {"table.md", "cells.csv", "launches.csv"}
    assert (folder / "report.html").read_text().count("<svg") == 8
    assert not {*folder.glob("*.png"), *folder.glob("*.svg"), *folder.glob("*.parquet")}, "the report has the plots"
    with (folder / "launches.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == len(mixed())
    with (folder / "cells.csv").open(newline="") as file:
        assert len({row["cell"] for row in csv.DictReader(file)}) == 7
    for path in folder.glob("*.[cm]*"):
        assert str(run.parent) not in path.read_text()


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(("values", "by", "named"), [
    (("fp32", "bf16"), "framework", True), (("fp32", "bf16"), "precision", False), (("fp32",), "framework", False),
])  # fmt: skip
def test_a_comparison_of_frameworks_names_what_else_can_be_compared(
    run: Path, values: Sequence[str], by: str, named: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    records.save(run, [each for value in values for each in records.launches(precision=value)])
    assert main(["smoke", "--by", by]) == 0
    assert ("precision (fp32, bf16)" in capsys.readouterr().out) == named


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    "question", [["--by", "precision"], ["--format", "html"], ["--format", "json"], ["--margin", "9%"]]
)
def test_asking_about_a_run_changes_no_file_that_stands(
    run: Path, question: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    records.save(run, [*records.launches(), *records.launches(precision="bf16")])
    assert main(["smoke", "--publish", "results"]) == 0
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in Path("results").rglob("*.*")}
    capsys.readouterr()
    assert main(["smoke", *question]) == 0
    said = capsys.readouterr()
    assert {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in Path("results").rglob("*.*")} == before
    assert "results/0001_smoke was left as it is; --output DIR writes this comparison" in said.out + said.err
    assert main(["smoke", *question, "--output", "results/0001_smoke"]) == 0
    assert {path: path.read_bytes() for path in before} != {path: text for path, (_, text) in before.items()}


@pytest.mark.parametrize(("extra", "suffixes"), [
    ([], {"png", "svg", "parquet"}),
    (["--extra", "svg"], {"svg"}),
    (["--extra", "parquet,svg"], {"svg", "parquet"}),
    (["--extra", "pdf"], {"pdf"}),
    (["--extra", "none"], set()),
])  # fmt: skip
def test_a_folder_of_one_s_own_gets_svg_and_parquet_unless_asked_otherwise(
    run: Path, extra: list[str], suffixes: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def draw(tables: object, learned: object, folder: Path, suffixes: Sequence[str], _: object) -> list[object]:
        for suffix in suffixes:
            (folder / f"a.{suffix}").write_text("drawn")
        return []

    monkeypatch.setattr(plots, "draw", draw)
    records.save(run, records.launches(n=1))
    assert main(["--output", "there", *extra]) == 0
    written = {path.suffix.removeprefix(".") for path in Path("there").iterdir()}
    assert written - {"md", "csv", "html", "json"} == suffixes


@pytest.mark.usefixtures("undrawn")
def test_a_site_is_light_and_takes_what_is_asked_for(run: Path) -> None:
    records.save(run, records.launches(n=1))
    assert main(["--publish", "site"]) == 0
    assert not [*Path("site").rglob("*.png"), *Path("site").rglob("*.svg"), *Path("site").rglob("*.parquet")]
    assert main(["--publish", "site", "--extra", "parquet"]) == 0
    assert len(list(Path("site").rglob("*.parquet"))) == 1


@pytest.mark.parametrize("arguments", [
    ["nosuch"], ["--baseline", "theano"], ["--format", "pdf"], ["--nonsense"], ["broken.json"], ["--output", "taken"],
    ["--storage", "nosuch"], ["x" * 5000], ["--extra", "eps"], ["--extra", ""],
    ["--style", "nosuch.mplstyle"],
])  # fmt: skip
def test_what_cannot_be_used_is_one_line_and_status_2(
    run: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("broken.json").write_text("{")
    Path("taken").write_text("a file")
    try:
        status = main(arguments)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    said = capsys.readouterr()
    assert status == 2
    assert said.out == ""
    assert len(said.err.splitlines()) == 1


@pytest.mark.usefixtures("undrawn")
def test_the_margin_is_what_was_asked_for(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records.save(run, records.launches(n=6))
    assert main(["--margin", "30%", "--verbose"]) == 0
    assert "comparisons of its run, margin 30.0%" in " ".join(capsys.readouterr().out.split())
    for text in ("0", "100%", "-2", "nan", "two"):
        with pytest.raises(SystemExit) as end:
            main(["--margin", text])
        assert end.value.code == 2


@pytest.mark.usefixtures("undrawn")
def test_missing_launches_are_told_with_the_command_that_runs_them(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = records.saved(records.launches(n=2)[:-1])
    saved["suite"]["run"] |= {"launches": 2, "planned": 6}
    run.write_text(json.dumps(saved))
    words = "1 of 6 launches of run run-a is missing. Run them with: training-suite run --matrix smoke"
    for options in ([], ["--verbose"], ["--format", "markdown"]):
        assert main(options) == 0
        assert words in " ".join(capsys.readouterr().out.split()).replace("&#35;", "#").replace("\\", "")


@pytest.mark.usefixtures("undrawn", "run")
def test_a_wait_is_told_on_stderr_alone(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def load_slowly(paths: list[Path]) -> Loaded:
        time.sleep(0.2)
        return load(paths)

    monkeypatch.setattr("suite.compare.comparing.load", load_slowly)
    monkeypatch.setattr(progress, "QUIET_S", 0.0)
    assert main(["--format", "json"]) == 0
    told = capsys.readouterr()
    assert "reading the launches: 0 s so far" in told.err
    json.loads(told.out)


@pytest.mark.usefixtures("undrawn")
def test_json_on_stdout_is_json_alone(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--format", "json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["sources"] == [run.name]
    assert sum(cell["launches"] for table in data["tables"] for cell in table["cells"]) == len(mixed())


def test_html_on_stdout_is_the_report_in_one_file(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records.save(run, records.launches(["pytorch"], n=1))
    assert main(["--format", "html"]) == 0
    said = capsys.readouterr().out
    assert said.lower().startswith("<!doctype html>")
    assert said.rstrip().endswith("</html>")
    assert "<svg" in said
    assert Path("runs/0001_smoke/report.html").read_text(encoding="utf-8") == said


@pytest.mark.usefixtures("undrawn")
def test_notes_on_the_files_reach_screen_and_file(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    journal = records.journal(Path("a.jsonl"), records.launches(n=1))
    journal.write_text(journal.read_text()[:-9])
    assert main(["a.jsonl"]) == 0
    assert "half written" in capsys.readouterr().out
    assert "half written" in Path("runs/a/table.md").read_text()


@pytest.mark.usefixtures("undrawn")
def test_all_failed_is_a_comparison_too(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records.save(run, [records.failed(each) for each in records.launches()])
    assert main([]) == 0
    assert "timeout" in (out := capsys.readouterr().out)
    assert "nan" not in out


def test_files_are_written_even_if_nobody_reads_what_is_said(run: Path) -> None:
    """In a process without a framework: comparing needs none."""
    records.save(run, records.launches(["pytorch"], n=1))
    code = (
        "from suite.report import plots; plots.draw = lambda *_: []\n"
        "import os, sys; read, write = os.pipe(); os.close(read); os.dup2(write, 1)\n"
        "from suite.compare.__main__ import main; status = main([])\n"
        "sys.exit(str({'torch', 'tensorflow', 'jax', 'keras'} & {*sys.modules} or '') or status)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=environment)
    assert (done.returncode, "Error" in done.stderr) == (0, False), done.stderr
    assert Path("runs/0001_smoke/table.md").exists()
