"""Every table on recorded runs, to the last figure but rounding: what people read must not change unseen.

The runs are parts of former ones in results/runs; ``UPDATE_GOLDEN=1 pytest`` writes their outputs anew.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from suite.analysis.records.load import load
from suite.compare.__main__ import main
from suite.compare.show import WIDTH
from tests.expected import GOLDEN, golden, golden_figures

#: From a run of every precision, compile mode and loader at size small, and from a smoke run of schema 1.
SETTINGS, SMOKE = (GOLDEN / "runs" / name for name in ("settings.jsonl", "smoke.jsonl"))

COMPARED = {
    "settings": [SETTINGS],
    "settings-by-precision": [SETTINGS, "--by", "precision"],
    "settings-by-compile": [SETTINGS, "--by", "compile"],
    "settings-by-loader": [SETTINGS, "--by", "loader", "--baseline", "naive"],
    "settings-to-jax": [SETTINGS, "--baseline", "jax", "--price-hour", "2"],
    "smoke": [SMOKE],
    "both": [SMOKE, SETTINGS],
}


pytestmark = [pytest.mark.usefixtures("undrawn"), pytest.mark.drawing]


@pytest.mark.parametrize("name", COMPARED)
def test_the_tables_of_recorded_runs_are_as_they_were(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*map(str, COMPARED[name]), "--output", str(tmp_path), "--verbose"]) == 0
    golden(f"recorded/{name}/terminal.txt", capsys.readouterr().out)
    golden(f"recorded/{name}/table.md", (tmp_path / "table.md").read_text(encoding="utf-8"))
    golden_figures(f"recorded/{name}/cells.csv", (tmp_path / "cells.csv").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["settings", "settings-by-precision", "both"])
def test_the_screen_of_recorded_runs_is_as_it_was(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([*map(str, COMPARED[name]), "--output", "there"]) == 0
    text = capsys.readouterr().out
    golden(f"recorded/{name}/screen.txt", text)
    assert max(map(len, text.splitlines())) < WIDTH


@pytest.mark.parametrize("journal", [SETTINGS, SMOKE], ids=["settings", "smoke"])
def test_the_launches_of_recorded_runs_and_their_summary_are_as_they_were(journal: Path, tmp_path: Path) -> None:
    assert main([str(journal), "--output", str(tmp_path)]) == 0
    for file in ("launches.csv", "run.json"):
        golden(f"recorded/{journal.stem}/{file}", (tmp_path / file).read_text(encoding="utf-8"))


def test_the_recorded_runs_are_of_both_schemas() -> None:
    assert '{"schema": 1, ' in SMOKE.read_text().splitlines()[1]
    assert '{"schema": 2, ' in SETTINGS.read_text().splitlines()[1]
    assert len(load([SMOKE]).launches) == 12
