"""What tests share: tiny data, and what stands in for a framework's interpreter and for NVML."""

from __future__ import annotations

import gc
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from suite.plan.cell import FRAMEWORKS
from suite.session.launches.devices import BUILDS
from suite.session.launches.launch import launch
from tests import isolation
from tests.launches import JOB, Launches, StandIn, Told
from tests.nvml import Nvml
from tests.sessions import WORKER, Suite
from workloads.data import cache as caches
from workloads.data import synthetic

if "PYTEST_XDIST_WORKER" in os.environ:
    # Threads that wait for each other by spinning would take the other process' time; workers inherit it.
    os.environ.setdefault("OMP_NUM_THREADS", "1")

#: Three frameworks hold millions of objects, and a look through them for garbage takes half a second: seldom is enough.
gc.set_threshold(100_000, 50, 100)

#: A stand-in is started like the worker: ``PYTHON -m suite.worker.process FD JOB``.
PREAMBLE = """
import json, os, signal, subprocess, sys, time
from pathlib import Path
descriptor, job = int(sys.argv[3]), json.loads(sys.argv[4])

def send(**message):
    os.write(descriptor, json.dumps(message).encode() + b"\\n")

def send_all(record):
    send(part={k: v for k, v in record.to_json().items() if k not in ("schema", "cell", "launch", "started", "run")})
"""


#: Warnings are errors in the tests, and not in a user's `pytest suite`, which reads pyproject.toml too. The plugin says
#: in one line that PYTHONOPTIMIZE has to be unset.
WARNINGS = ("error", "ignore:assertions not in test modules:pytest.PytestConfigWarning")

#: Where JAX keeps what it compiled, since many tests compile the same model. Launches drop the variable.
PROGRAMS = {"JAX_COMPILATION_CACHE_DIR": "", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.02"}


def pytest_configure(config: pytest.Config) -> None:
    """Let warnings be errors, and give all processes one folder for compiled programs, and this interpreter's PATH."""
    for line in WARNINGS:
        config.addinivalue_line("filterwarnings", line)
    if "PYTEST_XDIST_WORKER" not in os.environ:
        # Commands are shown as they are typed where this environment is active.
        os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
        os.environ.pop("TOX_ENV_DIR", None)
        config.stash[_PROGRAMS] = tempfile.mkdtemp(prefix="test-programs-")
        os.environ.update(PROGRAMS | {"JAX_COMPILATION_CACHE_DIR": config.stash[_PROGRAMS]})
        isolation.isolate(config, config.stash[_PROGRAMS])


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove it."""
    if folder := config.stash.get(_PROGRAMS, None):
        shutil.rmtree(folder, ignore_errors=True)


_PROGRAMS = pytest.StashKey[str]()
_IMPORTED = pytest.StashKey[set[str]]()


#: The frameworks that are not installed here.
MISSING = {name for name, (package, *_) in BUILDS.items() if find_spec(package) is None}
#: What the reason of a test that is skipped for one begins with.
NOT_INSTALLED = "not installed: "
#: What a file of which every test draws has.
ALL_DRAW = re.compile(r"^pytestmark = .*mark\.drawing", re.MULTILINE)


def _turn(item: pytest.Item) -> int:
    """The files that take longest begin, so that processes end at about the same time."""
    return 2 if item.get_closest_marker("last") else int(not item.get_closest_marker("long"))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no file of which no test is chosen: where none draws, and where only those run that must run alone."""
    chosen = config.getoption("markexpr")
    if collection_path.suffix != ".py":
        return None
    text = collection_path.read_text(encoding="utf-8")
    drawing = "not drawing" in chosen and ALL_DRAW.search(text)
    alone = chosen.startswith("alone") and "mark.alone" not in text
    return bool(drawing) or alone or None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what launches workers, real or stand-ins, and what draws: the rest can be run by itself in a minute.

    The tests that take longest come first, in an order that ``--dist loadfile --no-loadscope-reorder`` keeps.
    """
    for item in items:
        if {"stand_in", "suite", "twins"} & set(getattr(item, "fixturenames", ())):
            item.add_marker("launches")
        if lacking := [name for name in _frameworks(item) if name in MISSING]:
            item.add_marker(pytest.mark.skip(reason=f"{NOT_INSTALLED}{', '.join(lacking)}"))
    items.sort(key=_turn)


def _frameworks(item: pytest.Item) -> list[str]:
    """The frameworks that a test imports: named by its marker, else by its parameters, else all."""
    if not (marker := item.get_closest_marker("frameworks")):
        return []
    values = getattr(getattr(item, "callspec", None), "params", {}).values()
    return [*marker.args] or [value for value in values if value in FRAMEWORKS] or [*FRAMEWORKS]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Tell the process that gives out the tests which frameworks they import: it collects none itself."""
    if isolation.isolates():
        isolation.tell({item.nodeid: _frameworks(item) for item in session.items})


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """One framework in a process."""
    return isolation.OneFramework(config, log) if isolation.isolates() else None


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """A test brings no framework into its process but one that it names alone."""
    now, named = {*isolation.imported()}, {*_frameworks(item)}
    new = now - item.session.stash.get(_IMPORTED, set()) - (named if len(named) == 1 else set())
    item.session.stash[_IMPORTED] = now
    if isolation.isolates() and new:
        pytest.fail(f"imported {' and '.join(sorted(new))} without naming it alone: see tests/isolation.py")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which frameworks are missing, and how many tests were skipped for it."""
    skipped = [report for report in terminalreporter.stats.get("skipped", ()) if NOT_INSTALLED in str(report.longrepr)]
    if skipped:
        names = ", ".join(name for name in FRAMEWORKS if name in MISSING)
        terminalreporter.write_line(f"{NOT_INSTALLED}{names}; {len(skipped)} tests that need it were skipped")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """What is chosen on the command line may hold no test that must run alone."""
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and session.config.getoption("markexpr").startswith("alone"):
        session.exitstatus = pytest.ExitCode.OK


@pytest.fixture(scope="session")
def twins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data cache with tiny synthetic twins."""
    folder = tmp_path_factory.mktemp("twins")
    for name in ("cifar100", "imdb"):
        caches.write(synthetic.generate(name, train=256, test=16), folder)
    return folder


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """Makes an interpreter that runs the given code instead of a worker, for all frameworks.

    The code follows `PREAMBLE`; as a ``bare`` one it follows nothing, and has the standard library only.
    """

    def make(code: str, bare: bool = False) -> Path:
        script = tmp_path / "stand_in.py"
        script.write_text(code if bare else PREAMBLE + dedent(code))
        python = tmp_path / "python"
        option = "-S " if bare else ""
        python.write_text(f'#!/bin/sh\nexec "{sys.executable}" {option}"{script}" "$@"\n')
        python.chmod(0o755)
        for framework in FRAMEWORKS:
            monkeypatch.setenv(f"SUITE_PYTHON_{framework.upper()}", str(python))
        return python

    return make


@pytest.fixture
def run(tmp_path: Path, stand_in: StandIn) -> Callable[..., Told]:
    """Launches code instead of a worker."""

    def launched(code: str, deadline_s: float = 60.0) -> Told:
        stand_in(code)
        pids: list[int] = []
        record = launch(JOB, tmp_path / "log", deadline_s, lambda message: pids.extend(message.get("pids", ())))
        return Told(record, (tmp_path / "log").read_text(errors="replace"), pids)

    return launched


@pytest.fixture(scope="session")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The records that stand-ins answer with, each of which is made once."""
    return tmp_path_factory.mktemp("kept")


@pytest.fixture
def suite(tmp_path: Path, stand_in: StandIn, twins: Path, kept: Path) -> Suite:
    """Runs `pytest suite` with stand-ins for the worker, tiny data, and no network."""
    stand_in(WORKER, bare=True)
    left = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "SUITE_DATA"))}
    told = {"SUITE_CACHE_DIR": twins, "LAUNCHED": tmp_path / "launched", "HANGS": tmp_path / "hangs", "KEPT": kept}
    # Nobody answers there, so that a download fails at once and none is ever begun.
    nowhere = dict.fromkeys(("http_proxy", "https_proxy", "HTTPS_PROXY"), "http://127.0.0.1:1") | {"no_proxy": ""}
    hidden = {"CUDA_VISIBLE_DEVICES": "", "NO_PROXY": ""}
    return Suite(tmp_path, left | {name: str(path) for name, path in told.items()} | nowhere | hidden)


@pytest.fixture(scope="session")
def programs() -> str:
    """A folder for what launches compile for their evidence."""
    return os.environ["JAX_COMPILATION_CACHE_DIR"]


@pytest.fixture(scope="session")
def launches(twins: Path, programs: str, tmp_path_factory: pytest.TempPathFactory) -> Launches:
    """Real launches of small cells, which all tests share."""
    folder = tmp_path_factory.getbasetemp()
    shared = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder
    return Launches(shared / "launches", twins, programs)


@pytest.fixture
def unoptimized(request: pytest.FixtureRequest) -> Iterator[None]:
    """JAX compiles in a fraction of the time: for tests that ask nothing of a compiled program but that it is right.

    The proofs in float32, those of size full and all launches compile as usual.
    """
    with isolation.unoptimized(here="jax" in isolation.imported() or _frameworks(request.node) == ["jax"]):
        yield


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Comparisons draw no plots, which take most of their time."""
    from suite.report import plots

    monkeypatch.setattr(plots, "draw", lambda *_: [])


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> Nvml:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return Nvml()
