"""``training-suite profile``: which cell an id means, and what is shown of its profile."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import pytest

from suite.plan.cell import Cell, CellError, Loader
from suite.plan.matrix import MATRICES
from suite.profile import profiling
from suite.profile.__main__ import main
from suite.profile.chosen import ChoiceError, parse_cell
from suite.record.record import Outcome, Record
from tests import records
from tests.launches import StandIn
from tests.profiles import profiled
from tests.records import HOSTILE


def test_every_cell_of_every_matrix_is_found_by_its_id() -> None:
    cells = {cell for make in MATRICES.values() for cell in make().cells if cell.batch and not cell.recipe}
    cells = {cell for cell in cells if cell.interface == "native"}
    assert len(cells) > 50
    for cell in cells:
        assert parse_cell(cell.id) == cell


@pytest.mark.parametrize("cell", [
    Cell("imdb_lstm", "jax", kernel="scan", size="small", accumulate=4),
    Cell("imdb_lstm", "pytorch", loader=Loader("workers", 2), kernel="cudnn"),
    Cell("imdb_lstm", "jax", devices=2, size="small"),
    Cell("imdb_lstm", "pytorch", loader=Loader("workers", 2), accumulate=2, devices=4, strategy="fsdp"),
    Cell("cifar100_cnn", "pytorch", loader=Loader("tuned", pin_memory=False, cache=True), size="small"),
])  # fmt: skip
def test_settings_that_follow_the_loader_are_found_too(cell: Cell) -> None:
    assert parse_cell(cell.id) == cell


@pytest.mark.parametrize(("text", "cell"), [
    ("cifar100_cnn-jax", Cell("cifar100_cnn", "jax")),
    ("cifar100_cnn-jax-fp32-b32", Cell("cifar100_cnn", "jax", batch=32)),
    ("imdb_lstm-tensorflow-bf16-b64-compile", Cell("imdb_lstm", "tensorflow", "bf16", 64, "compile")),
])  # fmt: skip
def test_the_beginning_of_an_id_is_enough(text: str, cell: Cell) -> None:
    assert parse_cell(text) == cell
    assert cell.id.startswith(text)


@pytest.mark.parametrize(("text", "words"), [
    ("cifar10_cnn-jax", "unknown workload 'cifar10_cnn'; did you mean 'cifar100_cnn'?"),
    ("cifar100_cnn", "names no framework; there are: cifar100_cnn-pytorch"),
    ("cifar100_cnn-", "names no framework"),
    ("cifar100_cnn-pytroch", "did you mean 'pytorch'?"),
    ("cifar100_cnn-jax-fp23", "did you mean 'fp32'?"),
    ("cifar100_cnn-jax-fp32-32", "batch is '32'; write b and a number, such as b32"),
    ("cifar100_cnn-jax-fp32-bauto", "write b and a number"),
    ("cifar100_cnn-jax-fp32-b32-compiled", "did you mean 'compile'?"),
    ("imdb_lstm-jax-fp32-b32-compile-tuned-small-smal", "unknown setting 'smal'"),
    ("imdb_lstm-jax-fp32-b32-compile-tuned-modern", "leave out -modern"),
    ("", "unknown workload ''"),
])  # fmt: skip
def test_a_wrong_id_says_what_is_wrong_with_it(text: str, words: str) -> None:
    with pytest.raises(ChoiceError) as refused:
        parse_cell(text)
    assert words in str(refused.value)


def test_a_wrong_loader_is_refused() -> None:
    with pytest.raises(CellError, match="loader"):
        parse_cell("imdb_lstm-jax-fp32-b32-compile-toned")


def launched(monkeypatch: pytest.MonkeyPatch, *held: Record) -> list[Cell]:
    """Stands in for the session; returns the cells that it was asked for."""
    asked: list[Cell] = []

    def launch(cell: Cell, _: Namespace) -> tuple[list[Record], Path]:
        asked.append(cell)
        return list(held), Path("results/journals/run-a")

    monkeypatch.setattr(profiling, "launch", launch)
    return asked


def test_the_profile_of_a_cell_is_shown_with_its_trace(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results/journals/run-a/plugins").mkdir(parents=True)
    asked = launched(monkeypatch, profiled(records.record("jax")))
    assert main(["cifar100_cnn-jax-fp32-b32", "--size", "small"]) == 0
    assert asked == [Cell("cifar100_cnn", "jax", size="small")]
    said = capsys.readouterr().out
    lines = [line.split() for line in said.splitlines()]
    assert next(line for line in lines if line[:3] == ["convolution", "weight", "gradient"])[4] == "50.0"
    assert next(line for line in lines if line[:3] == ["sum", "as", "profiled"])[4] == "100.0"
    assert "op of convolution weight gradient" in said
    assert "Trace: results/journals/run-a/cell-launch0.trace.json.gz" in said
    assert "https://ui.perfetto.dev" in said
    assert "tensorboard --logdir results/journals/run-a" in said
    assert "1 launch with a profile of 5 steps" in said


def test_a_launch_without_a_profile_says_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    launched(monkeypatch, replace(records.failed(records.record("jax")), outcome=Outcome("error", HOSTILE)))
    assert main(["cifar100_cnn-jax"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "no profile of cifar100_cnn-jax-fp32-b32-compile-tuned: error: " in said.err
    assert "\x1b" not in said.err
    launched(monkeypatch, records.record("jax"))
    assert main(["cifar100_cnn-jax"]) == 1
    assert "its profiler failed; see results/journals/run-a/*.log" in capsys.readouterr().err


def test_hostile_names_do_not_reach_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = profiled(records.record("jax"))
    assert made.profile
    name = HOSTILE.encode("utf-8", "replace").decode()[:120]
    bad = tuple(replace(each, name=name, holds=(name,)) for each in made.profile.operations)
    launched(monkeypatch, replace(made, profile=replace(made.profile, operations=bad, note=name)))
    assert main(["cifar100_cnn-jax"]) == 0
    said = capsys.readouterr().out
    assert "alert(1)" in said
    assert "\x1b" not in said


@pytest.mark.parametrize("arguments", [["theano-cnn"], ["cifar100_cnn-jax", "--launches", "0"], []])
def test_wrong_usage_is_status_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status: object = main(arguments)
    except SystemExit as end:
        status = end.code
    assert status == 2
    assert capsys.readouterr().out == ""


WORKER = """
from tests import profiles, records
cell = job["cell"]
record = records.record(cell["framework"], job["launch"], workload=cell["workload"], kind="synthetic")
asked = job["profile"], job["profile_memory"], job["profile_code"]
send_all(profiles.profiled(record) if asked == (True, True, False) else record)
"""


@pytest.mark.usefixtures("twins")
def test_the_session_is_asked_for_a_profile(
    stand_in: StandIn, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in(WORKER)
    journals = tmp_path / "journals"
    arguments = ["imdb_lstm-jax", "--memory", "--launches", "2", "--data", "synthetic", "--device", "cpu"]
    assert main([*arguments, "--journals", str(journals)]) == 0
    said = capsys.readouterr()
    assert "2 launches with a profile of 5 steps" in said.out
    (journal,) = journals.glob("*.jsonl")
    assert f"Trace: {journals / journal.stem}/cell-launch0.trace.json.gz" in said.out
