"""Weights & Biases, offline: one run per launch in a group per session, on the disk until ``wandb sync`` sends it.

The configuration is the cell, each curve has its own step, and the record is a file of the run. Neither the host's name
nor the user's is in the files.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from suite.export.contents import curves, digest, facts, figures, identity, plain, settings, start_of
from suite.export.target import About, ExportError, Origin
from suite.export.targets.files import folder_at
from suite.record.record import Record
from suite.record.scratch import scratch
from suite.record.text import clean

ABOUT = About(
    "offline runs of Weights & Biases, for `wandb sync`",
    "folder in which the folder wandb is made; default: $WANDB_DIR, or results. The project is $WANDB_PROJECT, or "
    "framework-training-suite",
    "wandb",
    "wandb",
)

DEFAULT = "results"  # in which the library makes its own folder, `wandb`
PROJECT = "framework-training-suite"

#: What the library would add by itself: readings of this process, the host, the repository, and what is printed.
APART = {
    "silent": True, "console": "off", "disable_git": True, "disable_code": True, "save_code": False,
    "x_disable_stats": True, "x_disable_meta": True, "x_disable_machine_info": True, "host": "", "username": "",
}  # fmt: skip


@dataclass
class Session:
    """The folder in which the library writes, and the run that launches belong to."""

    folder: Path
    run: str
    group: str
    launches: list[str] = field(default_factory=list)


def place(given: str | None) -> str:
    """The folder in which a folder ``wandb`` is made: what was given, else ``WANDB_DIR``, else the default."""
    return folder_at(given or os.environ.get("WANDB_DIR") or DEFAULT)


def begin(place: str, origin: Origin) -> Session:
    """Make the folder; the library would silently take another if it cannot write there."""
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
    with _one_line_errors(place):
        Path(place).mkdir(parents=True, exist_ok=True)
        with scratch(Path(place), ".partial-"):
            pass
    return Session(Path(place), origin.run, clean(origin.run, 120))


def add(session: Session, record: Record) -> bool:
    """Write a launch as an offline run."""
    key = identity(session.run, record)
    session.launches.append(record.key)
    if any((session.folder / "wandb").glob(f"offline-run-*-{key}/files/record.json")):  # which is written last
        return False
    with _one_line_errors(str(session.folder)):
        _log(session, key, record)
    return True


def attach(session: Session, files: Sequence[Path]) -> int:
    """Add a report and its plots, as a run of its own in the same group."""
    key = digest(f"report of {session.run}")[:32]
    if any((session.folder / "wandb").glob(f"offline-run-*-{key}")):
        return 0
    with _one_line_errors(str(session.folder)):
        run = _open(session, key, "report", {})
        for file in files:
            _keep(run, plain(file.name), file.read_bytes())
        run.finish()
    return len(files)


def end(session: Session) -> str:
    """Nothing is open any more."""
    folder = clean(session.folder / "wandb")
    return f"{folder}: send it with `wandb sync {folder}/offline-run-*`"


def _open(session: Session, key: str, name: str, configuration: dict[str, Any]) -> Any:
    library = import_module("wandb")
    return library.init(
        mode="offline", dir=str(session.folder), project=os.environ.get("WANDB_PROJECT", PROJECT), id=key, name=name,
        group=session.group, job_type="launch", config=configuration, settings=library.Settings(**APART),
        reinit="finish_previous",
    )  # fmt: skip


def _log(session: Session, key: str, record: Record) -> None:
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


@contextmanager
def _one_line_errors(place: str) -> Iterator[None]:
    """Turn every way in which the library can fail into one line."""
    try:
        yield
    except ExportError:
        raise
    except OSError as error:
        raise ExportError(f"cannot write {clean(place)}: {error.strerror or error}; give a folder with --to") from None
    except Exception as error:
        raise ExportError(f"wandb failed in {clean(place)}: {clean(error, 200) or type(error).__name__}") from None
