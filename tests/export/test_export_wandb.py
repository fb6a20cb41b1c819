"""Offline runs of Weights & Biases are on the disk, whole, and name neither host nor user."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from suite.export import contents
from suite.record.record import Record
from tests import records
from tests.export.exporting import export, files
from tests.export.test_export_contents import hostile
from tests.processes import assert_public

pytest.importorskip("wandb", reason="needs wandb: tox run -m reach-tests")


def test_each_launch_is_an_offline_run_that_can_be_synced(tmp_path: Path) -> None:
    held = [records.watched(records.record()), records.failed(records.record("jax"))]
    run = records.save(tmp_path / "0001_a.json", held)
    out = export("wandb", run, "--to", tmp_path / "to")
    assert out.startswith(f"run-a: 2 of 2 launches added: {tmp_path}/to/wandb: send it with `wandb sync ")
    found = {path.name: path for path in (tmp_path / "to" / "wandb").glob("offline-run-*")}
    assert len(found) == 2
    for record in held:
        key = contents.identity("run-a", record)
        (folder,) = [path for name, path in found.items() if name.endswith(f"-{key}")]
        content = (folder / f"run-{key}.wandb").read_bytes().decode("latin-1")
        assert content.count(record.cell.id) >= 1
        assert ("train/window_step_s" in content) == record.outcome.ok
        assert Record.from_json(json.loads((folder / "files" / "record.json").read_text())).cell == record.cell
        assert_public(content)
    again = export("wandb", run, "--to", tmp_path / "to")
    assert again.startswith("run-a: 0 of 2 launches added, 2 were there: ")


def test_a_strangers_record_stays_in_the_folder(tmp_path: Path) -> None:
    export("wandb", records.save(tmp_path / "0001_a.json", [hostile()], run="../../up"), "--to", tmp_path / "to")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0001_a.json", "to"]
    assert [name for name in files(tmp_path / "to") if name.endswith(".wandb")]
