"""Every link between pages leads somewhere, in the repository and, by a test of its own, on the published site."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from suite import __version__
from tests.documents import PAGES, ROOT, anchors, blocks, links


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(page: Path) -> None:
    broken = []
    for link in links(page):
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert not broken


def test_every_page_of_the_documentation_is_in_its_contents() -> None:
    listed = set(re.findall(r"^([\w/-]+)$", (ROOT / "docs" / "index.md").read_text(), re.MULTILINE))
    pages = {str(page.relative_to(ROOT / "docs").with_suffix("")) for page in (ROOT / "docs").glob("**/*.md")} - {
        "index"
    }
    assert pages <= listed


def test_the_readme_is_one_screen_or_two() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


def test_from_a_clone_to_an_answer_or_to_the_tests_it_takes_one_line() -> None:
    """The first shell block of the README is all that a first-time reader types; each line is complete."""
    first = next(block for block in blocks() if block.page.name == "README.md" and block.language == "sh")
    begin, run = "python3 -m venv .venv && .venv/bin/pip install -q", "&& .venv/bin/tox run"
    assert first.lines == [f"{begin} -e '.[controller]' tox {run} -m bench", f"{begin} tox {run} -e tests"]


def test_the_readme_is_short() -> None:
    text = (ROOT / "README.md").read_text()
    assert sum(any(map(str.isalnum, word)) for word in text.split()) <= 500


def test_the_contents_begin_with_the_command() -> None:
    shell = [block for block in blocks() if block.language == "sh"]
    contents, readme = (next(b for b in shell if b.page.name == name) for name in ("index.md", "README.md"))
    assert contents.lines == readme.lines[:1]


def test_the_citation_names_this_version() -> None:
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text()
