"""A metric that is declared in one place is found wherever a user meets metrics."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from suite.analysis.records.load import Launch, Loaded
from suite.analysis.rows.groups import group
from suite.catalog.metrics import METRICS, Metric
from suite.compare.__main__ import main
from suite.report import plots
from suite.report.screen.comparison import json_schema, to_json
from suite.report.tables.frame import table
from suite.report.tables.launches import document_columns
from suite.report.tables.legend import legend
from tests import records
from tests.shown import in_markdown, terminal

FAKE = Metric(
    "fake_w", "W", "what a fake meter says", read=lambda record: 7.0 + record.launch, label="fake watts", launches=True
)


@pytest.fixture(autouse=True)
def declared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METRICS, FAKE.name, FAKE)
    monkeypatch.setattr(plots, "draw", lambda *_: [])


def test_it_is_in_the_tables_and_explained() -> None:
    (made,) = records.tables(records.launches())
    for text in (terminal(made, None), in_markdown(made)):
        assert FAKE.label in text
        assert "8.00" in text, "the median of its launches"
    assert f"{FAKE.label}: {FAKE.meaning}." in legend([made])


def test_it_is_in_both_csv_files_and_in_the_report(tmp_path: Path) -> None:
    run = records.save(tmp_path / "0001_a.json", records.launches(n=2))
    assert main([str(run), "--output", str(tmp_path / "out")]) == 0
    for file, values in (("cells.csv", ["7.5"] * 3), ("launches.csv", ["7.0"] * 3 + ["8.0"] * 3)):
        with (tmp_path / "out" / file).open(newline="", encoding="utf-8") as opened:
            assert [row[FAKE.name] for row in csv.DictReader(opened)] == values
    assert FAKE.label in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")


def test_it_is_in_the_json_and_its_schema() -> None:
    launches = tuple(Launch(each, "run-a", "0001_a.json") for each in records.launches())
    tables = [table(each) for each in group(launches)]
    (timed,) = json.loads(to_json(tables, [], Loaded(launches, runs={}), [], []))["tables"]
    assert [cell["metrics"][FAKE.name] for cell in timed["cells"]] == [8.0] * 3
    documented = json_schema()["$defs"]["TimedCell"]["properties"]["metrics"]["properties"]
    assert documented[FAKE.name]["description"] == f"{FAKE.meaning} ({FAKE.unit})"


def test_it_is_in_the_reference_of_columns_and_of_metrics() -> None:
    text = document_columns()
    assert f"| `{FAKE.name}` | number | {FAKE.unit} | {FAKE.meaning} |" in text
    assert f"| `{FAKE.name}` | {FAKE.unit} | \u2013 | yes | {FAKE.meaning} |" in text
