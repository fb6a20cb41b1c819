"""Publishing bundles: each is checked by the rules, gets a report of its own, and a place on the leaderboards."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from suite.analysis.records.load import LoadError
from suite.record.bundle import LARGEST, SUFFIX
from suite.report.html.folder import is_made_from, place_for
from workloads.data.files import read_regular


def is_bundle(path: Path) -> bool:
    return path.suffix == SUFFIX


def find_bundles(runs: Sequence[str]) -> list[Path]:
    """The bundles that a command line names, in folders too, if it names nothing else."""
    paths = [path for run in map(Path, runs) for path in (sorted(run.glob(f"*{SUFFIX}")) if run.is_dir() else [run])]
    return paths if all(map(is_bundle, paths)) else []


def check(path: Path) -> str:
    """What the rules say of a bundle, in words. Raises `LoadError` if one refuses it, and `OSError`."""
    from suite.verify.rule import WARNING  # here, since the rules take long to load
    from suite.verify.rules import refusal, verify

    answers = verify(path)
    if words := refusal(answers):
        raise LoadError(f"{path}: is not published: {words}")
    warnings = sum(answer.kind == WARNING for answer in answers)
    return f"{warnings} warning{'' if warnings == 1 else 's'}" if warnings else "no warnings"


def place(site: Path, name: str, runs: Iterable[str], paths: Sequence[Path]) -> Path:
    """The folder in a site for the report of these files, which was made from no other bundle. Raises `OSError`."""
    content = read_regular(paths[0], LARGEST) if len(paths) == 1 and is_bundle(paths[0]) else None
    source = "" if content is None else hashlib.sha256(content).hexdigest()
    return place_for(site, name, runs, lambda folder: is_made_from(folder, content), source)
