"""Energy and timelines: what the parent process saw, from records whose answers are known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from suite.analysis.rows.metrics import trace
from suite.record.record import Record
from suite.report.format.text import round_up
from suite.report.plots.kinds.scatter import energy
from suite.report.plots.kinds.timeline import timeline
from suite.report.tables.curves import consumptions, unbeaten
from tests import records
from tests.drawn import said, traces
from tests.records import only, timed, watched


def test_the_front_holds_what_no_other_cell_beats() -> None:
    points = [(100.0, 2.0), (200.0, 3.0), (150.0, 3.0), (90.0, 2.5), (50.0, 1.0)]
    assert [unbeaten(point, points) for point in points] == [True, True, False, False, True]
    assert all(unbeaten(point, [(1.0, 1.0), (1.0, 1.0)]) for point in [(1.0, 1.0)]), "equal cells beat no one"


def consuming(joules: object, step_s: float, **changes: Any) -> Record:
    return timed(step_s, metrics={"gpus": [{"energy_j_per_sample": joules}]}, **changes)


def test_energy_is_the_median_over_launches() -> None:
    held = [consuming(joules, 0.1, launch=block) for block, joules in enumerate((3.0, 1.0, 2.0))]
    held += [consuming(4.0, 0.2, precision="bf16"), timed(0.1, precision="fp16")]
    found = consumptions(only(held))
    assert [(each.samples_per_s, each.joules, each.on_front) for each in found] == [
        (pytest.approx(320), 2.0, True),
        (pytest.approx(160), 4.0, False),
    ]


def test_a_cell_with_another_fingerprint_is_not_on_the_front_and_beats_nobody() -> None:
    held = [replace(r, metrics={"gpus": [{"energy_j_per_sample": 1.0}]}) for r in records.launches(n=1)]
    assert [each.on_front for each in consumptions(only(held))] == [False, True, False]
    assert held[1].identity
    held[1] = replace(held[1], identity=replace(held[1].identity, weights="other"))
    assert [each.on_front for each in consumptions(only(held))] == [True, False, False]


@pytest.mark.parametrize("joules", [None, "1", True, 0, -1.0, 10**400])
def test_what_is_no_energy_is_not_drawn(joules: object) -> None:
    assert consumptions(only([consuming(joules, 0.1)])) == []
    assert energy(only([consuming(joules, 0.1)])) is None


def test_marks_that_lie_near_each_other_share_a_label() -> None:
    places = [(1.0, 0.100), (1.01, 0.101), (1.02, 0.102), (5.0, 0.2)]
    held = [consuming(joules, step, threads=at) for at, (joules, step) in enumerate(places, 1)]
    (numbers,) = traces(energy(only(held)), "words")
    assert numbers.text == ["1\u20133", "4"]


# Timelines


def test_the_timeline_is_that_of_the_median_launch() -> None:
    held = [watched(timed(step, launch=block)) for block, step in enumerate((0.3, 0.1, 0.2, 0.4))]
    (row,) = only(held).group.rows
    found = trace(row)
    assert found
    assert found.block == 0, "of four the slower of the middle two"
    assert set(found.lines) == {
        "cpu_cores", "rss_bytes",
        "gpu_utilisation_percent", "gpm_sm_utilisation_percent", "power_w", "memory_used_bytes",
    }  # fmt: skip
    assert found.lines["cpu_cores"].values[:2] == (None, 1.0)
    assert found.lines["power_w"].highest == 480
    assert found.spans == {"train": ((5.0, pytest.approx(8.003)),)}
    assert found.end_s == 29.5


@pytest.mark.parametrize(
    "seen",
    [
        None, [], {"at_s": [0, 1], "values": []}, {"at_s": [0, 1], "values": {"cpu_cores": [1]}},
        {"at_s": ["0", 1], "values": {"cpu_cores": [1, 2]}}, {"at_s": [1, 0], "values": {"cpu_cores": [1, 2]}},
        {"at_s": [0, 1], "values": {"cpu_cores": [None, "2"]}}, {"at_s": [0, 1], "values": {"cpu_cores": [None, 2.0]}},
    ],
)  # fmt: skip
def test_a_timeline_that_is_none_is_passed_over(seen: object) -> None:
    held = timed(0.1, metrics={"host": {"timeline": seen}, "gpus": [None]})
    assert trace(only([held]).group.rows[0]) is None
    assert timeline(only([held])) is None


def test_a_timeline_of_a_gpu_says_what_utilisation_means_and_one_of_a_cpu_needs_not() -> None:
    words = said(timeline(only([watched(r) for r in records.launches(n=1)])))
    for expected in ("share of time with any kernel running", "GPU power", "0 to 500 W", "training windows"):
        assert expected in words
    words = said(timeline(only([watched(r, gpu=False) for r in records.launches(n=1)])))
    assert "GPU" not in words
    assert "CPU of the worker" in words


def test_scales_end_on_round_numbers() -> None:
    values = [0.0, 0.021, 1.0, 1.4, 2.1, 9.9, 480.0, 1000.0]
    assert [round_up(value) for value in values] == pytest.approx([1.0, 0.03, 1.0, 1.5, 3.0, 10.0, 500.0, 1000.0])
