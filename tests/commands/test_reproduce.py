"""A stored result is run again: every verdict, and the command with stand-ins for the workers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from suite.analysis.statistics.inference import Estimate
from suite.plan.cell import FRAMEWORKS, Cell
from suite.plan.measuring import CONTROL
from suite.record.record import Outcome, Record
from suite.report.format.text import NONE
from suite.reproduce.__main__ import main
from suite.reproduce.rerun import verdict_grid
from suite.reproduce.verdicts import by_cell, differences, judge
from tests import records
from tests.launches import StandIn
from tests.records import replace

ELSEWHERE = records.MACHINE | {"cpu": "Another CPU", "cores": 64}

WORKER = """
from tests import records
cell = job["cell"]
slow = json.loads(os.environ.get("SLOW", "{}")).get(cell["framework"], 1.0)
record = records.record(cell["framework"], job["launch"], workload=cell["workload"], kind="synthetic")
windows = {name: records.replace(phase, windows=tuple(
    records.Window(w.steps, w.seconds * slow) for w in phase.windows)) for name, phase in record.phases.items()}
send_all(records.replace(record, phases=windows))
"""


def launched(
    framework: str = "jax", speed: float = 1.0, n: int = 4, first: int = 0, **changes: Any
) -> dict[Cell, list[Record]]:
    """Launches of one cell, so many times as fast as usual."""
    made = []
    for launch in range(first, first + n):
        record = records.record(framework, launch)
        window = records.Window(20, record.phases["train"].windows[0].seconds / speed)
        phases = record.phases | {"train": replace(record.phases["train"], windows=(window,))}
        made.append(replace(record, phases=phases, **changes))
    return by_cell(made)


def only(stored: dict[Cell, list[Record]], again: dict[Cell, list[Record]]) -> Any:
    (verdict,) = judge(stored, again).values()
    return verdict


@pytest.mark.parametrize(("speed", "margin", "kind"), [
    (1.0, 0.05, "reproduced"), (1.3, 0.05, "faster"), (0.7, 0.05, "slower"), (1.05, 0.05, "inconclusive"),
    (1.0, 0.001, "inconclusive"), (1.3, 0.5, "reproduced"),
])  # fmt: skip
def test_on_the_same_machine_throughput_is_compared(speed: float, margin: float, kind: str) -> None:
    (verdict,) = judge(launched(), launched(speed=speed, first=4), margin).values()
    assert verdict.kind == kind
    assert verdict.ratio.low < verdict.ratio.value < verdict.ratio.high
    assert verdict.ratio.value == pytest.approx(speed, rel=0.05)
    assert verdict.detail.startswith(f"margin {margin:.1%}")


def test_noise_does_not_buy_a_reproduction() -> None:
    noisy = by_cell(
        [record for n in range(6) for records in launched(speed=1 + 0.3 * (n % 2)).values() for record in records]
    )
    assert only(noisy, noisy).kind == "inconclusive"


def test_single_launches_have_a_ratio_and_decide_nothing() -> None:
    verdict = only(launched(n=1), launched(n=1))
    assert (verdict.kind, verdict.ratio) == ("inconclusive", Estimate(1.0))
    cell = Cell("imdb_lstm", "jax")
    (row,) = verdict_grid({cell: verdict}, {cell: []}, {cell: []}).rows
    assert row[:4] == [cell.id, "1.000", NONE, "0/0"]


@pytest.mark.parametrize("field", ["data", "workload"])
def test_other_data_or_another_spec_is_another_question(field: str) -> None:
    again = launched(**{field: {"digest": "another"}})
    assert only(launched(), again).kind == "not comparable"


def test_a_failure_is_reproduced_by_the_same_failure() -> None:
    full = {"outcome": Outcome("out-of-memory", "too large")}
    assert only(launched(**full), launched(**full)).kind == "reproduced"
    assert only(launched(**full), launched()).kind == "not comparable"
    assert only(launched(), {}).kind == "not comparable"


@pytest.mark.parametrize(
    ("jax", "kind"), [(3.0, "shape reproduced"), (3.6, "shape reproduced"), (6.0, "shape differs")]
)
def test_on_another_machine_the_ratios_between_frameworks_count(jax: float, kind: str) -> None:
    other = {"environment": {"machine": ELSEWHERE}}
    stored = launched("pytorch") | launched("jax")
    again = launched("pytorch", 3.0, **other) | launched("jax", jax, **other)
    found = judge(stored, again)
    assert {verdict.kind for verdict in found.values()} == {kind}
    assert {verdict.good for verdict in found.values()} == {kind == "shape reproduced"}
    newer = {"environment": {"machine": records.MACHINE | {"family": 26}}}
    found = judge(stored, launched("pytorch", 3.0, **newer) | launched("jax", jax, **newer))
    assert {verdict.kind for verdict in found.values()} == {kind}, "a processor of that name, and of another generation"
    lone = judge(launched("jax"), launched("jax", **other))
    assert [verdict.kind for verdict in lone.values()] == ["not comparable"]


def test_what_differs_is_named() -> None:
    (one,) = launched(n=1, environment={"machine": ELSEWHERE, "packages": {"jax": "1"}}, settings={"threads": 2})[
        Cell("cifar100_cnn", "jax")
    ]
    (other,) = launched(n=1, environment={"machine": ELSEWHERE, "packages": {"jax": "2"}}, settings={"threads": 4})[
        Cell("cifar100_cnn", "jax")
    ]
    assert differences([one], [other]) == ["jax: 1, now 2", "threads: 2, now 4"]
    assert differences([one], [one]) == []


@pytest.fixture
def result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stored run on the twin: three frameworks, two launches, and a control that is none of its cells."""
    monkeypatch.setenv("SUITE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    made = [records.record(name, launch, kind="synthetic") for launch in range(2) for name in FRAMEWORKS]
    made.append(replace(records.record("pytorch", 0, kind="synthetic"), launch=CONTROL))
    plan = {"min_window_s": 0.5, "windows": 3, "max_warmup_s": 1.0}
    made = [replace(record, run=record.run | {"plan": plan, "seed": 7}) for record in made]
    path = tmp_path / "stored.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in [{"run": {"id": "a"}}, *(r.to_json() for r in made)]))
    return path


def test_the_command_runs_the_cells_again_and_says_what_holds(
    result: Path, twins: Path, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in(WORKER)
    monkeypatch.setenv("SUITE_CACHE_DIR", str(twins))  # none of full size is made
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    assert main([str(result), "--device", "cpu", "--margin", "25%"]) == 0
    told = capsys.readouterr()
    assert told.out.count("reproduced") == 3
    assert "2/2" in told.out
    assert "[6/6]" in told.err
    (journal,) = Path("runs/journals").glob("*.jsonl")
    first = json.loads(journal.read_text().splitlines()[0])["run"]
    assert (first["seed"], first["plan"]["windows"], first["data"]) == (7, 3, "synthetic")
    assert main([str(result), "--device", "cpu", "-k", "jax", "--margin", "0.01"]) == 3
    words = " ".join(capsys.readouterr().out.split())
    assert "inconclusive margin 0.0%; use more --launches, or a wider --margin" in words
    monkeypatch.setenv("SLOW", json.dumps({"jax": 2.0}))
    assert main([str(result), "--device", "cpu", "-k", "jax", "--launches", "3"]) == 1
    assert "slower" in capsys.readouterr().out


def test_unusable_input_is_one_line(tmp_path: Path, result: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "nothing.json"), "--storage", str(tmp_path)]) == 2
    assert main([str(result), "-k", "fortran"]) == 2
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 2
    assert "no cell of this result has 'fortran'" in told[1]
