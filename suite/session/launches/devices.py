"""Can this run use CUDA? Checked before data and launches, for the machine and each framework's environment.

Run as ``python -m suite.session.launches.devices FRAMEWORK`` by a framework's own interpreter, it prints the
framework's version, whether it was built with CUDA, and for which other accelerator of this machine. It reads files and
imports no framework. Standard library only.
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

from suite.catalog.devices import has_gpu
from suite.catalog.frameworks import FRAMEWORKS

ROOT = Path(__file__).resolve().parents[3]
WITHIN_S = 60.0

#: Each framework's package, and the file and text in it that mark a build with CUDA; JAX has a plugin instead.
BUILDS = {name: (each.package, each.build_file, each.build_pattern) for name, each in FRAMEWORKS.items()}
#: Accelerators that frameworks train on and the suite does not measure: where Linux shows one, the line of torch's
#: `version.py` that marks a build for it, and the distributions of the other frameworks.
UNMEASURED = {
    "ROCm": ("kfd", "hip", {"tensorflow": ["tensorflow-rocm"], "jax": ["jax-rocm7-plugin", "jax-rocm60-plugin"]}),
    "TPU": ("accel*", "", {"tensorflow": ["libtpu"], "jax": ["libtpu", "libtpu-nightly"]}),
    "XPU": (
        "dri/renderD*", "xpu",
        {"tensorflow": ["intel-extension-for-tensorflow"], "jax": ["intel-extension-for-openxla"]},
    ),
}  # fmt: skip
DEVICES = Path("/dev")


def cuda_problem(interpreters: dict[str, str]) -> str:
    """Why a run on CUDA is impossible, in one line that names the way out; empty where it is possible.

    ``interpreters`` are those of the frameworks to be measured. One that lacks its framework is not a problem here; its
    launches end as unsupported.
    """
    problems = [] if has_gpu() else [_no_gpu()]
    for framework, python in interpreters.items():
        version, cuda, _ = _build_in(framework, python)
        if version and not cuda:
            problems.append(
                f"{framework} {version} was built without CUDA: install the extra {framework}-cuda, or set "
                f"SUITE_PYTHON_{framework.upper()} to an interpreter that has it"
            )
    return "; ".join(problems)


def other_problem(interpreters: dict[str, str]) -> str:
    """Which accelerator frameworks would train on that the suite does not support, in one line; empty without one."""
    if not any(list(DEVICES.glob(node)) for node, *_ in UNMEASURED.values()):
        return ""
    built = {framework: _build_in(framework, python) for framework, python in interpreters.items()}
    accelerators = [f"{other} ({framework} {version})" for framework, (version, _, other) in built.items() if other]
    if not accelerators:
        return ""
    return f"found {', '.join(accelerators)}, which the suite does not support yet: measure with --device cpu"


def other_accelerator(framework: str) -> str:
    """The accelerator besides CUDA that this machine shows and this interpreter's framework was built for."""
    package, file, _ = BUILDS[framework]
    spec = util.find_spec(package)
    place = Path(spec.submodule_search_locations[0], file) if spec and spec.submodule_search_locations else None
    if place is None or not place.is_file():
        return ""
    text = place.read_text(encoding="utf-8")
    for name, (node, mark, distributions) in UNMEASURED.items():
        marked = framework == "pytorch" and mark and re.search(rf"^{mark}\b[^=\n]*=\s*['\"]", text, re.MULTILINE)
        if (marked or _first(distributions.get(framework, []))) and list(DEVICES.glob(node)):
            return name
    return ""


def find_build(framework: str) -> tuple[str, bool]:
    """Version of the framework in this interpreter, empty without one, and whether it was built with CUDA."""
    package, file, pattern = BUILDS[framework]
    spec = util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return "", False
    if plugins := FRAMEWORKS[framework].cuda_plugins:
        return _first([package]), bool(_first(plugins))
    try:
        text = Path(spec.submodule_search_locations[0], file).read_text(encoding="utf-8")
    except OSError:
        return "", False  # an unusual installation: the framework itself reports the problem
    return _first([package, f"{package}-cpu"]) or "?", bool(re.search(pattern, text, re.MULTILINE))


def _no_gpu() -> str:
    if os.environ.get("CUDA_VISIBLE_DEVICES", "0") in ("", "-1"):
        return "CUDA_VISIBLE_DEVICES hides all GPUs: unset it, or measure with --device cpu"
    return "this machine has no NVIDIA GPU that can be used; see `training-suite doctor`, or measure with --device cpu"


def _build_in(framework: str, python: str) -> tuple[str, bool, str]:
    command = [python, "-m", "suite.session.launches.devices", framework]
    try:
        completed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, timeout=WITHIN_S)
        version, cuda, other = json.loads(completed.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return "", False, ""  # its first launch reports what is wrong
    return str(version), bool(cuda), str(other)


def _first(distributions: Iterable[str]) -> str:
    for name in distributions:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return ""


if __name__ == "__main__":
    sys.stdout.write(json.dumps([*find_build(sys.argv[1]), other_accelerator(sys.argv[1])]))
