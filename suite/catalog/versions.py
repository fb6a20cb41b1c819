"""Versions of frameworks: how they are written and sorted, and which texts leave one open."""

from __future__ import annotations

import re

#: Stands for the environment that is installed, beside releases.
INSTALLED = "installed"

#: A version by PEP 440 as frameworks have them: numbers, and at most one of a pre-release, a post-release, a nightly.
VERSION = r"[0-9]{1,6}(\.[0-9]{1,8}){1,3}((a|b|rc|\.post|\.dev)[0-9]{1,10})?"
_STAGES = (".dev", "a", "b", "rc", "", ".post")


def is_open(version: str) -> bool:
    """Whether it stands for a version that an index has to name."""
    return version == "newest" or re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,8}){0,2}\.\*", version) is not None


def version_key(version: str) -> tuple[tuple[float, ...], int, int]:
    """Sorts versions that `VERSION` matches as PEP 440 does."""
    stage = next((each for each in _STAGES if each and each in version), "")
    numbers, _, count = version.partition(stage) if stage else (version, "", "")
    parts = [int(part) for part in numbers.split(".")]
    while len(parts) > 1 and not parts[-1]:  # 0.9 and 0.9.0 are the same
        parts.pop()
    return tuple(parts), _STAGES.index(stage), int(count or 0)
