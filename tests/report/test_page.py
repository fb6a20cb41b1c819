"""The report: only plots beside it are fetched, nothing of a record is taken for markup, every figure says its n."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from PIL import Image

from suite.analysis.records.load import Launch, Loaded
from suite.analysis.rows.groups import group
from suite.compare.__main__ import main
from suite.record.record import Outcome, Record
from suite.report.html.document import charts_script
from suite.report.html.page import Link, Place, report
from suite.report.plots import KINDS, draw
from suite.report.tables.frame import table
from tests import records
from tests.records import HOSTILE, replace

#: The kinds of plot that there are of any launches.
USUAL = ("throughput", "phases", "step-times", "first-step")
VOID = {"meta", "input", "img", "br"}
PLAIN = Place()


class Page(HTMLParser):
    """Checks that tags are closed in order, and collects what a page could load or run."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.said = ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not set(self.open) & {"script", "style"}:
            self.said += data


def page(
    launches: list[Record], folder: Path, one_file: bool = False, place: Place = PLAIN, drawn: bool = False
) -> tuple[str, Page]:
    """The page of these launches. Unless they are to be ``drawn``, there are pictures in the plots' places."""
    loaded = Loaded(tuple(Launch(record, "run-a", "file.json") for record in launches))
    tables = [table(each, "pytorch") for each in group(loaded.launches)]
    plots = draw(tables, folder) if drawn else [folder / f"{kind}-cifar100_cnn-full.png" for kind in USUAL]
    for path in [] if drawn else plots:
        Image.new("RGB", (160, 50)).save(path)
    text = report(tables, loaded, plots, ["file.json"], one_file=one_file, place=place)
    return text, Page(text)


def test_the_page_holds_tables_plots_launches_environment_and_the_way_to_run_it_again(tmp_path: Path) -> None:
    text, read = page(records.launches(n=6), tmp_path, drawn=True)
    assert [tag for tag, _ in read.tags].count("table") == 2
    assert [attributes["alt"] for tag, attributes in read.tags if tag == "img"] == [
        f"{words}: cifar100_cnn-full" for kind, words, _ in KINDS if kind in USUAL
    ]
    for words in ("samples/s", "Every launch", "python -m suite.reproduce file.json", "Example CPU 3000", "real data"):
        assert words in read.said, words
    assert 'data-table="launches"' in text
    assert 'name="viewport"' in text


@pytest.mark.parametrize("one_file", [False, True])
def test_no_more_is_fetched_than_plots_and_only_the_page_s_own_style_and_script_may_run(
    tmp_path: Path, one_file: bool
) -> None:
    text, read = page(records.launches(n=2), tmp_path, one_file)
    sources = [str(attributes["src"]) for _, attributes in read.tags if "src" in attributes]
    assert len(sources) == [tag for tag, _ in read.tags].count("img") == 4
    for tag, attributes in read.tags:
        assert tag not in {"link", "iframe", "object", "embed"}
        assert str(attributes.get("href", "#")).startswith("#"), "links lead to parts of the page"
    policy = next(str(a["content"]) for t, a in read.tags if t == "meta" and a.get("http-equiv"))
    assert policy.startswith("default-src 'none'; ")
    if one_file:
        assert all(source.startswith("data:image/png;base64,") for source in sources)
        assert "img-src data:;" in policy
    else:
        assert all((tmp_path / source).is_file() for source in sources)
        assert "img-src 'self' file:;" in policy
    for name in ("style", "script"):
        kept = [digest(each) for each in re.findall(f"<{name}>(.*?)</{name}>", text, re.DOTALL)]
        assert f"{name}-src {' '.join(kept)}" in policy.replace(";", "")
        assert len(kept) == 1 + (one_file and name == "script"), "the library too, where it is embedded"
    assert "base-uri 'none'; form-action 'none'" in policy
    assert "unsafe" not in policy
    assert " on" not in " ".join(name for _, attributes in read.tags for name in attributes)
    assert "style" not in {name for _, attributes in read.tags for name in attributes}


def digest(text: str) -> str:
    """The source of a policy that allows this text."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_the_library_beside_a_page_is_loaded_by_the_page_s_own_script_and_checked(tmp_path: Path) -> None:
    text, read = page(records.launches(n=2), tmp_path, place=Place(library="../assets/x.js"))
    policy = next(str(a["content"]) for t, a in read.tags if t == "meta" and a.get("http-equiv"))
    (script,) = re.findall("<script>(.*?)</script>", text, re.DOTALL)
    assert f"script-src {digest(script)} 'strict-dynamic';" in policy
    (main_tag,) = (attributes for tag, attributes in read.tags if tag == "main")
    assert main_tag["data-charts"] == "../assets/x.js"
    assert f"'{main_tag['data-integrity']}'" == digest(charts_script()[1])


def test_the_figures_of_a_chart_are_all_launches_and_no_text_of_a_record_ends_them(tmp_path: Path) -> None:
    found = [replace(each, flags=("</script><!--<script>",)) for each in records.launches(n=2)]
    text, read = page(found, tmp_path, place=Place(library="x.js"))
    (held,) = re.findall(r'<script type="application/json">(.*?)</script>', text, re.DOTALL)
    assert "<" not in held
    chart = json.loads(held)
    assert [cell["framework"] for cell in chart["cells"]] == ["pytorch", "tensorflow", "jax"]
    assert [len(cell["launches"]) for cell in chart["cells"]] == [2, 2, 2]
    assert chart["cells"][0]["launches"][0][1] == "launch 0, </script><!--<script>"
    assert "ratio" not in chart["cells"][0], "the baseline itself"
    assert {name: chart["cells"][1][name] for name in ("base", "verdict")} == {
        "base": "pytorch",
        "verdict": "not tested",
    }
    assert [tag for tag, _ in read.tags].count("script") == 2


def test_links_lead_to_the_index_the_files_and_the_parts_of_the_page(tmp_path: Path) -> None:
    links = (Link("All runs", "../index.html"), Link("cells.csv", "cells.csv"))
    text, read = page(records.launches(n=6), tmp_path, place=Place(links))
    addresses = [str(attributes["href"]) for tag, attributes in read.tags if tag == "a"]
    assert addresses[:2] == ["../index.html", "cells.csv"]
    ids = {attributes["id"] for _, attributes in read.tags if "id" in attributes}
    assert {address[1:] for address in addresses[2:]} <= ids
    assert "<title>file: training benchmarks</title>" in text


def test_the_answer_comes_first_then_a_plot_then_tables_and_the_rest_is_folded(tmp_path: Path) -> None:
    text, read = page(records.launches(n=6), tmp_path, place=Place(library="x.js"))
    order = [
        'id="answer"',
        'id="hero"',
        '<table id="table0"',
        "<h2>All plots",
        '<table id="launches"',
        "<h2>Run it again",
    ]
    places = [text.index(words) for words in order]
    assert places == sorted(places)
    folded = text[text.index('<details class="fold">') :]
    assert folded.count("<details") == folded.count("</details>")
    assert '<table id="launches"' in folded
    first = text[text.index('id="answer"') : text.index('id="hero"')]
    assert 1 <= first.count("<p>") <= 3
    assert "faster" in read.said or "fastest" in read.said


def test_columns_that_explain_are_behind_a_switch_and_those_that_decide_are_not(tmp_path: Path) -> None:
    text, _ = page(records.launches(n=6), tmp_path)
    head = text[text.index('<table id="table0"') : text.index("</thead>")]
    shown = re.findall(r'<th scope="col"(?: class="(?:text|broad| )*")?>([^<]*)<', head)
    hidden = re.findall(r'<th scope="col" class="(?:text )?more broad">([^<]*)<', head)
    assert shown == [
        "framework",
        "compile",
        "n",
        "samples/s",
        "ratio",
        "verdict",
        "first step s",
        "identity",
        "outcome",
    ]
    assert {"step ms", "CPU cores"} <= {*hidden} or "step ms" in hidden
    assert 'class="all"' in text[: text.index("<table")]
    narrow = re.findall(r'<th scope="col"(?: class="text")?>([^<]*)<', head)
    assert narrow == ["framework", "ratio", "verdict"], "what a narrow screen shows at first"


def test_a_plot_s_name_is_an_address_beside_the_page_whatever_is_in_it() -> None:
    strange = Path('http:x?#%"><script>.png')
    read = Page(report([], Loaded(()), [strange], []))
    (source,) = (attributes["src"] for tag, attributes in read.tags if tag == "img")
    assert source == "http%3Ax%3F%23%25%22%3E%3Cscript%3E.png"


def test_every_table_has_a_caption_and_its_headers_their_scope(tmp_path: Path) -> None:
    read = page(records.launches(n=1), tmp_path)[1]
    tags = [tag for tag, _ in read.tags]
    assert tags.count("caption") == tags.count("table")
    assert {attributes.get("scope") for tag, attributes in read.tags if tag == "th"} == {"row", "col"}


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    found = records.launches(n=2)
    machine = {"cpu": HOSTILE, "cores": 8, "gpus": [HOSTILE]}
    found = [replace(r, environment={"machine": machine, "packages": {"x": HOSTILE}}, flags=(HOSTILE,)) for r in found]
    found.append(replace(records.failed(records.record("jax", 9)), outcome=Outcome("error", HOSTILE)))
    text, read = page(found, tmp_path, drawn=True)
    assert "<script>alert" not in text
    assert "alert(1)" in read.said
    assert [tag for tag, _ in read.tags].count("script") == 1
    assert "\x1b" not in text


def test_no_sentence_is_said_per_row(tmp_path: Path) -> None:
    text, _ = page(records.launches(n=6), tmp_path)
    assert "Every comparison in words" not in text
    assert text.count("faster than") == 0, "the table has the figures, the answer the words"


def test_the_command_writes_it(tmp_path: Path) -> None:
    source = tmp_path / "run.jsonl"
    lines = [{"run": {"id": "a"}}, *(record.to_json() for record in records.launches(n=2))]
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert main([str(source), "--output", str(tmp_path / "out")]) == 0
    assert "run.jsonl" in Page((tmp_path / "out" / "report.html").read_text()).said


def test_a_launch_s_timeline_unfolds_and_names_what_it_shows(tmp_path: Path) -> None:
    held = records.launches(n=2)
    line = {"at_s": [0.0, 1.0, 2.0], "values": {"cpu_cores": [0.5, None, 1.5], "rss_bytes": [1e6, 2e6, 3e6]}}
    seen = [replace(each, metrics={"host": {"timeline": line}, "gpus": []}) for each in held]
    text, found = page(seen, tmp_path)
    assert text.count("launch 0,") + text.count("launch 1,") == len(held), "a fold for each"
    assert "CPU of the worker in cores, up to 1.50" in found.said
    # A value that was not read parts the line in two.
    assert text.count("<path") == 5 * len(held), "three lines, and a grid for each of the two scales"
    assert 'd="M88 89l0 0"' in text, "the first point of the first line, in half units"
    labels = [
        attributes for tag, attributes in found.tags if tag == "text" and attributes.get("class") in ("tick", "end")
    ]
    assert len(labels) == (2 * 3 + 1) * len(held), "three ticks on each axis, and the end of the time"
    assert all(f">{label}</text>" in text for label in ("0", "0.75", "1.5", "3"))


def test_a_launch_s_timeline_ends_with_its_last_window(tmp_path: Path) -> None:
    line = {"at_s": [0.0, 5.0, 10.0, 30.0], "values": {"cpu_cores": [1.0, 1.0, 1.0, 0.0]}}
    (held,) = records.launches(["jax"], n=1)
    train = replace(held.phases["train"], spans=((2.0, 12.0),))
    seen = replace(held, phases={"train": train}, metrics={"host": {"timeline": line}, "gpus": []})
    text, _ = page([seen], tmp_path)
    assert ">12 s</text>" in text, "not the 30 s that the process lived"
