"""The one benchmark: launches a cell and passes its measured step times to pytest-benchmark."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from suite.record.record import SKIPPED, Record
from suite.record.text import clean, make_printable

if "suite.plugin" not in sys.modules:
    pytest.exit("the suite's plugin is not loaded: unset PYTEST_DISABLE_PLUGIN_AUTOLOAD, or add -p suite.plugin", 4)


class Clock:
    """A clock in seconds that each round of a benchmark advances by a step time measured elsewhere."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def advance(self, seconds: float) -> None:
        self.now_s += seconds


CLOCK = Clock()


@pytest.mark.benchmark(timer=CLOCK)
def test_training(launch: Callable[[], Record], request: pytest.FixtureRequest) -> None:
    record = launch()
    reason = f"{record.outcome.status}: {clean(record.outcome.reason)}"
    if record.outcome.status in SKIPPED:
        pytest.skip(reason)
    if not record.outcome.ok:
        pytest.fail("\n".join([reason, *map(make_printable, record.log)]), pytrace=False)
    # Requested only now: a benchmark that fails inside its fixture would take the whole file with it.
    benchmark = request.getfixturevalue("benchmark")
    benchmark.group = record.cell.workload
    benchmark.extra_info["record"] = record.to_json()
    times = record.phases["train"].step_times_s
    remaining = iter(times)
    benchmark.pedantic(lambda: CLOCK.advance(next(remaining)), rounds=len(times))
