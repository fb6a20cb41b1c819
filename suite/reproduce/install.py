"""Builds environments with the package versions of a stored result.

A stored file is not trusted. Its package names and versions go into a command line, so a name must be in `INSTALLABLE`,
a version must be valid by PEP 440, and nothing is installed before the user has seen the list and agreed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from suite.analysis.records.load import LoadError
from suite.catalog.frameworks import FRAMEWORKS
from suite.plan.cell import Cell
from suite.record.record import Record
from suite.record.text import clean
from workloads.data.progress import waiting

#: The distributions that a record of each framework may name: its adapter's `DISTRIBUTIONS`, NumPy, and interfaces.
INSTALLABLE = {name: each.installable for name, each in FRAMEWORKS.items()}
#: The distributions that are the framework itself.
FRAMEWORK_PACKAGES = {name: each.distributions for name, each in FRAMEWORKS.items()}

#: What the worker needs as well; any version of psutil works.
WORKER_REQUIREMENTS = ("msgspec>=0.22,<0.23", "psutil")

#: Characters of a version, at most.
VERSION_MOST = 60

Ask = Callable[[str], str]


def requirements_of(framework: str, records: Sequence[Record]) -> list[str]:
    """Returns the requirements of a framework's environment, such as ``torch==2.13.0``.

    Raises `LoadError` for a package that is not in `INSTALLABLE` or a version that is not valid.
    """
    package_lists = [record.environment.get("packages") for record in records]
    packages = next((packages for packages in package_lists if isinstance(packages, dict) and packages), {})
    requirements = {}
    for name, version in packages.items():
        if canonicalize_name(str(name)) not in INSTALLABLE[framework]:
            raise LoadError(
                f"a record of {framework} names the package {clean(name, 60)!r}, which may not be installed"
            )
        requirements[canonicalize_name(str(name))] = _version(str(name), version)
    if not requirements.keys() & set(FRAMEWORK_PACKAGES[framework]):
        raise LoadError(f"no record of {framework} says which version of it ran")
    return [f"{name}=={version}" for name, version in requirements.items()]


def install(
    stored: Mapping[Cell, Sequence[Record]], folder: Path, agreed: bool, ask: Ask, say: Callable[[str], None]
) -> None:
    """Build an environment per framework with the versions of its records, and make workers start there.

    Cells of releases have environments of their own (`suite.reproduce.releases`).

    The list of packages is shown first; unless it is ``agreed`` already, ``ask`` must answer yes. Raises `LoadError` if
    a record names a package that is not allowed, if the user does not agree, or if ``folder`` holds something else.
    """
    environments: dict[Path, tuple[str, list[str]]] = {}
    stored = {cell: launches for cell, launches in stored.items() if not cell.release}
    for framework in dict.fromkeys(cell.framework for cell in stored):
        records = [record for cell, launches in stored.items() if cell.framework == framework for record in launches]
        target = folder / framework
        if target.exists() and not (target / "pyvenv.cfg").is_file() and (not target.is_dir() or any(target.iterdir())):
            raise LoadError(
                f"{target} is not a virtual environment, so it is left alone; name another folder in --install"
            )
        environments[target] = framework, requirements_of(framework, records)
    for target, (framework, requirements) in environments.items():
        say(f"{framework}: {' '.join([*requirements, *WORKER_REQUIREMENTS])} into {target}")
    if environments and not agreed and ask("install these? [y/N] ").strip().lower() not in ("y", "yes"):
        raise LoadError("nothing was installed and nothing was run; answer y, or use --yes")
    for target, (framework, requirements) in environments.items():
        python = target / "bin" / "python"
        with waiting(f"creating the environment {target}"):
            subprocess.run([sys.executable, "-m", "venv", "--", str(target)], check=True)
        command = [str(python), "-m", "pip", "install", "--quiet", "--", *requirements, *WORKER_REQUIREMENTS]
        say(f"{framework}: installing")
        with waiting(f"installing {framework}"):
            subprocess.run(command, check=True)
        os.environ[f"SUITE_PYTHON_{framework.upper()}"] = str(python)


def _version(name: str, version: object) -> str:
    """Returns the normalised version, without its local part (+cpu, +cu130), which only one index has."""
    try:
        return Version(str(version) if len(str(version)) <= VERSION_MOST else "").public
    except InvalidVersion:
        raise LoadError(f"a record names {clean(name, 60)} {clean(version, 60)!r}, which is not a version") from None
