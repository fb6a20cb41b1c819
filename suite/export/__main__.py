"""``training-suite export``: sends recorded runs to MLflow, TensorBoard, W&B or Prometheus."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from framework_training_suite import entry
from suite.analysis.options import RUNS, STORAGE_FOLDER
from suite.analysis.records.load import REPORT, Launch, Loaded, LoadError, find, load
from suite.export.target import ExportError, Origin, Target, abouts, target
from suite.plan.command.common import OWN, PUBLISHED, add, command_parser
from suite.record.saved import run_name
from suite.record.text import clean
from workloads.data.progress import waiting

DESCRIPTION = """\
Send recorded runs to the tracker that you already use. Each launch becomes a run there: its settings as parameters,
its throughput, times and memory as metrics, each curve with its own steps, and its record as JSON. A repeated export
adds only what is missing. To send launches while they are measured: training-suite run --track mlflow
"""

EPILOG = """\
examples:
  training-suite export mlflow 0032                       to $MLFLOW_TRACKING_URI, or http://127.0.0.1:5000
  training-suite export mlflow 0011 0023 --to http://tracker.example:5000
  training-suite export mlflow runs/journals/x.jsonl      what an interrupted run has measured
  training-suite export mlflow 0032 --report runs/0032_cpu    with the report that compare wrote
  training-suite export tensorboard 0032                  then: tensorboard --logdir results/tensorboard
  training-suite export wandb 0032                        offline; then: wandb sync results/wandb/offline-run-*
  training-suite export prometheus 0032                   for a textfile collector, and for promtool's backfill

`training-suite export TARGET --help` explains a target.

exit status: 0; 1 if a run could not be sent; 2 for wrong usage, unusable input, or a library that is not installed; 130
if interrupted
"""


@entry("the same command goes on")
def main(arguments: Sequence[str] | None = None) -> int:
    """Export the launches run by run, and print where they are."""
    options = _parse(arguments)
    try:
        chosen = target(options.target)
        place = abouts()[options.target].place(options.to)
        paths, notes = find(options.run, options.storage)
        with waiting("reading the launches"):
            loaded = load(paths, whole=True)
        reports = [options.report] if options.report else _reports(paths)
        files = [file for folder in reports for file in _files(folder)]
    except (LoadError, ExportError, OSError) as error:
        print(f"training-suite export: {clean(error, 1000)}", file=sys.stderr)
        return 2
    for note in [*notes, *loaded.notes]:
        print(f"note: {clean(note)}", file=sys.stderr)
    try:
        for run, launches in _by_run(loaded):
            print(_export(chosen, place, Origin(run, dict(loaded.runs.get(run, {}))), launches, files))
    except ExportError as error:
        print(f"training-suite export: {clean(error, 1000)}", file=sys.stderr)
        return 1
    return 0


def _export(chosen: Target, place: str, origin: Origin, launches: Sequence[Launch], files: Sequence[Path]) -> str:
    added = 0
    with waiting(f"sending {len(launches)} launches") as describe:
        session = chosen.begin(place, origin)
        for number, launch in enumerate(launches, 1):
            describe(f"sending launch {number} of {len(launches)}")
            added += chosen.add(session, launch.record)
        attached = chosen.attach(session, files) if files else 0
        where = chosen.end(session)
    there = f", {len(launches) - added} were there" if added < len(launches) else ""
    report = f", {attached} files of the report" if attached else ""
    return f"{clean(origin.run)}: {added} of {len(launches)} launches added{there}{report}: {where}"


def _by_run(loaded: Loaded) -> Iterator[tuple[str, list[Launch]]]:
    for run in dict.fromkeys(launch.run for launch in loaded.launches):
        yield run, [launch for launch in loaded.launches if launch.run == run]


def _reports(paths: Sequence[Path]) -> list[Path]:
    folders = [parent / run_name(paths[0]) for parent in (OWN, PUBLISHED)] if len(paths) == 1 else []
    return [folder for folder in folders if (folder / REPORT).is_file()][:1]


def _files(folder: Path) -> list[Path]:
    """The files of a report's folder. Raises `ExportError` if it holds no report."""
    if not (folder / REPORT).is_file():
        raise ExportError(f"--report {folder}: no {REPORT} there; write one with training-suite compare RUN")
    return sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = command_parser("suite.export", DESCRIPTION, EPILOG)
    parts = parser.add_subparsers(dest="target", required=True, metavar="TARGET")
    for name, about in abouts().items():
        part = parts.add_parser(name, help=about.takes, description=f"Export runs as {about.takes}.")
        add(part.add_argument, RUNS.but(help=f"{RUNS.help}; default: the run saved last"))
        part.add_argument("--to", metavar="PLACE", help=about.to)
        part.add_argument(
            "--report", type=Path, metavar="DIR",
            help="folder that training-suite compare wrote, whose files go along where the target takes them; default: "
            f"that of the run in {OWN}/ or {PUBLISHED}/, if it is there",
        )  # fmt: skip
        add(part.add_argument, STORAGE_FOLDER)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
