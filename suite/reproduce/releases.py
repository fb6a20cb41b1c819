"""Builds the environments of a stored result's releases again, from their locks.

A stored lock is not trusted: its versions are constraints of the resolver, which installs nothing that the release does
not need, and its hashes are compared with those that the index gives.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from suite.analysis.records.load import LoadError
from suite.plan.cell import Cell
from suite.plan.settings.frameworks import interpreter_variable, too_old
from suite.record.record import Record
from suite.record.text import clean
from suite.releases.environments import Environment, build, find
from suite.releases.uv import read_lock

Ask = Callable[[str], str]
Say = Callable[[str], None]


def rebuild(
    stored: Mapping[Cell, Sequence[Record]],
    runs: Mapping[str, Any],
    folder: Path | None,
    *,
    agreed: bool,
    ask: Ask,
    say: Say,
) -> None:
    """Make workers of each release start in the environment that was stored, which is built in ``folder`` if given.

    Without a folder, the one in the cache is taken. ``runs`` are the descriptions of the stored runs. What differs from
    the stored lock is said. Raises `LoadError` if nothing is built and no folder given, or if the user does not agree,
    and `suite.releases.uv.ReleaseError`.
    """
    wanted: list[tuple[str, str, str]] = []
    for framework, release in dict.fromkeys((cell.framework, cell.release) for cell in stored):
        name = f"{framework} {release}"
        if not release or too_old(framework, release) or os.environ.get(interpreter_variable(framework, release)):
            continue
        records = [each for cell, launches in stored.items() if cell.release == release for each in launches]
        lock = find_lock(name, [each for each in records if each.cell.framework == framework], runs)
        there = find(framework, release, folder)
        if there or folder:
            wanted.append((framework, release, lock))
        else:
            raise LoadError(f"{name} is not built here; add --install DIR to build it as it was, from the stored lock")
    new = [each for each in wanted if not find(*each[:2], folder)]
    for framework, release, lock in new:
        what = f"{len(read_lock(lock)[1])} packages of its lock" if lock else "resolved anew, no lock of it is stored"
        say(f"{framework} {release}: {what}, into {folder}")
    if new and not agreed and ask("install these? [y/N] ").strip().lower() not in ("y", "yes"):
        raise LoadError("nothing was installed and nothing was run; answer y, or use --yes")
    for framework, release, lock in wanted:
        minor, files = read_lock(lock) if lock else (None, {})
        versions = {name: version for name, (version, _) in files.items()}
        made = build(framework, release, say, wanted=versions, minor=minor, parent=folder)
        say(f"{made.name}: {compare_locks(made, lock)}")
        os.environ[interpreter_variable(framework, release)] = str(made.python)


def find_lock(name: str, records: Sequence[Record], runs: Mapping[str, Any]) -> str:
    """The lock that the runs hold of a release, if it is the one that the records name; empty without one."""
    digests = {str(record.environment.get("lock")) for record in records if record.environment.get("lock")}
    for run in runs.values():
        locks = run.get("locks") if isinstance(run, Mapping) else None
        text = locks.get(name) if isinstance(locks, Mapping) else None
        if isinstance(text, str) and hashlib.sha256(text.encode(errors="replace")).hexdigest() in digests:
            return text
    return ""


def compare_locks(made: Environment, lock: str) -> str:
    """How an environment differs from a stored lock, in words."""
    if not lock:
        return "nothing is known of the stored environment"
    if made.lock == lock:
        return "the same files as stored, to the hash"
    (minor, then), (now_minor, now) = read_lock(lock), read_lock(made.lock)
    words = [f"Python 3.{now_minor}, not 3.{minor}"] if minor != now_minor else []
    for name in sorted({*then, *now}):
        (version, _), (before, _) = now.get(name, ("nothing", "")), then.get(name, ("nothing", ""))
        if now.get(name) != then.get(name):
            words.append(
                f"{name} {version}, not {before}" if version != before else f"another file of {name} {version}"
            )
    return f"differs from the stored lock ({clean('; '.join(words), 500)})"
