"""One framework in a process: two that share one can hurt each other, as no user's process ever has them.

With ``-n 3 --dist loadfile`` each process of pytest-xdist takes the tests of one framework, and any that need none. A
test that compares frameworks asks a process of each for what it computed there: `in_own_process`.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property, partial, wraps
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

from xdist.scheduler import LoadScopeScheduling

from suite.plan.cell import FRAMEWORKS
from suite.session.launches.devices import BUILDS

#: By framework, the module that tells whether it is imported.
MODULES = {name: package for name, (package, *_) in BUILDS.items()}

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass
class _Process:
    """What this one was started for, if it was started by another; and how JAX compiles here and where it asks."""

    framework: str = ""
    quickly: bool = False


_HERE = _Process()


def imported() -> list[str]:
    """The frameworks that this process has imported."""
    return [name for name, module in MODULES.items() if module in sys.modules]


def isolates() -> bool:
    """Whether the tests run in as many processes as there are frameworks, so that each can have one."""
    return int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")) >= len(FRAMEWORKS)


def in_own_process(function: Function) -> Function:
    """Runs a function of a test module with an argument ``framework`` where no other framework is.

    That is this process if it has imported the framework, and else one that it starts for it. Arguments and what is
    returned travel there and back.
    """
    signature = inspect.signature(function)

    @wraps(function)
    def asked(*args: Any, **settings: Any) -> Any:
        framework = signature.bind(*args, **settings).arguments["framework"]
        if _HERE.framework == framework or imported() == [framework]:
            return function(*args, **settings)
        process = _process(framework, _HERE.quickly and framework == "jax")
        return process.submit(_answer, function.__module__, function.__name__, args, settings).result()

    return asked  # type: ignore[return-value]


def _answer(module: str, name: str, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    return getattr(import_module(module), name)(*args, **settings)


def _begin(framework: str, quickly: bool) -> None:
    _HERE.framework = framework
    if quickly:
        _compile_quickly(True)


@cache
def _process(framework: str, quickly: bool) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, get_context("spawn"), partial(_begin, framework, quickly))


@contextmanager
def unoptimized(here: bool, quickly: bool = True) -> Iterator[None]:
    """JAX compiles in a fraction of the time (or, within that, as usual again), also ``here`` if JAX runs here."""
    before, _HERE.quickly = _HERE.quickly, quickly
    if here:
        _compile_quickly(quickly)
    try:
        yield
    finally:
        _HERE.quickly = before
        if here:
            _compile_quickly(before)


def _compile_quickly(quickly: bool) -> None:
    import jax

    from suite.worker.frameworks.jax.evidence import time_savers

    usual = getattr(jax.jit, "func", jax.jit)
    jax.jit = partial(usual, compiler_options=time_savers()) if quickly else usual
    jax.config.update("jax_disable_most_optimizations", quickly)


def tell(frameworks: dict[str, list[str]], file: Path) -> None:
    """Write down which frameworks each test imports, for `OneFramework`."""
    file.write_text(json.dumps(frameworks), encoding="utf-8")


class OneFramework(LoadScopeScheduling):
    """Hands out tests by file, and in it by framework, to processes that have no other framework.

    Where there are fewer processes than frameworks, as with ``-n 2``, to any.
    """

    def __init__(self, file: Path, config: Any, log: Any = None) -> None:
        super().__init__(config, log)
        self.file = file
        self.of: dict[Any, str] = {}

    @cached_property
    def frameworks(self) -> dict[str, list[str]]:
        """By test, what the first process told."""
        told: dict[str, list[str]] = json.loads(self.file.read_text(encoding="utf-8"))
        return told

    def _split_scope(self, nodeid: str) -> str:
        names = {*self.frameworks[nodeid]}
        return f"{nodeid.partition('::')[0]}:{names.pop() if len(names) == 1 else ''}"

    def _assign_work_unit(self, node: Any) -> None:
        scope = self._next(node)
        if scope is not None:
            self.workqueue.move_to_end(scope, last=False)
            self.of[node] = _framework(scope) or self.of.get(node, "")
            super()._assign_work_unit(node)

    def _reschedule(self, node: Any) -> None:
        if self.workqueue and not node.shutting_down and self._next(node) is None:
            node.shutdown()  # after what it still has; the rest belongs to others
        else:
            super()._reschedule(node)

    def remove_node(self, node: Any) -> str | None:
        self.of.pop(node, None)
        return super().remove_node(node)

    def _next(self, node: Any) -> str | None:
        others = {self.of.get(other, "") for other in self.nodes if other is not node}
        own = self.of.get(node, "")
        fits = {"", own} if own else {"", *FRAMEWORKS} - (others - {""})
        if self.numnodes < len(FRAMEWORKS):
            fits = {"", *FRAMEWORKS}
        return next((scope for scope in self.workqueue if _framework(scope) in fits), None)


def _framework(scope: str) -> str:
    return scope.rpartition(":")[2]
