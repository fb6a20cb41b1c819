"""MLflow: a run per run of the suite, with a run nested in it for each launch.

Parameters are the cell, metrics have their steps and moments, and the record is an artifact. What is there already is
found by tags, so that an export that was interrupted goes on, and a repeated one adds nothing. Needs only the client,
mlflow-skinny; the server may be any version that it talks to.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from suite.export.contents import curves, digest, facts, figures, identity, seconds_of, settings, start_of, took_s
from suite.export.target import About, ExportError, Origin
from suite.record.record import Record
from suite.record.text import clean

ABOUT = About(
    "a run per session, with a nested run per launch",
    "address of the server; default: $MLFLOW_TRACKING_URI, or http://127.0.0.1:5000. The experiment is "
    "$MLFLOW_EXPERIMENT_NAME, or framework-training-suite",
    "mlflow",
    "mlflow",
)

DEFAULT = "http://127.0.0.1:5000"  # where `mlflow server` listens
EXPERIMENT = "framework-training-suite"

#: What MLflow takes in one call.
METRICS_MOST = 1000

#: Seconds for one request, and how often it is tried: a server that is down is noticed soon. What is set stays.
PATIENCE = {
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
}
#: The client reports its own use to its makers, and prints addresses, unless told not to.
QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",  # which may hold a password
    "GIT_PYTHON_REFRESH": "quiet",
}

#: The tag that holds a launch's identity, or the run's digest.
TAG, KIND = "suite.id", "suite.kind"

#: How an outcome is shown.
STATUS = {"ok": "FINISHED", "unsupported": "KILLED", "out-of-memory": "KILLED"}


@dataclass
class Session:
    """A run of the suite at a server: ``there`` are the launches that it has, by their identity and its run's id."""

    client: Any
    place: str
    experiment: str
    parent: str
    run: str
    there: dict[str, tuple[str, str]] = field(default_factory=dict)
    ended: bool = False
    last_ms: int = 0


def place(given: str | None) -> str:
    """The address of a server: what was given, else ``MLFLOW_TRACKING_URI``, else the default of `mlflow server`."""
    address = given or os.environ.get("MLFLOW_TRACKING_URI") or DEFAULT
    if urlsplit(address).scheme not in ("http", "https"):
        raise ExportError(
            f"MLflow's address is {shown(address)!r}; give that of a server, such as {DEFAULT}, "
            "which `mlflow server` starts"
        )
    return address.rstrip("/")


def begin(place: str, origin: Origin) -> Session:
    """Find or create the experiment, and the run of the session in it."""
    for name, value in (PATIENCE | QUIET).items():
        os.environ.setdefault(name, value)
    client = import_module("mlflow").MlflowClient(tracking_uri=place)
    with _one_line_errors(place):
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", EXPERIMENT)
        known = client.get_experiment_by_name(name)
        experiment = known.experiment_id if known else client.create_experiment(name)
        whole = digest(origin.run)
        parents = _find_tagged(client, experiment, f"tags.`{TAG}` = '{whole}' and tags.`{KIND}` = 'session'")
        run = parents[0] if parents else None
        if run is None:
            tags = {TAG: whole, KIND: "session", "mlflow.runName": clean(origin.run, 80)}
            tags |= {f"suite.{name}": clean(value, 500) for name, value in _describe(origin).items()}
            run = client.create_run(experiment, start_time=_ms(origin.description.get("started")), tags=tags)
        session = Session(client, place, experiment, run.info.run_id, origin.run, ended=run.info.status == "FINISHED")
        for each in _find_tagged(client, experiment, f"tags.`mlflow.parentRunId` = '{session.parent}'"):
            session.there[each.data.tags.get(TAG, "")] = each.info.run_id, each.info.status
    return session


def add(session: Session, record: Record) -> bool:
    """Add a launch as a nested run, or finish one that an earlier export began."""
    key = identity(session.run, record)
    run_id, status = session.there.get(key, ("", ""))
    if run_id and status != "RUNNING":
        return False
    client, entities = session.client, import_module("mlflow.entities")
    begin_ms = round(1000 * start_of(record))
    with _one_line_errors(session.place):
        if not run_id:
            tags = {"mlflow.parentRunId": session.parent, "mlflow.runName": clean(record.key, 200), TAG: key}
            run = client.create_run(session.experiment, start_time=begin_ms or None, tags=tags | {KIND: "launch"})
            run_id = session.there.setdefault(key, (run.info.run_id, "RUNNING"))[0]
        tags_of_launch = [entities.RunTag(f"suite.{name}", value) for name, value in facts(record).items()]
        parameters = [entities.Param(name, str(value)) for name, value in settings(record).items()]
        client.log_batch(run_id, params=parameters, tags=tags_of_launch)
        end_ms = begin_ms + round(1000 * took_s(record))
        metrics = [entities.Metric(name, value, end_ms, 0) for name, value in figures(record).items()]
        metrics += [
            entities.Metric(name.replace(".", "/", 1), point.value, begin_ms + round(1000 * point.at_s), point.step)
            for name, points in curves(record).items()
            for point in points
        ]
        for at in range(0, len(metrics), METRICS_MOST):
            client.log_batch(run_id, metrics=metrics[at : at + METRICS_MOST])
        client.log_dict(run_id, record.to_json(), "record.json")
        client.set_terminated(run_id, STATUS.get(record.outcome.status, "FAILED"), end_ms or None)
    session.there[key] = run_id, "FINISHED"
    session.last_ms = max(session.last_ms, end_ms)
    return True


def attach(session: Session, files: Sequence[Path]) -> int:
    """Add a report and its plots to the run of the session."""
    with _one_line_errors(session.place):
        for file in files:
            session.client.log_artifact(session.parent, str(file), "report")
    return len(files)


def end(session: Session) -> str:
    """End the run of the session, with its last launch; one that got no launch now stays as it is."""
    if session.last_ms or not session.ended:
        with _one_line_errors(session.place):
            session.client.set_terminated(session.parent, "FINISHED", session.last_ms or None)
    return f"{shown(session.place)}/#/experiments/{session.experiment}/runs/{session.parent}"


def shown(address: str) -> str:
    """The address without a user's name and password."""
    parts = urlsplit(address)
    return clean(urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])), 200)


def _describe(origin: Origin) -> dict[str, Any]:
    wanted = ("matrix", "sweep", "seed", "started", "launches", "device")
    return {name: origin.description[name] for name in wanted if origin.description.get(name) is not None}


def _ms(moment: object) -> int | None:
    """Milliseconds since 1970 of a moment in a run's description; None where there is none."""
    return round(1000 * seconds_of(str(moment))) or None


def _find_tagged(client: Any, experiment: str, where: str) -> list[Any]:
    """All runs of the experiment with these tags, oldest first."""
    search: Callable[..., Any] = client.search_runs
    pages = search([experiment], where, order_by=["attributes.start_time ASC"])
    runs = list(pages)
    while pages.token:
        pages = search([experiment], where, order_by=["attributes.start_time ASC"], page_token=pages.token)
        runs += pages
    return runs


@contextmanager
def _one_line_errors(place: str) -> Iterator[None]:
    """Turn every way in which a server can fail into one line."""
    try:
        yield
    except ExportError:
        raise
    except Exception as error:
        raise ExportError(
            f"MLflow at {shown(place)} failed: {clean(_first_line(error), 250)}; is the server there? Start one with "
            "`mlflow server`, or give its address"
        ) from None


def _first_line(error: Exception) -> str:
    """The first line of the error's message, whose addresses lose user and password."""
    lines = str(error).splitlines()
    return re.sub(r"//[^/@\s]*@", "//", lines[0]) if lines else type(error).__name__
