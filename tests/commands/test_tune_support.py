"""What a search finds out about the machine before its first launch."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from suite.monitor.gpu import NvmlError
from suite.plan.matrix import MatrixError
from suite.plan.objective import Question, objectives
from suite.tune import search
from suite.tune.search import find_unsupported, refuse_unmeasurable
from tests.tuning import cells

JOULES = Question(objectives("joules/sample"))


class Gpu:
    """A device with these readings."""

    def __init__(self, **readings: float) -> None:
        self.readings = readings

    def read(self) -> dict[str, float]:
        return self.readings


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def has(*gpus: Gpu, error: str = "") -> None:
        @contextlib.contextmanager
        def opened() -> Iterator[tuple[Any, list[Gpu]]]:
            if error:
                raise NvmlError(error)
            yield None, list(gpus)

        monkeypatch.setattr(search, "open_nvml", opened)

    return has


@pytest.mark.parametrize("reading", ["energy_j", "power_w"])
def test_a_gpu_that_reports_energy_or_power_measures_joules(machine: Callable[..., None], reading: str) -> None:
    machine(Gpu(**{reading: 1.0}))
    refuse_unmeasurable(JOULES, on_cpu=False)


def test_without_a_reading_joules_are_refused_with_the_reason(machine: Callable[..., None]) -> None:
    for gpus, error, words in (
        ([Gpu(sm_clock_mhz=1.0)], "", "the GPU tells neither energy nor power"),
        ([], "", "no GPU is visible"),
        ([], "no driver answers", "no driver answers"),
    ):
        machine(*gpus, error=error)
        with pytest.raises(MatrixError, match=f"joules/sample cannot be measured here: {words}; search for another"):
            refuse_unmeasurable(JOULES, on_cpu=False)


def test_what_needs_no_energy_is_measured_anywhere() -> None:
    refuse_unmeasurable(Question(objectives("memory")), on_cpu=True)


def test_frameworks_say_themselves_what_they_lack(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {
        "pytorch": {"precisions": {"fp32": "", "bf16": "needs a newer processor"}},
        "jax": {"lack": "no answer", "error": "gave no answer"},
    }
    monkeypatch.setattr("suite.doctor.probes.answer_of", lambda name, _: answers[name])
    lacking = find_unsupported(cells())
    assert {(cell.framework, cell.precision) for cell in lacking} == {("pytorch", "bf16")}
    assert set(lacking.values()) == {"unsupported: needs a newer processor"}
