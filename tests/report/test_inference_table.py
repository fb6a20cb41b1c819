"""Inference in tables, files, JSON, pages and plots, where launches measured it, and nowhere else."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from suite.compare.__main__ import main
from suite.plan.cell import FRAMEWORKS
from suite.record.parts.evidence import Answered
from suite.record.record import Record
from suite.report import plots
from suite.report.screen import markdown
from suite.report.screen.short import screen
from suite.report.tables import inference
from suite.report.tables.inference import COLUMNS
from suite.report.text.answer import answer
from tests import records
from tests.expected import golden


def served(n: int = 6, **changes: Any) -> list[Record]:
    return [*map(records.serving, records.launches(n=n, **changes))]


def fewer(record: Record) -> Record:
    """The same launch with too few requests for a 99th percentile."""
    assert record.inference
    return replace(record, inference=replace(record.inference, requests=999, p99_s=None))


def test_the_table_has_figures_ratios_and_verdicts() -> None:
    (view,) = inference.views(records.only(served()))
    golden("inference.md", markdown.document(view))
    found = [dict(zip(view.grid.headers, row, strict=True)) for row in view.grid.rows]
    assert [row["request verdict"] for row in found] == ["\u2013", "faster", "slower"]


def test_percentiles_are_those_of_launches_and_never_pooled() -> None:
    held = served(n=3)
    serving = records.only(held).findings.servings
    for (_, cell), each in serving.items():
        own = [1e3 * record.inference.p99_s for record in held if record.cell == cell and record.inference]
        found = each.figures["latency_ms_p99"]
        assert found.value == median(own)
        assert found.low is not None
        assert found.high is not None
        assert found.low < found.value < found.high


def test_a_99th_percentile_is_shown_where_every_launch_has_one() -> None:
    held = served()
    (view,) = inference.views(records.only([fewer(held[0]), *held[1:]]))
    assert view.grid.rows[0][view.grid.headers.index("99th ms")] == "\u2013"
    assert any("1,000 requests" in note for note in view.notes)
    (none,) = inference.views(records.only([*map(fewer, held)]))
    assert "99th ms" not in none.grid.headers


def test_answers_that_are_not_right_get_no_ratio() -> None:
    held = served()
    assert held[1].identity
    wrong = replace(held[1], identity=replace(held[1].identity, answered=Answered(8, 1e-6, 8, False)))
    table = records.only([held[0], wrong, *held[2:]])
    (spoiled,) = [each for (_, cell), each in table.findings.servings.items() if cell.framework == "tensorflow"]
    assert "8 of 8 answers are another request's" in spoiled.ratios["samples_per_s"].reason


def test_files_json_and_page_have_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(plots, "draw", lambda *_: [])
    run = records.save(tmp_path / "0001_a.json", served(n=2))
    assert main([str(run), "--output", str(tmp_path / "out"), "--format", "json"]) == 0
    (timed,) = json.loads(capsys.readouterr().out)["tables"]
    assert [each["requests"] for each in timed["inference"]] == [1000] * 3
    with (tmp_path / "out" / "inference.csv").open(newline="", encoding="utf-8") as file:
        assert {each.name for each in COLUMNS} <= {*next(csv.DictReader(file))}
    with (tmp_path / "out" / "launches.csv").open(newline="", encoding="utf-8") as file:
        assert float(next(csv.DictReader(file))["infer_latency_ms_p99"]) > 0
    assert "Inference with the trained CIFAR-100 CNN" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")


def test_no_verdict_is_left_out_on_a_screen() -> None:
    held = [*served(threads=1), *served(layout="channels-first"), *served(batch=64)]
    found = records.only(held)
    for width in (120, 200):
        lines = screen(answer([found]), [found], [], width, more="more")
        shown = "\n".join(lines)
        assert "request verdict" in shown
        assert all(len(line) < width for line in lines if line.startswith(("framework", *FRAMEWORKS)))
    (line, *_) = [line for line in answer([found]).lines if ", training" in line]
    assert len(line) > len("CIFAR-100 CNN, training")
