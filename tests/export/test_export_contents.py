"""What is exported of a record: the same for every target, and safe wherever its text goes."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from suite.analysis.records.load import load
from suite.export import contents
from suite.plan.cell import Cell
from suite.record.record import Record
from tests import records
from tests.published import numbered
from tests.records import HOSTILE

#: A run of each kind: throughput, with a monitor's readings, and trained to its end.
RUNS = [numbered(number) for number in ("0025", "0005", "0006")]


def test_the_settings_of_a_cell_are_all_there() -> None:
    record = records.record("jax", 3, precision="bf16", batch=64)
    found = contents.settings(record)
    assert found.keys() == {*Cell.__dataclass_fields__, "launch", "effective_batch"}
    assert (found["framework"], found["precision"], found["batch"], found["launch"]) == ("jax", "bf16", 64, 3)
    assert found["loader"] == "tuned"


def test_figures_are_those_of_the_record() -> None:
    record = records.watched(records.record())
    found = contents.figures(record)
    assert found["samples_per_s"] == found["train.samples_per_s"] == record.samples_per_s
    assert found["compute.step_s"] == record.phases["compute"].step_s
    assert found["memory.rss_peak_bytes"] == record.memory["rss_peak_bytes"]
    assert found["startup.import_s"] == record.startup["import_s"]
    assert found["gpu0.energy_j_per_sample"] == pytest.approx(200.0 / record.samples_per_s)
    assert "compile_s" not in found, "eager mode compiles nothing"


def test_a_curve_has_a_point_per_window_at_the_step_and_the_moment_of_its_end() -> None:
    record = records.watched(records.record())
    points = contents.curves(record)["train.window_step_s"]
    windows = record.phases["train"].windows
    assert [point.step for point in points] == [20 * n for n in range(1, len(windows) + 1)]
    assert [point.value for point in points] == record.phases["train"].step_times_s
    assert points[0].at_s == pytest.approx(5.0 + windows[0].seconds)


def test_a_training_has_epochs_and_the_losses_of_the_first() -> None:
    record = records.trained()
    found = contents.curves(record)
    assert [(point.step, point.value) for point in found["epoch.test_accuracy"]] == [(1, 0.4), (2, 0.6)]
    assert len(found["first_epoch.loss"]) == 4
    assert contents.figures(record)["test_accuracy"] == 0.6


def test_readings_of_the_monitor_are_curves_over_seconds() -> None:
    found = contents.curves(records.watched(records.record()))
    assert found["gpu0.power_w"][20].step == 10
    assert max(point.value for point in found["gpu0.power_w"]) == 480.0
    assert "host.cpu_cores" in found


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.stem)
def test_every_published_run_can_be_exported_whole(path: Path) -> None:
    for launch in load([path], whole=True).launches[:3]:
        record = launch.record
        assert Record.from_json(json.loads(json.dumps(record.to_json()))) == record
        names = [*contents.figures(record), *contents.curves(record)]
        assert not [name for name in names if not re.fullmatch(r"[\w.+-]+", name)]


@pytest.mark.parametrize("text", [HOSTILE, "", "..", "../../etc/passwd", ".hidden", "a/b", "-x", "x" * 500, "\ud800"])
def test_a_plain_name_is_one_part_of_a_path(text: str) -> None:
    name = contents.plain(text)
    assert re.fullmatch(r"[A-Za-z0-9_+][A-Za-z0-9_.+-]*", name)
    assert ".." not in name
    assert len(name) <= contents.NAME_MOST


def test_names_that_differ_stay_different() -> None:
    assert contents.plain("a/b") != contents.plain("a_b")
    assert contents.plain("x" * 500) != contents.plain("x" * 501)
    assert contents.plain("imdb_lstm-jax-fp32") == "imdb_lstm-jax-fp32"


def hostile() -> Record:
    """A record as a stranger could write it: every free text and name is hostile, and readings are no readings."""
    record = records.watched(records.record())
    lines = {HOSTILE: [1.0] * 60, "ok": ["x"] * 60, "short": None}
    metrics = {"host": {"timeline": {"at_s": [0.5 * n for n in range(60)], "values": lines}}, "gpus": [None, 3, "x"]}
    environment = {"machine": {"cpu": HOSTILE, "gpus": HOSTILE}, "packages": [HOSTILE], "python": {"a": HOSTILE}}
    return replace(
        record, run={"id": HOSTILE, "suite": HOSTILE, "took_s": "x"}, metrics=metrics, environment=environment,
        startup={HOSTILE: 1.0, "../../x": 2.0}, memory={HOSTILE: 5}, flags=(HOSTILE,), started=HOSTILE,
    )  # fmt: skip


def test_a_strangers_record_becomes_plain_text() -> None:
    record = hostile()
    texts = [*contents.facts(record).values(), *map(str, contents.settings(record).values())]
    assert all(text.isprintable() and len(text) <= contents.TEXT_MOST for text in texts)
    names = [*contents.figures(record), *contents.curves(record)]
    assert not [name for name in names if not re.fullmatch(r"[\w.+-]+", name) or ".." in name]
    assert contents.start_of(record) == contents.took_s(record) == 0.0


def test_a_second_try_of_a_launch_is_another_launch() -> None:
    first = records.failed(records.record())
    again = replace(records.record(), started="2026-03-01T12:00:00+00:00")
    assert contents.identity("run", first) != contents.identity("run", again)
    assert contents.identity("run", first) != contents.identity("other", first)
