"""A stand-in for NVIDIA's library (`nvml_library.c`), and Python beside it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders with the library of a current driver and with that of an older one."""
    pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        pytest.skip("there is no C compiler (cc or gcc)")
    found = {}
    for name, options in {"current": [], "older": ["-DOLDER"]}.items():
        found[name] = tmp_path_factory.mktemp(name)
        source, library = ROOT / "tests" / "monitor" / "nvml_library.c", found[name] / "libnvidia-ml.so.1"
        command = [compiler, "-shared", "-fPIC", "-Wall", "-Wextra", *options, "-o", str(library), str(source)]
        subprocess.run(command, check=True, timeout=60)
    return found


@pytest.fixture
def run(libraries: dict[str, Path], tmp_path: Path) -> Run:
    """Runs Python beside the stand-in, as one process that must end."""

    def make(*arguments: str, driver: str = "current", **variables: str) -> subprocess.CompletedProcess[str]:
        left = {name: value for name, value in os.environ.items() if not name.startswith(("CUDA_", "FAKE_"))}
        first = os.pathsep.join(filter(None, [str(libraries[driver]), left.get("LD_LIBRARY_PATH")]))
        places = {"LD_LIBRARY_PATH": first, "PYTHONPATH": str(ROOT), "SUITE_CACHE_DIR": str(tmp_path)}
        return subprocess.run(
            [sys.executable, *arguments], cwd=ROOT, env=left | places | variables, capture_output=True, text=True,
            check=False, timeout=60,
        )  # fmt: skip

    return make
