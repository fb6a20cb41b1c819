"""Scaling over devices in tables, sentences, pages, files and plots."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest

from suite.analysis.records.load import Launch
from suite.analysis.rows.groups import Group, group
from suite.analysis.rows.wording import DASH, NONE
from suite.analysis.statistics.accuracy import compare_accuracies
from suite.analysis.statistics.scaling import find_time_speedups
from suite.compare.__main__ import main
from suite.plan.cell import REFERENCE_STRATEGY
from suite.record.parts.history import Epoch, TrainingHistory
from suite.record.record import Record
from suite.report.plots.kinds.devices import accuracy_devices
from suite.report.screen import markdown
from suite.report.tables import accuracy, scaling, timed
from suite.report.tables.frame import Table, table
from suite.report.text.answer import answer
from tests import records
from tests.drawn import said
from tests.expected import golden


def several(n: int = 6, frameworks: Sequence[str] = ("pytorch", "tensorflow", "jax")) -> list[Record]:
    """Each framework on one device at two batches, and on two; PyTorch in both of its strategies. On a CPU."""
    held = [*records.launches(frameworks, n), *records.launches(frameworks, n, batch=64)]
    strategies = [*((name, REFERENCE_STRATEGY[name]) for name in frameworks), ("pytorch", "fsdp")]
    for name, strategy in strategies:
        held += records.launches([name], n, devices=2, strategy=strategy)
    return [replace(each, settings={"device": "cpu", "threads": 8 // each.cell.devices}) for each in held]


def grouped(held: Sequence[Record]) -> list[Group]:
    return group([Launch(each, "run-a", "0001_a.json") for each in held], "framework")


def made(held: Sequence[Record], by: str = "framework") -> Table:
    (one,) = group([Launch(each, "run-a", "0001_a.json") for each in held], by)
    return table(one)


def test_the_tables_say_what_was_compared() -> None:
    weak, strong = scaling.views(made(several()))
    golden("scaling.md", f"{markdown.document(weak)}\n{markdown.document(strong)}")
    assert weak.grid.headers.count("threads each") == 1
    notes = " ".join(weak.notes)
    for words in ("another training", "1 device: 8; 2 devices: 4", "4.00 MB", "Exchanged by gloo"):
        assert words in notes
    assert "the same training" in " ".join(strong.notes)
    assert [row[0] for row in weak.grid.rows] == ["PyTorch"] * 3 + ["TensorFlow"] * 2 + ["JAX"] * 2, "one base each"


def test_few_launches_are_shown_and_not_tested() -> None:
    few = made(several(2))
    (weak, _), sentence = scaling.views(few), " ".join(answer([few]).sentences)
    assert "verdict" not in weak.grid.headers
    assert any(note.startswith("Significance was not tested") for note in weak.notes)
    assert re.search(r"2 devices instead of 1 \(2 launches, not tested\): PyTorch with DDP 1.8", sentence)


def test_the_answer_has_one_sentence_for_scaling() -> None:
    sentences = answer([made(several())]).sentences
    (told,) = [text for text in sentences if "2 devices instead of 1 (6 launches)" in text]
    assert told.startswith("CIFAR-100 CNN, ")
    assert re.search(r": PyTorch with DDP 1.8\S+ \(.*, faster, efficiency 9\d %, communication 1\d? %\), T", told)
    assert told.endswith("; each device has 4 of the processor's 8 threads")
    along = answer([made(several(), "devices")])
    assert "2 devices instead of 1" in along.sentences[0]
    assert along.cards[0].verdict.startswith("2 devices over 1: PyTorch 1.8")


def test_a_table_along_devices_has_global_batch_communication_and_efficiency() -> None:
    view = timed.view(made(several(), "devices"))
    assert {"devices", "strategy", "global batch", "communication", "efficiency", "ratio"} <= {*view.grid.headers}
    rows = [dict(zip(view.grid.headers, row, strict=True)) for row in view.grid.rows]
    several_rows = [row for row in rows if row["devices"] == "2"]
    assert {row["global batch"] for row in several_rows} == {"64"}
    assert all(" % (" in row["efficiency"] and " %" in row["communication"] for row in several_rows)
    assert any("another training" in note for note in view.notes)
    assert not any("another training" in note for note in timed.view(made(several())).notes)


def test_a_comparison_writes_scaling_into_all_of_its_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = records.save(tmp_path / "0001_a.json", several(2, ["pytorch"]))
    out = tmp_path / "out"
    assert main([str(run), "--output", str(out), "--format", "json", "--extra", "none"]) == 0
    (told,) = json.loads(capsys.readouterr().out)["tables"]
    assert [(each["kind"], each["strategy"]) for each in told["scalings"]] == [
        (kind, name) for kind in ("weak", "strong") for name in ("ddp", "fsdp")
    ]
    point = told["scalings"][0]["points"][1]
    assert point["speed_up"]["value"] == pytest.approx(2 * point["efficiency"]["value"])
    cell = next(each for each in told["cells"] if each["settings"]["strategy"] == "fsdp")
    together = cell["devices"]
    facts = ("devices", "strategy", "global_batch", "threads_per_device", "allreduce_of_peak")
    assert [together[name] for name in facts] == [2, "fsdp", 64, "4", 0.4]
    assert (together["exchange"]["skew"], together["exchange"]["bytes_per_s"]) == (1.02, 1e9)
    assert together["communication"]["low"] < together["communication"]["value"] < 0.2
    page, text = ((out / name).read_text(encoding="utf-8") for name in ("report.html", "table.md"))
    for words in ("Weak scaling of the CIFAR-100 CNN", "Strong scaling of the CIFAR-100 CNN"):
        assert words in page
        assert words in text
    header, *lines = (out / "launches.csv").read_text(encoding="utf-8").splitlines()
    places = {name: header.split(",").index(name) for name in ("devices", "strategy", "global_batch", "skew")}
    found = {tuple(line.replace('"', "").split(",")[at] for at in places.values()) for line in lines if "-d2" in line}
    assert {each[:3] for each in found} == {("2", "ddp", "64"), ("2", "fsdp", "64")}


def trained(devices: int, launch: int, reached: bool = True) -> Record:
    """A training by a recipe for large batches: each device more makes an epoch shorter, and the accuracy lower."""
    epochs = tuple(
        Epoch(4, 1.0, 4.0 / devices + 0.1 * launch, 1.0, value, 0.5) for value in (0.4, 0.6 - 0.01 * devices)
    )
    course = TrainingHistory("linear", 2, 0.5 if reached else 0.9, epochs)
    made = records.record("pytorch", launch, recipe="linear", devices=devices, course=course)
    return replace(made, run=made.run | {"seed": launch})


def test_time_to_accuracy_stands_against_devices_in_the_table_and_the_plot() -> None:
    held = [trained(devices, launch) for launch in range(3) for devices in (1, 2, 4)]
    (one,) = grouped(held)
    table = compare_accuracies(one, "pytorch")
    found = {row.cell.devices: gain for row in one.rows if (gain := find_time_speedups(one, 0.5).get(row.key))}
    assert {devices: gain.kind for devices, gain in found.items()} == {2: "weak", 4: "weak"}
    assert found[4].ratio.value == pytest.approx(median([8 / 2, 8.2 / 2.2, 8.4 / 2.4]))
    grid = accuracy.view(table).grid
    columns = {name: [row[grid.headers.index(name)] for row in grid.rows] for name in grid.headers}
    assert columns["global batch"] == ["32", "64", "128"]
    assert columns["than one device"] == [NONE, f"1.95x (1.91{DASH}2.00)", f"3.73x (3.50{DASH}4.00)"]
    for words in ("where all seeds reached .50", "PyTorch DDP", "Recipe: linear"):
        assert words in said(accuracy_devices(table))


def test_a_target_that_a_seed_missed_has_no_gain_and_one_device_alone_no_plot() -> None:
    held = [trained(devices, launch, reached=launch > 0) for launch in range(3) for devices in (1, 2)]
    (one,) = grouped(held)
    assert find_time_speedups(one, 0.9) == {}
    (alone,) = grouped([trained(1, launch) for launch in range(3)])
    table = compare_accuracies(alone, "pytorch")
    assert "than one device" not in accuracy.view(table).grid.headers
    assert accuracy_devices(table) is None
