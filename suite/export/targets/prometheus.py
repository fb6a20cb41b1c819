"""Prometheus: two files per run, for a textfile collector and for a backfill.

``RUN.prom`` is text without times, as node_exporter's textfile collector takes it. ``RUN.openmetrics`` has the moment
of each launch, for ``promtool tsdb create-blocks-from openmetrics``. For a run that goes on, see `suite.export.live`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from suite.export.contents import LAUNCH, PREFIX, STORED, figures, identity, plain, settings, start_of, took_s
from suite.export.target import ExportError, Origin, RunFolder, TargetInfo, write_whole, writing
from suite.record.record import Record
from suite.record.text import clean

ABOUT = TargetInfo(
    "metrics as text (for a textfile collector) and as OpenMetrics with times (for promtool)",
    "folder for the two files of each run; default: results/prometheus",
    "prometheus_client",
    "prometheus",
    "results/prometheus",
    follows=False,
)

#: The first characters of a file that this module wrote, which it may replace.
MARK = f"# HELP {PREFIX}"

Sample = tuple[str, list[str], float, float]  # the family's name, the labels' values, the value, and when


@dataclass
class Session(RunFolder):
    """A run's folder, and the samples of its launches."""

    samples: list[Sample] = field(default_factory=list)
    launches: set[str] = field(default_factory=set)


def begin(place: str, origin: Origin) -> Session:
    """Make the folder."""
    with writing(Path(place)):
        Path(place).mkdir(parents=True, exist_ok=True)
    return Session(Path(place), origin.run)


def add(session: Session, record: Record) -> bool:
    """Note a launch; the files are written at the end, since a metric's samples must lie together."""
    key = identity(session.run, record)
    if key in session.launches:
        return False
    session.launches.add(key)
    held = settings(record) | {"run": clean(session.run, 120)}
    labels = [str(held[name]) for name in LAUNCH]
    at_s = start_of(record) + took_s(record)
    measured = figures(record)

    def note(family: str, figure: str, *more: str) -> None:
        if figure in measured:
            session.samples.append((family, [*labels, *more], measured[figure], at_s))

    for phase in record.phases:
        note("launch_samples_per_second", f"{phase}.samples_per_s", phase)
        note("launch_step_seconds", f"{phase}.step_s", phase)
    note("launch_compile_seconds", "compile_s")
    note("launch_first_step_seconds", "first_step_s")
    note("launch_test_accuracy", "test_accuracy")
    for name in measured:
        source, _, reading = name.partition(".")
        if source == "memory":
            note("launch_memory_bytes", name, reading)
        elif reading == "energy_j_per_sample":
            note("launch_energy_joules_per_sample", name, source.removeprefix("gpu"))
    flags = clean(" ".join(record.flags), 200)
    session.samples.append(("launch_outcome_info", [*labels, record.outcome.status, flags], 1.0, at_s))
    return True


def attach(session: Session, files: Sequence[Path]) -> int:
    """Nothing: Prometheus keeps numbers only."""
    return 0


def end(session: Session) -> str:
    """Write both files."""
    name = plain(session.run)
    text = import_module("prometheus_client.exposition").generate_latest
    openmetrics = import_module("prometheus_client.openmetrics.exposition").generate_latest
    _save(session.path / f"{name}.prom", _expose(session, text, timed=False))
    _save(session.path / f"{name}.openmetrics", _expose(session, openmetrics, timed=True))
    return f"{session.path}: {name}.prom for a textfile collector, {name}.openmetrics for promtool's backfill"


def _expose(session: Session, generate: Callable[[Any], bytes], *, timed: bool) -> bytes:
    """All samples in the format of ``generate``; a launch without a moment has none in either."""
    core = import_module("prometheus_client.core")
    families = {family.name: family.made(core) for family in STORED}
    latest = {(name, *labels): (name, labels, value, at_s) for name, labels, value, at_s in session.samples}
    for name, labels, value, at_s in latest.values():
        families[name].add_metric(labels, value, timestamp=at_s or None if timed else None)
    held = [family for family in families.values() if family.samples]
    return generate(SimpleNamespace(collect=lambda: held))


def _save(file: Path, content: bytes) -> None:
    """Replace the file, if it is one of ours, by its new content at once."""
    with writing(file):
        if file.exists() and not file.read_bytes().startswith(MARK.encode()):
            raise ExportError(f"{clean(file)} was not written by the suite, and stays; give another folder with --to")
    write_whole(file, content)
