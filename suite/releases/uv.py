"""uv, which finds Pythons, resolves and installs, and the locks of what it resolved."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from suite.plan.matrix import MatrixError
from suite.record.parts.environment import redact
from suite.record.text import clean

#: The oldest minor version of Python 3 that the suite runs on.
OLDEST = 11
#: Seconds within which uv lists them.
LIST_S = 60.0

#: What uv's output says, by what is wrong.
_FULL = re.compile(r"No space left on device|os error 28|Disk quota exceeded")
_SILENT = re.compile(
    r"Failed to fetch|error sending request|Connection refused|name resolution|[Tt]imed? ?out|50[234] "
)
_UNRESOLVED = re.compile(r"No solution found")

#: Starts a command that ends with its parent (PR_SET_PDEATHSIG), so that after a kill nobody writes any more.
_BOUND = "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); os.execv(sys.argv[1], sys.argv[1:])"

_HEAD = re.compile(r"# CPython 3\.([0-9]{1,2})")
_LINE = re.compile(r"([a-z0-9][a-z0-9-]{0,80})==([0-9][0-9a-zA-Z.!+]{0,60}) --hash=sha256:([0-9a-f]{64})")
#: Lines of a lock, at most, and its bytes.
LINES_MOST = 500
LOCK_BYTES_MOST = 200 * LINES_MOST


class ReleaseError(MatrixError):
    """A release that cannot be had here; one line that names the way out."""


class UnresolvedError(ReleaseError):
    """No versions fit together, on this Python at least."""


@dataclass(frozen=True)
class Python:
    """A Python by its path; ``minor`` is the second number of its version, whose first is 3."""

    minor: int
    path: str

    @property
    def version(self) -> str:
        return f"3.{self.minor}"


@cache
def pythons() -> tuple[Python, ...]:
    """The Pythons of this machine that can run the suite, one of each minor version, the newest first.

    Raises `ReleaseError`.
    """
    command = [program(), "python", "list", "--quiet", "--only-installed", "--output-format", "json"]
    found = {sys.version_info.minor: Python(sys.version_info.minor, sys.executable)}
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LIST_S)
        for each in json.loads(done.stdout or "[]"):
            major, minor = each["version_parts"]["major"], each["version_parts"]["minor"]
            if (each["implementation"], each["variant"], major) == ("cpython", "default", 3):
                found.setdefault(minor, Python(minor, each["path"]))
    except (OSError, KeyError, TypeError, ValueError, subprocess.SubprocessError) as error:
        words = f"uv cannot list this machine's Pythons ({type(error).__name__})"
        raise ReleaseError(f"{words}; see what `{command[0]} python list` says") from None
    return tuple(found[minor] for minor in sorted(found, reverse=True) if minor >= OLDEST)


def program() -> str:
    """The path of uv, from the PATH or beside the running Python. Raises `ReleaseError` without it."""
    beside = Path(sys.executable).with_name("uv")
    if path := shutil.which("uv") or (str(beside) if beside.is_file() else ""):
        return path
    raise ReleaseError("environments are built by uv, which is missing here: pip install uv")


def run(what: str, *words: str) -> None:
    """Run uv to its end, to build ``what``. Raises `ReleaseError` with what went wrong."""
    command = [program(), "--quiet", "--no-python-downloads", *words]
    if sys.platform == "linux":
        command = [sys.executable, "-I", "-S", "-c", _BOUND, *command]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False
        )
    except OSError as error:
        raise ReleaseError(f"{what}: uv cannot be started: {error.strerror}") from None
    if done.returncode:
        raise _problem(what, done.stdout + done.stderr)


def _problem(what: str, output: str) -> ReleaseError:
    if _FULL.search(output):
        return ReleaseError(f"{what}: the disk is full; free some, or name another folder in SUITE_CACHE_DIR")
    if _SILENT.search(output):
        return ReleaseError(f"{what}: the package index does not answer; try again, what is built stays")
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("error:", "cause:"))] or lines[-1:]
    words = clean(redact("; ".join(errors)), 300).rstrip(".")
    return (UnresolvedError if _UNRESOLVED.search(output) else ReleaseError)(f"{what}: {words or 'it said nothing'}")


def resolve(
    what: str, python: Path, folder: Path, wanted: Sequence[str], fixed: Sequence[str]
) -> tuple[str, int, bool]:
    """The lock of what is ``wanted``, within the constraints ``fixed``; the bytes to download, and whether that is all.

    An index may not say how large a file is.

    The lock is requirements with hashes, the first line its Python's version. ``folder`` is for temporary files. Raises
    `ReleaseError`.
    """
    paths = {name: folder / name for name in ("wanted.txt", "fixed.txt", "pylock.toml")}
    for name, lines in (("wanted.txt", wanted), ("fixed.txt", fixed)):
        paths[name].write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    requirements, constraints, pylock = map(str, paths.values())
    run(
        what, "pip", "compile", requirements, "--constraints", constraints, "--output-file", pylock, "--python",
        str(python), "--format", "pylock.toml", "--no-header", "--only-binary", ":all:",
    )  # fmt: skip
    try:
        packages = tomllib.loads(paths["pylock.toml"].read_text(encoding="utf-8"))["packages"]
        wheels = {(each["name"], each["version"]): each["wheels"][0] for each in packages}  # the first fits best
        lines = [f"{name}=={version} --hash=sha256:{wheel['hashes']['sha256']}"
                 for (name, version), wheel in sorted(wheels.items())]  # fmt: skip
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise ReleaseError(f"the resolver's lock file cannot be read ({type(error).__name__}: {error})") from None
    sizes = [wheel.get("size", 0) for wheel in wheels.values()]
    return "".join(f"{line}\n" for line in lines), sum(sizes), all(sizes)


def read_lock(text: object) -> tuple[int, dict[str, tuple[str, str]]]:
    """The minor version of Python, and version and hash of each distribution, of a lock that may be a stranger's.

    Raises `ReleaseError` for anything that this suite cannot have written.
    """
    short = text if isinstance(text, str) and len(text) <= LOCK_BYTES_MOST else ""
    head, *lines = short.removesuffix("\n").split("\n")
    python, matches = _HEAD.fullmatch(head), [_LINE.fullmatch(line) for line in lines]
    if not python or not 0 < len(matches) <= LINES_MOST or not all(matches):
        raise ReleaseError("the stored lock of a release is not one; leave it out with --install of another run")
    return int(python[1]), {match[1]: (match[2], match[3]) for match in matches if match}
