"""Gets the environments of a run's releases ready, and names their interpreters."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress

from suite.catalog.defects import PLACES, find_defects
from suite.catalog.devices import has_gpu
from suite.plan.settings.frameworks import interpreter_variable
from suite.releases.environments import build, find
from suite.releases.tools import ReleaseError


def prepare(releases: Iterable[tuple[str, str]], say: Callable[[str], None]) -> dict[str, str]:
    """Build what is not there, so that launches find each release; returns the text of each one's lock, by its name.

    ``releases`` are frameworks and releases; a framework without one is left as it is, and so is a release whose
    interpreter the user has named. Raises `suite.releases.tools.ReleaseError`.
    """
    locks = {}
    for framework, release in releases:
        if not release:
            continue
        say_defects(framework, release, say)
        variable = interpreter_variable(framework, release)
        made = None if os.environ.get(variable) else build(framework, release, say)
        if made:
            os.environ[variable] = str(made.python)
        else:
            with suppress(ReleaseError):  # one in the cache that is broken is not the one that was named
                there = find(framework, release)
                made = there if there and os.environ[variable] == str(there.python) else None
        if made:
            locks[made.name] = made.lock
    return locks


def say_defects(framework: str, release: str, say: Callable[[str], None]) -> None:
    """Say what is known to be wrong with a release on the devices of this machine, a line each."""
    for defect in find_defects(framework, release, PLACES if has_gpu() else ("cpu",)):
        say(f"{framework} {release} {defect}")
