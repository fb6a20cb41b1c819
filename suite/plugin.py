"""The pytest plugin: one test item per launch, and storage through pytest-benchmark.

Loaded early (``-p suite.plugin``), so that ``--benchmark-save`` needs no name. It affects no tests of others.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from framework_training_suite import CommandError, refuse_without_libraries, spelled, typed

refuse_without_libraries()

from suite.catalog.suggest import unknown_option
from suite.plan import order
from suite.plan.blocks import blocks, launch_id
from suite.plan.command import options
from suite.plan.command.common import SAVED, choose_gpu
from suite.plan.command.pytest_arguments import RUN, SUITE
from suite.plan.measuring import LEAST_TESTED
from suite.record.saved import SCHEMA
from suite.session import observers as observing
from suite.session.engines import options as engine_options
from suite.session.interrupts import interruptible
from suite.session.launches import settings

if TYPE_CHECKING:
    from suite.record.record import Record
    from suite.session.run import Run

AUTOMATIC = "\0automatic"  # stands for the name that a bare --benchmark-save gets
TEST = "test_training"
AUTOLOAD, BENCHMARK, RANDOMLY = "PYTEST_DISABLE_PLUGIN_AUTOLOAD", "pytest_benchmark.plugin", "randomly"
WIDTH = 120  # of the terminal, where it has no size: a pipe, a log

Groups = list[tuple[str | None, list[dict[str, Any]]]]  # pytest-benchmark's: benchmarks by what they have in common


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Add the suite's options, let ``--benchmark-save`` stand without a name, and save in the folder of own runs.

    A session that measures needs no random order, nor the NumPy that pytest-randomly imports before options are read.
    """
    config = pluginmanager.get_plugin("pytestconfig")
    words = [str(word) for word in config.invocation_params.args] if config else []
    if {"suite", str(SUITE)} & {*words} and "randomly" not in " ".join(words):
        pluginmanager.set_blocked(RANDOMLY)
    if not __debug__:
        raise pytest.UsageError("PYTHONOPTIMIZE takes out the checks that tests and the suite rely on; unset it")
    original = (benchmark := parser.getgroup("benchmark")).addoption

    def addoption(*names: str, **attributes: Any) -> None:
        if "--benchmark-save" in names:
            attributes |= {"nargs": "?", "const": AUTOMATIC}
        elif "--benchmark-storage" in names:
            attributes["default"] = str(SAVED)
        original(*names, **attributes)

    benchmark.addoption = addoption  # type: ignore[method-assign]
    options.add(parser, *engine_options(), *observing.options())


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser, args: list[str]
) -> Generator[None]:
    """Refuse to go on without pytest-benchmark, and answer an unknown option with that which was probably meant.

    Other unknown options are left to pytest.
    """
    plugins = early_config.pluginmanager.get_plugins()
    if not any(getattr(each, "__name__", "") == BENCHMARK for each in plugins):
        way = f"unset {AUTOLOAD}, or add -p {BENCHMARK}" if os.environ.get(AUTOLOAD) else "leave out -p no:benchmark"
        raise pytest.UsageError(f"`pytest suite` measures with pytest-benchmark, which is not loaded: {way}")
    yield
    _, strange = parser.parse_known_and_unknown_args(args)
    if problem := unknown_option(args, strange, options.names(parser), RUN):
        raise pytest.UsageError(f"{problem} `{typed(f'{RUN} --help')}` lists all")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Refuse wrong options, and give ``--benchmark-save`` without a name one, before pytest-benchmark reads it."""
    from suite.session import storage  # here, as in other hooks: what is mistyped is answered before

    try:
        settings.refuse_surrogates(config)
        choose_gpu(config.option)
        config.option.release = settings.resolve_releases(config.option.release)
        chosen = options.chosen_matrix(config)
        settings.refuse_without_cuda(config)
        observing.check(config)
    except CommandError as error:
        raise pytest.UsageError(spelled(str(error))) from None
    if config.getoption("benchmark_only", False):
        raise pytest.UsageError(
            "--benchmark-only would skip every launch; leave it out, since `pytest suite` runs nothing else"
        )
    if reason := order.broken_by(config):
        raise pytest.UsageError(reason)
    taken = "{0} took {1!r} for {2}: put it last, as in `pytest {1} {0}`, or write {0}={3}"
    resumed, saved = config.getoption("resume"), config.getoption("benchmark_save", None)
    if resumed and not resumed.endswith(".jsonl") and Path(resumed).exists():
        raise pytest.UsageError(taken.format("--resume", resumed, "a run", "RUN"))
    if saved and not storage.name_fits(saved):
        raise pytest.UsageError(f"--benchmark-save={saved[:20]}... is too long for the name of a file")
    if saved == AUTOMATIC:
        config.option.benchmark_save = storage.shorten_name(chosen.name)
    elif saved and Path(saved).exists():
        raise pytest.UsageError(taken.format("--benchmark-save", saved, "a name", "NAME"))


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Look for launches in one file of the suite, and not in its folders."""
    return (collection_path.parent == Path(__file__).parent and collection_path.is_dir()) or None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one item per launch, in the order in which they run."""
    if metafunc.definition.name != TEST or "launch_id" not in metafunc.fixturenames:
        return
    chosen = options.chosen_matrix(metafunc.config)
    control = not chosen.budget_s and chosen.launches >= LEAST_TESTED and not metafunc.config.getoption("no_control")
    control = control and not all(cell.recipe for cell in chosen.cells)  # which would train to the same end twice
    planned = blocks(chosen.cells, chosen.launches, metafunc.config.getoption("seed"), control)
    launches = {launch_id(*each): each for each in planned}
    metafunc.config.stash[_LAUNCHES] = launches
    metafunc.parametrize("launch_id", list(launches))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None, object, object]:
    """Put the launches back into their blocks if other plugins changed their order."""
    result = yield
    if launches := config.stash.get(_LAUNCHES, None):
        order.restore(items, TEST, list(launches))
    return result


def pytest_collection_finish(session: pytest.Session) -> None:
    """Leave out the file's name, which pytest would write again before each launch: a launch has a line of its own."""
    reporter = session.config.pluginmanager.getplugin("terminalreporter")
    if reporter and session.items and all(f"::{TEST}[" in item.nodeid for item in session.items):
        reporter.showfspath = False


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """Open the run before its first launch, and close it after the last one."""
    config = session.config
    launches = any(order.is_launch(item, TEST) for item in session.items)
    if not launches or config.option.collectonly or session.testsfailed:
        return (yield)
    from suite.session.opening import open_run  # which needs what no other session does

    config.stash[_RESTORE] = interruptible()
    try:
        run = open_run(session, TEST, config.stash[_LAUNCHES])
        config.stash[_RUN] = run
    except CommandError as error:
        pytest.exit(spelled(str(error)), returncode=4)
    try:
        return (yield)
    finally:
        run.close()


@pytest.fixture
def launch(launch_id: str, request: pytest.FixtureRequest) -> Callable[[], Record]:
    """Launches the item's cell in the run of this session."""
    stash = request.config.stash
    return partial(stash[_RUN].launch, *stash[_LAUNCHES][launch_id])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> bool | None:
    """Pass over a launch that a run with a budget no longer needs: it is no test that was skipped."""
    run = item.config.stash.get(_RUN, None)
    if not run or getattr(item, "originalname", "") != TEST:
        return None
    launch_id = item.callspec.params["launch_id"]  # type: ignore[attr-defined]
    return run.should_skip(*item.config.stash[_LAUNCHES][launch_id]) or None


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """End a session that cannot go on, for example with a full disk, in one line; its measurements are saved."""
    try:
        return (yield)
    except CommandError as error:
        if pyfuncitem.originalname != TEST:
            raise
        pytest.exit(spelled(str(error)), returncode=4)


def pytest_report_teststatus(report: pytest.TestReport | pytest.CollectReport) -> tuple[str, str, str] | None:
    """No letter for a launch: it has a line of its own."""
    called = getattr(report, "when", None) == "call" and f"::{TEST}[" in report.nodeid
    return (report.outcome, "", report.outcome.upper()) if called else None


def pytest_benchmark_update_machine_info(machine_info: dict[str, Any]) -> None:
    """Leave out the host's name, so that a saved run can be published as it is."""
    machine_info.pop("node", None)


def pytest_benchmark_update_commit_info(commit_info: dict[str, Any]) -> None:
    """Name the project rather than the folder it was cloned into, and leave out what may name a person."""
    from suite.session import storage

    known = storage.describe_commit(commit_info)
    commit_info.clear()
    commit_info.update(known)


def pytest_benchmark_update_json(config: pytest.Config, output_json: dict[str, Any]) -> None:
    """Add the run, and the launches that failed with their reasons, which pytest-benchmark does not know."""
    if run := config.stash.get(_RUN, None):
        failed = [record.to_json() for record in run.failed]
        output_json["suite"] = {"schema": SCHEMA, "run": run.info, "failed": failed}


@pytest.hookimpl(wrapper=True)
def pytest_benchmark_group_stats(config: pytest.Config) -> Generator[None, Groups, Groups]:
    """Take the launches out of pytest-benchmark's table, which ranks single launches.

    They stay for a comparison with a saved run, each launch with itself, and for a histogram.
    """
    groups = yield
    if any(config.getoption(f"benchmark_{name}") for name in ("compare", "histogram")):
        return groups
    others = [(name, [row for row in group if f"::{TEST}[" not in row["fullname"]]) for name, group in groups]
    return [(name, group) for name, group in others if group]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, object, object]:
    """Save a run of which no launch succeeded, for which pytest-benchmark would only warn.

    A session that measured nothing ends as one that ran no test does.
    """
    config = session.config
    if _LAUNCHES not in config.stash:
        return (yield)
    run = config.stash.get(_RUN, None)
    measured = run and any(record.outcome.ok for record in run.records)
    if session.exitstatus == pytest.ExitCode.OK and not config.option.collectonly and not measured:
        session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED
    benchmarks = getattr(config, "_benchmarksession", None)  # has no public name
    from suite.session import storage

    try:
        with storage.atomic_saves(benchmarks):
            if benchmarks and not benchmarks.benchmarks:
                if run and run.failed:
                    storage.save_failed(config, benchmarks)
                benchmarks.save = benchmarks.autosave = benchmarks.json = None
            return (yield)
    except storage.SaveError as error:
        where = f"; all launches are in {run.journal.path}, which training-suite compare reads too" if run else ""
        pytest.exit(f"{error}{where}", returncode=4)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Restore the signal handlers from before the run."""
    config.stash.get(_RESTORE, lambda: None)()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """The comparison in short, what to do next, and what was not measured."""
    write, run = terminalreporter.write_line, config.stash.get(_RUN, None)
    if run and any(record.outcome.ok for record in run.records):
        from suite.report.screen.short import short  # pandas and SciPy, which no other session needs

        terminalreporter.section("comparison")
        write(short(run.records, str(run.info["id"]), shutil.get_terminal_size((WIDTH, 0)).columns))
    if run and run.done:
        from suite.session.opening import advice, taken

        if line := advice(run, [*config.invocation_params.args, *taken(config)]):
            write(line)
        hint = "" if config.getoption("benchmark_save", None) else f" {run.journal.path}"
        write(f"Compare with: {typed(f'training-suite compare{hint}')}")
    if _LAUNCHES in config.stash and not config.option.collectonly:
        from suite.session.opening import say_unmeasured

        if reason := say_unmeasured(run):
            write(reason)


_LAUNCHES = pytest.StashKey[order.Launches]()
_RUN: pytest.StashKey[Run] = pytest.StashKey()
_RESTORE = pytest.StashKey[Callable[[], None]]()
