"""One framework in a process: two that share one can hurt each other, as no user's process ever has them.

With ``-n 3 --dist loadfile`` each process of pytest-xdist takes the tests of one framework, and any that need none. A
test that compares frameworks asks a process of each for what it computed there: `in_own_process`.
"""

from __future__ import annotations

import atexit
import fcntl
import hashlib
import inspect
import json
import os
import pickle
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, cached_property, partial, wraps
from importlib import import_module
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

from xdist.scheduler import LoadScopeScheduling

from suite.plan.cell import FRAMEWORKS
from suite.session.launches.devices import BUILDS

#: The variable with the file by which processes of pytest-xdist tell which tests import which frameworks.
FILE = "TESTS_FRAMEWORKS"
#: And the one with their folder of what `in_own_process` computed.
COMPUTED = "TESTS_COMPUTED"
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


def isolate(config: Any, folder: str) -> None:
    """Give each framework a process of pytest-xdist if there are enough; they share a file in ``folder``."""
    os.environ.pop(FILE, None)
    os.environ[COMPUTED] = f"{folder}/computed"
    Path(os.environ[COMPUTED]).mkdir()
    if (config.getoption("numprocesses", None) or 0) >= len(FRAMEWORKS) and config.getoption(
        "dist", "no"
    ) == "loadfile":
        os.environ[FILE] = f"{folder}/frameworks.json"


def isolates() -> bool:
    """Whether this is such a process, or gives out tests to such."""
    return FILE in os.environ


def in_own_process(function: Function) -> Function:
    """Runs a function of a test module with an argument ``framework`` where no other framework is.

    That is this process if it has imported the framework, and else one that it starts for it. Arguments and what is
    returned travel there and back. All processes of the tests compute it once, so that no test may call it in a changed
    world.
    """
    signature = inspect.signature(function)

    @wraps(function)
    def asked(*args: Any, **settings: Any) -> Any:
        framework = signature.bind(*args, **settings).arguments["framework"]
        if _HERE.framework == framework:
            return function(*args, **settings)
        quickly = _HERE.quickly and framework == "jax"

        def compute() -> Any:
            if imported() == [framework]:
                return function(*args, **settings)
            return _process(framework, quickly).ask(function, args, settings)

        return _kept((function.__module__, function.__qualname__, args, settings, quickly), compute)

    return asked  # type: ignore[return-value]


def _kept(key: tuple[Any, ...], compute: Callable[[], Any]) -> Any:
    """What was computed, by whichever process of the tests came first; the others wait for it."""
    if COMPUTED not in os.environ:
        return compute()
    file = Path(os.environ[COMPUTED]) / hashlib.sha256(pickle.dumps(key)).hexdigest()
    with file.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            file.write_bytes(pickle.dumps(compute()))
        return pickle.loads(file.read_bytes())


class _Other:
    """A process for one framework, which ends by itself when this one does, so that it removes its temporary folders.

    It has no semaphore, unlike those of a pool: a test looks for semaphores that a run leaves.
    """

    def __init__(self, framework: str, quickly: bool) -> None:
        context = get_context("spawn")
        self.connection, end = context.Pipe()
        self.process = context.Process(target=_serve, args=(end, framework, quickly), daemon=True)
        self.process.start()
        end.close()
        atexit.register(self.end)

    def end(self) -> None:
        self.connection.close()
        self.process.join(10.0)

    def ask(self, function: Callable[..., Any], args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        try:
            self.connection.send((function.__module__, function.__name__, args, settings))
            good, answer = self.connection.recv()
        except (EOFError, OSError) as error:
            _process.cache_clear()
            raise RuntimeError(f"the process that was asked for {function.__name__} ended") from error
        if not good:
            raise answer
        return answer


_process = cache(_Other)


def _serve(connection: Connection, framework: str, quickly: bool) -> None:
    _HERE.framework = framework
    warnings.simplefilter("error")  # as in the tests
    if quickly:
        _compile_quickly(True)
    with suppress(EOFError):  # the other process ended
        while True:
            module, name, args, settings = connection.recv()
            try:
                answer = True, getattr(import_module(module), name)(*args, **settings)
            except BaseException as error:
                answer = False, error
            connection.send(answer)


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


def tell(frameworks: dict[str, list[str]]) -> None:
    """Write down which frameworks each test imports, for `OneFramework`; all processes write the same."""
    file = Path(os.environ[FILE])
    own = file.with_suffix(f".{os.getpid()}")
    own.write_text(json.dumps(frameworks), encoding="utf-8")
    own.replace(file)


class OneFramework(LoadScopeScheduling):
    """Hands out tests by file, and in it by framework, to processes that have no other framework."""

    def __init__(self, config: Any, log: Any = None) -> None:
        super().__init__(config, log)
        self.of: dict[Any, str] = {}

    @cached_property
    def frameworks(self) -> dict[str, list[str]]:
        """By test, what was told."""
        told: dict[str, list[str]] = json.loads(Path(os.environ[FILE]).read_text(encoding="utf-8"))
        return told

    def _split_scope(self, nodeid: str) -> str:
        names = {*self.frameworks[nodeid]}
        return f"{nodeid.partition('::')[0]}:{names.pop() if len(names) == 1 else ''}"

    def _assign_work_unit(self, node: Any) -> None:
        if (scope := self._next(node)) is not None:
            self.workqueue.move_to_end(scope, last=False)
            self.of[node] = _framework(scope) or self.of.get(node, "")
            super()._assign_work_unit(node)

    def _reschedule(self, node: Any) -> None:
        """Give it tests until three wait for it, or end it after those that do if the rest is for others."""
        while not node.shutting_down and self._pending_of(self.assigned_work[node]) <= 2:
            if self._next(node) is None:
                node.shutdown()
            else:
                self._assign_work_unit(node)

    def remove_node(self, node: Any) -> str | None:
        """What a process that ended leaves is for others, but for the test that it was at, which is returned."""
        self.of.pop(node, None)
        crashed = None
        for scope, unit in self.assigned_work.pop(node).items():
            left = [nodeid for nodeid, done in unit.items() if not done]
            if left and crashed is None:
                crashed = left.pop(0)
            if left:
                self.workqueue[scope] = dict.fromkeys(left, False)
        for other in self.assigned_work:
            self._reschedule(other)
        return crashed

    def _next(self, node: Any) -> str | None:
        """The first tests in turn that it may take: of no framework or of several, of its own, or of nobody's yet."""
        others = {self.of.get(other, "") for other in self.nodes if other is not node}
        own = self.of.get(node, "")
        fits = {"", own} if own else {"", *FRAMEWORKS} - (others - {""})
        return next((scope for scope in self.workqueue if _framework(scope) in fits), None)


def _framework(scope: str) -> str:
    return scope.rpartition(":")[2]
