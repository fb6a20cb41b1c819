"""Live metrics: what is served while a run goes on, and that the dashboard asks for nothing else."""

from __future__ import annotations

import importlib.util
import json
import re
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partialmethod
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from suite.export.contents import LIVE, PREFIX
from suite.export.live import CONNECTIONS_MOST, Live, Server
from suite.export.target import HOST, ExportError
from suite.monitor.timeline import Sample
from suite.plan.cell import Cell
from tests import records
from tests.documents import blocks
from tests.export.conftest import free_port, get, serving
from tests.export.test_export_prometheus import samples
from tests.records import HOSTILE

pytest.importorskip("prometheus_client", reason="needs prometheus_client, of the extra test")

DASHBOARDS = Path(__file__).parents[2] / "dashboards"
CELL = Cell("imdb_lstm", "pytorch")


@dataclass
class Device:
    uuid: str = "GPU-1"
    name: str = HOSTILE


@dataclass
class Watching:
    """What a monitor holds, with samples of now."""

    gpus: Sequence[Device] = (Device(),)
    samples: Mapping[str, Sequence[Sample]] = field(default_factory=dict)
    host: Sequence[Sample] = ()

    def sampled(self, ago_s: float = 0.0) -> Watching:
        now_s = time.perf_counter() - ago_s
        gpu = {"gpu_utilisation_percent": 95.0, "power_w": 480.0, "memory_used_bytes": 8e9, "temperature_c": 60.0}
        self.samples = {"GPU-1": [Sample(now_s, gpu | {"sm_clock_mhz": 1980.0})]}
        host = [{"cpu_s": 10.0, "rss_bytes": 5e8}, {"cpu_s": 11.0, "rss_bytes": 6e8}]
        self.host = [Sample(now_s - 0.5, host[0]), Sample(now_s, host[1])]
        return self


@pytest.fixture(autouse=True)
def soon_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server looks every half a second whether it is to end: here more often."""
    monkeypatch.setattr(Server, "serve_forever", partialmethod(Server.serve_forever, 0.02))


@pytest.fixture
def live() -> Iterator[tuple[Live, str]]:
    """A run in the middle of its second launch, and its address."""
    served = Live(0)
    port = served.open()
    run = {"id": "run-a", "matrix": HOSTILE}
    served.begin(Path("x.jsonl"), run, 6, [records.record()])
    served.start(CELL, 1)
    served.end(records.failed(records.record("jax")), 90.0)
    served.start(CELL, 2)
    served.watch(Watching().sampled())
    rates = ({"progress": "input", "samples_per_s": 9e5}, {"progress": "train", "samples_per_s": 1234.5})
    for message in ({"progress": "evidence: own"}, *rates):
        served.progress(message)
    yield served, f"http://{HOST}:{port}/metrics"
    served.close()


def values(address: str) -> dict[tuple[str, str], float]:
    """Each value by its metric and its last label."""
    found = samples(get(address).decode())
    return {(s.name.removeprefix(PREFIX), next(reversed(s.labels.values()), "")): s.value for s in found}


def test_every_metric_of_the_table_is_served_and_no_other(live: tuple[Live, str]) -> None:
    names = {sample.name for sample in samples(get(live[1]).decode())}
    assert names == {family.series for family in LIVE}


def test_values_are_what_the_controller_was_told(live: tuple[Live, str]) -> None:
    found = values(live[1])
    assert found["launches_planned", ""] == 6
    assert {name: value for (metric, name), value in found.items() if metric == "launches_total" and value} == {
        "ok": 1.0, "timeout": 1.0,
    }  # fmt: skip
    assert found["time_left_seconds", ""] == 90.0
    assert found["phase_info", "train"] == 1.0
    assert found["samples_per_second", "train"] == 1234.5
    assert next(value for (name, _), value in found.items() if name == "gpu_utilization_ratio") == pytest.approx(0.95)
    assert next(value for (name, _), value in found.items() if name == "gpu_sm_clock_hertz") == 1.98e9
    assert found["host_cpu_cores", ""] == pytest.approx(2.0, rel=0.01)
    assert found["host_memory_bytes", ""] == 6e8


def test_a_strangers_text_is_one_escaped_label(live: tuple[Live, str]) -> None:
    (matrix,) = [s.labels["matrix"] for s in samples(get(live[1]).decode()) if s.name == f"{PREFIX}run_info"]
    assert matrix.isprintable()


def test_between_two_launches_nothing_of_the_last_worker_is_served(live: tuple[Live, str]) -> None:
    served, address = live
    served.end(records.record(launch=2), None)
    names = {name for name, _ in values(address)}
    assert not {"cell_info", "phase_info", "samples_per_second", "gpu_power_watts", "host_cpu_cores"} & names
    assert "time_left_seconds" not in names
    assert "last_samples_per_second" in names


def test_a_sample_that_is_old_is_not_served(live: tuple[Live, str]) -> None:
    served, address = live
    served.watch(Watching().sampled(ago_s=60.0))
    assert not {"gpu_power_watts", "host_memory_bytes"} & {name for name, _ in values(address)}


@pytest.mark.parametrize("said", ["epoch 3/10: accuracy 0.5", "epoch 4/10", "a new thing", HOSTILE])
def test_phases_are_few(live: tuple[Live, str], said: str) -> None:
    live[0].progress({"progress": said})
    assert ("phase_info", "epoch" if said.startswith("epoch") else "other") in values(live[1])


def test_a_port_in_use_is_one_line(live: tuple[Live, str]) -> None:
    port = int(re.findall(r":(\d+)/", live[1])[0])
    with pytest.raises(ExportError, match=f"cannot serve on 127.0.0.1:{port}: .*; choose another port"):
        Live(port).open()


def test_slow_clients_take_few_files_and_keep_no_scrape_out(live: tuple[Live, str]) -> None:
    def opened() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    address = (HOST, int(re.findall(r":(\d+)/", live[1])[0]))
    before, most = opened(), 0
    with ExitStack() as clients:
        for number in range(200):
            client = clients.enter_context(socket.create_connection(address, timeout=10))
            client.send(b"GET /")  # and no end of the line
            most = max(most, opened() - before - number)
        assert values(live[1])["launches_planned", ""] == 6
    assert most <= 2 * CONNECTIONS_MOST


def test_a_client_that_goes_on_byte_by_byte_is_cut(live: tuple[Live, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("suite.export.live.LASTS_S", 0.5)
    with socket.create_connection((HOST, int(re.findall(r":(\d+)/", live[1])[0])), timeout=10) as client:

        def go_on() -> None:
            for _ in range(200):
                client.send(b"G")
                time.sleep(0.05)

        with pytest.raises(OSError, match=r"(?i)pipe|reset"):
            go_on()


def queries() -> list[str]:
    dashboard = json.loads((DASHBOARDS / "training-suite.json").read_text())
    return [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]


def test_the_dashboard_shows_every_metric_and_no_other() -> None:
    asked = {name for query in queries() for name in re.findall(rf"{PREFIX}\w+", query)}
    assert asked == {family.series for family in LIVE}


def test_the_dashboard_is_what_its_script_makes() -> None:
    pytest.importorskip("grafana_foundation_sdk", reason="needs grafana-foundation-sdk: tox run -m reach-tests")
    spec: Any = importlib.util.spec_from_file_location("generate", DASHBOARDS / "generate.py")
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules["generate"] = module
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules["generate"]
    assert (DASHBOARDS / "training-suite.json").read_text() == module.generated(), "run python dashboards/generate.py"


def test_a_real_prometheus_answers_every_query(live: tuple[Live, str], tmp_path: Path, prometheus: str) -> None:
    served, metrics = live
    where = metrics.removeprefix("http://").removesuffix("/metrics")
    scrape = {"job_name": "suite", "scrape_interval": "1s", "static_configs": [{"targets": [where]}]}
    (tmp_path / "prometheus.yml").write_text(json.dumps({"scrape_configs": [scrape]}))  # YAML reads JSON
    address = f"http://127.0.0.1:{free_port()}"
    command = [prometheus, f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data"]
    command += [f"--web.listen-address={address.removeprefix('http://')}"]
    with serving(command, f"{address}/-/ready", tmp_path / "log"):
        deadline = time.monotonic() + 60
        empty = set(queries())
        while empty and time.monotonic() < deadline:
            served.watch(Watching().sampled())
            for query in list(empty):
                answer = json.loads(get(f"{address}/api/v1/query?query={quote(query)}"))
                assert answer["status"] == "success"
                empty -= {query} if answer["data"]["result"] else set()
            time.sleep(0.3)
    assert not empty


def test_the_scrape_of_the_page_is_valid(tmp_path: Path, prometheus: str) -> None:
    (block,) = [each for each in blocks() if each.page.name == "trackers.md" and each.language == "yaml"]
    (tmp_path / "prometheus.yml").write_text(block.text)
    subprocess.run(["promtool", "check", "config", str(tmp_path / "prometheus.yml")], check=True, capture_output=True)
