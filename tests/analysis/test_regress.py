"""A build fails for a cell that became slower, and for nothing else."""

from __future__ import annotations

from argparse import ArgumentTypeError
from pathlib import Path

import pytest

from suite.analysis.options import threshold
from suite.analysis.records.load import Launch, LoadError, load
from suite.analysis.statistics.changes import changes
from suite.compare.__main__ import main
from suite.plan.cell import FRAMEWORKS
from suite.record.record import Record
from tests import records
from tests.published import numbered
from tests.records import replace, timed

pytestmark = pytest.mark.usefixtures("undrawn")


def run(speed: float = 1.0, n: int = 5, first: int = 0, name: str = "base") -> list[Record]:
    """Launches of three frameworks; JAX so many times as fast as usual."""
    found = []
    for launch in range(first, first + n):
        for framework in FRAMEWORKS:
            record = records.record(framework, launch, run=name)
            factor = speed if framework == "jax" else 1.0
            phases = {
                name: replace(each, windows=tuple(w._replace(seconds=w.seconds / factor) for w in each.windows))
                for name, each in record.phases.items()
            }
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
    assert "no such cell, data and spec" in changes(two(run(), changed))[1][0]
    lacking = [record for record in run(first=5) if record.cell.framework != "jax"]
    assert "not in both runs" in changes(two(run(), lacking))[1][0]


def test_two_runs_on_one_machine_are_needed() -> None:
    with pytest.raises(LoadError, match="two runs"):
        changes([Launch(record, "base", "a") for record in run()])
    elsewhere = {"machine": {"cpu": "Another", "cores": 4}}
    with pytest.raises(LoadError, match="one machine"):
        changes(two(run(), [replace(record, environment=elsewhere) for record in run(first=5)]))
    newer = {"machine": records.MACHINE | {"family": 26}}
    with pytest.raises(LoadError, match=r"one machine.*family 25.*family 26"):
        changes(two(run(), [replace(record, environment=newer) for record in run(first=5)]))


def test_published_runs_on_two_processors_of_one_name_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    epyc, another, too = (str(numbered(number)) for number in ("0023", "0029", "0011"))
    assert main([epyc, another, "--fail-if", "slower=5%"]) == 2
    refused = capsys.readouterr()
    assert "203 GFLOP/s" in refused.err
    assert refused.out == ""
    found, _ = changes(load([Path(epyc), Path(too)]).launches)
    assert [change.slower(0.05) for change in found] == [False] * 3


@pytest.mark.parametrize("text", ["slower", "slower=5", "faster=5%", "slower=-5%", "slower=100%"])
def test_a_threshold_is_a_share(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match=text):
        threshold(text)
    assert threshold("slower=2.5%") == 0.025


def journals(folder: Path, base: list[Record], new: list[Record]) -> list[str]:
    """The arguments that compare these two runs."""
    paths = [records.journal(folder / f"{name}.jsonl", held, name) for name, held in (("base", base), ("new", new))]
    return [*map(str, paths), "--output", str(folder / "out")]


def test_the_command_fails_a_build(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = journals(tmp_path, run(), run(0.8, first=5, name="new"))
    assert main([*arguments, "--fail-if", "slower=5%"]) == 1
    assert "slower: cifar100_cnn-jax" in capsys.readouterr().err
    assert main([*arguments, "--fail-if", "slower=30%"]) == 0


def test_where_nothing_could_be_tested_the_build_does_not_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = journals(tmp_path, run(n=2), run(n=2, first=5, name="new"))
    assert main([*arguments, "--fail-if", "slower=5%"]) == 3
    said = capsys.readouterr().err.splitlines()
    assert said[-1] == "--fail-if: no cell could be tested, so nothing is known about a slow-down"
    assert sum("not tested: " in line for line in said) == 3
    assert main(arguments) == 0, "the comparison itself is none the worse"


@pytest.mark.parametrize("given", [1, 3])
def test_another_number_of_runs_is_refused_before_anything_is_printed_or_written(
    given: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [run(name="a"), run(first=5, name="b"), run(first=10, name="c")][:given]
    paths = [records.journal(tmp_path / f"{number}.jsonl", held, f"run-{number}") for number, held in enumerate(runs)]
    output = tmp_path / "out"
    assert main([*map(str, paths), "--output", str(output), "--fail-if", "slower=5%"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = said.err.splitlines()
    assert line.startswith("training-suite compare: --fail-if compares two runs, BASE and NEW; ")
    assert not output.exists()


def test_the_last_line_counts_what_is_not_known_to_be_as_fast(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    noisy = [timed(step, "pytorch", at, run="new") for at, step in enumerate((0.02, 0.05, 0.03, 0.06, 0.02))]
    base = [timed(0.03, "pytorch", at, run="base") for at in range(5)]
    same = [[timed(step, "jax", at, run=name) for at, step in enumerate((0.05, 0.0501, 0.0502, 0.05, 0.0501))]
            for name in ("base", "new")]  # fmt: skip
    lacking = [timed(0.03, "tensorflow", at, run="base") for at in range(5)]
    arguments = journals(tmp_path, [*base, *same[0], *lacking], [*noisy, *same[1]])
    assert main([*arguments, "--fail-if", "slower=5%"]) == 0
    said = capsys.readouterr().err.splitlines()[-1]
    assert [int(word) for word in said.replace(",", " ").split() if word.isdecimal()] == [0, 3, 1, 1, 1]
