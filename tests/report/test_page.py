"""The report: nothing is fetched, nothing of a record is taken for markup, every figure says its n."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path

import pytest

from suite.analysis.records.load import Launch, Loaded
from suite.analysis.rows.groups import group
from suite.record.record import Outcome, Record
from suite.report.html.links import Link
from suite.report.html.page import report
from suite.report.plots import Drawing, draw
from suite.report.plots.kinds import TIMED, find_kinds
from suite.report.tables.frame import table
from suite.report.tables.launches import launch_table
from suite.report.text.answer import answer
from tests import records
from tests.records import HOSTILE, replace, tables

pytestmark = pytest.mark.drawing

#: The kinds of plot that there are of any launches.
USUAL = ("throughput", "phases", "step-times", "first-step")
VOID = {"meta", "input", "img", "br"}


class Page(HTMLParser):
    """Checks that tags are closed in order, and collects what a page could load or run."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.said = ""
        self.titles: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "svg" in self.open and self.open[-1] == "title":
            self.titles.append(data)
        elif not set(self.open) & {"script", "style"}:
            self.said += data


def page(launches: list[Record], links: Sequence[Link] = (), drawings: Sequence[Drawing] = ()) -> tuple[str, Page]:
    """The page of these launches."""
    loaded = Loaded(tuple(Launch(record, "run-a", "file.json") for record in launches))
    tables = [table(each, "pytorch") for each in group(loaded.launches)]
    text = report(
        tables,
        [],
        loaded,
        answer=answer(tables),
        launches=launch_table(loaded.launches),
        drawings=drawings,
        sources=["file.json"],
        links=links,
    )
    return text, Page(text)


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Page]:
    """The page of six launches, with plots."""
    held = records.launches(n=6)
    return page(held, drawings=drawn(held, tmp_path_factory.mktemp("drawn")))


def drawn(held: list[Record], folder: Path) -> list[Drawing]:
    return draw(tables(held), [], folder, [])


def test_the_page_holds_tables_plots_launches_environment_and_the_way_to_run_it_again(usual: tuple[str, Page]) -> None:
    text, read = usual
    assert [tag for tag, _ in read.tags].count("table") == 2
    labels = [str(attributes["aria-label"]) for tag, attributes in read.tags if tag == "svg"]
    assert labels[0].startswith("Overview: training throughput")
    assert labels[1:] == [f"{kind.words}: cifar100_cnn-full" for kind in find_kinds(TIMED) if kind.name in USUAL]
    for words in ("samples/s", "Every launch", "training-suite reproduce file.json", "Example CPU 3000", "real data"):
        assert words in read.said, words
    assert 'data-table="launches"' in text
    assert 'name="viewport"' in text


def test_nothing_is_fetched_and_only_the_page_s_own_style_and_script_may_run(usual: tuple[str, Page]) -> None:
    text, read = usual
    for tag, attributes in read.tags:
        assert tag not in {"link", "iframe", "object", "embed", "img", "image", "foreignobject"}
        assert "src" not in attributes
        assert str(attributes.get("href", "#")).startswith("#"), "links lead to parts of the page"
    policy = next(str(a["content"]) for t, a in read.tags if t == "meta" and a.get("http-equiv"))
    assert policy.startswith("default-src 'none'; ")
    for name in ("style", "script"):
        (own,) = re.findall(f"<{name}>(.*?)</{name}>", text, re.DOTALL)
        assert f"{name}-src {digest(own)};" in policy
    assert "base-uri 'none'; form-action 'none'" in policy
    assert "unsafe" not in policy
    assert " on" not in " ".join(name for _, attributes in read.tags for name in attributes)
    assert "style" not in {name for _, attributes in read.tags for name in attributes}


def digest(text: str) -> str:
    """The source of a policy that allows this text."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_every_table_has_a_caption_and_its_headers_their_scope() -> None:
    read = page(records.launches(n=1))[1]
    tags = [tag for tag, _ in read.tags]
    assert tags.count("caption") == tags.count("table")
    assert {attributes.get("scope") for tag, attributes in read.tags if tag == "th"} == {"row", "col"}


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    found = records.launches(n=2)
    machine = {"cpu": HOSTILE, "cores": 8, "gpus": [HOSTILE]}
    found = [replace(r, environment={"machine": machine, "packages": {"x": HOSTILE}}, flags=(HOSTILE,)) for r in found]
    found.append(replace(records.failed(records.record("jax", 9)), outcome=Outcome("error", HOSTILE)))
    text, read = page(found, drawings=drawn(found, tmp_path))
    assert "<script>alert" not in text
    assert "alert(1)" in read.said
    assert [tag for tag, _ in read.tags].count("script") == 1
    assert "\x1b" not in text
