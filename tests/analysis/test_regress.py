"""A build fails for a cell that became slower, and for nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from suite.analysis.load import Launch, LoadError
from suite.analysis.regress import changes, threshold
from suite.compare.__main__ import main
from suite.plan.cell import FRAMEWORKS
from suite.record.record import Record
from tests import records
from tests.records import replace


def run(speed: float = 1.0, n: int = 5, first: int = 0, name: str = "base") -> list[Record]:
    """Launches of three frameworks; JAX so many times as fast as usual."""
    found = []
    for launch in range(first, first + n):
        for framework in FRAMEWORKS:
            record = records.record(framework, launch, run=name)
            factor = speed if framework == "jax" else 1.0
            windows = tuple(w._replace(seconds=w.seconds / factor) for w in record.phases["train"].windows)
            phases = record.phases | {"train": replace(record.phases["train"], windows=windows)}
            found.append(replace(record, launch=launch - first, phases=phases))
    return found


def two(base: list[Record], new: list[Record]) -> list[Launch]:
    return [Launch(r, "base", "a") for r in base] + [Launch(r, "new", "b") for r in new]


@pytest.mark.parametrize(("speed", "slower"), [(1.0, False), (0.97, False), (0.8, True), (1.3, False)])
def test_a_significant_slow_down_beyond_the_margin_is_found(speed: float, slower: bool) -> None:
    found, notes = changes(two(run(), run(speed, first=5)))
    assert [change.cell.framework for change in found if change.slower(0.05)] == (["jax"] if slower else [])
    assert (len(found), notes) == (3, [])


def test_what_cannot_be_tested_says_why() -> None:
    few = changes(two(run(n=2), run(n=2, first=5)))
    assert few[0] == []
    assert "a test takes 3" in few[1][0]
    changed = [replace(record, workload={"digest": "another"}) for record in run(first=5)]
    assert "the spec changed" in changes(two(run(), changed))[1][0]
    lacking = [record for record in run(first=5) if record.cell.framework != "jax"]
    assert "not in both runs" in changes(two(run(), lacking))[1][0]


def test_two_runs_on_one_machine_are_needed() -> None:
    with pytest.raises(LoadError, match="two runs"):
        changes([Launch(record, "base", "a") for record in run()])
    elsewhere = {"machine": {"cpu": "Another", "cores": 4}}
    with pytest.raises(LoadError, match="one machine"):
        changes(two(run(), [replace(record, environment=elsewhere) for record in run(first=5)]))


@pytest.mark.parametrize("text", ["slower", "slower=5", "faster=5%", "slower=-5%", "slower=100%"])
def test_a_threshold_is_a_share(text: str) -> None:
    with pytest.raises(ValueError, match=text):
        threshold(text)
    assert threshold("slower=2.5%") == 0.025


def test_the_command_fails_a_build(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = []
    for name, found in (("base", run()), ("new", run(0.8, first=5, name="new"))):
        paths.append(tmp_path / f"{name}.jsonl")
        lines = [{"run": {"id": name}}, *(record.to_json() for record in found)]
        paths[-1].write_text("".join(json.dumps(line) + "\n" for line in lines))
    arguments = [*map(str, paths), "--output", str(tmp_path / "out")]
    assert main([*arguments, "--fail-if", "slower=5%"]) == 1
    assert "slower: cifar100_cnn-jax" in capsys.readouterr().err
    assert main([*arguments, "--fail-if", "slower=30%"]) == 0
    assert main([str(paths[0]), "--output", str(tmp_path / "out"), "--fail-if", "slower=5%"]) == 2
