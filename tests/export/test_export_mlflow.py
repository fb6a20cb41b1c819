"""Runs exported to a real MLflow server are found again by its own client."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from suite.analysis.records.load import load
from suite.export import contents
from suite.export.target import Origin
from suite.record.record import Record
from tests import records
from tests.export.conftest import free_port
from tests.export.exporting import export
from tests.export.test_export_contents import hostile
from tests.published import RUNS
from tests.records import HOSTILE

#: MLflow's client warns of its own future.
pytestmark = pytest.mark.filterwarnings("ignore")


def found(address: str, run: str) -> tuple[Any, Any, list[Any]]:
    """The client, the run of the session, and those nested in it by name."""
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=address)
    experiment = client.get_experiment_by_name("framework-training-suite")
    where = f"tags.`suite.id` = '{contents.digest(run)}' and tags.`suite.kind` = 'session'"
    (session,) = client.search_runs([experiment.experiment_id], where)
    nested = client.search_runs([experiment.experiment_id], f"tags.`mlflow.parentRunId` = '{session.info.run_id}'")
    return client, session, sorted(nested, key=lambda each: each.info.run_name)


def exported(address: str, run: str, held: Sequence[Record], path: Path) -> str:
    return export("mlflow", records.save(path, held, run), "--to", address)


def test_a_run_is_found_again_with_parameters_metrics_and_record(mlflow_server: str, tmp_path: Path) -> None:
    held = [records.watched(records.record(name)) for name in ("pytorch", "jax")]
    held = [*(replace(each, run=each.run | {"id": "found"}) for each in held)]
    held += [replace(records.failed(records.record("tensorflow")), run={"id": "found"})]
    out = exported(mlflow_server, "found", held, tmp_path / "0001_a.json")
    assert out.startswith("found: 3 of 3 launches added: http://127.0.0.1:")
    client, session, (jax, pytorch, tensorflow) = found(mlflow_server, "found")
    assert (session.info.run_name, session.info.status) == ("found", "FINISHED")
    assert session.data.tags["suite.matrix"] == "smoke"
    assert jax.data.params == {name: str(value) for name, value in contents.settings(held[1]).items()}
    assert jax.data.metrics["samples_per_s"] == pytest.approx(held[1].samples_per_s)
    assert [each.info.status for each in (jax, pytorch, tensorflow)] == ["FINISHED", "FINISHED", "FAILED"]
    assert tensorflow.data.tags["suite.reason"] == "no answer after 600 s"
    history = client.get_metric_history(pytorch.info.run_id, "train/window_step_s")
    points = contents.curves(held[0])["train.window_step_s"]
    assert [(each.step, each.value) for each in sorted(history, key=lambda each: each.step)] == [
        (point.step, pytest.approx(point.value)) for point in points
    ]
    assert history[0].timestamp >= pytorch.info.start_time == 1000 * contents.start_of(held[0])
    kept = Path(client.download_artifacts(jax.info.run_id, "record.json", str(tmp_path)))
    assert Record.from_json(json.loads(kept.read_text())).cell == held[1].cell
    experiment = session.info.experiment_id
    (fast,) = client.search_runs([experiment], "params.framework = 'pytorch' and metrics.samples_per_s > 0"
                                 f" and tags.`mlflow.parentRunId` = '{session.info.run_id}'")  # fmt: skip
    assert fast.info.run_id == pytorch.info.run_id


def test_a_repeated_export_adds_only_what_is_missing(mlflow_server: str, tmp_path: Path) -> None:
    held = [replace(each, run={"id": "twice"}) for each in records.launches(n=1)]
    exported(mlflow_server, "twice", held[:2], tmp_path / "0001_a.json")
    out = exported(mlflow_server, "twice", held, tmp_path / "0002_a.json")
    assert out.startswith("twice: 1 of 3 launches added, 2 were there: ")
    assert len(found(mlflow_server, "twice")[2]) == 3


def test_an_export_that_was_interrupted_goes_on(mlflow_server: str, tmp_path: Path) -> None:
    from suite.export.targets import mlflow

    record = replace(records.record(), run={"id": "cut"})
    session = mlflow.begin(mlflow_server, Origin("cut", {}))
    tags = {"mlflow.parentRunId": session.parent, "suite.id": contents.identity("cut", record)}
    half = session.client.create_run(session.experiment, tags=tags).info.run_id
    exported(mlflow_server, "cut", [record], tmp_path / "0001_a.json")
    (nested,) = found(mlflow_server, "cut")[2]
    assert nested.info.run_id == half
    assert nested.info.status == "FINISHED"
    assert nested.data.metrics["samples_per_s"] == pytest.approx(record.samples_per_s)


def test_a_report_goes_to_the_run_of_the_session(mlflow_server: str, tmp_path: Path) -> None:
    out = export("mlflow", "0033_busy", "--to", mlflow_server)
    assert " files of the report: " in out
    launches = load([RUNS["0033_busy"]]).launches
    client, session, nested = found(mlflow_server, launches[0].run)
    assert len(nested) == len(launches)
    names = {file.path for file in client.list_artifacts(session.info.run_id, "report")}
    assert {"report/report.html", "report/launches.csv", "report/hero.png"} <= names


def test_a_strangers_record_arrives_as_text(mlflow_server: str, tmp_path: Path) -> None:
    exported(mlflow_server, HOSTILE, [hostile()], tmp_path / "0001_a.json")
    from suite.record.text import clean

    (nested,) = found(mlflow_server, clean(HOSTILE, 80))[2]
    assert nested.data.tags["suite.cpu"] == clean(HOSTILE, 500)


@pytest.mark.parametrize("given", ["", "sqlite:///x.db", "/tmp/mlruns", "file:///tmp"])
def test_only_servers_are_talked_to(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from suite.export.target import ExportError
    from suite.export.targets import mlflow

    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    if given:
        with pytest.raises(ExportError, match="give that of a server, such as http"):
            mlflow.ABOUT.place(given)
    else:
        assert mlflow.ABOUT.place(given) == "http://127.0.0.1:5000"


def test_a_password_is_never_shown() -> None:
    from suite.export.targets import mlflow

    assert mlflow.shown("https://user:secret@tracker.example/x") == "https://tracker.example/x"


def test_a_server_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    pytest.importorskip("mlflow", reason="needs mlflow-skinny: tox run -m reach-tests")
    address = f"http://user:secret@127.0.0.1:{free_port()}"
    said = export("mlflow", records.save(tmp_path / "0001_a.json", records.launches(n=1)), "--to", address, status=1)
    assert "is the server there?" in said.splitlines()[-1]
    assert "secret" not in said
