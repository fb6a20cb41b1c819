"""A release is read back from the framework itself, and what it lacks is a reason."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from suite.plan.cell import Cell
from suite.record.job import Job
from suite.worker.launch.applied import NotAppliedError, check_release
from suite.worker.launch.description import classify

CELL = Cell("imdb_lstm", "pytorch", release="2.13.0")


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("torch")
    monkeypatch.setitem(sys.modules, "torch", module)
    return module


def test_the_release_in_force_is_recorded(torch: ModuleType) -> None:
    vars(torch)["__version__"] = "2.13.0+cpu"
    assert check_release(CELL) == {"release": "2.13.0+cpu"}
    assert check_release(CELL.but(release="2.13")) == {"release": "2.13.0+cpu"}
    assert check_release(CELL.but(release="")) == {}


def test_another_release_than_the_one_asked_for_is_an_error(torch: ModuleType) -> None:
    vars(torch)["__version__"] = "2.13.1"
    with pytest.raises(NotAppliedError, match=r"asked for pytorch 2\.13\.0, but 2\.13\.1 is installed there") as caught:
        check_release(CELL)
    assert classify(caught.value, Job(CELL, ""), torch)[0] == "error"


def test_what_a_release_lacks_is_unsupported_with_the_reason(torch: ModuleType) -> None:
    with pytest.raises(AttributeError) as caught:
        _ = torch.compiler
    status, reason = classify(caught.value, Job(CELL, ""), None)
    assert status == "unsupported"
    assert reason == "pytorch 2.13.0 lacks what the suite needs (module 'torch' has no attribute 'compiler')"
    with pytest.raises(ImportError) as wrong:
        from torch import nothing  # noqa: F401
    assert classify(wrong.value, Job(CELL, ""), None)[0] == "unsupported"


def test_an_error_of_the_suite_or_without_a_release_stays_an_error(torch: ModuleType) -> None:
    with pytest.raises(AttributeError) as own:
        _ = CELL.nothing  # type: ignore[attr-defined]
    with pytest.raises(AttributeError) as lacking:
        _ = torch.compiler
    framework = ModuleType("adapter")
    framework.out_of_memory = lambda _: False  # type: ignore[attr-defined]
    assert classify(own.value, Job(CELL, ""), framework)[0] == "error"
    assert classify(lacking.value, Job(CELL.but(release=""), ""), framework)[0] == "error"
