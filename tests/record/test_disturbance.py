"""Which launches were disturbed, by what their records hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from suite.analysis.records.reader import Place, keep_shown
from suite.record import chain
from suite.record.disturbance import NAMES_MOST, find_disturbances, has_readings, is_disturbed
from suite.record.record import Record
from suite.submit.privacy import public
from tests import records

Readings = Mapping[str, Any]

#: Launches of the main command on a shared virtual machine of two cores, measured on 2026-11-27: their flags, and the
#: median of the background load while they trained, in cores.
NOISY: dict[str, tuple[tuple[str, ...], float, bool]] = {
    "PyTorch's first CNN": (("unsteady", "contaminated"), 0.999697, True),
    "JAX's first LSTM": (("contaminated",), 0.999724, True),
    "TensorFlow's first LSTM": (("unsteady", "contaminated"), 0.979621, True),
    "TensorFlow's first CNN": ((), 0.0399864, False),
    "JAX's second CNN, contaminated in another phase": (("contaminated",), 0.0299896, False),
    "JAX's third CNN": (("unsteady",), 0.0399792, False),
}


def read(disturbance: Any = None, flags: tuple[str, ...] = (), **host: Any) -> Record:
    """A record with these readings of the host."""
    host |= {} if disturbance is None else {"disturbance": disturbance}
    return replace(records.record("jax", 0), metrics={"host": host}, flags=flags)


@pytest.mark.parametrize(
    ("readings", "flags", "causes"),
    [
        ({}, (), []),
        ({"others_share": 0.25, "steal_share": 0.04, "throttled_share": 0.0}, ("contaminated",), []),
        ({"others_share": 0.3}, ("contaminated",), []),
        ({"others_share": 0.3001}, (), ["30 %"]),
        # Half a core of two, as an ordinary machine has it, with little steal.
        ({"others_share": 0.25, "steal_share": 0.05}, (), []),
        ({"others_share": 0.25, "steal_share": 0.06}, (), ["25 %"]),
        ({"others_share": 0.15, "steal_share": 0.2, "throttled_share": 0.12}, (), ["20 %", "15 %", "12 %"]),
        ({"steal_share": 0.35}, (), ["35 %"]),
        ({"throttled_share": 0.4}, (), ["40 %"]),
        ({"others_share": 0.09, "steal_share": 0.09, "throttled_share": 0.09}, (), []),
        ({"io_full_share": 0.1, "memory_full_share": 0.1}, (), []),
        ({"io_full_share": 0.2, "memory_full_share": 0.15}, (), ["20 %", "15 %"]),
        ({"io_some_share": 0.9}, (), []),
        ({}, ("throttled",), [""]),
        ({}, ("unsteady", "clock-drift", "gpu-shared"), ["", ""]),
        ({}, ("power-capped", "unsteady", "contaminated"), []),
        ({"others_share": 0.5}, ("throttled",), ["50 %", ""]),
    ],
)
def test_each_reading_counts_from_its_bound_on(readings: Readings, flags: tuple[str, ...], causes: list[str]) -> None:
    found = find_disturbances(read(readings, flags))
    assert len(found) == len(causes), found
    assert all(cause in words for cause, words in zip(causes, found, strict=True)), found
    assert is_disturbed(read(readings, flags)) == bool(causes)


@pytest.mark.parametrize("launch", NOISY)
def test_a_record_without_readings_is_judged_by_its_background_load(launch: str) -> None:
    flags, median, disturbed = NOISY[launch]
    record = read(flags=flags, cores=2, phases={"train": {"other_cpu_cores": {"median": median}}})
    assert is_disturbed(record) == disturbed
    assert not has_readings(record)
    assert not is_disturbed(replace(record, flags=())), "without a remark of the monitor nothing is concluded"
    assert not is_disturbed(replace(record, metrics={}))
    assert not is_disturbed(replace(record, metrics={"host": 1}))


def test_processes_are_named_in_a_few_clean_words() -> None:
    names = ["python3", "dd\x1b[31m", 7, "x" * 99, "fourth"]
    (words,) = find_disturbances(read({"others_share": 0.5, "processes": names}))
    assert "(python3, dd" in words
    assert not any(odd in words for odd in ("fourth", "\x1b"))
    assert len(words) < 100
    assert words.count(",") <= NAMES_MOST - 1
    for names in ("python3", None, {"a": 1}, [[1]]):
        assert "(" not in find_disturbances(read({"others_share": 0.5, "processes": names}))[0]


@pytest.mark.parametrize(
    "host", [[], 1, {"disturbance": []}, {"disturbance": {"others_share": "1", "io_full_share": []}}]
)
def test_what_no_monitor_wrote_disturbs_nothing(host: Any) -> None:
    assert find_disturbances(replace(records.record("jax", 0), metrics={"host": host})) == ()


def test_a_comparison_keeps_the_readings_and_a_bundle_leaves_out_the_names() -> None:
    record = read({"others_share": 0.5, "processes": ["a-program"]}, cores=2)
    kept = replace(record, metrics=keep_shown(record.metrics, Place(Path(), 0, 0, 0)))
    assert find_disturbances(kept) == find_disturbances(record)
    line = record.to_json()
    bundled = public(line, str)
    assert "a-program" not in str(bundled)
    assert chain.digest(bundled) == chain.digest(line)
    assert is_disturbed(Record.from_json(bundled))
    assert "a-program" in str(line)
