"""Builds environments with the package versions of a stored result, and those of its releases from their locks.

A stored file is not trusted. Its package names and versions go into a command line, so a name must be in `INSTALLABLE`,
a version must be valid by PEP 440, and nothing is installed before the user has seen the list and agreed. The versions
of a stored lock are constraints of the resolver, which installs nothing that the release does not need, and its hashes
are compared with those that the index gives.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from suite.analysis.records.load import LoadError
from suite.catalog.frameworks import FRAMEWORKS
from suite.plan.settings.frameworks import interpreter_variable, too_old
from suite.record.record import Record
from suite.record.text import clean
from suite.releases import uv
from suite.releases.environments import Environment, build, find
from suite.releases.uv import read_lock
from suite.reproduce.verdicts import Stored
from workloads.data.progress import waiting

#: The distributions that a record of each framework may name: its adapter's `DISTRIBUTIONS`, NumPy, and interfaces.
INSTALLABLE = {name: each.installable for name, each in FRAMEWORKS.items()}
#: What the worker needs as well; any version of psutil works.
WORKER_REQUIREMENTS = ("msgspec>=0.22,<0.23", "psutil")
#: Characters of a version, at most.
VERSION_MOST = 60

Ask = Callable[[str], str]
Say = Callable[[str], None]


def agree(agreed: bool, ask: Ask) -> None:
    """Raise `LoadError` unless the user agrees to install what was shown."""
    if not agreed and ask("install these? [y/N] ").strip().lower() not in ("y", "yes"):
        raise LoadError("nothing was installed and nothing was run; answer y, or use --yes")


def install(stored: Stored, folder: Path, agreed: bool, ask: Ask, say: Say) -> None:
    """Build an environment per framework with the versions of its records, and make workers start there.

    Cells of releases have environments of their own. Raises `LoadError` if a record names a package that is not
    allowed, if the user does not agree, or if ``folder`` holds something else.
    """
    environments: dict[str, list[str]] = {}
    usual = [record for cell, records in stored.items() if not cell.release for record in records]
    for framework in dict.fromkeys(record.cell.framework for record in usual):
        target = folder / framework
        if target.exists() and not (target / "pyvenv.cfg").is_file() and (not target.is_dir() or any(target.iterdir())):
            problem = f"{target} is not a virtual environment, so it is left alone; name another folder in --install"
            raise LoadError(problem)
        needed = requirements_of(framework, [record for record in usual if record.cell.framework == framework])
        environments[framework] = [*needed, *WORKER_REQUIREMENTS]
        say(f"{framework}: {' '.join(environments[framework])} into {target}")
    if environments:
        agree(agreed, ask)
    for framework, requirements in environments.items():
        python = folder.absolute() / framework / "bin" / "python"
        with waiting(f"installing {framework}"):
            uv.run(framework, "venv", "--allow-existing", "--python", sys.executable, str(python.parents[1]))
            uv.run(framework, "pip", "install", "--python", str(python), "--", *requirements)
        os.environ[interpreter_variable(framework)] = str(python)


def requirements_of(framework: str, records: Sequence[Record]) -> list[str]:
    """Returns the requirements of a framework's environment, such as ``torch==2.13.0``.

    Raises `LoadError` for a package that is not in `INSTALLABLE` or a version that is not valid.
    """
    package_lists = [record.environment.get("packages") for record in records]
    packages = next((packages for packages in package_lists if isinstance(packages, dict) and packages), {})
    requirements = {}
    for text, version in packages.items():
        if (name := canonicalize_name(str(text))) not in INSTALLABLE[framework]:
            problem = f"a record of {framework} names the package {clean(text, 60)!r}, which may not be installed"
            raise LoadError(problem)
        try:  # without the local part (+cpu, +cu130), which only one index has
            requirements[name] = Version(str(version) if len(str(version)) <= VERSION_MOST else "").public
        except InvalidVersion:
            problem = f"a record names {clean(text, 60)} {clean(version, 60)!r}, which is not a version"
            raise LoadError(problem) from None
    if not requirements.keys() & {*FRAMEWORKS[framework].distributions}:
        raise LoadError(f"no record of {framework} says which version of it ran")
    return [f"{name}=={version}" for name, version in requirements.items()]


def rebuild(
    stored: Stored, runs: Mapping[str, Any], folder: Path | None, *, agreed: bool, ask: Ask, say: Say
) -> None:  # fmt: skip
    """Make workers of each release start in the environment that was stored, which is built in ``folder`` if given.

    Without a folder, the one in the cache is taken. ``runs`` are the descriptions of the stored runs. What differs from
    the stored lock is said. Raises `LoadError` if nothing is built and no folder given, or if the user does not agree,
    and `suite.releases.uv.ReleaseError`.
    """
    wanted: list[tuple[str, str, str]] = []
    new = 0
    for framework, release in dict.fromkeys((cell.framework, cell.release) for cell in stored):
        name = f"{framework} {release}"
        if not release or too_old(framework, release) or os.environ.get(interpreter_variable(framework, release)):
            continue
        own = [cell for cell in stored if (cell.framework, cell.release) == (framework, release)]
        lock = find_lock(name, [record for cell in own for record in stored[cell]], runs)
        if not find(framework, release, folder):
            if not folder:
                raise LoadError(f"{name} is not built here; add --install DIR to build it as it was, from its lock")
            what = (
                f"{len(read_lock(lock)[1])} packages of its lock" if lock else "resolved anew, no lock of it is stored"
            )
            say(f"{name}: {what}, into {folder}")
            new += 1
        wanted.append((framework, release, lock))
    if new:
        agree(agreed, ask)
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
    for name in (name for name in sorted({*then, *now}) if now.get(name) != then.get(name)):
        (version, _), (before, _) = now.get(name, ("nothing", "")), then.get(name, ("nothing", ""))
        words.append(f"{name} {version}, not {before}" if version != before else f"another file of {name} {version}")
    return f"differs from the stored lock ({clean('; '.join(words), 500)})"
