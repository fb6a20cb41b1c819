"""The command for missing launches: what it selects is what the run had, whatever was typed."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from suite.analysis.records.load import load
from suite.analysis.rows.runs import Count, counts
from suite.plan.cell import Cell
from suite.plan.command import options
from suite.plan.matrix import Matrix, matrix
from suite.plan.measuring import SEQUENTIAL
from suite.report.text.missing import command, sentences
from suite.session.launches.settings import settings
from tests import records

MATRIX = """
from suite.plan.cell import Cell
from suite.plan.matrix import Matrix
from suite.plan.measuring import SEQUENTIAL

def mine():
    return Matrix("mine", (Cell("imdb_lstm", "jax", batch=7),), launches=3)
"""


class Config:
    """A command line, read by the suite's own options."""

    def __init__(self, arguments: list[str]) -> None:
        parser = pytest.Parser(_ispytest=True)
        options.add(parser)
        self.option, _ = parser.parse_known_and_unknown_args(arguments)
        self.option.keyword = arguments[arguments.index("-k") + 1] if "-k" in arguments else ""

    def getoption(self, name: str, default: Any = None) -> Any:
        return getattr(self.option, name, default)


def parsed(text: str) -> tuple[Matrix, dict[str, Any]]:
    """The matrix of a command line, and the settings that its run records."""
    config: Any = Config(shlex.split(text))
    chosen = options.chosen_matrix(config)
    found = settings(config, chosen)
    design = {"design": SEQUENTIAL} if found.budget_s else {}
    return chosen, {**found.signature(), **design, "typed": found.typed}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my sweep.toml").write_text('framework = "jax"\nbatch = [8, 16]\nmin-window = 2\n')
    (tmp_path / "mine.py").write_text(MATRIX)
    monkeypatch.chdir(tmp_path)


NAMED = [
    "--framework jax,pytorch --batch 8,auto --loader w2-pinned --compile usual",
    "--matrix precision,batch",
    "--matrix precision --matrix batch --framework jax --size small",
    "--matrix lstm-kernel --workload cifar100_cnn,imdb_lstm",
    "--matrix cpu --min-window 0.25 --memory-limit 1.3 --shard 1/2",
    "--min-window 3 --seed 5 --device cpu --no-control --trusted-network -k 'jax and bf16'",
]
FILES = [
    "--matrix 'my sweep.toml'",
    "--matrix 'my sweep.toml,smoke' --precision bf16",
    "--matrix mine.py:mine --launches 4",
]


@pytest.mark.parametrize(
    ("typed", "older"), [(each, old) for each in NAMED for old in (0, 1)] + [(f, 0) for f in FILES]
)
def test_the_command_selects_the_cells_and_settings_of_the_run(typed: str, older: bool) -> None:
    chosen, saved = parsed(typed)
    held = {key: value for key, value in saved.items() if key != "typed" or not older}
    line = command("run-a", held)
    assert line.startswith("training-suite run ")
    assert line.endswith(" --resume=run-a")
    again, resumed = parsed(line.removeprefix("training-suite run "))
    assert again == chosen
    assert {**resumed, "typed": saved["typed"]} == saved, "else the run would not be resumed"
    if not older:
        assert resumed["typed"] == saved["typed"]


def test_the_command_is_as_short_as_what_was_typed() -> None:
    _, saved = parsed("--matrix smoke --launches 4")
    assert command("r", saved) == "training-suite run --matrix smoke --launches 4 --resume=r"


def test_a_path_names_no_private_folder(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for path in (tmp_path / "in" / "a.toml", tmp_path.parent / "elsewhere.toml"):
        path.write_text("batch = 4")
    assert parsed(f"--matrix {tmp_path}/in/a.toml")[1]["typed"]["matrix"] == ["in/a.toml"]
    assert parsed(f"--matrix {tmp_path.parent}/elsewhere.toml")[1]["typed"]["matrix"] == [".../elsewhere.toml"]


def test_no_shell_can_misread_the_command() -> None:
    for hostile in ({"matrix": "a; rm b"}, {"typed": {"matrix": ["a; rm b"], "batch": "$(x)\n"}}):
        assert "'a; rm b'" in command("r", hostile)
    for wrong in ({"typed": {"matrix": 3, "batch": [1], "k": None}}, {"plan": 3, "sweep": 4, "matrix": []}):
        assert command("r", wrong) == "training-suite run --resume=r"


def test_a_run_of_reproduce_has_no_such_command() -> None:
    count = Count("r", 1, 3, least=False, settings={"matrix": "reproduce", "typed": {}})
    assert sentences([count]) == ["2 of 3 launches of run r are missing."]


def test_chosen_phases_are_chosen_again() -> None:
    assert " --phases train,infer " in command("run-a", {"typed": {"phases": "train,infer"}})


def test_a_workload_from_outside_is_named(tmp_path: Path) -> None:
    """Without its folder no command knows it; records have no path, so that its folder's name stands there."""
    held = [replace(each, cell=each.cell.but(workload="own_flowers")) for each in records.launches(n=1)]
    lines = [{"run": {"id": "run-a", "planned": 9, "launches": 3}}, *(each.to_json() for each in held)]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (sentence,) = sentences(counts(load([path])))
    assert "--workloads flowers --resume=run-a" in sentence
    assert "--workloads" not in command("r", {}, ["imdb_lstm"])


def older(cells: Sequence[Cell], *launches: int) -> Count:
    """A run of the matrix `precision` that did not record what was typed, with so many launches of these cells."""
    return Count("r", sum(launches), 99, False, {"matrix": "precision"}, dict(zip(cells, launches, strict=True)))


def test_an_older_run_of_a_part_of_its_matrix_asks_for_no_more_than_is_missing() -> None:
    cells = matrix("precision").cells
    (sentence,) = sentences([older(cells[:2], 6, 5)])
    (chosen,) = re.findall(r"-k (\S+)", sentence)
    assert [cell for cell in cells if chosen in f"{cell.id}-launch0"] == [cells[1]]
    (whole,) = sentences([older(cells, 2, *[1] * (len(cells) - 1))])
    assert "-k" not in whole
    (other,) = sentences([older([cells[0], cells[1].but(batch=3)], 6, 5)])
    assert cells[1].but(batch=3).id in other
    assert "training-suite" not in other, "today's matrix would make other launches"
