"""MLflow: a run per run of the suite, with a run nested in it for each launch.

Parameters are the cell, metrics have their steps and moments, and the record is an artifact. What is there already is
found by tags, so that an export that was interrupted goes on, and a repeated one adds nothing. Needs only the client,
mlflow-skinny; the server may be any version that it talks to.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from suite.export.contents import curves, digest, facts, figures, identity, seconds_of, settings, start_of, took_s
from suite.export.target import ExportError, Origin, TargetInfo
from suite.record.record import Record
from suite.record.text import clean


def shown(address: str) -> str:
    """The address without a user's name and password."""
    parts = urlsplit(address)
    return clean(urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])), 200)


def _require_server(address: str) -> str:
    if urlsplit(address).scheme not in ("http", "https"):
        raise ExportError(
            f"MLflow's address is {shown(address)!r}; give that of a server, such as {DEFAULT}, "
            "which `mlflow server` starts"
        )
    return address.rstrip("/")


DEFAULT = "http://127.0.0.1:5000"  # where `mlflow server` listens

ABOUT = TargetInfo(
    "a run per session, with a nested run per launch",
    f"address of the server; default: $MLFLOW_TRACKING_URI, or {DEFAULT}. The experiment is "
    "$MLFLOW_EXPERIMENT_NAME, or framework-training-suite",
    "mlflow",
    "mlflow",
    DEFAULT,
    "MLFLOW_TRACKING_URI",
    _require_server,
)

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

#: What is said of a run.
DESCRIBED = ("matrix", "sweep", "seed", "started", "launches", "device")
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
            told = {name: origin.description.get(name) for name in DESCRIBED}
            tags |= {f"suite.{name}": clean(value, 500) for name, value in told.items() if value is not None}
            began_ms = round(1000 * seconds_of(str(told["started"]))) or None
            run = client.create_run(experiment, start_time=began_ms, tags=tags)
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


def _find_tagged(client: Any, experiment: str, where: str) -> list[Any]:
    runs, token = [], None
    while token != "":
        page = client.search_runs([experiment], where, order_by=["attributes.start_time ASC"], page_token=token)
        runs += page
        token = page.token or ""
    return runs


@contextmanager
def _one_line_errors(place: str) -> Iterator[None]:
    try:
        yield
    except ExportError:
        raise
    except Exception as error:  # its addresses lose user and password
        reason = re.sub(r"//[^/@\s]*@", "//", (str(error).splitlines() or [type(error).__name__])[0])
        raise ExportError(
            f"MLflow at {shown(place)} failed: {clean(reason, 250)}; is the server there? Start one with "
            "`mlflow server`, or give its address"
        ) from None
