"""The cards of the index: the newest answer, what a reader must know of it, and the trend over runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from test_page import Page

from suite.analysis.records.load import Launch, Loaded
from suite.analysis.rows.groups import group
from suite.record.record import Outcome, Record
from suite.report.html.cards import cards
from suite.report.html.site import name_machines, page
from suite.report.html.stored import ACCURACY, THROUGHPUT, Entry, Summary, SummaryError, read
from suite.report.html.summary import summary
from suite.report.tables.frame import table
from suite.report.text.answer import answer
from tests import records
from tests.records import HOSTILE, replace


def run(name: str, held: list[Record], day: str = "2026-03-01") -> tuple[str, Summary]:
    """A published run as the index sees it."""
    launches = [Launch(replace(each, started=f"{day}T10:00:00"), name, "file.json") for each in held]
    tables = [table(each, "pytorch") for each in group(launches)]
    return name, summary(Loaded(tuple(launches)), tables, [], answer(tables))


def test_a_card_says_who_is_fastest_with_n_date_and_what_is_wrong_with_launches() -> None:
    held = records.launches(n=6)
    held[0] = replace(held[0], flags=("contaminated",))
    held[1] = replace(records.failed(held[1]), outcome=Outcome("timeout", "too long"))
    (card,) = cards([run("0001_a", held)])
    assert card.title == "CIFAR-100 CNN: training throughput"
    assert "Example CPU 3000" in card.machine
    assert "TensorFlow" in card.best.verdict
    assert card.best.n == "5 to 6 launches of each cell"
    assert card.best.date == "2026-03-01"
    assert card.best.address == "0001_a/report.html"
    assert {*card.best.flags} >= {"contaminated 1/18", "failed 1/18"}
    assert card.picture
    assert [each.name for each in card.picture.shown] == ["PyTorch", "TensorFlow", "JAX"]
    assert card.picture.words.startswith("samples/s: PyTorch ")
    assert max(each.best for each in card.picture.shown) == 1


def test_the_newest_run_leads_and_earlier_ones_follow_with_the_trend_of_what_they_share() -> None:
    def versions(held: list[Record], torch: str, suite: str) -> list[Record]:
        packages = {"pytorch": {"torch": torch}, "tensorflow": {"tensorflow-cpu": "2.21.0"}, "jax": {"jax": "0.10.2"}}
        return [
            replace(
                each,
                environment=each.environment | {"packages": packages[each.cell.framework]},
                run=each.run | {"suite": suite},
            )
            for each in held
        ]

    old = run("0001_a", versions(records.launches(n=2), "2.12.0", "0.1.0"), "2026-03-01")
    new = run("0002_b", versions(records.launches(n=6), "2.13.0", "0.2.0"), "2026-05-01")
    (card,) = cards([new, old])
    assert card.best.name == "0002_b"
    assert [line.name for line in card.others] == ["0001_a"]
    assert card.trend
    assert card.trend.grid.headers == ["run", "suite", "PyTorch", "TensorFlow", "JAX"]
    assert [row[:2] for row in card.trend.grid.rows] == [["0001_a", "0.1.0"], ["0002_b", "0.2.0"]]
    assert [row[2].partition(" ")[2] for row in card.trend.grid.rows] == ["(2.12.0)", "(2.13.0)"]
    assert "not tested against each other" in card.trend.title
    other = [replace(each, data=each.data | {"digest": "another"}) for each in records.launches(n=2)]
    (card,) = cards([new, run("0003_c", other)])
    assert card.trend is None, "figures of other data are not set side by side"


def test_the_best_tested_run_with_all_frameworks_leads_and_other_questions_stand_below() -> None:
    best = run("0001_best", records.launches(n=6), "2026-03-01")
    few = run("0002_few", records.launches(n=2), "2026-03-02")
    two = run("0003_two", records.launches(["pytorch", "jax"], n=9), "2026-03-03")
    held = [*records.launches(n=6), *records.launches(n=6, precision="bf16")]
    tables = [table(each, None) for each in group([Launch(x, "run-a", "file.json") for x in held], "precision")]
    along = [Launch(replace(x, started="2026-03-04T10:00:00"), "0004_along", "file.json") for x in held]
    question = "0004_along", summary(Loaded(tuple(along)), tables, [], answer(tables))
    (card,) = cards([question, two, few, best])
    assert card.best.name == "0001_best"
    assert [line.name for line in card.further] == ["0004_along"]
    assert card.further[0].verdict.startswith("By precision: ")
    assert [line.name for line in card.others] == ["0003_two", "0002_few"]


def test_processors_of_one_name_share_neither_card_nor_trend() -> None:
    def on(name: str, **facts: Any) -> tuple[str, Summary]:
        machine = {"machine": records.MACHINE | facts}
        return run(name, [replace(each, environment=each.environment | machine) for each in records.launches(n=1)])

    runs = [on("c", model=17), on("b"), on("a")]
    newer, older = cards(name_machines(runs))
    assert (newer.trend, older.trend and len(older.trend.grid.rows)) == (None, 2)
    assert ("model 17" in newer.machine, "model 1)" in older.machine) == (True, True)
    assert "3 runs on 2 machines" in page(runs)
    plain = [(name, replace(each, hardware=())) for name, each in runs]
    found = cards(name_machines(plain))
    assert [card.trend for card in found] == [None] * 3, "older summaries do not say which machine it was"
    assert len({card.machine for card in found}) == 3
    assert "3 runs on 3 machines" in page(plain)


SPOILT = (
    {"n": 3}, {"n": [1, True]}, {"flags": [1]}, {"verdict": None}, {"figures": "none"},
    {"figures": [{"cell": "a", "framework": "jax", "version": "", "values": [float("nan")]}]},
    {"figures": [{"cell": "a", "framework": "jax", "version": "", "values": []}]},
)  # fmt: skip


def test_a_summary_survives_json_and_what_is_none_is_refused(tmp_path: Path) -> None:
    def reread(text: str) -> Summary:
        (tmp_path / "run.json").write_text(text)
        return read(tmp_path)

    _, one = run("a", records.launches(n=2))
    assert reread(one.to_json()) == one
    data = json.loads(one.to_json())
    for spoil in SPOILT:
        with pytest.raises(SummaryError, match="is no summary: entries"):
            reread(json.dumps(data | {"entries": [data["entries"][0] | spoil]}))
    for spoil in ({"cpu": 1}, {"cpu": "x", "peaks": [["x", -1]]}):
        with pytest.raises(SummaryError, match="is no summary: hardware"):
            reread(json.dumps(data | {"hardware": [["x", spoil]]}))
    hostile = reread(json.dumps(data | {"runs": [HOSTILE]}))
    assert "\x1b" not in hostile.runs[0]
    del data["entries"], data["started"]
    old = reread(json.dumps(data))
    assert old.entries == ()
    assert cards([("a", old)]) == [], "an older summary is listed without a card"


def test_hostile_words_of_a_card_stay_text() -> None:
    _, one = run("a", records.launches(n=1))
    entry = Entry(
        THROUGHPUT, HOSTILE, HOSTILE, HOSTILE, HOSTILE, (1, 1), (HOSTILE,), "x", "", HOSTILE, one.entries[0].figures
    )
    text = page([("a", replace(one, entries=(entry,)))])
    read_page = Page(text)
    assert "<script>alert" not in text
    assert [tag for tag, _ in read_page.tags].count("script") == 1
    assert "style" not in {name for _, attributes in read_page.tags for name in attributes}


def test_the_picture_of_a_card_is_bars_or_lines_over_epochs() -> None:
    name, one = run("a", records.launches(n=1))
    (entry,) = one.entries

    def drawn(*values: float) -> str:
        figures = (replace(entry.figures[0], values=values),) if values else ()
        return page([(name, replace(one, entries=(replace(entry, kind=ACCURACY, figures=figures),)))])

    assert 'aria-label="test accuracy by epoch: from 0.50 to 0.80, PyTorch"' in drawn(0.5, 0.7, 0.8)
    assert drawn(0.5, 0.7, 0.8).count("<polyline") == 1
    assert 'aria-label="test accuracy after one epoch: PyTorch 0.500"' in drawn(0.5)
    assert drawn(0.5).count("<circle") == 0, "a dot is one of several"
    assert "<svg" not in drawn()


def test_cells_that_lack_launches_make_a_run_partial_and_unsupported_ones_do_not() -> None:
    held = records.launches(n=3)
    (whole,) = cards([run("a", [*held, *(records.failed(records.record("jax", 0, precision="fp16")),) * 1])])
    assert "partial" in whole.best.flags, "one cell has a single launch"
    unsupported = [
        replace(records.failed(records.record("jax", n, precision="fp16")), outcome=Outcome("unsupported", "no"))
        for n in range(3)
    ]
    (card,) = cards([run("a", [*held, *unsupported])])
    assert not [flag for flag in card.best.flags if flag.startswith(("failed", "partial"))]
    assert card.best.n == "3 launches of each cell"


def test_other_machines_and_sizes_get_cards_of_their_own() -> None:
    machine = {"machine": {"cpu": "Other CPU", "cores": 4, "gpus": ["GPU"]}}
    other = [replace(each, environment=each.environment | machine) for each in records.launches(n=1)]
    found = cards([run("b", other), run("a", records.launches(n=1)), run("c", records.launches(n=1, size="small"))])
    assert len(found) == 3
    assert "Other CPU, 4 cores; GPU" in found[0].machine
