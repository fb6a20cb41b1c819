"""What releases there are, as the package index tells: versions, the Pythons that they fit, and their sizes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.tags import compatible_tags, cpython_tags
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from suite.catalog.frameworks import FRAMEWORKS
from suite.catalog.versions import is_open, version_key
from suite.plan.settings.frameworks import too_old
from suite.releases.uv import ReleaseError, pythons

#: The index unless uv is told of another one, by which variables, and how long it may take.
PYPI, VARIABLES, WITHIN_S = "https://pypi.org/simple", ("UV_DEFAULT_INDEX", "UV_INDEX_URL"), 30.0


@dataclass(frozen=True)
class Release:
    """A release in the index: the minor versions of this machine's Pythons that it fits, the newest first.

    ``size`` is that of the wheel that is built for the newest of them, in bytes, and ``day`` when it was published;
    both are empty where the index does not say.
    """

    version: str
    minors: tuple[int, ...] = ()
    size: int | None = None
    day: str = ""


@cache
def releases(framework: str) -> list[Release]:
    """The releases that the suite supports, the oldest first, without pre-releases. Raises `ReleaseError`."""
    wheels: dict[str, list[tuple[dict[str, Any], frozenset[Any]]]] = {}
    for file in _files(FRAMEWORKS[framework].wheels):
        try:
            _, version, _, tags = parse_wheel_filename(str(file.get("filename")))
        except (InvalidWheelFilename, InvalidVersion):
            continue
        if not (version.is_prerelease or version.local or file.get("yanked")):
            wheels.setdefault(version.public, []).append((file, tags))
    supported = (version for version in wheels if not too_old(framework, version))
    return [_release(version, wheels[version]) for version in sorted(supported, key=version_key)]


def resolve(texts: Iterable[str]) -> list[str]:
    """Exact releases in place of open ones: ``jax=newest`` and ``jax=0.9.*`` are the newest that fit this machine.

    Raises `ReleaseError`.
    """
    return [_resolve(text) if is_open(text.partition("=")[2]) else text for text in texts]


def _resolve(text: str) -> str:
    framework, _, asked = text.partition("=")
    begin = "" if asked == "newest" else asked.removesuffix("*")
    fitting = [each.version for each in releases(framework) if each.minors and f"{each.version}.".startswith(begin)]
    if not fitting:
        raise ReleaseError(f"no release {text} fits the Pythons here; `training-suite releases {framework}` lists all")
    return f"{framework}={fitting[-1]}"


def _release(version: str, wheels: list[tuple[dict[str, Any], frozenset[Any]]]) -> Release:
    fitting: dict[int, dict[str, Any]] = {}
    for minor in (python.minor for python in pythons()):
        tags = {*cpython_tags((3, minor)), *compatible_tags((3, minor), f"cp3{minor}")}
        best = [file for file, own in wheels if own & tags and _takes(file, minor)]
        fitting |= {minor: best[0]} if best else {}
    newest: dict[str, Any] = next(iter(fitting.values()), {})
    size, day = newest.get("size"), str(newest.get("upload-time", ""))[:10]
    return Release(version, tuple(fitting), size if isinstance(size, int) else None, day)


def _takes(file: dict[str, Any], minor: int) -> bool:
    try:
        return Version(f"3.{minor}.99") in SpecifierSet(str(file.get("requires-python") or ""))
    except InvalidSpecifier:
        return True


def _files(distribution: str) -> list[dict[str, Any]]:
    """The files of a distribution, by the JSON of the simple index (PEP 691). Raises `ReleaseError`."""
    index = next((os.environ[name] for name in VARIABLES if os.environ.get(name)), PYPI).rstrip("/")
    if not index.startswith(("https://", "http://")):
        raise ReleaseError(f"releases cannot be listed from the index {index.partition(':')[0]}:; name them in full")
    accepts = {"Accept": "application/vnd.pypi.simple.v1+json"}
    try:
        with urlopen(Request(f"{index}/{distribution}/", headers=accepts), timeout=WITHIN_S) as answer:  # noqa: S310
            files = json.loads(answer.read())["files"]
    except (OSError, HTTPException) as error:
        if isinstance(error, HTTPError):
            error.close()  # it holds the answer, and so the connection
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or type(error).__name__
        raise ReleaseError(f"the package index does not answer ({reason}); try again, or name releases in full"
                           ) from None  # fmt: skip
    except (ValueError, KeyError, TypeError):
        raise ReleaseError("the package index does not list its files as JSON; name releases in full") from None
    return [file for file in files if isinstance(file, dict)] if isinstance(files, list) else []
