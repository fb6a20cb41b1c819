"""Causes of a difference: what was planted in made profiles comes first, and sums and intervals are right."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from suite.analysis.bottlenecks.causes import RECURRENT, Causes, Costs, causes, costs
from suite.analysis.bottlenecks.known_causes import KNOWN
from suite.record.parts.profile import CATEGORIES, Gaps, Operation, Share
from suite.record.record import Record
from tests import records
from tests.documents import ROOT
from tests.profiles import CNN, profile
from tests.records import replace
from tests.shown import grouped

BASE = {name: share * 0.1 for name, share in CNN["pytorch"].items()}


def launches(
    seconds: Mapping[str, float], n: int = 6, noise: float = 0.01, framework: str = "pytorch", **changes: Any
) -> list[Record]:
    """Launches with a profile each; all its times scatter together, as on a machine that is slowed."""
    draw = random.Random(f"{framework} {sorted(seconds)} {changes}").random
    made = []
    for launch in range(n):
        factor = 1 + noise * (2 * draw() - 1)
        each = profile({name: factor * time for name, time in seconds.items()})
        timed = records.timed(each.timed_s, framework, launch, **changes)
        made.append(replace(timed, profile=each))
    return made


def cost(held: Sequence[Record]) -> Costs:
    one = grouped(held)
    (row,) = one.rows
    found = costs(row)
    assert found
    return found


def between(slower: Mapping[str, float], faster: Mapping[str, float], n: int = 6, **changes: Any) -> Causes:
    return causes(cost(launches(slower, n, framework="jax", **changes)), cost(launches(faster, n)))


PLANTED = {
    "a layout change before each convolution": ("copy and layout change", 0.030),
    "a sleep in the loader": ("input pipeline", 0.020),
    "an LSTM unrolled in Python": ("host and launch overhead", 0.090),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_cause_is_named_first(planted: str) -> None:
    category, seconds = PLANTED[planted]
    found = between(BASE | {category: BASE.get(category, 0.0) + seconds}, BASE)
    first = found.causes[0]
    assert first.category == category
    assert first.share == pytest.approx(1, abs=0.1)
    assert first.seconds - first.other_seconds == pytest.approx(seconds, rel=0.1)
    assert first.certain
    assert first.difference.low < seconds < first.difference.high


def test_causes_are_the_largest_first_and_end_where_most_is_named() -> None:
    slower = BASE | {"convolution weight gradient": 0.126, "element-wise": 0.024, "optimizer": 0.005, "idle": 0.0005}
    found = between(slower, BASE, noise=0)
    assert [cause.category for cause in found.causes] == ["convolution weight gradient", "element-wise"]
    assert found.named >= 0.9


def test_times_are_scaled_to_the_timed_step_and_then_explain_all_of_the_difference() -> None:
    held = launches(BASE | {"optimizer": 0.042, "idle": 0.01}, noise=0, framework="jax")
    # The profiled step took a fifth longer than the timed one.
    made = [replace(each.profile, timed_s=each.profile.timed_s / 1.2) for each in held if each.profile]
    found = cost([replace(each, profile=its) for each, its in zip(held, made, strict=True)])
    assert found.covered == pytest.approx(1.2)
    assert found.seconds["optimizer"] == pytest.approx(0.042 / 1.2)
    assert sum(found.seconds.values()) == pytest.approx(found.step_s)
    largest = found.largest("optimizer")
    assert largest
    assert largest.seconds == pytest.approx(0.042 / 1.2)
    first = causes(found, cost(launches(BASE, noise=0))).causes[0]
    assert first.category == "optimizer"
    assert first.share == pytest.approx((0.042 / 1.2 - 0.002) / (0.15 / 1.2 - 0.1))


def test_what_goes_the_other_way_is_named_apart() -> None:
    slower = BASE | {"convolution weight gradient": 0.126, "convolution forward": 0.01}
    found = between(slower, BASE, noise=0)
    assert [cause.category for cause in found.against] == ["convolution forward"]
    assert found.against[0].share < -0.1


def test_what_takes_longer_is_named_also_where_most_of_it_is_made_up_for() -> None:
    """A callback and a norm of gradients take as long as the faster convolutions save."""
    slower = BASE | {
        "convolution weight gradient": BASE["convolution weight gradient"] + 0.020, "convolution forward": 0.003,
        "host and launch overhead": 0.013, "reduction and pooling": BASE["reduction and pooling"] + 0.006,
    }  # fmt: skip
    found = between(slower, BASE, noise=0)
    names = [cause.category for cause in found.causes]
    assert names[0] == "convolution weight gradient"
    assert {"host and launch overhead", "reduction and pooling"} <= {*names}
    assert found.longer > 1
    assert 0.9 <= found.named <= 1


@pytest.mark.parametrize(("seconds", "named"), [(0.006, True), (0.002, False)])
def test_operations_that_no_rule_knows_are_named_from_a_twentieth_on(seconds: float, named: bool) -> None:
    found = between(
        BASE | {"optimizer": BASE["optimizer"] + 0.1, "other": BASE.get("other", 0.0) + seconds}, BASE, noise=0
    )
    assert [cause.category for cause in found.causes] == ["optimizer", *["other"][:named]]


def test_nothing_is_tested_with_few_launches() -> None:
    found = between(BASE | {"optimizer": 0.1}, BASE, n=5)
    assert not found.tested
    assert {(cause.difference, cause.certain) for cause in found.causes} == {(None, None)}
    assert between(BASE | {"optimizer": 0.1}, BASE, n=6).tested


def test_runs_share_no_blocks() -> None:
    here = launches(BASE)
    there = [replace(each, run={"id": "run-b"}) for each in launches(BASE | {"optimizer": 0.1})]
    one = grouped([*here, *there])
    first, second = (costs(row) for row in one.rows)
    assert first
    assert second
    assert causes(second, first).blocks == 0


def test_noise_alone_is_rarely_called_a_cause() -> None:
    """Holm's correction over the categories of a pair: of pairs without a difference few have a certain category."""
    draw = random.Random(3)
    wrong = 0
    for _ in range(25):
        sides = []
        for framework in ("jax", "pytorch"):
            held = []
            for launch in range(6):
                seconds = {name: time * draw.gauss(1, 0.05) for name, time in BASE.items()}
                made = profile(seconds)
                held.append(replace(records.timed(made.timed_s, framework, launch), profile=made))
            sides.append(cost(held))
        found = causes(*sides)
        wrong += any(cause.certain for cause in (*found.causes, *found.against))
    assert wrong <= 2


def test_steps_of_other_batches_are_compared_by_the_sample() -> None:
    double = {name: 2 * time for name, time in BASE.items()} | {"optimizer": BASE["optimizer"]}
    found = causes(cost(launches(double, noise=0, batch=64)), cost(launches(BASE, noise=0, batch=32)))
    assert found.per == "sample"
    assert found.other_step_s == pytest.approx(0.1 / 32)
    assert found.causes[0].category == "optimizer", "what does not grow with the batch is what a larger one saves"
    assert found.step_s < found.other_step_s


def test_equal_steps_leave_nothing_to_explain() -> None:
    assert between(BASE, BASE, noise=0).alike
    assert not between(BASE | {"idle": 0.01}, BASE, noise=0).alike


def test_a_row_without_a_profile_has_no_costs() -> None:
    one = grouped(records.launches(["jax"]))
    assert costs(one.rows[0]) is None


def test_the_median_over_launches_counts_and_a_launch_without_a_profile_does_not() -> None:
    held = [*launches({"element-wise": 0.1}, n=1), *launches({"element-wise": 0.3, "idle": 0.1}, n=3)[1:]]
    found = cost([*held, records.record("pytorch", 3)])
    assert found.launches == 3
    assert found.seconds["element-wise"] == pytest.approx(0.3, rel=0.05)
    assert list(found.seconds) == list(CATEGORIES)


def test_a_kernel_and_a_loop_that_does_its_work_are_compared_as_one() -> None:
    kernel = {"recurrent kernel": 0.26, "host and launch overhead": 0.01}
    loop = {"matrix product": 0.13, "element-wise": 0.02, "host and launch overhead": 0.1}
    found = between(kernel, loop)
    (first,) = found.causes
    assert first.category == "recurrent layer"
    assert (first.seconds, first.other_seconds) == (pytest.approx(0.26, rel=0.02), pytest.approx(0.15, rel=0.02))
    assert first.certain
    (other_way,) = found.against
    assert other_way.category == "host and launch overhead"
    # Two kernels, or two loops, are compared by category.
    assert between(kernel | {"idle": 0.1}, kernel).causes[0].category == "idle"
    assert between(loop | {"matrix product": 0.3}, loop).causes[0].category == "matrix product"


#: Known causes with what makes each hold: shares of the slower step, its framework, and other changes.
HOLDS: dict[str, tuple[str, dict[str, Any]]] = {
    "XLA's convolutions on a CPU": ("convolution weight gradient", {}),
    "denormal numbers": ("recurrent kernel", {"framework": "pytorch", "settings": {"denormals": "kept"}}),
    "a loop over time steps": ("element-wise", {"device": "cuda", "faster": {"recurrent kernel": 0.05}}),
    "a layout change around each convolution": ("copy and layout change", {"framework": "pytorch"}),
    "a host copy of integer inputs": (
        "copy and layout change", {"framework": "tensorflow", "device": "cuda", "operation": "Memcpy DtoH"},
    ),
    "XLA's overhead per operation in a loop": (
        "host and launch overhead", {"operation": "while.12", "workload": "imdb_lstm"},
    ),
    "TensorFlow's loop over time steps": (
        "host and launch overhead",
        {"framework": "tensorflow", "operation": "while/TensorListGetItem", "workload": "imdb_lstm"},
    ),
    "code that torch.compile generates for a CPU": (
        "reduction and pooling", {"framework": "pytorch", "compile": "compile"},
    ),
}  # fmt: skip


def planted(category: str, framework: str = "jax", device: str = "cpu", operation: str = "", **changes: Any) -> Causes:
    """A pair in which the slower side has more of a category, and what else its known cause needs."""
    faster = changes.pop("faster", {})
    workload = {"workload": changes.pop("workload", "cifar100_cnn")}
    held = launches(BASE | {category: 0.2}, framework=framework, **workload, **changes)
    made = []
    for each in held:
        assert each.profile
        first = [Operation(operation, category, 0.2, 500.0)] if operation else []  # type: ignore[arg-type]
        gaps = Gaps(0.1, 1e-5) if device == "cuda" else None
        shares = each.profile.categories
        shares = shares | {category: replace(shares[category], calls=20.0)}
        ops = (*first, *each.profile.operations)
        made.append(replace(each, profile=replace(each.profile, operations=ops, gaps=gaps, categories=shares)))
    other = "tensorflow" if framework == "pytorch" else "pytorch"
    return causes(cost(made), cost(launches(BASE | faster, framework=other, **workload)))


@pytest.mark.parametrize("name", [each.name for each in KNOWN])
def test_every_known_cause_is_named_where_it_holds_and_not_elsewhere(name: str) -> None:
    category, changes = HOLDS[name]
    first = planted(category, **changes).causes[0]
    assert first.category in (category, RECURRENT)
    assert name in {each.name for each in first.known}
    # Where nothing but a category that it does not concern is longer, no cause is claimed.
    assert not between(BASE | {"normalisation": 0.2}, BASE).causes[0].known


def test_a_known_cause_has_evidence_that_can_be_looked_up() -> None:
    for each in KNOWN:
        page = each.source.partition(",")[0]
        assert page.startswith("https://") or (ROOT / page).is_file(), each.name
        assert set(each.categories) <= set(CATEGORIES), each.name


def test_a_profile_of_a_hostile_file_breaks_nothing() -> None:
    zero = profile({"idle": 0.0}, timed_s=1e-9)
    tiny = replace(zero, categories={"idle": Share(0.0, 0.0)}, operations=())
    held = [replace(each, profile=tiny) for each in launches(BASE)]
    assert causes(cost(held), cost(launches(BASE))).causes
