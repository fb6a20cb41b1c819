"""The tools that resolve and install: uv where it is there, else venv and pip. Both read and write the same locks."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from suite.plan.matrix import MatrixError
from suite.record.parts.environment import redact
from suite.record.text import clean

#: The first pip that writes lock files.
PIP_LEAST = (25, 1)

#: What the output of a tool says, by what is wrong.
_FULL = re.compile(r"No space left on device|os error 28|Disk quota exceeded")
_SILENT = re.compile(
    r"Failed to fetch|error sending request|Retrying \(Retry|Connection refused|Could not connect|ConnectionError"
    r"|Name or service not known|name resolution|[Tt]imed? ?out|50[234] "
)
_UNRESOLVED = re.compile(r"No solution found|No matching distribution|ResolutionImpossible|conflicting dependencies")


#: Starts a command that ends with its parent (PR_SET_PDEATHSIG), so that after a kill nobody writes any more.
_BOUND = "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); os.execv(sys.argv[1], sys.argv[1:])"


class ReleaseError(MatrixError):
    """A release that cannot be had here; one line that names the way out."""


class UnresolvedError(ReleaseError):
    """No versions fit together, on this Python at least."""


@dataclass(frozen=True)
class Tool:
    """The commands of one tool, each as a list of words. Files are texts of paths."""

    name: str
    create: Callable[[str, str], list[str]]  # an environment in a folder, with a Python
    lock: Callable[[str, str, str, str], list[str]]  # Python of the environment, requirements, constraints, lock
    install: Callable[[str, str], list[str]]  # Python of the environment, lock with hashes


def tool() -> Tool:
    """The tool of this machine. Raises `ReleaseError` without one."""
    beside = Path(sys.executable).with_name("uv")
    if uv := shutil.which("uv") or (str(beside) if beside.is_file() else ""):
        return _uv(uv)
    try:
        numbers = tuple(int(part) for part in metadata.version("pip").split(".")[:2])
    except (metadata.PackageNotFoundError, ValueError):
        numbers = (0, 0)
    if numbers < PIP_LEAST:
        least = ".".join(map(str, PIP_LEAST))
        raise ReleaseError(f"releases are installed by uv, or by pip from {least} on: pip install uv")
    return _pip()


def run_tool(command: list[str], what: str, watch: Callable[[], None] = lambda: None) -> None:
    """Run a tool to its end; ``watch`` is called every second. Raises `ReleaseError` with what went wrong."""
    if sys.platform == "linux":
        command = [sys.executable, "-I", "-S", "-c", _BOUND, *command]
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        try:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        except OSError as error:
            raise ReleaseError(f"{what}: cannot start {clean(redact(command[0]))}: {error.strerror}") from None
        try:
            while process.poll() is None:
                watch()
                time.sleep(0.2)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
        output.seek(0)
        if process.returncode:
            raise _problem(what, output.read())


def _problem(what: str, output: str) -> ReleaseError:
    """What a tool's output says in one line."""
    if _FULL.search(output):
        return ReleaseError(f"{what}: the disk is full; free some, or name another folder in SUITE_CACHE_DIR")
    if _SILENT.search(output):
        return ReleaseError(f"{what}: the package index does not answer; try again, what is built stays")
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    of_uv = [line for line in lines if line.startswith(("error:", "cause:"))]
    of_pip = [line for line in lines if line.startswith("ERROR:") and "for help visit" not in line]
    telling = of_uv or of_pip[-1:] or lines[-1:]
    words = clean(redact("; ".join(telling)), 300).rstrip(".")
    return (UnresolvedError if _UNRESOLVED.search(output) else ReleaseError)(f"{what}: {words or 'it said nothing'}")


def _uv(uv: str) -> Tool:
    return Tool(
        "uv",
        create=lambda place, python: [uv, "venv", "--quiet", "--no-python-downloads", "--python", python, place],
        lock=lambda python, wanted, fixed, lock: [
            uv, "pip", "compile", "--quiet", "--no-header", "--only-binary", ":all:", "--no-python-downloads",
            "--python", python, "--format", "pylock.toml", "--constraints", fixed, "--output-file", lock, wanted,
        ],
        install=lambda python, lock: [
            uv, "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--compile-bytecode", "--python", python,
            "--requirements", lock,
        ],
    )  # fmt: skip


def _pip() -> Tool:
    def pip(python: str, *words: str) -> list[str]:
        command = [sys.executable, "-m", "pip", "--python", python, words[0], "--quiet", "--only-binary", ":all:"]
        return [*command, "--disable-pip-version-check", "--retries", "2", *words[1:]]

    return Tool(
        "pip",
        create=lambda place, python: [python, "-m", "venv", "--without-pip", place],
        lock=lambda python, wanted, fixed, lock: pip(python, "lock", "-r", wanted, "-c", fixed, "-o", lock),
        install=lambda python, lock: pip(
            python, "install", "--no-deps", "--require-hashes", "--no-warn-script-location", "-r", lock
        ),
    )


def python_of(place: Path) -> Path:
    """The Python of an environment."""
    return place / ("Scripts" if os.name == "nt" else "bin") / "python"
