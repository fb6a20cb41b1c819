"""Tests that need a CUDA device; without one they are skipped at once, and no framework is imported.

    python3 -m pytest tests/cuda                             on a machine with an NVIDIA GPU, in at most eight minutes
    SUITE_CUDA_REHEARSE=cpu python3 -m pytest tests/cuda     a few small cells on a CPU, to try the tests themselves

Every framework runs in processes of its own, by `suite.session.launches.launch` or as a probe of this folder. All that
is found goes into one JSON report: ``SUITE_CUDA_REPORT``, by default ``cuda-report.json`` in the working directory,
written after every test and every launch. It holds the machine, ``figures`` (what bounds and documents take their
numbers from), ``tests`` (outcome, reason, seconds) and ``launches`` (records, seconds, and whether each had the device
to itself: times and peaks of those that had not mean nothing). ``SUITE_CUDA_BUDGET_S``, by default 480, is the time
after which nothing more is launched; ``SUITE_CUDA_TOGETHER`` is how many untimed launches share the device (1 where it
takes one process at a time). Data is a small synthetic twin, or the real data of ``SUITE_DATA_DIR``.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from suite.catalog.devices import has_gpu
from suite.monitor.gpu import Gpu, NvmlError, open_nvml
from suite.plan.cell import Cell
from suite.record.parts.environment import describe
from suite.record.record import Record
from tests.cuda import background
from tests.cuda.cells import BATCH, DEVICE, PROBED, REHEARSAL, SIZE, TEST, TRAIN, cost
from tests.cuda.launcher import Alike, Launched, Launches, NotRunError, Probed
from tests.cuda.report import Report
from tests.cuda.standin import Card
from workloads.data import cache, synthetic
from workloads.data.prepare import data_directory, prepare

FOLDER = Path(__file__).parent
BUDGET_S = 480.0

DISTRIBUTIONS = (
    "torch", "triton", "jax", "jaxlib", "jax-cuda12-plugin", "jax-cuda13-plugin", "flax", "optax", "grain",
    "tensorflow", "keras", "nvidia-cudnn-cu12", "nvidia-cudnn-cu13", "nvidia-ml-py", "pytest", "pytest-benchmark",
    "pandas", "matplotlib", "scipy", "pyarrow", "psutil",
)  # fmt: skip

#: What is asked of a framework while it has the device to itself.
ALONE = ("installation", *(f"precision-{name}" for name in PROBED), "fence")

_REPORT = pytest.StashKey[Report]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "cuda: needs a CUDA device")


@pytest.hookimpl(trylast=True)  # after what shuffles
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what lies here, skip it where there is nothing to run it on, and put the whole run last."""
    items.sort(key=lambda item: "whole_run" in getattr(item, "fixturenames", ()))
    mine = [item for item in items if FOLDER in item.path.parents]
    reason = _why_not() if mine else ""
    for item in mine:
        item.add_marker(pytest.mark.cuda)
        # The driver's binding and plugins of that machine may warn; what is ours is tested with errors elsewhere.
        item.add_marker(pytest.mark.filterwarnings("default"))
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))


def _why_not() -> str:
    if REHEARSAL not in ("", "cpu"):
        raise pytest.UsageError(f"SUITE_CUDA_REHEARSE is {REHEARSAL!r}; it can be cpu")
    if REHEARSAL or has_gpu():
        return ""
    return "needs a CUDA device, and this machine shows none; SUITE_CUDA_REHEARSE=cpu tries the tests without"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note how each test ended, as soon as it has."""
    found = yield
    report = item.config.stash.get(_REPORT, None)
    if report and (found.when == "call" or not found.passed):
        reason = "" if found.passed else str(call.excinfo and call.excinfo.value)[:4000]
        report.note_test(item.nodeid, found.outcome, reason, found.duration)
        if call.excinfo and isinstance(call.excinfo.value, NotRunError):
            report.not_run[item.nodeid] = reason
    return found


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a session that ran too little, so that nobody takes it for a test of this machine."""
    report = session.config.stash.get(_REPORT, None)
    if report and report.too_little() and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    report = config.stash.get(_REPORT, None)
    if report and (reason := report.too_little()):
        terminalreporter.write_line(reason, red=True)


@pytest.fixture(scope="session")
def report(request: pytest.FixtureRequest) -> Report:
    """The session's report; it is begun by the first test that is not skipped."""
    path = Path(os.environ.get("SUITE_CUDA_REPORT") or "cuda-report.json").absolute()
    made = Report(path, rehearsal=bool(REHEARSAL), device=DEVICE, budget_s=_budget_s())
    made.told |= {"environment": describe(DISTRIBUTIONS), **_devices()}
    request.config.stash[_REPORT] = made
    return made


@pytest.fixture(scope="session")
def figures(report: Report) -> dict[str, Any]:
    """What tests found, by name; all of it goes into the report, whether the test passes or fails."""
    return report.figures


@pytest.fixture(scope="session")
def gpu(report: Report) -> Iterator[Gpu]:
    """The first visible GPU as NVML shows it, in a rehearsal a stand-in; skips where NVML shows none."""
    try:
        with open_nvml(Card() if REHEARSAL else None) as (_, gpus):
            if not gpus:
                pytest.skip("NVML shows no GPU that CUDA sees")
            yield gpus[0]
    except NvmlError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The cache folders of both data sets: real where `SUITE_DATA_DIR` is set, else small synthetic twins."""
    folder = tmp_path_factory.mktemp("data")
    if data_directory():
        return {name: prepare(name, "real", cache=folder, fetch=False) for name in synthetic.TWINS}
    return {name: cache.write(synthetic.generate(name, TRAIN, TEST), folder) for name in synthetic.TWINS}


@pytest.fixture(scope="session")
def launches(
    request: pytest.FixtureRequest, report: Report, data: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Launches]:
    """All launches of the session. Those of the cells that the chosen tests name begin at once, together."""
    made = Launches(report, tmp_path_factory.mktemp("launches"), data, _budget_s())
    chosen = [item for item in request.session.items if FOLDER in item.path.parents]
    background.begin(made, chosen)
    made.begin(sorted(_cells(chosen), key=cost))
    yield made
    made.close()
    report.write()


@pytest.fixture
def launched(launches: Launches) -> Launched:
    """The record of a cell that ended well; skips what is unsupported, fails for all else."""

    def of(cell: Cell) -> Record:
        record = launches.of(cell)
        if record.outcome.status == "unsupported":
            pytest.skip(record.outcome.reason)
        assert record.outcome.ok, "\n".join([f"{record.outcome.status}: {record.outcome.reason}", *record.log])
        return record

    return of


@pytest.fixture
def alike(launches: Launches) -> Alike:
    """The records that have a fingerprint, by the cell's id; skips with fewer than two."""

    def of(cells: Sequence[Cell]) -> dict[str, Record]:
        found, others, kind = {}, [], pytest.skip.Exception
        for cell in cells:
            try:
                record = launches.of(cell)
            except pytest.skip.Exception as reason:
                others.append(str(reason))
                kind = max(kind, type(reason), key=lambda each: each is NotRunError)
                continue
            if record.identity:
                found[cell.id] = record
            else:
                others.append(f"{cell.id}: {record.outcome.status}: {record.outcome.reason}")
        if len(found) < 2:
            raise kind(f"{len(found)} of {len(cells)} computed: {'; '.join(others)}")
        return found

    return of


@pytest.fixture
def probed(launches: Launches) -> Probed:
    """What a check of `tests.cuda.probe_device` found for a framework; skips what is unsupported, fails for errors."""

    def of(framework: str, check: str) -> dict[str, Any]:
        rest = {"checks": ALONE, "batch": BATCH, "size": SIZE}
        answer = launches.asked_alone(framework, "probe_device", **rest)[check]
        if "unsupported" in answer:
            pytest.skip(answer["unsupported"])
        assert "error" not in answer, answer["error"]
        found: dict[str, Any] = answer["found"]
        return found

    return of


def _devices() -> dict[str, Any]:
    """Driver, and the GPUs with name, compute capability, readings, and the readings that they do not give."""
    try:
        with open_nvml() as (driver, gpus):
            read = [(one.describe(), one.read(), one.absent) for one in gpus]
            return {"driver": vars(driver), "gpus": [told | {"reads": now, "absent": no} for told, now, no in read]}
    except NvmlError as error:
        return {"driver": None, "gpus": str(error)}


def _cells(items: Sequence[pytest.Item]) -> dict[Cell, None]:
    """Every cell that a test is parametrised with, once."""
    found: dict[Cell, None] = {}
    for item in items:
        values = getattr(getattr(item, "callspec", None), "params", {}).values()
        for value in values:
            found |= dict.fromkeys(
                one for one in (value if isinstance(value, tuple) else (value,)) if type(one) is Cell
            )
    return found


def _budget_s() -> float:
    return float(os.environ.get("SUITE_CUDA_BUDGET_S") or BUDGET_S)
