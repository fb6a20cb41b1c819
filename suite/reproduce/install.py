"""Environments built from a stored result: only this project's own distributions, in versions that are versions.

A stored file is a stranger's. What it names goes into a command line, so a name must be one of `INSTALLABLE`, a version
must be one by PEP 440, and nothing is installed before somebody has seen the list and said yes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from suite.analysis.load import LoadError
from suite.plan.cell import Cell
from suite.record.record import Record
from suite.record.text import clean

#: Per framework the distributions of its extras that a record may name (its adapter's `DISTRIBUTIONS`, and NumPy); the
#: first, or one of the first, is the framework itself.
INSTALLABLE = {
    "pytorch": ("torch", "triton", "numpy"),
    "tensorflow": ("tensorflow", "tensorflow-cpu", "keras", "numpy"),
    "jax": ("jax", "jaxlib", "jax-cuda12-plugin", "jax-cuda13-plugin", "flax", "optax", "grain", "numpy"),
}
ITSELF = {"pytorch": ("torch",), "tensorflow": ("tensorflow", "tensorflow-cpu"), "jax": ("jax",)}

#: What the worker needs besides; of psutil the newest will do.
BESIDES = ("msgspec>=0.22,<0.23", "psutil")

#: Letters of a version.
LONGEST = 60

Ask = Callable[[str], str]


def wanted(framework: str, records: Sequence[Record]) -> list[str]:
    """The requirements of a framework's environment, as ``torch==2.13.0``. Raises `LoadError` for what is refused."""
    told = [record.environment.get("packages") for record in records]
    found = next((packages for packages in told if isinstance(packages, dict) and packages), {})
    requirements = {}
    for name, version in found.items():
        if canonicalize_name(str(name)) not in INSTALLABLE[framework]:
            raise LoadError(f"a record of {framework} names the package {clean(name, 60)!r}, which is not installed")
        requirements[canonicalize_name(str(name))] = _version(str(name), version)
    if not requirements.keys() & set(ITSELF[framework]):
        raise LoadError(f"no record of {framework} says which version of it ran")
    return [f"{name}=={version}" for name, version in requirements.items()]


def install(
    stored: Mapping[Cell, Sequence[Record]], folder: Path, agreed: bool, ask: Ask, say: Callable[[str], None]
) -> None:
    """Build an environment per framework with the versions of its records; workers then start there.

    What is to be installed is shown first, and unless it is ``agreed`` already, ``ask`` must answer yes. Raises
    `LoadError` where a record names what is not to be installed, where nobody agrees, and where ``folder`` holds
    something else.
    """
    environments: dict[Path, tuple[str, list[str]]] = {}
    for framework in dict.fromkeys(cell.framework for cell in stored):
        held = [record for cell, found in stored.items() if cell.framework == framework for record in found]
        place = folder / framework
        if place.exists() and not (place / "pyvenv.cfg").is_file() and (not place.is_dir() or any(place.iterdir())):
            raise LoadError(f"{place} is no virtual environment and is left alone: name another folder in --install")
        environments[place] = framework, wanted(framework, held)
    for place, (framework, requirements) in environments.items():
        say(f"{framework}: {' '.join([*requirements, *BESIDES])} into {place}")
    if not agreed and ask("install these? [y/N] ").strip().lower() not in ("y", "yes"):
        raise LoadError("nothing was installed, and nothing was run; --yes agrees beforehand")
    for place, (framework, requirements) in environments.items():
        python = place / "bin" / "python"
        subprocess.run([sys.executable, "-m", "venv", "--", str(place)], check=True)
        say(f"{framework}: installing")
        command = [str(python), "-m", "pip", "install", "--quiet", "--", *requirements, *BESIDES]
        subprocess.run(command, check=True)
        os.environ[f"SUITE_PYTHON_{framework.upper()}"] = str(python)


def _version(name: str, version: object) -> str:
    """The version in its normal form, without its local part (+cpu, +cu130), which only one index has."""
    try:
        return Version(str(version) if len(str(version)) <= LONGEST else "").public
    except InvalidVersion:
        raise LoadError(f"a record names {clean(name, 60)} {clean(version, 60)!r}, which is no version") from None
