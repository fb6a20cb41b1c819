"""Locks: the files that an environment was built from, each with its hash, as both tools install them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from urllib.request import Request, urlopen

from suite.releases.pythons import Python
from suite.releases.tools import ReleaseError

#: Seconds that the index may take to say how large a file is.
SIZE_WITHIN_S = 5.0

_HEAD = re.compile(r"# CPython 3\.([0-9]{1,2})")
_LINE = re.compile(r"([a-z0-9][a-z0-9-]{0,80})==([0-9][0-9a-zA-Z.!+]{0,60}) --hash=sha256:([0-9a-f]{64})")

#: Lines of a lock, at most, and its bytes.
LINES_MOST = 500
BYTES_MOST = 200 * LINES_MOST


@dataclass(frozen=True)
class Locked:
    """One file of an environment; its size in bytes is None where the index does not say."""

    name: str
    version: str
    sha256: str
    url: str = ""
    size: int | None = None

    @property
    def line(self) -> str:
        return f"{self.name}=={self.version} --hash=sha256:{self.sha256}"


def read_pylock(text: str) -> list[Locked]:
    """The files of a lock as uv and pip write it (PEP 751): the first wheel of each package is the one that fits best.

    Raises `ReleaseError`.
    """
    try:
        return sorted((_read_package(each) for each in tomllib.loads(text)["packages"]), key=lambda each: each.name)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise ReleaseError(f"the resolver's lock file cannot be read ({type(error).__name__}: {error})") from None


def _read_package(package: dict[str, Any]) -> Locked:
    wheel = package["wheels"][0]
    name = re.sub(r"[-_.]+", "-", package["name"]).lower()
    return Locked(name, package["version"], wheel["hashes"]["sha256"], wheel.get("url", ""), wheel.get("size"))


def lock_text(python: Python, files: Iterable[Locked]) -> str:
    """The lock as requirements with hashes, which uv and pip install."""
    return "".join(f"{line}\n" for line in (f"# CPython {python.version}", *(each.line for each in files)))


def read_lock(text: object) -> tuple[int, dict[str, tuple[str, str]]]:
    """The minor version of Python, and version and hash of each distribution, of a lock that may be a stranger's.

    Raises `ReleaseError` for anything that `lock_text` cannot have written.
    """
    short = text if isinstance(text, str) and len(text) <= BYTES_MOST else ""
    head, *lines = short.removesuffix("\n").split("\n")
    python, found = _HEAD.fullmatch(head), [_LINE.fullmatch(line) for line in lines]
    if not python or not 0 < len(found) <= LINES_MOST or not all(found):
        raise ReleaseError("the stored lock of a release is not one; leave it out with --install of another run")
    return int(python[1]), {match[1]: (match[2], match[3]) for match in found if match}


def download_size(files: Sequence[Locked]) -> int | None:
    """The bytes of all files; None where the index does not say."""
    with ThreadPoolExecutor(8) as pool:
        sizes = list(pool.map(_size, files))
    return None if None in sizes else sum(filter(None, sizes))


def _size(file: Locked) -> int | None:
    if file.size is not None:
        return file.size
    address = urlsplit(file.url)
    try:
        if address.scheme == "file":
            return Path(unquote(address.path)).stat().st_size
        if address.scheme not in ("http", "https"):
            return None
        with urlopen(Request(file.url, method="HEAD"), timeout=SIZE_WITHIN_S) as answer:  # noqa: S310 - checked above
            return int(answer.headers["Content-Length"])
    except (OSError, TypeError, ValueError):
        return None
