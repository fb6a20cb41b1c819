"""The interpreters of a run's cells on this host: those of releases are built, and all are checked, before a launch."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from suite.plan.cell import Cell
from suite.plan.command.common import join_values
from suite.plan.settings.frameworks import too_old
from suite.plan.sweeps.sweep import parse_values
from suite.record.job import Job
from suite.record.text import clean
from suite.session.launches import devices
from suite.session.launches.launch import LaunchError, interpreter, tox_environment, variables
from workloads.data.files import refuse_shared
from workloads.data.progress import waiting

#: Variables of compilers, and where they or a flag in them name a cache of theirs, whose code is run.
COMPILERS = ("CUDA_", "JAX_", "NUMBA_", "PYTHONPYCACHE", "PYTORCH_", "TF_", "TORCH", "TRITON_", "XLA_")
_CACHE = re.compile(r"(?i)(?:cache|extensions)\w*=(/.*?)(?=\s+-|$)")


def resolve(values: list[str] | None) -> list[str] | None:
    """The values of ``--release``, with exact ones in place of open ones such as ``newest``. Raises `MatrixError`."""
    if not values:
        return None
    from suite.releases.index import resolve as exact  # which no other run needs

    return exact(parse_values("release", join_values(values) or ""))


def build(cells: Iterable[Cell], say: Callable[[str], None]) -> dict[str, str]:
    """Build the environments of the cells' releases, where they are not there yet; the lock of each, by its name.

    Raises `suite.releases.ReleaseError`, which is a `MatrixError`.
    """
    chosen = _releases(cells)
    if not any(release for _, release in chosen):
        return {}
    from suite.releases.environments import prepare  # which no other run needs

    return prepare(chosen, say)


def check(cells: Iterable[Cell], device: str, say: Callable[[str], None]) -> None:
    """Check that the interpreters are there, and that their frameworks use the device; say which are tox's.

    Raises `LaunchError`, also where a variable names a cache of compiled code that others can change.
    """
    cells = list(cells)
    for name, text in variables(Job(cells[0], ""), "").items() if cells else ():
        for place in _CACHE.findall(f"{name}={text}") if name.startswith(COMPILERS) else ():
            try:
                named = Path(place)
                refuse_shared(*filter(Path.exists, [named] if named.is_dir() else [named, named.parent]))
            except OSError as error:
                where = f"the cache of compiled code that {name} names, {clean(place)}"
                raise LaunchError(f"{where}: {error.strerror}; name another one, or unset {name}") from None
    by_release: dict[str, dict[str, str]] = {}
    for framework, release in _releases(cells):
        by_release.setdefault(release, {})[framework] = interpreter(framework, release, device)
    if made := [place for name in by_release.get("", ()) if (place := tox_environment(name, device))]:
        say(f"measuring in the environments that tox made: {', '.join(made)}")
    for interpreters in by_release.values():
        if device == "cuda":
            with waiting("checking that the frameworks were built with CUDA"):
                problem = devices.cuda_problem(interpreters)
            if problem:
                raise LaunchError(f"no launch can be on CUDA: {problem}")
        if device != "cpu" and (problem := devices.other_problem(interpreters)):
            raise LaunchError(problem)


def _releases(cells: Iterable[Cell]) -> list[tuple[str, str]]:
    chosen = dict.fromkeys((cell.framework, cell.release) for cell in cells)
    return [each for each in chosen if not too_old(*each)]
