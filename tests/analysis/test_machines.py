"""Two runs are from one machine if their records say so, and not because their processors have one name."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest

from suite.analysis.records.load import load
from suite.analysis.records.machines import (
    DIFFERENT,
    PEAK_ALONE,
    PEAK_OF_EQUALS,
    SAME,
    UNKNOWN,
    Machine,
    Machines,
    compare,
    distinguish,
    identify,
)
from suite.record.record import Record
from tests import records
from tests.published import RUNS
from tests.records import replace
from tests.shown import grouped

#: What records held before they described the processor.
PLAIN = {"cpu": "AMD EPYC", "cores": 2, "memory_bytes": 25276502016, "gpus": []}
WHOLE = records.MACHINE | PLAIN
PEAKS = {"pytorch": 200e9, "jax": 210e9}


def ran(machine: dict[str, Any] | None, peaks: dict[str, float] | None = None, run: str = "a") -> list[Record]:
    """Launches on this machine, each framework with its peak in FLOP/s where it has one."""
    return [
        replace(
            records.record(framework, n, run=run),
            environment={"machine": machine} if machine is not None else {},
            settings={"device": "cpu"} | ({"peak_flops_per_s": peaks[framework]} if peaks else {}),
        )
        for framework in PEAKS
        for n in range(2)
    ]


def times(ratio: float) -> dict[str, float]:
    """The peaks of a machine on which one framework is so many times as fast."""
    return PEAKS | {"jax": PEAKS["jax"] * ratio}


def likeness(one: list[Record], other: list[Record]) -> str:
    there, back = compare(identify(one), identify(other)), compare(identify(other), identify(one))
    assert there[0] == back[0]
    assert (there[0] == SAME) == (there[1] == "")
    return there[0]


@pytest.mark.parametrize(
    "change",
    [
        {"vendor": "GenuineIntel"}, {"family": 26}, {"model": 17}, {"stepping": 2}, {"simd": "avx512"},
        {"instructions": "ba9876543210"}, {"caches": {"L3": 2**24}}, {"threads_per_core": 2}, {"hypervisor": ""},
        {"memory_bytes": 2**34}, {"cores": 4}, {"cpu": "AMD EPYC 7R13"}, {"gpus": ["NVIDIA H100"]},
    ],
)  # fmt: skip
def test_a_machine_differs_in_any_fact(change: dict[str, Any]) -> None:
    assert likeness(ran(WHOLE), ran(WHOLE)) == SAME, "which needs no peak"
    assert likeness(ran(WHOLE, PEAKS), ran(WHOLE | change, PEAKS)) == DIFFERENT


def test_a_kernel_that_keeps_more_memory_to_itself_is_on_no_other_machine() -> None:
    assert likeness(ran(WHOLE), ran(WHOLE | {"memory_bytes": 25276063744 - 2**29})) == SAME


def test_equal_processors_may_have_a_noisy_hour_but_not_half_the_speed() -> None:
    assert likeness(ran(WHOLE, PEAKS), ran(WHOLE, times(1 / 1.5))) == SAME
    assert PEAK_OF_EQUALS < 2
    assert likeness(ran(WHOLE, PEAKS), ran(WHOLE, times(0.5))) == DIFFERENT


@pytest.mark.parametrize(("one", "other"), [(PLAIN, PLAIN), (PLAIN, WHOLE)])
def test_without_facts_on_both_sides_the_peak_decides(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert likeness(ran(one, PEAKS), ran(other, times(0.99 * PEAK_ALONE))) == SAME
    assert likeness(ran(one, PEAKS), ran(other, times(1.01 * PEAK_ALONE))) == DIFFERENT
    assert likeness(ran(one, PEAKS), ran(other)) == UNKNOWN
    assert likeness(ran(one, {"pytorch": 2e11, "jax": 2e11})[:2], ran(other, PEAKS)[2:]) == UNKNOWN, "no peak in common"


@pytest.mark.parametrize("machine", [None, {}, {"cpu": None, "caches": {"L1": "x"}, "family": [1]}])
def test_what_names_nothing_is_not_known(machine: dict[str, Any] | None) -> None:
    assert likeness(ran(machine), ran(machine)) == UNKNOWN


def names(*runs: list[Record]) -> list[str]:
    """The names of machines of these runs where they meet."""
    pairs = [(str(n), record) for n, run in enumerate(runs) for record in run]
    machines = Machines(pairs)
    return list(dict.fromkeys(machines.name(*pair) for pair in pairs))


def test_names_say_what_differs_where_machines_of_one_name_meet() -> None:
    newer = WHOLE | {"family": 26, "model": 2}
    assert names(ran(WHOLE), ran(WHOLE)) == ["AMD EPYC, 2 cores"]
    assert names(ran(WHOLE), ran(newer), ran(records.MACHINE)) == [
        "AMD EPYC (family 25, model 1), 2 cores", "AMD EPYC (family 26, model 2), 2 cores", "Example CPU 3000, 8 cores",
    ]  # fmt: skip
    assert names(ran(PLAIN, PEAKS), ran(PLAIN, times(2)), ran(PLAIN, {"pytorch": 52e9, "jax": 50e9})) == [
        "AMD EPYC (200 GFLOP/s, 210 GFLOP/s), 2 cores", "AMD EPYC (200 GFLOP/s, 420 GFLOP/s), 2 cores",
        "AMD EPYC (52 GFLOP/s), 2 cores",
    ]  # fmt: skip
    assert len(set(names(ran(PLAIN), ran(PLAIN), ran(WHOLE), ran(newer)))) == 4
    assert names(ran(WHOLE | {"gpus": ["X"]}), ran(newer | {"gpus": ["X"]}))[1].endswith("model 2), 2 cores; X")


def test_a_run_that_a_newer_version_resumed_is_from_one_machine() -> None:
    resumed = [*ran(PLAIN, PEAKS)[:2], *ran(WHOLE, PEAKS)[2:]]
    assert names(resumed) == ["AMD EPYC, 2 cores"]
    assert names(resumed, ran(WHOLE, PEAKS)) == ["AMD EPYC, 2 cores"]


def test_rows_of_two_machines_get_no_ratio_and_names_of_their_own() -> None:
    held = [*ran(WHOLE), *ran(WHOLE | {"model": 17}, run="b")]
    found = grouped(held, "machine", across=True)
    assert {row.machine for row in found.rows} == {
        "AMD EPYC (family 25, model 1), 2 cores", "AMD EPYC (family 25, model 17), 2 cores",
    }  # fmt: skip


@pytest.fixture(scope="module")
def published() -> dict[str, Machine]:
    found = {name[:4]: load([path]).launches for name, path in RUNS.items()}
    return {name: identify([each.record for each in launches], launches[0].run) for name, launches in found.items()}


#: Published runs by the machine that they were measured on, as far as their peaks say.
XEON, EPYC = {"0006", "0009", "0025", "0030"}, {"0011", "0017", "0023", "0032", "0033"}


def test_published_runs_of_one_machine_match_and_others_of_its_name_do_not(published: dict[str, Machine]) -> None:
    for one, other in combinations(sorted(published), 2):
        alike = any({one, other} <= machine for machine in (XEON, EPYC))
        if {one, other} <= {*XEON, *EPYC, "0005", "0027", "0029"}:
            assert (compare(published[one], published[other])[0] == SAME) == alike, (one, other)
    labels = distinguish(published.values())
    assert len({published[name].name(labels[published[name]]) for name in EPYC | {"0027", "0029"}}) == 3
