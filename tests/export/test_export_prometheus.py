"""What is written for Prometheus is read back by its client, by promtool, and by a real server after a backfill."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from suite.export import contents
from suite.export.contents import PREFIX, STORED
from tests import records
from tests.export.conftest import free_port, get, serving
from tests.export.exporting import export, files
from tests.export.test_export_contents import hostile
from tests.records import HOSTILE

pytest.importorskip("prometheus_client", reason="needs prometheus_client, of the extra test")


def samples(text: str, openmetrics: bool = False) -> list[Any]:
    """All samples, as the client's strict parsers find them."""
    if openmetrics:
        from prometheus_client.openmetrics.parser import text_string_to_metric_families
    else:
        from prometheus_client.parser import text_string_to_metric_families
    return [sample for family in text_string_to_metric_families(text) for sample in family.samples]


def test_both_formats_hold_every_launch(tmp_path: Path) -> None:
    held = [records.watched(records.record()), records.trained(), records.failed(records.record("jax"))]
    export("prometheus", records.save(tmp_path / "0001_a.json", held), "--to", tmp_path / "to")
    assert files(tmp_path / "to") == ["run-a.openmetrics", "run-a.prom"]
    text = (tmp_path / "to" / "run-a.prom").read_text()
    timed = (tmp_path / "to" / "run-a.openmetrics").read_text()
    plain, moments = samples(text), samples(timed, openmetrics=True)
    assert {sample.name for sample in plain} <= {family.series for family in STORED}
    assert [(s.name, s.labels, s.value) for s in plain] == [(s.name, s.labels, s.value) for s in moments]
    assert {sample.timestamp for sample in plain} == {None}
    assert {float(sample.timestamp) for sample in moments} == {contents.start_of(held[0])}
    (rate,) = [
        s for s in plain if s.name == f"{PREFIX}launch_samples_per_second" and s.labels["phase"] == "train"
        and s.labels["recipe"] == ""
    ]  # fmt: skip
    assert rate.value == pytest.approx(held[0].samples_per_s)
    assert (rate.labels["framework"], rate.labels["run"], rate.labels["launch"]) == ("pytorch", "run-a", "0")
    outcomes = [s.labels["outcome"] for s in plain if s.name == f"{PREFIX}launch_outcome_info"]
    assert sorted(outcomes) == ["ok", "ok", "timeout"]


def test_a_strangers_labels_are_escaped(tmp_path: Path) -> None:
    run = records.save(tmp_path / "0001_a.json", [hostile()], run=f'../../x"\n{HOSTILE}\\')
    export("prometheus", run, "--to", tmp_path / "to")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0001_a.json", "to"]
    (text,) = [path.read_text() for path in (tmp_path / "to").glob("*.prom")]
    (name,) = {sample.labels["run"] for sample in samples(text)}
    assert name.isprintable()
    assert "<script>" in name, "it is text for whoever shows it, and nothing is lost"


def test_a_file_of_the_user_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "run-a.prom").write_text("mine 1\n")
    run = records.save(tmp_path / "0001_a.json", records.launches(n=1))
    said = export("prometheus", run, "--to", tmp_path, status=1)
    assert "run-a.prom was not written by the suite, and stays" in said
    assert (tmp_path / "run-a.prom").read_text() == "mine 1\n"


def test_a_real_server_answers_from_a_backfilled_run(tmp_path: Path, prometheus: str) -> None:
    export("prometheus", "0033_busy", "--to", tmp_path / "to")
    (timed,) = (tmp_path / "to").glob("*.openmetrics")
    (text,) = (tmp_path / "to").glob("*.prom")
    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=text.read_bytes(), capture_output=True, check=False
    )
    assert checked.returncode == 0, checked.stderr
    backfill = ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(timed), str(tmp_path / "data")]
    subprocess.run(backfill, check=True, capture_output=True)
    (tmp_path / "prometheus.yml").write_text("global: {}\n")
    address = f"http://127.0.0.1:{free_port()}"
    command = [prometheus, f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data"]
    command += ["--storage.tsdb.retention.time=100y", f"--web.listen-address={address.removeprefix('http://')}"]
    at_s = max(float(sample.timestamp) for sample in samples(timed.read_text(), openmetrics=True))
    query = f'avg by (framework) ({PREFIX}launch_samples_per_second{{phase="train",workload="imdb_lstm"}})'
    with serving(command, f"{address}/-/ready", tmp_path / "log"):
        answer = json.loads(get(f"{address}/api/v1/query?query={quote(query)}&time={at_s}"))
    assert {each["metric"]["framework"] for each in answer["data"]["result"]} == {"pytorch", "tensorflow", "jax"}
