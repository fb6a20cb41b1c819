"""Scaling over devices: which rows form one, its ratios and tests, and what communication costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from suite.analysis.bottlenecks.bottleneck import UNDECIDED, advice, bottleneck
from suite.analysis.identity.verdicts import verdicts
from suite.analysis.statistics.fastest import find_best
from suite.analysis.statistics.multiple_testing import ratios
from suite.analysis.statistics.scaling import (
    STRONG,
    WEAK,
    Scaling,
    communication,
    exchange,
    is_communication_bound,
    scalings,
    threads_per_device,
)
from suite.record.record import Record
from tests import records
from tests.analysis.test_axes import along
from tests.analysis.test_identity import kinds
from tests.analysis.test_identity import scaled as off_by
from tests.shown import grouped

#: Small differences from block to block.
NOISE = (0.0, 0.002, -0.001, 0.001, -0.002, 0.0015)


def steps(framework: str, step_s: float, n: int = 6, local: float = 0.9, **changes: Any) -> list[Record]:
    """Launches whose steps take so long; those of several devices without communication ``local`` times as long."""
    shares = {"compute": 0.99, "input": 0.1} | ({"local": 0.99 * local} if changes.get("devices", 1) > 1 else {})
    turn = changes.get("devices", 1)
    found = []
    for block in range(n):
        own = step_s * (1 + NOISE[(block * turn) % 6])
        # The share that communication costs scatters too, or every interval would be a point.
        times = {name: own * share * (1 + NOISE[(block + 1) % 6] * (name == "local")) for name, share in shares.items()}
        phases = {f"{name}_s": seconds for name, seconds in times.items()}
        found.append(records.timed(own, framework, block, **phases, **changes))
    return found


def scaled(held: Sequence[Record]) -> list[Scaling]:
    made = grouped(held)
    return scalings(made, verdicts({row.key: row.ok for row in made.rows}))


def batches(scaling: Scaling) -> list[tuple[int, int, int]]:
    return [(point.row.cell.batch, point.devices, point.global_batch) for point in scaling.points]


def test_weak_scaling_keeps_the_batch_of_each_device_and_strong_scaling_the_global_one() -> None:
    held = [*steps("pytorch", 0.1), *steps("pytorch", 0.2, batch=64), *steps("pytorch", 0.11, devices=2)]
    weak, strong = scaled(held)
    assert (weak.kind, strong.kind) == (WEAK, STRONG)
    assert batches(weak) == [(32, 1, 32), (32, 2, 64)]
    assert batches(strong) == [(64, 1, 64), (32, 2, 64)]
    for found in (weak, strong):
        point = found.points[1]
        # Two devices take 0.11 s for 64 samples, one takes 0.1 s for 32 and 0.2 s for 64.
        assert point.speed_up.value == pytest.approx(2 * 0.1 / 0.11, rel=3e-3)
        assert point.efficiency.value == pytest.approx(0.1 / 0.11, rel=3e-3)
        assert (point.speed_up.verdict, point.efficiency.verdict) == ("faster", "slower")
        assert point.speed_up.alone_low is not None
        assert point.efficiency.alone_low == pytest.approx(point.speed_up.alone_low / 2)


def test_every_strategy_scales_from_the_one_device_that_has_none() -> None:
    held = [*steps("pytorch", 0.1), *steps("jax", 0.3)]
    held += [*steps("pytorch", 0.11, devices=2), *steps("pytorch", 0.13, devices=2, strategy="fsdp")]
    held += [*steps("pytorch", 0.12, devices=4), *steps("jax", 0.3, devices=2)]
    found = scaled(held)
    assert [(each.framework, each.strategy, [point.devices for point in each.points]) for each in found] == [
        ("pytorch", "ddp", [1, 2, 4]),
        ("pytorch", "fsdp", [1, 2]),
        ("jax", "shard-map", [1, 2]),
    ]
    assert found[0].base.row is found[1].base.row
    assert found[2].points[1].efficiency.verdict == "equal", "linear within the margin"


def test_without_one_device_the_fewest_take_its_place() -> None:
    (found,) = scaled([*steps("pytorch", 0.11, devices=2), *steps("pytorch", 0.12, devices=4)])
    assert found.base.devices == 2
    assert found.points[1].speed_up.value == pytest.approx(2 * 0.11 / 0.12, rel=1e-2)
    assert found.points[1].efficiency.value == pytest.approx(0.11 / 0.12, rel=1e-2)


def test_a_row_alone_another_precision_and_a_searched_batch_make_no_scaling() -> None:
    assert scaled(steps("pytorch", 0.1, devices=2)) == []
    assert scaled([*steps("pytorch", 0.1), *steps("pytorch", 0.1, devices=2, precision="bf16")]) == []
    both = [*steps("pytorch", 0.1), *steps("pytorch", 0.1, devices=2)]
    searched = [replace(each, cell=each.cell.but(batch=0), settings={"effective_batch": 64}) for each in both]
    assert scaled(searched) == []


def test_holms_list_holds_speed_ups_and_efficiencies_and_few_launches_have_no_test() -> None:
    (found,) = scaled([*steps("pytorch", 0.1), *steps("pytorch", 0.1, devices=2)])
    point = found.points[1]
    ps = sorted((point.speed_up, point.efficiency), key=lambda each: each.raw or 0.0)
    assert ps[0].p == pytest.approx(2 * (ps[0].raw or 0.0)), "two tests"
    (few,) = scaled([*steps("pytorch", 0.1, n=3), *steps("pytorch", 0.1, n=3, devices=2)])
    assert (few.points[1].speed_up.verdict, few.points[1].speed_up.blocks) == ("", 3)


def test_frameworks_are_compared_on_equally_many_devices_only() -> None:
    held = [*steps("pytorch", 0.1), *steps("pytorch", 0.1, devices=2), *steps("jax", 0.05, devices=2)]
    held += steps("pytorch", 0.2, devices=2, strategy="fsdp")
    made = grouped(held)
    found = ratios(made, "pytorch", verdicts({row.key: row.ok for row in made.rows}))
    by_cell = {cell.id.split("tuned-")[-1] + cell.framework: ratio for (_, cell), ratio in found.items()}
    assert by_cell["d2jax"].value == pytest.approx(2.0, rel=1e-2), "to DDP, PyTorch's usual strategy"
    assert by_cell["d2jax"].baseline.endswith("-d2")
    assert by_cell["d2-fsdppytorch"].value == pytest.approx(0.5, rel=1e-2)
    assert find_best(made, verdicts({row.key: row.ok for row in made.rows}), lambda r: r.samples_per_s, more=True) == {
        row.key for row in made.rows if row.cell.framework == "jax"
    }, "one device is no rival of two"


def test_along_devices_ratios_are_to_one_device_or_to_the_same_strategy() -> None:
    held = [*steps("pytorch", 0.1), *steps("pytorch", 0.1, devices=2), *steps("pytorch", 0.1, devices=4)]
    held += steps("pytorch", 0.1, devices=4, strategy="fsdp")
    made = grouped(held, "devices")
    proved = verdicts({row.key: row.ok for row in made.rows})
    to_one = [ratio.value for ratio in ratios(made, None, proved).values()]
    assert to_one == pytest.approx([1.0, 2.0, 4.0, 4.0], rel=1e-2)
    to_two = list(ratios(made, "2", proved).values())
    assert [ratio.value for ratio in to_two[1:3]] == pytest.approx([1.0, 2.0], rel=1e-2)
    assert "no cell of pytorch with devices 2" in to_two[3].reason, "FSDP ran on four devices only"


@pytest.mark.parametrize(
    ("local", "kind"),
    [(0.7, "communication-bound"), (0.999, "compute-bound"), (1 / 1.05, UNDECIDED)],
)
def test_a_row_is_communication_bound_where_the_interval_decides(local: float, kind: str) -> None:
    made = grouped([*steps("pytorch", 0.1), *steps("pytorch", 0.1, devices=2, local=local)])
    alone, several = made.rows
    assert communication(alone) is None
    found = communication(several)
    assert found is not None
    assert found.low is not None
    assert found.value == pytest.approx(1 - local, abs=5e-3)
    assert bottleneck(alone, made).kind == "compute-bound"
    limit = bottleneck(several, made)
    assert limit.kind == kind
    assert "communication costs" in limit.detail
    if kind == "communication-bound":
        assert "untried: another strategy, accumulating, larger batch" in advice(several, made, limit)


def test_one_launch_decides_nothing_and_loading_goes_first() -> None:
    (row,) = grouped(steps("pytorch", 0.1, n=1, devices=2, local=0.5)).rows
    found = communication(row)
    assert found is not None
    assert (is_communication_bound(found), found.low) == (None, None)
    slow = [replace(each, phases={**each.phases, "train": records.timed(0.5).phases["train"]})
            for each in steps("pytorch", 0.1, devices=2, local=0.5)]  # fmt: skip
    made = grouped(slow)
    assert bottleneck(made.rows[0], made).kind == "poor overlap"


def test_skew_bandwidth_and_threads_come_from_the_ranks() -> None:
    (row,) = grouped(steps("pytorch", 0.1, devices=2)).rows
    found = exchange(row)
    assert (found.skew, found.gradient_bytes, found.of_peak) == (1.02, 4e6, 0.4)
    assert threads_per_device(row) == "4"
    (shared,) = grouped(steps("jax", 0.1, devices=2, strategy="local")).rows
    assert threads_per_device(shared) == "4", "two devices of one process share its eight threads"
    (bound,) = grouped(steps("tensorflow", 0.1, settings={"device": "cpu", "threads": 0, "cores": 1})).rows
    assert threads_per_device(bound) == "1", "bound to one core by --cores"
    (bound,) = grouped(steps("jax", 0.1, settings={"device": "cpu", "cores": 1})).rows
    assert threads_per_device(bound) == "1"
    (alone,) = grouped(steps("pytorch", 0.1, settings={"device": "cpu", "threads": 8})).rows
    assert (threads_per_device(alone), exchange(alone).skew) == ("8", None)
    (card,) = grouped(steps("pytorch", 0.1, devices=2, settings={"device": "cuda"})).rows
    assert threads_per_device(card) == ""


def test_devices_that_normalise_apart_are_compared_with_as_many_devices_only() -> None:
    """And those that share their statistics with one device."""
    cells = {"workload": "cifar100_resnet18", "n": 1}
    one = records.launches(["pytorch"], **cells)
    apart = records.launches(["pytorch", "jax"], devices=2, **cells)
    assert kinds([*one, *(off_by(each, 1.5) for each in apart)]) == ["alone", "same", "same"]
    together = records.launches(["jax"], devices=2, strategy="jit", **cells)
    assert kinds([*one, off_by(together[0], 1.5)]) == ["differs", "differs"]


def test_batch_statistics_of_each_device_are_not_compared_with_those_of_the_whole_batch() -> None:
    cell: dict[str, Any] = {"workload": "cifar100_resnet18", "devices": 2}
    held = [*records.launches(["pytorch"], **cell), *records.launches(["jax"], strategy="jit", **cell)]
    (found,) = along("framework", held, "pytorch")
    assert "batch statistics of each device" in " ".join(found.frame["ratio_reason"])
    (found,) = along("framework", records.launches(["pytorch", "jax"], **cell), "pytorch")
    assert found.frame["ratio_reason"].tolist() == ["", ""]
