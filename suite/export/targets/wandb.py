"""Weights & Biases, offline: one run per launch in a group per session, on the disk until ``wandb sync`` sends it.

The configuration is the cell, each curve has its own step, and the record is a file of the run. Neither the host's name
nor the user's is in the files.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from suite.export.contents import curves, digest, facts, figures, identity, plain, settings, start_of
from suite.export.target import Origin, RunFolder, TargetInfo, writing
from suite.record.record import Record
from suite.record.scratch import scratch
from suite.record.text import clean

ABOUT = TargetInfo(
    "offline runs of Weights & Biases, for `wandb sync`",
    "folder in which the folder wandb is made; default: $WANDB_DIR, or results. The project is $WANDB_PROJECT, or "
    "framework-training-suite",
    "wandb",
    "wandb",
    "results",
    "WANDB_DIR",
)

PROJECT = "framework-training-suite"

#: What the library would add by itself: readings of this process, the host, the repository, and what is printed.
QUIET = {
    "silent": True, "console": "off", "disable_git": True, "disable_code": True, "save_code": False,
    "x_disable_stats": True, "x_disable_meta": True, "x_disable_machine_info": True, "host": "", "username": "",
}  # fmt: skip


def begin(place: str, origin: Origin) -> RunFolder:
    """Make the folder; the library would silently take another if it cannot write there."""
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
    with writing(place, "wandb"):
        Path(place).mkdir(parents=True, exist_ok=True)
        with scratch(Path(place), ".partial-"):
            pass
    return RunFolder(Path(place), origin.run)


def add(session: RunFolder, record: Record) -> bool:
    """Write a launch as an offline run."""
    key = identity(session.run, record)
    if any((session.path / "wandb").glob(f"offline-run-*-{key}/files/record.json")):  # which is written last
        return False
    with writing(session.path, "wandb"):
        _log(session, key, record)
    return True


def attach(session: RunFolder, files: Sequence[Path]) -> int:
    """Add a report and its plots, as a run of its own in the same group."""
    key = digest(f"report of {session.run}")[:32]
    if any((session.path / "wandb").glob(f"offline-run-*-{key}")):
        return 0
    with writing(session.path, "wandb"):
        run = _open(session, key, "report", {})
        for file in files:
            _keep(run, plain(file.name), file.read_bytes())
        run.finish()
    return len(files)


def end(session: RunFolder) -> str:
    """Nothing is open any more."""
    folder = clean(session.path / "wandb")
    return f"{folder}: send it with `wandb sync {folder}/offline-run-*`"


def _open(session: RunFolder, key: str, name: str, configuration: dict[str, Any]) -> Any:
    library = import_module("wandb")
    return library.init(
        mode="offline", dir=str(session.path), project=os.environ.get("WANDB_PROJECT", PROJECT), id=key, name=name,
        group=clean(session.run, 120), job_type="launch", config=configuration, settings=library.Settings(**QUIET),
        reinit="finish_previous",
    )  # fmt: skip


def _log(session: RunFolder, key: str, record: Record) -> None:
    run = _open(session, key, clean(record.key, 120), settings(record) | {"facts": facts(record)})
    for name, points in curves(record).items():
        metric, step = name.replace(".", "/", 1), f"{name.replace('.', '/', 1)}.step"
        run.define_metric(step, hidden=True)
        run.define_metric(metric, step_metric=step)
        for point in points:
            run.log({metric: point.value, step: point.step, "at_s": start_of(record) + point.at_s})
    for name, figure in figures(record).items():
        run.summary[name.replace(".", "/", 1)] = figure
    run.summary["outcome"] = record.outcome.status
    _keep(run, "record.json", json.dumps(record.to_json()).encode())
    run.finish(exit_code=0 if record.outcome.ok else 1)


def _keep(run: Any, name: str, content: bytes) -> None:
    """Put a file into the run's own folder; an artifact would stay in the user's home until it is sent."""
    file = Path(run.dir) / name
    file.write_bytes(content)
    run.save(str(file), base_path=run.dir, policy="end")
