"""The chart library is the published file, unchanged, and lies where pages look for it."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from suite.compare.__main__ import main
from suite.report import plots
from suite.report.html.document import ASSETS, LIBRARY, LIBRARY_STYLE, asset, charts_script
from tests import records

#: The file that holds the library and what the project draws with it.
SCRIPT = charts_script()[0]

FOLDER = Path(__file__).parents[2] / "suite" / "report" / "assets"


def test_every_file_has_the_digest_that_the_readme_says() -> None:
    said = dict(re.findall(r"^\| `([^`]+)` \| .* \| `([0-9a-f]{64})` \|$", (FOLDER / "README.md").read_text(), re.M))
    there = {path.name for path in FOLDER.iterdir()} - {"README.md"}
    assert said.keys() == there == {LIBRARY, LIBRARY_STYLE, "LICENSE.txt"}
    assert {name: hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() for name in said} == said
    assert LIBRARY.removeprefix("uplot-").removesuffix(".js") in (FOLDER / "README.md").read_text()
    assert "MIT" in asset("LICENSE.txt")


def test_the_library_needs_nothing_that_the_policy_forbids() -> None:
    text = asset(LIBRARY)
    assert not re.search(r"\beval\(|new Function|</script|import\(|fetch\(|XMLHttpRequest", text)
    assert "//#" not in text, "no address of a source map"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(plots, "draw", lambda *_: [])
    monkeypatch.setattr(plots, "draw_hero", lambda *_: [])
    return str(records.save(tmp_path / "0001_a.json", records.launches(n=2)))


def test_a_site_holds_the_library_once(run: str, tmp_path: Path) -> None:
    site = tmp_path / "site"
    for _ in range(2):
        assert main([run, "--publish", str(site)]) == 0
    assert [str(path.relative_to(site)) for path in site.rglob(SCRIPT)] == [f"{ASSETS}/{SCRIPT}"]
    assert (site / ASSETS / SCRIPT).read_text(encoding="utf-8") == charts_script()[1]
    page = (site / "0001_a" / "report.html").read_text(encoding="utf-8")
    assert f'data-charts="../{ASSETS}/{SCRIPT}"' in page
    assert 'href="../index.html"' in page
    # Compared again without --publish, the report still belongs to the site and stays the same.
    assert main([run, "--output", str(site / "0001_a"), "--extra", "none"]) == 0
    assert (site / "0001_a" / "report.html").read_text(encoding="utf-8") == page


def test_a_report_of_its_own_has_the_library_beside_it_or_inside(run: str, tmp_path: Path) -> None:
    assert main([run, "--output", str(tmp_path / "out"), "--extra", "none"]) == 0
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert (tmp_path / "out" / SCRIPT).is_file()
    assert f'data-charts="{SCRIPT}"' in page
    assert "index.html" not in page, "there is no index above it"
    assert main([run, "--output", str(tmp_path / "one"), "--extra", "none", "--one-file"]) == 0
    page = (tmp_path / "one" / "report.html").read_text(encoding="utf-8")
    assert not (tmp_path / "one" / SCRIPT).exists()
    assert charts_script()[1] in page
    assert "strict-dynamic" not in page


def test_a_run_named_like_the_assets_gets_another_folder(tmp_path: Path, run: str) -> None:
    path = records.save(tmp_path / "Assets.json", records.launches(n=1))
    assert main([str(path), "--publish", str(tmp_path / "site")]) == 0
    assert {each.name for each in (tmp_path / "site").iterdir()} == {"assets", "index.html", "run-Assets"}


def test_a_link_leads_to_the_raw_run_where_it_lies_in_the_site(tmp_path: Path, run: str) -> None:
    site = tmp_path / "site"
    inside = records.save(site / "runs" / "machine" / "0002_b.json", records.launches(n=1))
    for each in (run, str(inside)):
        assert main([each, "--publish", str(site)]) == 0
    assert 'href="../runs/machine/0002_b.json"' in (site / "0002_b" / "report.html").read_text(encoding="utf-8")
    outside = (site / "0001_a" / "report.html").read_text(encoding="utf-8")
    assert "raw run" not in outside
    assert str(tmp_path) not in outside
