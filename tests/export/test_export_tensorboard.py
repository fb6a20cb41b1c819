"""TensorBoard's own reader finds everything in the event files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from suite.export import contents
from tests import records
from tests.export.exporting import export, files
from tests.export.test_export_contents import hostile
from tests.processes import assert_public

pytest.importorskip("tensorboard", reason="needs tensorboard: tox run -m reach-tests")

#: Reads all folders, in a process of its own, since the reader imports TensorFlow where there is one.
READ = """
import json, sys, types
sys.modules["tensorboard.compat.notf"] = types.ModuleType("notf")
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData
found = {}
for folder in sys.argv[1:]:
    events = EventAccumulator(folder, size_guidance={"scalars": 0}).Reload()
    scalars = {tag: [(e.step, e.value, e.wall_time) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}
    hparams = {}
    for metadata in events.summary_metadata.values():
        if metadata.plugin_data.plugin_name == "hparams":
            data = HParamsPluginData.FromString(metadata.plugin_data.content).session_start_info.hparams
            hparams |= {name: value.string_value or value.number_value for name, value in data.items()}
    found[folder] = {"scalars": scalars, "images": events.Tags()["images"], "hparams": hparams}
print(json.dumps(found))
"""


def read(folder: Path) -> dict[str, Any]:
    """What TensorBoard shows of each folder in a run's folder, by the folder's name."""
    folders = sorted(map(str, folder.iterdir()))
    done = subprocess.run(
        [sys.executable, "-c", READ, *folders], capture_output=True, text=True, check=False, timeout=200,
        env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return {Path(name).name: value for name, value in json.loads(done.stdout.splitlines()[-1]).items()}


def test_scalars_steps_moments_and_settings_are_read_back(tmp_path: Path) -> None:
    held = [records.watched(records.record()), records.failed(records.record("jax"))]
    run = records.save(tmp_path / "0001_a.json", held)
    out = export("tensorboard", run, "--to", tmp_path / "to")
    assert out == f"run-a: 2 of 2 launches added: {tmp_path}/to/run-a: tensorboard --logdir {tmp_path}/to\n"
    found = read(tmp_path / "to" / "run-a")
    assert found.keys() == {f"{record.cell.id}-launch0" for record in held}
    launch = found[f"{held[0].cell.id}-launch0"]
    points = contents.curves(held[0])["train.window_step_s"]
    begin_s = contents.start_of(held[0])
    assert launch["scalars"]["train/window_step_s"] == [
        [point.step, pytest.approx(point.value), pytest.approx(begin_s + point.at_s)] for point in points
    ]
    assert launch["scalars"]["launch/samples_per_s"][0][1] == pytest.approx(held[0].samples_per_s)
    settings = {name: value or 0.0 for name, value in contents.settings(held[0]).items() if name != "launch"}
    assert launch["hparams"] == settings
    assert {"gpu0/power_w", "host/cpu_cores"} <= launch["scalars"].keys()
    again = export("tensorboard", run, "--to", tmp_path / "to")
    assert again.startswith("run-a: 0 of 2 launches added, 2 were there: ")
    assert_public("".join(path.read_bytes().decode("latin-1") for path in (tmp_path / "to").rglob("*events*")))


def test_plots_of_a_report_are_images(tmp_path: Path) -> None:
    export("tensorboard", "0009_accuracy_cnn_small", "--to", tmp_path)
    (run,) = tmp_path.iterdir()
    assert "report/accuracy-time-cifar100_cnn-small-modern" in read(run)["report"]["images"]


def test_a_strangers_names_stay_in_the_folder(tmp_path: Path) -> None:
    run = records.save(tmp_path / "0001_a.json", [hostile()], run="../../up")
    export("tensorboard", run, "--to", tmp_path / "to")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0001_a.json", "to"]
    assert len(files(tmp_path / "to")) == 1
    (folder,) = (tmp_path / "to").iterdir()
    assert read(folder)


def test_it_needs_no_tensorflow(tmp_path: Path) -> None:
    run = records.save(tmp_path / "0001_a.json", records.launches(n=1))
    code = "import sys; from suite.export.__main__ import main; main(sys.argv[1:]); print('tensorflow' in sys.modules)"
    command = [sys.executable, "-c", code, "tensorboard", str(run), "--to", str(tmp_path / "to")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=200)
    assert done.stdout.splitlines()[-1] == "False"
