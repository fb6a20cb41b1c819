"""Can this run use CUDA? Checked before data and launches, for the machine and each framework's environment.

Run as ``python -m suite.session.devices FRAMEWORK`` by a framework's own interpreter, it prints the framework's version
and whether it was built with CUDA. It reads files and imports no framework. Standard library only.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from importlib import metadata, util
from pathlib import Path

from suite.plan.device import has_gpu

ROOT = Path(__file__).resolve().parents[2]
WITHIN_S = 60.0

#: Each framework's package, and the file and text in it that mark a build with CUDA; JAX has a plugin instead.
BUILDS = {
    "pytorch": ("torch", "version.py", r"^cuda\b[^=\n]*=\s*['\"]"),
    "tensorflow": ("tensorflow", "python/platform/build_info.py", r"is_cuda_build['\"]\s*[,:]\s*True"),
    "jax": ("jax", "version.py", ""),
}
JAX_PLUGINS = ("jax-cuda13-plugin", "jax-cuda12-plugin")


def cuda_problem(interpreters: dict[str, str]) -> str:
    """Why a run on CUDA is impossible, in one line that names the way out; empty where it is possible.

    ``interpreters`` are those of the frameworks to be measured. One that lacks its framework is not a problem here; its
    launches end as unsupported.
    """
    problems = [] if has_gpu() else [_no_gpu()]
    for framework, python in interpreters.items():
        version, cuda = _build_in(framework, python)
        if version and not cuda:
            problems.append(
                f"{framework} {version} was built without CUDA: install the extra {framework}-cuda, or set "
                f"SUITE_PYTHON_{framework.upper()} to an interpreter that has it"
            )
    return "; ".join(problems)


def installed_build(framework: str) -> tuple[str, bool]:
    """Version of the framework in this interpreter, empty without one, and whether it was built with CUDA."""
    package, file, pattern = BUILDS[framework]
    spec = util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return "", False
    if framework == "jax":
        return _first(["jax"]), bool(_first(JAX_PLUGINS))
    try:
        text = Path(spec.submodule_search_locations[0], file).read_text(encoding="utf-8")
    except OSError:
        return "", False  # an unusual installation: the framework itself reports the problem
    return _first([package, f"{package}-cpu"]) or "?", bool(re.search(pattern, text, re.MULTILINE))


def _no_gpu() -> str:
    if os.environ.get("CUDA_VISIBLE_DEVICES", "0") in ("", "-1"):
        return "CUDA_VISIBLE_DEVICES hides all GPUs: unset it, or measure with --device cpu"
    return "this machine has no NVIDIA GPU that can be used; see `python -m suite.doctor`, or measure with --device cpu"


def _build_in(framework: str, python: str) -> tuple[str, bool]:
    command = [python, "-m", "suite.session.devices", framework]
    try:
        completed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, timeout=WITHIN_S)
        version, cuda = json.loads(completed.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return "", False  # its first launch reports what is wrong
    return str(version), bool(cuda)


def _first(distributions: Iterable[str]) -> str:
    """The version of the first of these that is installed."""
    for name in distributions:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return ""


if __name__ == "__main__":
    sys.stdout.write(json.dumps(installed_build(sys.argv[1])))
