"""The documentation builds without a warning, loads nothing from elsewhere, and its links to the results work."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.documents import ROOT

pytestmark = pytest.mark.drawing

EXTRA = ("furo", "myst_parser", "sphinx")
#: What a browser loads by itself, by element and attribute.
LOADED = {("script", "src"), ("link", "href"), ("img", "src"), ("source", "src"), ("iframe", "src")}


class Links(HTMLParser):
    """All that a page loads or links to, and the places in it that can be linked to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.ids.add(value)
            if (tag, name) in LOADED and value:
                self.loaded.append(value)
            if (tag, name) == ("a", "href") and value:
                self.links.append(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    lacking = [name for name in EXTRA if find_spec(name) is None]
    if lacking:
        pytest.skip(f"the extra docs is not installed: there is no {', '.join(lacking)}")
    folder = tmp_path_factory.mktemp("site")
    arguments = ["-b", "html", "-n", "-q", "-W", "--keep-going", "-d", str(folder / "doctrees")]
    command = [sys.executable, "-m", "sphinx", *arguments, str(ROOT / "docs"), str(folder / "docs")]
    done = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    runpy.run_path(str(ROOT / "docs" / "publish.py"))["lay"](folder)
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Links]:
    return {path: Links(path.read_text(encoding="utf-8")) for path in (site / "docs").rglob("*.html")}


def test_every_link_of_the_site_leads_somewhere(site: Path, pages: dict[Path, Links]) -> None:
    broken = []
    for page, found in pages.items():
        for link in {*found.links, *found.loaded}:
            if re.match(r"(https?|mailto|data|javascript):", link):
                continue
            name, _, anchor = unquote(link).partition("#")
            target = (page.parent / name.partition("?")[0]).resolve() if name else page
            if not target.exists():
                broken.append(f"{page.name}: {link}")
            elif anchor and target in pages and anchor not in pages[target].ids | {""}:
                broken.append(f"{page.name}: {link}, which has no such heading")
    assert not broken


def test_nothing_is_loaded_from_elsewhere(site: Path, pages: dict[Path, Links]) -> None:
    assert not {link for found in pages.values() for link in found.loaded if re.match(r"(https?:)?//", link)}
    styles = list((site / "docs").rglob("*.css"))
    assert styles
    assert not [path.name for path in styles if re.search(r"(url\(|@import)\s*['\"]?(https?:)?//", path.read_text())]


def test_the_site_can_be_searched_and_has_a_first_page(site: Path, pages: dict[Path, Links]) -> None:
    assert "loader effici" in (site / "docs" / "read-a-table.html").read_text()
    assert (site / "docs" / "searchindex.js").stat().st_size > 10_000
    first = Links((site / "index.html").read_text())
    assert all((site / link).exists() for link in first.links)
    assert "url=docs/index.html" in (site / "index.html").read_text()


def test_the_start_has_the_answer_and_a_way_to_every_page(site: Path, pages: dict[Path, Links]) -> None:
    text = (site / "docs" / "index.html").read_text(encoding="utf-8")
    main = text[text.index('role="main"') :]
    assert "inconclusive" in main
    assert "slower" in main
    links = set(Links(main).links)
    pages_of = (path.relative_to(ROOT / "docs").with_suffix("") for path in (ROOT / "docs").glob("**/*.md"))
    written = {str(page) for page in pages_of} - {"index"}
    assert not {name for name in written if f"{name}.html" not in {link.partition("#")[0] for link in links}}


def test_options_keep_their_two_dashes(site: Path, pages: dict[Path, Links]) -> None:
    broken = re.compile(r"[\u2013\u2014](benchmark-save|matrix|launches|by|resume|publish|output|profile)\b")
    assert not [page.name for page in pages if broken.search(page.read_text(encoding="utf-8"))]


def test_copies_have_the_text_of_their_files(site: Path) -> None:
    assert "Where would I put" in (site / "docs" / "contributing.html").read_text()
    assert "effective_batch" in (site / "docs" / "launches-table.html").read_text()


def test_tables_of_results_lead_to_reports_on_the_site(pages: dict[Path, Links]) -> None:
    (accuracy,) = [found for page, found in pages.items() if page.name == "accuracy.html"]
    assert "../results/0006_accuracy_imdb/report.html" in accuracy.links
