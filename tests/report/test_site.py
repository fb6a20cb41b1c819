"""A folder of reports with an index: nothing lost, nothing half written, the same bytes for the same runs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from test_page import Page

from suite.analysis.records.load import LoadError, find
from suite.compare.__main__ import main
from suite.record.record import Record
from suite.report.html.site import scan
from suite.report.html.stored import SummaryError, read
from tests import records
from tests.records import HOSTILE, mixed, replace

pytestmark = [pytest.mark.usefixtures("undrawn"), pytest.mark.drawing]


def saved(folder: Path, name: str, held: list[Record], run: str = "run-a") -> str:
    return str(records.save(folder / "runs" / f"{name}.json", held, run))


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def index(site: Path) -> Page:
    return Page((site / "index.html").read_text())


def links(page: Page) -> list[str | None]:
    """Where the page leads: from a card and from the table, so each once."""
    return list(dict.fromkeys(attributes.get("href") for tag, attributes in page.tags if tag == "a"))


def test_a_run_gets_a_folder_and_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site = tmp_path / "site"
    assert main([saved(tmp_path, "0001_smoke", mixed()), "--publish", str(site)]) == 0
    assert "published" in capsys.readouterr().err
    assert {"report.html", "run.json", "table.md", "launches.csv"} <= {p.name for p in (site / "0001_smoke").iterdir()}
    page = index(site)
    assert links(page) == ["0001_smoke/report.html"]
    for words in ("2026-03-01", "Example CPU 3000, 8 cores", "CPU", "real", "cifar100_cnn full", "1 run on 1 machine"):
        assert words in page.said, words
    one = read(site / "0001_smoke")
    assert (one.runs, one.cells, one.launches, one.ok) == (("run-a",), 7, len(mixed()), 17)


def test_publishing_again_changes_nothing(tmp_path: Path) -> None:
    site = tmp_path / "site"
    run = saved(tmp_path, "0001_smoke", records.launches(n=2))
    assert main([run, "--publish", str(site)]) == 0
    first = contents(site)
    assert main([run, "--publish", str(site)]) == 0
    assert contents(site) == first
    assert not [name for name in first if "partial" in name]


def test_a_report_belongs_to_its_site_and_leads_to_a_raw_run_that_lies_in_it(tmp_path: Path) -> None:
    site, outside = tmp_path / "site", saved(tmp_path, "0001_a", records.launches(n=2))
    inside = records.save(site / "runs" / "machine" / "0002_b.json", records.launches(n=1))
    for each in (outside, str(inside)):
        assert main([each, "--publish", str(site)]) == 0
    assert 'href="../runs/machine/0002_b.json"' in (site / "0002_b" / "report.html").read_text(encoding="utf-8")
    page = (site / "0001_a" / "report.html").read_text(encoding="utf-8")
    assert 'href="../index.html"' in page
    assert "raw run" not in page
    assert str(tmp_path) not in page
    # Compared again without --publish, the report still belongs to the site and stays the same.
    assert main([outside, "--output", str(site / "0001_a"), "--extra", "none"]) == 0
    assert (site / "0001_a" / "report.html").read_text(encoding="utf-8") == page


def test_runs_gather_the_newest_first_whatever_the_order(tmp_path: Path) -> None:
    days = {"0001_a": "2026-03-01", "0002_b": "2026-05-02", "0003_c": "2026-04-03"}
    runs = [
        saved(tmp_path, name, [replace(r, started=f"{day}T10:00") for r in records.launches(n=1, run=name)], name)
        for name, day in days.items()
    ]
    sites = [tmp_path / "one", tmp_path / "other"]
    for site, order in zip(sites, (runs, runs[::-1]), strict=True):
        for run in order:
            assert main([run, "--publish", str(site)]) == 0
    assert links(index(sites[0])) == [f"{name}/report.html" for name in ("0002_b", "0003_c", "0001_a")]
    assert contents(sites[0]) == contents(sites[1])


def test_two_runs_of_one_name_are_both_kept(tmp_path: Path) -> None:
    site = tmp_path / "site"
    for machine in ("run-a", "run-b"):
        run = saved(tmp_path / machine, "0001_smoke", records.launches(n=1, run=machine), machine)
        for _ in range(2):
            assert main([run, "--publish", str(site)]) == 0
    assert sorted(filter(None, links(index(site)))) == ["0001_smoke-run-b/report.html", "0001_smoke/report.html"]
    assert read(site / "0001_smoke").runs == ("run-a",)


def test_a_report_from_before_there_were_summaries_is_not_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = tmp_path / "site"
    run = saved(tmp_path, "0001_smoke", records.launches(n=1))
    assert main([run, "--output", str(site / "0001_smoke")]) == 0
    (site / "0001_smoke" / "run.json").unlink()
    other = saved(tmp_path / "b", "0001_smoke", records.launches(n=1, run="run-b"), "run-b")
    assert main([other, "--publish", str(site)]) == 0
    assert links(index(site)) == ["0001_smoke-run-b/report.html"]
    assert "0001_smoke is left out of the index: it has no run.json" in capsys.readouterr().err
    assert main([run, "--publish", str(site)]) == 0
    assert len(links(index(site))) == 2, "the same run takes its folder again"


def test_the_default_output_folder_keeps_another_run_s_report_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for machine in ("run-a", "run-b"):
        assert main([saved(tmp_path / machine, "0001_a", records.launches(n=1, run=machine), machine)]) == 0
    assert sorted(path.name for path in Path("runs").iterdir()) == ["0001_a", "0001_a-run-b"]
    assert main([saved(tmp_path, "0001_a", records.launches(n=1)), "--publish", "results"]) == 0
    assert links(index(Path("results"))) == ["0001_a/report.html"]


def test_folders_that_are_no_run_s_are_left_alone(tmp_path: Path) -> None:
    site = tmp_path / "site"
    (site / "runs").mkdir(parents=True)
    (site / "runs" / "keep").write_text("this")
    assert main([saved(tmp_path, "runs", records.launches(n=1)), "--publish", str(site)]) == 0
    assert [path.name for path in (site / "runs").iterdir()] == ["keep"]
    assert links(index(site)) == ["runs-run-a/report.html"]


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    machine = {"cpu": HOSTILE, "cores": 8, "gpus": [HOSTILE]}
    held = [
        replace(r, environment={"machine": machine, "packages": {HOSTILE: HOSTILE}}, started=HOSTILE)
        for r in records.launches(n=1, run=HOSTILE)
    ]
    site = tmp_path / "site"
    name = "x\"><script>alert(2)<'&#%?"
    assert main([saved(tmp_path, name, held, HOSTILE), "--publish", str(site)]) == 0
    text, page = (site / "index.html").read_text(), index(site)
    assert [tag for tag, _ in page.tags].count("script") == 1
    assert "<script>alert" not in text
    assert "\x1b" not in text
    (link,) = links(page)
    assert link
    assert not set(link) & set("<>\"'&#?")
    assert link.count("/") == 1
    for tag, attributes in page.tags:
        assert tag not in {"link", "iframe", "object", "embed", "img"}
        assert "src" not in attributes


@pytest.mark.parametrize("output", ["elsewhere", "site/../elsewhere", "site", "site/deeper/down", "link"])
def test_a_report_outside_of_the_site_is_refused(
    tmp_path: Path, output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (tmp_path / "elsewhere").mkdir()
    (site / "link").symlink_to(tmp_path / "elsewhere")
    place = site / output if output == "link" else tmp_path / output
    arguments = [saved(tmp_path, "0001_a", records.launches(n=1)), "--publish", str(site), "--output", str(place)]
    assert main(arguments) == 2
    assert "does not lie directly in" in capsys.readouterr().err
    assert not list((tmp_path / "elsewhere").iterdir())


def test_an_index_of_somebody_else_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "index.html").write_text("mine")
    assert main([saved(tmp_path, "0001_a", records.launches(n=1)), "--publish", str(site)]) == 2
    assert "was not made by the suite" in capsys.readouterr().err
    assert [path.name for path in site.iterdir()] == ["index.html"]


SPOILT = {
    "no JSON": "{",
    "a list": "[]",
    "no schema": "{}",
    "newer": '{"schema": 9}',
    "lacking": '{"schema": 1}',
    "text for a list": json.dumps({"schema": 1, "runs": "abc"}),
    "deep": "[" * 100_000,
}


@pytest.mark.parametrize("text", SPOILT.values(), ids=SPOILT.keys())
def test_a_broken_summary_is_left_out_with_a_note_and_its_folder_kept(tmp_path: Path, text: str) -> None:
    site = tmp_path / "site"
    assert main([saved(tmp_path, "0001_a", records.launches(n=1)), "--publish", str(site)]) == 0
    shutil.copytree(site / "0001_a", site / "0002_b")
    (site / "0002_b" / "run.json").write_text(text)
    with pytest.raises(SummaryError):
        read(site / "0002_b")
    found, notes = scan(site)
    assert [name for name, _ in found] == ["0001_a"]
    assert "0002_b is left out of the index" in notes[0]
    assert (site / "0002_b" / "report.html").exists()


def test_a_folder_that_leads_out_is_not_listed(tmp_path: Path) -> None:
    site = tmp_path / "site"
    assert main([saved(tmp_path, "0001_a", records.launches(n=1)), "--publish", str(site)]) == 0
    (site / "0001_a").rename(tmp_path / "moved")
    (site / "0001_a").symlink_to(tmp_path / "moved")
    found, notes = scan(site)
    assert found == []
    assert "leads out of the site" in notes[0]


def test_a_summary_is_no_run(tmp_path: Path) -> None:
    site = tmp_path / "site"
    run = saved(site, "0001_a", records.launches(n=1))
    assert main([run, "--publish", str(site)]) == 0
    assert find([str(site)])[0] == [Path(run)]
    with pytest.raises(LoadError, match="no run in this folder"):
        find([str(site / "0001_a")])
