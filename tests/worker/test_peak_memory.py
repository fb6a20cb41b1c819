"""The peak memory of a launch is its own, and not that of the process that started it."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

from suite.analysis.records.inherited import RSS, find_floors
from tests import records

ASK = "from suite.worker.launch.group import peak_rss; print(peak_rss())"


def test_the_peak_of_a_process_is_not_that_of_the_one_that_started_it() -> None:
    held = b"1" * (300 << 20)
    printed = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True, check=True).stdout
    assert 1 << 20 < int(printed) < len(held)


def test_a_lowest_peak_that_several_launches_share_is_left_out() -> None:
    every = records.launches(n=2)
    peaks = [100, 100, 100, 200, 200, 200]
    made = [("run", replace(each, memory={RSS: peak, "kept": 1})) for each, peak in zip(every, peaks, strict=True)]
    (floor,) = find_floors(made).values()
    assert (floor.peak, floor.launches) == (100, 3)
    assert [floor.leave_out(record).memory.get(RSS) for _, record in made] == [None, None, None, 200, 200, 200]
    assert all(floor.leave_out(record).memory["kept"] for _, record in made)
    assert not find_floors(made[1:])
