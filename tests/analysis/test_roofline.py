"""The arithmetic of the roofline, on figures that can be checked by hand."""

from __future__ import annotations

import math

import pytest

from suite.analysis.bottlenecks.roofline import COMPUTE, MEMORY, NEITHER, STEP, Roof, RooflinePart, roofline
from suite.analysis.rows.metrics import peaks, utilisation
from suite.plan.cell import SIZES
from suite.record.parts.profile import Share
from tests import records
from tests.profiles import profile, profiled
from tests.records import replace
from tests.shown import grouped
from workloads.spec import WORKLOADS, specification

ROOF = Roof(1e12, 1e10)  # they meet at 100 FLOP per byte


@pytest.mark.parametrize(
    ("flops", "seconds", "moved", "share", "bound"),
    [
        (1e9, 2e-3, 1e6, 0.5, COMPUTE),  # 1,000 FLOP per byte, 500 of 1,000 GFLOP/s
        (1e9, 0.02, 1e8, 0.5, MEMORY),  # 10 FLOP per byte: 50 of 100 GFLOP/s
        (1e9, 0.2, 1e8, 0.05, NEITHER),
        (1e9, 1e-3, 1e7, 1.0, COMPUTE),  # on the ridge
    ],
)
def test_a_part_is_as_near_to_its_roof_as_computed_by_hand(
    flops: float, seconds: float, moved: float, share: float, bound: str
) -> None:
    part = RooflinePart("matrix products", flops, seconds, moved)
    assert part.share(ROOF) == pytest.approx(share)
    assert part.bound(ROOF) == bound
    assert pytest.approx(100) == ROOF.ridge


def test_without_bytes_there_is_a_rate_and_no_share() -> None:
    part = RooflinePart("matrix products", 1e9, 0.01, None)
    assert part.flops_per_s == pytest.approx(1e11)
    assert part.share(ROOF) is None
    assert part.bound(ROOF) == ""


def test_the_flops_are_the_spec_s_split_into_thirds() -> None:
    (placed,) = roofline(grouped([profiled(records.record("pytorch"))]))
    flops = {part.name: part.flops for part in placed.parts}
    assert flops["convolution forward"] == 32 * 950_000_000
    assert len({flops[f"convolution {name}"] for name in ("forward", "input gradient", "weight gradient")}) == 1
    assert flops["matrix products"] == 3 * 32 * 50_000_000
    assert math.fsum(value for name, value in flops.items() if name != STEP) == flops[STEP] == 3 * 32 * 10**9


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("workload", WORKLOADS)
def test_the_kinds_of_a_spec_add_up_to_its_flops(workload: str, size: str) -> None:
    spec = specification(workload, size)
    assert sum(spec.flops_by_kind.values()) == spec.flops_per_sample
    assert spec.flops_by_kind.keys() <= {"convolution", "matrix product", "recurrence"}


def test_a_recurrence_counts_with_products_and_kernels_whichever_a_framework_uses() -> None:
    flops = {"recurrence": 3_000_000, "matrix product": 1_000_000}
    for shares in ({"recurrent kernel": 1.0}, {"matrix product": 0.5, "element-wise": 0.5}):
        made = profiled(records.record("pytorch", workload="imdb_lstm"), shares)
        made = replace(made, workload=made.workload | {"flops_by_kind": flops})
        (placed,) = roofline(grouped([made]))
        assert {part.name: part.flops for part in placed.parts}["matrix products"] == 3 * 32 * 4_000_000


def test_the_highest_measured_peak_is_the_roof_of_all() -> None:
    held = [profiled(records.record(name)) for name in ("pytorch", "jax")]
    held[1] = replace(held[1], settings=held[1].settings | {"peak_bytes_per_s": 5e10, "peak_flops_per_s": 1e12})
    assert {each.roof for each in roofline(grouped(held))} == {Roof(5e12, 5e10)}


def test_a_profile_of_one_process_of_several_lies_under_its_share_of_the_peaks() -> None:
    held = [profiled(records.record("pytorch")), profiled(records.record("pytorch", devices=2))]
    together = {"peak_flops_per_s": 8e12, "peak_bytes_per_s": 3e10}
    held[1] = replace(held[1], settings=held[1].settings | together)
    one, two = roofline(grouped(held))
    assert (one.roof, two.roof) == (Roof(5e12, 2e10), Roof(4e12, 1.5e10))


def test_flops_utilisation_is_of_the_peak_of_all_devices_together() -> None:
    found = grouped([profiled(records.record("pytorch", devices=2))])
    (row,), rate = found.rows, found.rows[0].ok[0].samples_per_s
    assert utilisation(row, peaks(found)) == pytest.approx(3e9 * (rate or 0) / 5e12)


@pytest.mark.parametrize(
    "settings",
    [{}, {"peak_flops_per_s": 1e12}, {"peak_flops_per_s": 1e12, "peak_bytes_per_s": "fast"},
     {"peak_flops_per_s": 0, "peak_bytes_per_s": 0}, {"peak_flops_per_s": -1, "peak_bytes_per_s": 1e10}],
)  # fmt: skip
def test_without_both_peaks_there_is_no_roofline(settings: dict[str, object]) -> None:
    assert roofline(grouped([replace(profiled(records.record("pytorch")), settings=settings)])) == []


@pytest.mark.parametrize("stated", [None, [], {"convolution": "many"}, {"convolution": -1}, {"other": 5}])
def test_a_workload_that_does_not_say_its_kinds_has_its_whole_step_only(stated: object) -> None:
    made = profiled(records.record("pytorch"))
    made = replace(made, workload=made.workload | {"flops_by_kind": stated})
    (placed,) = roofline(grouped([made]))
    assert [part.name for part in placed.parts] == [STEP]


def test_bytes_that_are_mostly_unknown_are_not_a_part_s_bytes() -> None:
    made = profiled(records.record("pytorch"), {"matrix product": 0.3, "recurrent kernel": 0.7})
    assert made.profile
    shares = made.profile.categories | {
        "recurrent kernel": Share(made.profile.categories["recurrent kernel"].seconds, 1)
    }
    made = replace(made, profile=replace(made.profile, categories=shares))
    (placed,) = roofline(grouped([made]))
    assert {part.name: part.bytes for part in placed.parts} == {"matrix products": None, STEP: None}


def test_a_framework_s_own_count_is_shown_relative_to_the_spec() -> None:
    made = profiled(records.record("pytorch"))
    assert made.profile
    made = replace(made, profile=replace(made.profile, counted_flops=0.9 * 3 * 32e9))
    (placed,) = roofline(grouped([made]))
    assert placed.counted == pytest.approx(0.9)


def test_bandwidth_is_that_of_what_computes_no_flops() -> None:
    made = replace(profiled(records.record("pytorch")), profile=profile({"optimizer": 0.01, "matrix product": 0.01}))
    (placed,) = roofline(grouped([made]))
    assert placed.bandwidth == {"optimizer": pytest.approx(8e9 / 2e10)}
