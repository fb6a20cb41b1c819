"""A launch starts with the compile cache that its cell asks for, told by the files that compiling its step adds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from suite.analysis.rows.conditions import facts
from suite.catalog.settings import SETTINGS
from suite.plan.cell import Cell
from suite.plan.matrix import MatrixError, smoke
from suite.plan.settings.frameworks import cache_variables
from suite.plan.settings.strategies import why_not_cached
from suite.plan.sweeps.sweep import swept
from suite.record.record import Record
from suite.report.text.answer import answer
from suite.worker.launch.applied import NotAppliedError, compare
from suite.worker.launch.compile_cache import describe, list_files, read
from tests import records
from tests.frameworks import needs_frameworks
from tests.records import only

ROOT = Path(__file__).parents[2]


def test_a_cache_is_cold_if_the_step_adds_a_program_and_warm_if_it_had_it(tmp_path: Path) -> None:
    folder = str(tmp_path)
    assert (describe("", list_files("")), read({})) == ({}, "")
    empty = list_files(folder)
    assert read(describe(folder, empty)) not in ("cold", "warm"), "nothing was kept"
    (tmp_path / "program").touch()
    assert read(describe(folder, empty)) == "cold"
    (tmp_path / "program.lock").touch()
    assert read(describe(folder, list_files(folder) - {tmp_path / "program.lock"})) == "warm"


def test_only_what_compiles_has_a_cache() -> None:
    cells = swept(smoke(), {"workload": ("cifar100_cnn",), "cache": ("cold", "warm")}).cells
    found = {(cell.framework, cell.compile, cell.cache) for cell in cells}
    kept = {(name, "compile", cache) for name in ("pytorch", "tensorflow", "jax") for cache in ("cold", "warm")}
    assert found == kept | {("pytorch", "eager", ""), ("tensorflow", "graph", "")}
    assert not any(map(why_not_cached, cells))
    cell = Cell("imdb_lstm", "jax", cache="cold")
    ran = {name: getattr(cell, name) for name in SETTINGS} | {"loader": "tuned", "cache": "warm"}
    with pytest.raises(NotAppliedError, match="asked for compile cache cold, but warm is in force"):
        compare(cell, ran, {})
    assert why_not_cached(Cell("cifar100_cnn", "pytorch", cache="warm"))
    assert why_not_cached(Cell("cifar100_cnn", "jax", cache="warm", devices=2))
    with pytest.raises(MatrixError):
        swept(smoke(), {"framework": ("pytorch",), "compile": ("eager",), "cache": ("cold",)})


def test_flags_of_the_user_stay() -> None:
    cell = Cell("cifar100_cnn", "tensorflow", compile="compile", cache="warm")
    made = cache_variables(cell, "/kept", {"TF_XLA_FLAGS": "--mine=1"})
    assert made["TF_XLA_FLAGS"].split() == ["--mine=1", "--tf_xla_persistent_cache_directory=/kept"]
    assert cache_variables(cell, "", {}) == {}


def test_the_folder_of_a_cache_is_no_other_condition() -> None:
    cell = {"compile": "compile", "cache": "warm"}
    flag = "--tf_xla_persistent_cache_directory=.../cache1"
    for given, left in ((flag, None), (f"--mine=1 {flag}", "--mine=1")):
        made = records.record("tensorflow", environment={"variables": {"TF_XLA_FLAGS": given}}, **cell)
        assert facts(made).get("$TF_XLA_FLAGS") == left
    plain = records.record("tensorflow", environment={"variables": {"TF_XLA_FLAGS": flag}}, compile="compile")
    assert facts(plain)["$TF_XLA_FLAGS"] == flag, "a cache that the user has chosen"


def test_the_answer_says_how_much_sooner_a_warm_start_ends_and_when_compiling_pays() -> None:
    held = [
        replace(records.record("pytorch", launch, compile=mode, cache=cache), first_step_s=first_s)
        for mode, cache, first_s in (("eager", "", 1.0), ("compile", "cold", 9.0), ("compile", "warm", 3.0))
        for launch in range(6)
    ]
    table = only(held)
    (line, *_) = answer([table]).lines
    assert "3.0x as soon" in line
    assert "3.0 s instead of 9.0 s" in line
    pays = {cell.settings["cache"]: cell.break_even_steps for cell in table.cells}
    assert pays["cold"] == pytest.approx(4 * (pays["warm"] or 0.0), rel=0.1)


@pytest.mark.slow
@needs_frameworks
@pytest.mark.parametrize(("framework", "workload"), [("jax", "imdb_lstm"), ("pytorch", "cifar100_cnn")])
def test_launches_start_as_they_are_asked_to(framework: str, workload: str, tmp_path: Path) -> None:
    command = [
        sys.executable, "-m", "pytest", "suite", "--size=small", "--launches=1", "--min-window=0.01", "--no-control",
        f"--framework={framework}", f"--workload={workload}", "--compile=compile", "--cache=cold,warm",
        "--data=synthetic", "--device=cpu",
        f"--journals={tmp_path / 'journals'}", "--benchmark-json", str(tmp_path / "saved.json"),
    ]  # fmt: skip
    left = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    environment = left | {"SUITE_CACHE_DIR": str(tmp_path / "cache"), "SUITE_DATA_DIR": ""}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    saved = json.loads((tmp_path / "saved.json").read_text())
    found = {each.cell.cache: each for each in map(_record, saved["benchmarks"])}
    assert {name: each.settings["applied"]["cache"] for name, each in found.items()} == {
        "cold": "cold",
        "warm": "warm",
    }, done.stdout
    assert (found["warm"].first_step_s or 0.0) < (found["cold"].first_step_s or 0.0)


def _record(saved: dict[str, dict[str, object]]) -> Record:
    return Record.from_json(saved["extra_info"]["record"])
