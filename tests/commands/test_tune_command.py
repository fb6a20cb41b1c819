"""``training-suite tune`` with a stand-in for the launcher: what it launches, saves, says, and goes on with."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from suite.analysis.records.load import load
from suite.compare.__main__ import main as compare
from suite.plan.cell import Cell
from suite.record.record import Outcome
from suite.session import storage
from suite.session.journal import read
from suite.session.launches import machine
from suite.tune import searching
from suite.tune.__main__ import main
from suite.tune.search import read_search
from tests.tuning import Launcher, arguments, usual_rate

BEST = "imdb_lstm-pytorch-bf16-b128-eager-tuned"


@pytest.fixture(autouse=True)
def light(monkeypatch: pytest.MonkeyPatch) -> None:
    """No data, no second in which the load is measured, and no questions about the processor, which take another."""
    from suite.monitor.background import Background

    monkeypatch.setattr("workloads.data.prepare.prepare", lambda name, *_, **__: Path(name))
    monkeypatch.setattr(searching, "settle", lambda *_: Background(0.0, 1))
    monkeypatch.setattr(storage.benchmarks, "pytest_benchmark_generate_machine_info", lambda: {"node": "here"})


@pytest.fixture
def launcher(monkeypatch: pytest.MonkeyPatch) -> Launcher:
    made = Launcher(usual_rate)
    monkeypatch.setattr(machine, "launch", made)
    return made


def answer(folder: Path) -> dict[str, Any]:
    found = json.loads((folder / "output" / "answer.json").read_text())
    (race,) = found["races"]
    return dict(race)


def saved(folder: Path) -> list[Path]:
    return sorted((folder / "storage").rglob("*.json"))


def test_a_search_names_the_best_cell_and_says_how_it_found_it(
    launcher: Launcher, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments(tmp_path)) == 0
    told, lines = capsys.readouterr()
    assert "Best: pytorch · bf16 · b128 · eager. All other cells are out." in told
    assert "--framework pytorch --precision bf16 --batch 128 --compile eager" in told
    assert re.search(r"framework +jax over pytorch +0\.\d+ .* precision: fp32 0\.\d+, bf16 0\.\d+", told)
    assert "Risk that the tests dropped the best cell: at most" in told
    assert "of the 48 that all cells take with six each" in told
    assert "small" not in told
    assert re.search(r"after block 1, \d of 8 cells left; 8 launches in", lines)
    found = answer(tmp_path)
    assert found["recommended"] == [BEST]
    assert found["launches"] == len(launcher.made) <= 19
    assert (tmp_path / "output" / "answer.txt").read_text().splitlines()[1] in told
    assert (tmp_path / "output" / "race-imdb_lstm-full.png").stat().st_size > 10_000


def test_compare_reads_what_a_search_leaves(
    launcher: Launcher, tmp_path: Path, capsys: pytest.CaptureFixture[str], undrawn: None
) -> None:
    crashed: list[Cell] = []

    def behave(cell: Cell, number: int) -> float | Outcome:
        if not crashed:
            crashed.append(cell)
            return Outcome("crashed", "once")
        return usual_rate(cell)

    launcher.behave = behave
    assert main(arguments(tmp_path)) == 0
    (file,) = saved(tmp_path)
    loaded = load([file])
    assert not loaded.notes
    assert len(loaded.launches) == len(launcher.made) - 1, "of the launch that was tried again, the last counts"
    entry = json.loads(file.read_text())["benchmarks"][0]
    assert entry["name"] == f"test_training[{entry['params']['launch_id']}]"
    assert entry["stats"]["rounds"] == len(entry["stats"]["data"]) == 3
    capsys.readouterr()
    assert compare([str(file), "--output", str(tmp_path / "compared")]) == 0
    told = capsys.readouterr().out
    assert "missing" not in told
    assert "bf16" in told


def test_an_interrupted_search_is_saved_and_goes_on_where_it_was(
    launcher: Launcher, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    launcher.stop_after = 5
    assert main(arguments(tmp_path)) == 130
    told, lines = capsys.readouterr()
    assert (
        "training-suite tune: interrupted; 5 launches kept. Continue with: training-suite tune --workload imdb_lstm"
        in lines
    )
    assert "Not tried: the search stopped before 3 cells." in told
    assert len(load(saved(tmp_path)).launches) == 5
    launcher.stop_after = None
    assert main(arguments(tmp_path, "--resume")) == 0
    assert len(launcher.made) == len(set(launcher.made)), "no launch was made twice"
    (journal,) = (tmp_path / "journals").glob("*.jsonl")
    assert len(read(journal)[1]) == len(launcher.made)
    assert answer(tmp_path)["recommended"] == [BEST]
    assert len(saved(tmp_path)) == 2, "nothing that was saved is replaced"


def test_a_spent_budget_ends_a_search_undecided_and_a_larger_one_goes_on(
    launcher: Launcher, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    launcher.behave = lambda cell, _: 1000.0 + cell.batch / 100
    assert main(arguments(tmp_path, "--budget=10launches")) == 0
    told = capsys.readouterr().out
    assert "undecided" in told
    assert re.search(r"Continue with: training-suite tune .* --resume=\S+ --budget MORE\n", told)
    assert "--budget=10launches" not in told
    assert len(launcher.made) == 10
    assert main(arguments(tmp_path, "--budget=16launches", "--resume")) == 0
    assert len(launcher.made) == 16


def test_a_busy_machine_is_said_to_be_one_and_drops_nothing_after_one_launch(
    launcher: Launcher, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    launcher.flags = ("contaminated",)
    assert main(arguments(tmp_path, "--budget=8launches")) == 0
    told = capsys.readouterr().out
    assert "Flagged launches, of 8: contaminated 8." in told
    assert "7 others are not shown to be worse" in told


def test_what_a_budget_cannot_try_is_said_before_the_first_launch_and_nothing_is_recommended(
    launcher: Launcher, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments(tmp_path, "--budget=3launches")) == 1
    told, lines = capsys.readouterr()
    short = "imdb_lstm: the budget pays for a launch of about 3 of 8 cells; the other 5 are not tried, and nothing"
    assert 0 <= lines.find(short) < lines.index("[1")
    assert "Tests need two launches of each: about --budget 16launches, or fewer values." in lines
    assert "No cell can be recommended: 3 of 8 cells ran, and a comparison needs a launch of each." in told
    assert "Nothing was tested: that takes two launches of each cell." in told
    assert "Run it:" not in told
    found = answer(tmp_path)
    assert (found["recommended"], found["risk"]) == ([], None)


def test_a_budget_for_one_block_says_that_it_drops_nothing(
    launcher: Launcher, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments(tmp_path, "--budget=8launches")) == 0
    told, lines = capsys.readouterr()
    assert "the budget pays for about 1.0 launches of each cell; none can be dropped for being worse." in lines
    assert "at most 0.0 %" not in told
    assert "Nothing was tested" in told


def test_a_budget_of_seconds_ends_before_a_launch_that_would_not_fit(launcher: Launcher, tmp_path: Path) -> None:
    assert main(arguments(tmp_path, "--budget=1s")) == 1
    assert not launcher.made
    assert not saved(tmp_path)


def test_each_workload_has_a_race_and_its_part_of_the_budget(launcher: Launcher, tmp_path: Path) -> None:
    launcher.behave = lambda *_: 1000.0
    assert main(arguments(tmp_path, "--workload=imdb_lstm,cifar100_cnn", "--budget=40launches")) == 0
    races = json.loads((tmp_path / "output" / "answer.json").read_text())["races"]
    assert [race["workload"] for race in races] == ["imdb_lstm", "cifar100_cnn"]
    assert [race["launches"] for race in races] == [20, 20]


@pytest.mark.parametrize(("more", "words"), [
    (["--objective=joules/sample"], "joules/sample cannot be measured here: the run uses the CPU"),
    (["--objective=cost", "--price-kwh=0.3"], "cost with --price-kwh cannot be measured here: the run uses the CPU"),
    (["--objective=cost"], "the cost of a million samples needs a price"),
    (["--objective=sample/s"], "did you mean 'samples/s'?"),
    (["--objective=seconds-to-accuracy"], "write the accuracy to reach"),
    (["--objective=samples/s,memory,cost"], "give one, or two for their Pareto front"),
    (["--within=memory=8"], "write a positive number with one of: KiB"),
    (["--within=speed=8"], "unknown quantity 'speed'"),
    (["--budget=soon"], "write a time or a number of launches"),
    (["--batch=32", "--framework=jax", "--precision=fp32"], "there is only one cell"),
    (["--matrix=accuracy"], "tune trains to the end by --objective"),
    (["--resume=nosuch"], "no run nosuch"),
])  # fmt: skip
def test_what_makes_no_sense_is_refused_in_one_line_before_any_launch(
    more: list[str], words: str, launcher: Launcher, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments(tmp_path, *more)) == 2
    told, line = capsys.readouterr()
    assert line.startswith("training-suite tune: ")
    assert line.count("\n") == 1
    assert words in line
    assert not told
    assert not launcher.made


def test_what_a_framework_does_not_support_is_never_launched(
    launcher: Launcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = {
        "pytorch": {"precisions": {"bf16": "no bf16 here"}},
        "jax": {"lack": "not installed", "error": "is absent"},
    }
    monkeypatch.setattr("suite.doctor.probes.answer_of", lambda name, _: answers[name])
    line = [each for each in arguments(tmp_path) if each != "--no-probe"]
    assert main(line) == 0
    assert {(cell.framework, cell.precision) for cell, _ in launcher.made} == {("pytorch", "fp32")}
    told = capsys.readouterr().out
    assert "Not tried: 6 cells were ruled out before." in told
    assert "Out: unsupported: no bf16 here (none of 2 launched): pytorch" in told


def test_trainings_to_an_accuracy_are_searched_over_seeds(
    launcher: Launcher, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments(tmp_path, "--objective=seconds-to-accuracy=.8", "--within=memory=2GiB")) == 0
    assert {cell.recipe for cell, _ in launcher.made} == {"modern"}
    assert sum(number == 2 for _, number in launcher.made) == 8, "nothing is dropped before three seeds"
    assert answer(tmp_path)["recommended"] == [f"{BEST}-modern"]
    told = capsys.readouterr().out
    assert "--matrix accuracy --target 0.8 --workload imdb_lstm --framework pytorch --precision bf16" in told
    assert load(saved(tmp_path)).launches


def test_a_search_without_any_answer_says_so(
    launcher: Launcher, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    launcher.behave = lambda *_: Outcome("diverged", "the loss is nan")
    assert main(arguments(tmp_path)) == 1
    assert "No cell can be recommended: 8 failed or were not launched" in capsys.readouterr().out


def test_batch_up_is_a_search_of_doubled_batches() -> None:
    search = read_search(main.parser().parse_args(["--workload=imdb_lstm", "--framework=jax", "--batch", "up"]))
    assert search.question.upward
    assert [cell.batch for cell in search.cells] == [2**power for power in range(4, 14)]
    assert not read_search(main.parser().parse_args(["--workload=imdb_lstm", "--batch=16,32"])).question.upward
