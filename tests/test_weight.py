"""What is kept in git stays light: a published run with its raw file, and all of results/."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from suite.compare.__main__ import main
from suite.monitor.timeline import Sample, Span, cut, line, summary
from suite.record.record import Record
from suite.session.storage import compact
from tests import large, records
from tests.published import RESULTS, RUNS
from tests.weights import published, weight

pytestmark = pytest.mark.drawing

#: Bytes in git of a published run of 96 launches with its raw file.
RUN_MOST = 600_000
#: Runs that are published at a time, the newest answer of each question (of checkpoints, formats, lengths and warm
#: starts too), and their bytes on a disk.
RUNS_MOST, ALL_MOST = 16, 8 * 2**20

SPANS = {"train": Span(5.0, 12.0), "compute": Span(12.0, 19.0), "input": Span(19.0, 25.0)}
#: A usual reading of each metric, and in what steps its instrument counts.
HOST = {
    "cpu_cores": (2.0, 0.02), "other_cpu_cores": (0.02, 0.02), "context_switches_per_s": (60.0, 2.0),
    "rss_bytes": (5e8, 4096.0), "disk_read_bytes_per_s": (0.0, 1.0), "network_bytes_per_s": (0.0, 1.0),
    "steal_cores": (0.02, 0.02), "cpu_some_share": (0.05, 1e-5), "io_some_share": (0.001, 1e-5),
    "io_full_share": (0.0, 1e-5), "memory_some_share": (0.0, 1e-5), "memory_full_share": (0.0, 1e-5),
}  # fmt: skip
GPU = dict.fromkeys(large.GPU, (60.0, 0.1)) | {
    "gpu_utilisation_percent": (95.0, 1.0), "memory_used_bytes": (8e9, 2.0**20), "power_w": (480.0, 0.001),
    "temperature_c": (60.0, 1.0), "memory_temperature_c": (70.0, 1.0), "sm_clock_mhz": (1980.0, 15.0),
    "memory_clock_mhz": (2619.0, 1000.0), "clock_events": (4.0, 4.0), "pcie_tx_bytes_per_s": (3e7, 1024.0),
}  # fmt: skip


def seen(metrics: Mapping[str, tuple[float, float]], every_s: float, draw: random.Random) -> dict[str, Any]:
    """What a monitor notes of a source: busy in the phases, with noise of two percent."""

    def samples() -> Iterator[Sample]:
        for tick in range(round(26 / every_s)):
            busy = 1.0 if tick * every_s > 5 else 0.3
            levels = {name: busy * level * draw.gauss(1, 0.02) for name, (level, _) in metrics.items()}
            yield Sample(
                tick * every_s, {name: metrics[name][1] * round(x / metrics[name][1]) for name, x in levels.items()}
            )

    held = list(samples())
    return {"phases": {name: summary(cut(held, [span])) for name, span in SPANS.items()}, "timeline": line(held, 0.0)}


def launches(gpu: bool) -> list[Record]:
    """Four batch sizes of three frameworks, eight launches of each, with all that a monitor notes."""
    made = []
    for block in range(8):
        for batch in (32, 64, 128, 256):
            for framework in ("pytorch", "tensorflow", "jax"):
                record = large.noted(records.record(framework, block, batch=batch), points=2, gpus=0)
                draw = random.Random(record.key)
                gpus = [{"name": "Example GPU", **seen(GPU, 0.1, draw)}] if gpu else []
                made.append(replace(record, metrics={"host": seen(HOST, 0.5, draw), "gpus": gpus}))
    return made


@pytest.mark.slow
@pytest.mark.parametrize("gpu", [False, True], ids=["cpu", "gpu"])
def test_a_published_run_of_96_launches_takes_less_than_600_kb_in_git(gpu: bool, tmp_path: Path) -> None:
    run = tmp_path / "runs" / "machine" / "0001_a.json"
    run.parent.mkdir(parents=True)
    run.write_text(compact(records.saved(launches(gpu))))
    assert main([str(run), "--publish", str(tmp_path)]) == 0
    paths = published(tmp_path)["0001_a"]
    assert len(paths) == 2
    assert weight(paths).git < RUN_MOST, {path.name: str(weight([path])) for path in [run, *paths[1].iterdir()]}


def test_results_are_light() -> None:
    runs = {name: [path, RESULTS / name] for name, path in RUNS.items()}
    assert len(runs) <= RUNS_MOST
    assert weight(path for paths in runs.values() for path in paths).disk < ALL_MOST, "a later run replaces one"
    assert not {name: str(weight(paths)) for name, paths in runs.items() if weight(paths).git >= RUN_MOST}
    heavy = [path for paths in runs.values() for path in paths[-1].iterdir() if path.suffix in (".svg", ".parquet")]
    assert not heavy, "these can be had by `training-suite compare RUN --output DIR`"
    assert all(path.exists() for paths in runs.values() for path in paths), "every run has a folder of its name"
