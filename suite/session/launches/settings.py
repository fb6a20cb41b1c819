"""The settings of a run besides its cells, and what must be there before its first launch: releases, interpreters."""

from __future__ import annotations

import os
import re
from argparse import Namespace
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import pytest

from suite.catalog.devices import has_gpu
from suite.plan.cell import FRAMEWORKS, Cell
from suite.plan.command.common import JOURNALS, LOCAL, join_values
from suite.plan.command.options import chosen_axes
from suite.plan.matrix import Matrix, MatrixError
from suite.plan.measuring import Plan
from suite.plan.settings.frameworks import too_old
from suite.plan.sweeps.sweep import AXES, describe_axes, parse_values
from suite.record.job import Job
from suite.record.parts.environment import redact
from suite.record.text import clean
from suite.session.launches import devices
from workloads.data.files import refuse_shared
from workloads.data.progress import waiting

#: Variables of compilers, and where they or a flag in them name a cache of theirs, whose code is run.
COMPILERS = ("CUDA_", "JAX_", "NUMBA_", "PYTHONPYCACHE", "PYTORCH_", "TF_", "TORCH", "TRITON_", "XLA_")
_CACHE = re.compile(r"(?i)(?:cache|extensions)\w*=(/.*?)(?=\s+-|$)")


@dataclass(frozen=True)
class Settings:
    """The settings of a run, besides its cells."""

    matrix: str
    launches: int
    plan: Plan
    seed: int = 0
    data: str = "auto"
    data_directory: str | None = None
    device: str = "auto"
    deadline_s: float | None = None
    resume: str | None = None  # the id of a run, or `LATEST`
    journals: Path = JOURNALS
    sweep: str | None = None  # the axes of the command line, such as "precision fp32,bf16 loader w2"
    memory_limit: int | None = None  # bytes that a worker on a CPU may allocate
    shard: str | None = None  # I/N: which part of the matrix this run is
    epochs: int | None = None  # of cells with a recipe; None for the recipe's own number
    target: float | None = None  # likewise
    profile: bool = False  # after all windows, so that a run may be resumed with or without
    profile_memory: bool = False
    profile_code: bool = False
    on: str = LOCAL  # the engine that launches start on, which a resumed run may change
    placement: str = "pack"  # of the ranks of a launch on the hosts of a cluster
    commands: str = ""  # of `suite.script`: a digest of what is launched
    search: dict[str, Any] | None = None  # of `suite.tune`: what it looks for; launches are then decided as it goes
    trusted_network: bool = False  # where a server that obeys whoever connects may be started
    budget_s: float | None = None  # with it a run is looked at after each block, and stops when it is decided
    typed: dict[str, Any] = field(default_factory=dict)  # the options that chose cells and windows, by their names

    @classmethod
    def of(cls, options: Namespace, matrix: str, launches: int, plan: Plan, **others: Any) -> Settings:
        """The settings that the options of a command name; what it has no option for is as usual, or in ``others``."""
        given = {each.name: getattr(options, each.name) for each in fields(cls) if hasattr(options, each.name)}
        given |= {"data_directory": options.data_dir, "deadline_s": getattr(options, "max_time", None)}
        limit = getattr(options, "memory_limit", None)
        given |= {"memory_limit": None if limit is None else int(limit * 2**30)}
        return cls(**given | {"matrix": matrix, "launches": launches, "plan": plan} | others)

    def signature(self) -> dict[str, Any]:
        """The settings that a run must share with its journal to be resumed."""
        return {
            "matrix": self.matrix,
            "launches": self.launches,
            "seed": self.seed,
            "plan": self.plan.to_json(),
            "data": self.data,
            "device": self.device,
            "sweep": self.sweep,
            "memory_limit": self.memory_limit,
            "shard": self.shard,
            "epochs": self.epochs,
            "target": self.target,
            **({"search": self.search} if self.search else {}),
            **({"commands": self.commands} if self.commands else {}),
        }


def refuse_without_cuda(config: pytest.Config) -> None:
    """Raise `MatrixError` if CUDA is requested and there is none."""
    if config.getoption("device") == "cuda" and config.getoption("on") == LOCAL and not has_gpu():
        from suite.session.launches.launch import interpreter  # NumPy, which no other option needs

        chosen = (name for name in FRAMEWORKS if os.environ.get(f"SUITE_PYTHON_{name.upper()}"))
        interpreters = {name: interpreter(name) for name in chosen}
        raise MatrixError(f"--device cuda: {devices.cuda_problem(interpreters)}")


def refuse_surrogates(config: pytest.Config) -> None:
    """Raise `MatrixError` for an argument that cannot be written.

    In a locale without UTF-8, Python keeps bytes that it does not know as surrogates.
    """
    for argument in map(str, config.invocation_params.args):
        try:
            argument.encode()
        except UnicodeEncodeError:
            raise MatrixError(
                f"{argument!a} is no text in this locale; set PYTHONUTF8=1, or a locale of UTF-8"
            ) from None


def settings(config: pytest.Config, chosen: Matrix) -> Settings:
    sweep = describe_axes(chosen_axes(config)) or None
    return Settings.of(
        config.option,
        chosen.name,
        chosen.launches,
        chosen.plan,
        sweep=sweep,
        search=None,
        typed=typed_options(config),
        budget_s=chosen.budget_s,
    )


def typed_options(config: pytest.Config) -> dict[str, Any]:
    """The options that chose cells and windows, as they were typed, for a command that continues the run.

    Paths lose private folders, because the run may be published.
    """
    values = {
        "matrix": [_public(name) for name in config.getoption("matrix") or ()],
        **{axis: join_values(config.getoption(axis)) for axis in AXES},
        "budget": config.getoption("budget"),
        "min-window": config.getoption("min_window"),
        "phases": config.getoption("phases"),
        "no-control": config.getoption("no_control"),
        "trusted-network": config.getoption("trusted_network"),
        "k": redact(config.getoption("keyword", "")),
    }
    return {name: value for name, value in values.items() if value}


def _public(name: str) -> str:
    return redact(name.replace(f"{Path.cwd()}{os.sep}", ""))


def resolve_releases(values: list[str] | None) -> list[str] | None:
    """The values of ``--release``, with exact ones in place of open ones such as ``newest``. Raises `MatrixError`."""
    if not values:
        return None
    from suite.releases.index import resolve as exact  # which no other run needs

    return exact(parse_values("release", join_values(values) or ""))


def build_releases(cells: Iterable[Cell], say: Callable[[str], None]) -> dict[str, str]:
    """Build the environments of the cells' releases, where they are not there yet; the lock of each, by its name.

    Raises `suite.releases.ReleaseError`, which is a `MatrixError`.
    """
    chosen = _releases(cells)
    if not any(release for _, release in chosen):
        return {}
    from suite.releases.environments import prepare

    return prepare(chosen, say)


def check_interpreters(cells: Iterable[Cell], device: str, say: Callable[[str], None]) -> None:
    """Check that the interpreters are there, and that their frameworks use the device; say which are tox's.

    Raises `LaunchError`, also where a variable names a cache of compiled code that others can change.
    """
    from suite.session.launches.launch import LaunchError, interpreter, tox_environment, variables

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
