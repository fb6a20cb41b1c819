"""Ratios along other axes than the framework: within a framework, and between machines where that was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from suite.analysis.records.load import Launch
from suite.analysis.rows.groups import group
from suite.analysis.statistics.inference import BLOCKS_LEAST, welch
from suite.compare.__main__ import main
from suite.plan.cell import Loader
from suite.record.record import Record
from suite.report.tables.frame import Table, table
from tests import records
from tests.records import replace
from tests.shown import in_markdown, terminal

pytestmark = pytest.mark.usefixtures("undrawn")

ELSEWHERE = {"machine": {**records.MACHINE, "cpu": "Another CPU 9000"}}


def along(axis: str, held: Sequence[Record], baseline: str | None = None, across: bool = False) -> list[Table]:
    launches = [Launch(record, str(record.run["id"]), "file.json") for record in held]
    return [table(each, baseline) for each in group(launches, axis, across)]


def quicker(held: Sequence[Record], factor: float) -> list[Record]:
    """The same launches, so many times as fast."""
    found = []
    for one in held:
        shorter = {
            name: replace(phase, windows=tuple(w._replace(seconds=w.seconds / factor) for w in phase.windows))
            for name, phase in one.phases.items()
        }
        found.append(replace(one, phases=shorter))
    return found


@pytest.mark.parametrize(
    ("axis", "changes", "base"),
    [
        ("precision", {"precision": "bf16"}, "fp32"),
        ("batch", {"batch": 128}, "32"),
        ("batch", {"batch": 8}, "8"),
        ("compile", {"compile": "compile"}, "eager for pytorch, graph for tensorflow"),
        ("loader", {"loader": Loader("naive")}, "tuned"),
        ("loader", {"loader": Loader("workers", 2)}, "tuned"),
        ("size", {"size": "small"}, "full"),
        ("kernel", {"kernel": "scan"}, "auto"),
        ("tuning", {"tuning": "default"}, "default"),
        ("interface", {"interface": "keras"}, "native"),
        ("accumulate", {"accumulate": 4, "batch": 8, "identity": records.identity("pytorch")}, "1"),
    ],
)
def test_each_setting_is_held_against_its_base_within_the_framework(
    axis: str, changes: dict[str, Any], base: str
) -> None:
    usual = records.launches(["pytorch", "tensorflow"])
    (found,) = along(axis, [*usual, *records.launches(["pytorch", "tensorflow"], **changes)])
    assert found.baseline == base
    for row, cell in zip(found.group.rows, found.frame.to_dict("records"), strict=True):
        assert cell["ratio_blocks"] == 3, cell["ratio_reason"]
        assert row.cell.framework in cell["ratio_baseline"], "never another framework's"
        assert (cell["ratio_baseline"] == cell["cell"]) == found.base.holds(row)
        assert found.base.holds(row) == (cell["ratio"] == 1.0)
    assert found.frame["framework"].tolist() == ["pytorch"] * 2 + ["tensorflow"] * 2
    for text in (terminal(found), in_markdown(found)):
        assert " ".join(text.split()).count("Ratios are within each framework, to") == 1


def test_without_the_base_the_next_one_is_it_and_a_row_without_one_says_so() -> None:
    bf16, fp64 = (records.launches(["jax"], precision=precision) for precision in ("bf16", "fp64"))
    (found,) = along("precision", [*fp64, *bf16, *records.launches(["pytorch"], precision="fp64")])
    assert found.baseline == "bf16"
    assert "no cell of pytorch with precision bf16 and otherwise the same" in found.frame["ratio_reason"].iloc[0]


def test_a_base_may_have_its_former_name() -> None:
    launches = [*records.launches(["pytorch"]), *records.launches(["pytorch"], tuning="default")]
    (found,) = along("tuning", launches, baseline="known")
    assert found.baseline == "recommended"


def test_other_settings_and_runs_stay_apart() -> None:
    held = [*records.launches(["jax"]), *records.launches(["jax"], precision="bf16", batch=64)]
    (found,) = along("precision", held)
    assert found.frame["ratio_reason"].ne("").tolist() == [False, True]
    (found,) = along("precision", [*held[:3], *records.launches(["jax"], precision="bf16", run="run-b")])
    assert "settings and run" in found.frame["ratio_reason"].iloc[1]


def test_sizes_share_a_table_only_along_their_axis() -> None:
    held = [*records.launches(["jax"]), *records.launches(["jax"], size="small")]
    assert [each.group.size for each in along("framework", held)] == ["full", "small"]
    (found,) = along("size", held)
    assert "size full-and-small" in terminal(found)
    assert found.frame["size"].tolist() == ["full", "small"]


def two_machines(n: int = 3) -> list[Record]:
    """The same cells in two runs; on the second machine half as fast again."""
    there = quicker(records.launches(["pytorch", "jax"], n=n, run="a-later-run"), 1.5)
    return [*records.launches(["pytorch", "jax"], n=n), *(replace(each, environment=ELSEWHERE) for each in there)]


def test_machines_never_share_a_ratio_unasked() -> None:
    (found,) = along("framework", two_machines())
    assert "machine" not in found.group.varying
    runs = found.frame.groupby("run")["ratio_baseline"].nunique()
    assert runs.tolist() == [1, 1]
    for base, run in zip(found.frame["ratio_baseline"], found.frame["run"], strict=True):
        assert "of run" not in base, run


def test_across_machines_the_machine_is_an_axis_and_a_column() -> None:
    (found,) = along("machine", two_machines(), across=True)
    assert found.group.varying == ["run", "machine", "compile"], "each framework has its own mode"
    assert found.baseline == "Example CPU 3000, 8 cores", "that of the first file"
    rows = found.frame.to_dict("records")
    assert [row["machine"] for row in rows] == ["Example CPU 3000, 8 cores", "Another CPU 9000, 8 cores"] * 2
    assert [round(row["ratio"], 1) for row in rows] == [1.0, 1.5, 1.0, 1.5]
    assert rows[1]["ratio_baseline"].endswith("of run run-a")
    assert rows[1]["ratio_min"] < rows[1]["ratio"] < rows[1]["ratio_max"]
    text = " ".join(terminal(found).split())
    assert "machine" in text.split("====")[-1]
    assert "Ratios are to the same cell on Example CPU 3000" in text
    assert "share no blocks" in text


def test_a_machine_is_named_by_a_part_of_its_name() -> None:
    (found,) = along("machine", two_machines(), "another", across=True)
    assert found.baseline == "Another CPU 9000, 8 cores"
    assert [round(ratio, 1) for ratio in found.frame["ratio"]] == [0.7, 1.0, 0.7, 1.0]


def test_between_runs_the_test_is_welch_s() -> None:
    (found,) = along("machine", two_machines(n=BLOCKS_LEAST), across=True)
    assert found.frame["ratio_verdict"].tolist() == ["", "faster", "", "faster"]
    new, base = [1.5, 1.6, 1.4, 1.55], [1.0, 1.1, 0.9]
    one = welch(new, base)
    assert one.low < one.value < one.high
    assert one.blocks == 3
    assert one.p < 0.01
    assert welch(new, new).p == pytest.approx(1.0)


def test_across_machines_a_framework_is_held_against_its_own_run_first() -> None:
    held = two_machines()
    (found,) = along("framework", held, "pytorch", across=True)
    assert not any("of run" in base for base in found.frame["ratio_baseline"])
    lacking = [each for each in held if each.run["id"] == "run-a" or each.cell.framework == "jax"]
    (found,) = along("framework", lacking, "pytorch", across=True)
    assert found.frame["ratio_baseline"].iloc[-1].endswith("of run run-a")
    (found,) = along("framework", lacking, "pytorch")
    assert "no cell of pytorch" in found.frame[found.frame["run"] == "a-later-run"]["ratio_reason"].iloc[0]


def watched(held: Sequence[Record], **described: float) -> list[Record]:
    """The same launches with a GPU that was watched."""
    clock = described.pop("clock", 1980.0)
    gpu = {"name": "Example GPU", **described, "phases": {"train": {"sm_clock_mhz": {"median": clock}}}}
    return [replace(each, metrics={"gpus": [gpu]}) for each in held]


def driven(held: Sequence[Record], version: str) -> list[Record]:
    return [replace(each, environment={**each.environment, "driver": {"version": version}}) for each in held]


@pytest.mark.parametrize(
    ("first", "rest", "words"),
    [
        (lambda r: driven(r, "580.1"), lambda r: driven(r, "590.2"), "driver changed within the run (580.1, 590.2)"),
        (lambda r: watched(r, power_limit_w=700), lambda r: watched(r, power_limit_w=350), "power limit changed"),
        (lambda r: watched(r, max_sm_clock_mhz=1980), lambda r: watched(r, max_sm_clock_mhz=1410), "highest clock"),
        (watched, lambda r: watched(r, clock=1410.0), "clock changed between the launches of cifar100_cnn-pytorch"),
    ],
)  # fmt: skip
def test_what_changed_within_a_run_is_named_in_the_row(first: Any, rest: Any, words: str) -> None:
    held = records.launches(["pytorch", "jax"])
    (found,) = along("framework", [*first(held[:2]), *rest(held[2:])], "pytorch")
    assert words in found.frame["ratio_reason"].iloc[1]
    assert found.frame["ratio_blocks"].tolist() == [0, 0]
    (found,) = along("framework", first(held), "pytorch")
    assert found.frame["ratio_reason"].tolist() == ["", ""]


def test_a_clock_that_heat_moves_is_no_obstacle_and_another_machine_s_driver_neither() -> None:
    held = records.launches(["pytorch", "jax"])
    (found,) = along("framework", [*watched(held[:2]), *watched(held[2:], clock=1900.0)], "pytorch")
    assert found.frame["ratio_reason"].tolist() == ["", ""]
    here, there = two_machines()[:6], two_machines()[6:]
    (found,) = along("machine", [*driven(here, "580.1"), *driven(there, "590.2")], across=True)
    assert found.frame["ratio_reason"].tolist() == [""] * 4


def test_the_command_compares_machines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    held = two_machines()
    paths = [
        records.save(tmp_path / name, part, run)
        for name, part, run in (("b.json", held[:6], "run-a"), ("a.json", held[6:], "a-later-run"))
    ]
    assert main([*map(str, paths), "--across-machines", "--output", str(tmp_path / "out"), "--verbose"]) == 0
    assert "same cell on Example CPU 3000" in " ".join(capsys.readouterr().out.split())
    assert '"Another CPU 9000, 8 cores"' in (tmp_path / "out" / "cells.csv").read_text()


def test_one_machine_is_not_compared_with_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [records.save(tmp_path / f"{run}.json", records.launches(run=run), run) for run in ("run-a", "run-b")]
    assert main([*map(str, paths), "--across-machines", "--output", str(tmp_path / "out")]) == 2
    told, line = capsys.readouterr()
    assert (told, line.count("\n")) == ("", 1)
    assert "all launches are from one machine, Example CPU 3000, 8 cores: --across-machines compares two" in line


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--by", "batch", "--baseline", "7"], "no cell has batch '7' (--baseline); there are: 32"),
        (["--by", "colour"], "unknown axis 'colour'"),
        (["--by", "machine"], "needs --across-machines"),
        (["--baseline", "fp32"], "unknown framework 'fp32'; there are: pytorch, tensorflow, jax"),
        (["--across-machines", "--baseline", "H100"], "no cell has machine 'H100'"),
    ],
)
def test_a_base_that_is_not_there_is_one_line(
    tmp_path: Path, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = records.save(tmp_path / "0001_a.json", records.launches())
    try:
        status = main([str(run), "--output", str(tmp_path / "out"), *arguments])
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    said = capsys.readouterr()
    assert (status, said.out) == (2, "")
    assert words in said.err
    assert len(said.err.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_the_base_can_be_asked_for_and_sizes_stand_in_their_order() -> None:
    held = [each for batch in (128, 64, 32) for each in records.launches(["jax"], batch=batch)]
    (found,) = along("batch", held, "64")
    assert found.frame["batch"].tolist() == ["32", "64", "128"]
    assert set(found.frame["ratio_baseline"]) == {"cifar100_cnn-jax-fp32-b64-compile-tuned"}
    assert [ratio == 1.0 for ratio in found.frame["ratio"]] == [False, True, False]
