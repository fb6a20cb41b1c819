from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from suite.analysis.identity.comparability import judge
from suite.analysis.identity.tolerances import GPU_SLACK, TOLERANCE
from suite.analysis.identity.verdicts import Verdict, verdicts
from suite.analysis.records.load import Launch
from suite.analysis.rows.groups import group
from suite.record.parts.evidence import Identity, Trace
from suite.record.record import Record
from tests import records


def judged(launches: Sequence[Record]) -> dict[str, Verdict]:
    """Verdicts by framework (and batch or compile mode where a framework has several cells)."""
    rows: dict[str, list[Record]] = {}
    for each in launches:
        rows.setdefault(each.cell.id, []).append(each)
    return {key.split("-", 1)[1].removesuffix("-tuned"): verdict for key, verdict in verdicts(rows).items()}


def kinds(launches: Sequence[Record]) -> list[str]:
    return [verdict.kind for verdict in judged(launches).values()]


def but(record: Record, **changes: Any) -> Record:
    """The record with a changed fingerprint."""
    assert record.identity is not None
    return replace(record, identity=replace(record.identity, **changes))


def scaled(record: Record, by: float, step: int = 3) -> Record:
    """The record with one loss off by a factor."""
    assert record.identity is not None
    losses = [loss * (by if i == step else 1) for i, loss in enumerate(record.identity.losses)]
    return but(record, losses=tuple(losses))


def test_what_nobody_measured_has_no_tolerance_and_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(TOLERANCE, ("cifar100_cnn", "fp32"))
    found = judged(records.launches(n=1))
    assert {str(verdict) for verdict in found.values()} == {"no evidence: no tolerance is set for cifar100_cnn in fp32"}


def test_what_agrees_is_the_same_and_the_deviation_is_shown() -> None:
    found = judged(records.launches(n=2))
    assert {verdict.kind for verdict in found.values()} == {"same"}
    assert str(found["jax-fp32-b32-compile"]) == "same (2e-06)"


UPDATES = records.UPDATES
FIRST_LOSS = TOLERANCE["cifar100_cnn", "fp32"].first_loss
#: What is changed in one of the launches, and the words of its verdict.
ODD: dict[str, tuple[Callable[[Record], Record], str]] = {
    "a loss": (lambda one: scaled(one, 1.02), "losses at step 4 by 2e-02"),
    "the first loss": (lambda one: scaled(one, 1 + 10 * FIRST_LOSS, step=0), "losses at step 1 by 5e-05"),
    "an update": (
        lambda one: but(one, updates={**UPDATES, "conv1/bias": 0.0041 * 1.4}), "update of conv1/bias by 4e-01",
    ),
    "a tensor less": (lambda one: but(one, updates={"conv1/kernel": 0.012}), "tensor conv1/bias is not in all of them"),
    "fewer losses": (lambda one: but(one, losses=records.LOSSES[:5]), ""),
    "weights": (lambda one: but(one, weights="other"), "weights are not the others'"),
    "batches": (lambda one: but(one, batches="other"), "batches are not the others'"),
}  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_of_three_the_odd_one_out_differs_and_the_words_say_where(name: str) -> None:
    change, words = ODD[name]
    torch, flow, jax = records.launches(n=1)
    found = judged([torch, change(flow), jax])
    assert [verdict.kind for verdict in found.values()] == ["same", "differs", "same"]
    assert not words or str(found["tensorflow-fp32-b32-graph"]) == f"differs: {words}"
    assert name == "fewer losses" or kinds([torch, change(flow)]) == ["differs", "differs"], "neither is the norm"


def test_of_two_neither_is_the_norm() -> None:
    torch, flow, _ = records.launches(n=1)
    found = list(judged([torch, scaled(flow, 1.02)]).values())
    assert [verdict.kind for verdict in found] == ["differs", "differs"]
    assert found[0].losses == pytest.approx(0.02, rel=0.05), "the whole distance between the two, not half of it"


def test_the_tolerance_is_a_bound_on_the_pairs_distance() -> None:
    torch, flow, _ = records.launches(n=1)
    bound = TOLERANCE["cifar100_cnn", "fp32"].losses
    assert kinds([torch, scaled(flow, 1 + 0.9 * bound, step=6)]) == ["same", "same"]
    assert kinds([torch, scaled(flow, 1 + 1.1 * bound, step=6)]) == ["differs", "differs"]


def test_the_first_loss_is_held_closer_than_those_after_it() -> None:
    torch, flow, jax = records.launches(n=1)
    assert kinds([torch, scaled(flow, 1 + 10 * FIRST_LOSS, step=6), jax]) == ["same", "same", "same"]


@pytest.mark.parametrize("adam", [False, True])
def test_a_gradient_that_is_zero_by_mathematics_is_no_difference(adam: bool) -> None:
    """A key's bias under a softmax, or one before a normalisation: rounding moves it, and in fp32 Adam as far as any.

    After the last window it may also stand still. A tensor that one framework alone leaves as it is moves elsewhere.
    """
    moved, exact = (
        ((0.0040, 0.0031, 0.0007), (1e-10, 3e-10, 2e-11)) if adam else ((1e-9, 9e-9, 4e-9), (1e-18, 9e-18, 0.0))
    )
    launches = []
    for each, coarse, fine in zip(map(records.proved, records.launches(n=1)), moved, exact, strict=True):
        updates, last = records.UPDATES | {"key/bias": coarse}, each.identity and each.identity.last
        assert last
        still = replace(last, updates=last.updates | {"key/bias": 0.0})
        float64 = Trace(records.LOSSES[:3], records.UPDATES | {"key/bias": fine})
        launches.append(but(each, updates=updates, own=Trace((), updates), float64=float64, last=still))
    assert kinds(launches) == ["same"] * 3
    stopped = but(launches[1], updates=records.UPDATES | {"key/bias": 0.0, "conv1/bias": 0.0})
    assert kinds([launches[0], stopped, launches[2]]) == ["same", "differs", "same"]


def test_a_tensor_that_no_framework_moves_stands_out() -> None:
    launches = []
    for each in map(records.proved, records.launches(n=1)):
        updates, last = records.UPDATES | {"key/bias": 0.0}, each.identity and each.identity.last
        assert last
        still = replace(last, updates=last.updates | {"key/bias": 0.0})
        launches.append(but(each, updates=updates, float64=Trace(records.LOSSES[:3], updates), own=None, last=still))
    assert {str(each) for each in judged(launches).values()} == {
        "differs: key/bias does not move after the last window"
    }


def test_older_fingerprints_of_more_steps_are_compared_with_each_other() -> None:
    older = records.launches(n=1)
    newer = [but(scaled(each, 1.5, step=8), losses=records.LOSSES[:6]) for each in records.launches(n=1, batch=64)]
    assert kinds([*older, *newer]) == ["same"] * 6


def test_a_launch_without_a_fingerprint_rests_on_one_of_the_same_program() -> None:
    first, other = (replace(records.proved(each), launch=n) for n, each in enumerate(records.launches(["jax"], n=2)))
    first = but(first, program="a")
    for program, kind in (("a", "alone"), ("b", "no evidence"), ("", "no evidence")):
        short = but(other, program=program, losses=(), updates={}, own=None, float64=None)
        assert kinds([first, short]) == [kind]
        assert kinds([short]) == ["no evidence"]


def test_a_row_that_rests_on_a_launch_that_differs_does_too() -> None:
    torch, flow, jax = (but(records.proved(each), program=each.cell.framework) for each in records.launches(n=1))
    short = but(replace(flow, launch=1), losses=(), updates={}, own=None, float64=None)
    for by, kind in ((1.0, "same"), (1.02, "differs")):
        rows = {"torch": [torch], "flow": [scaled(flow, by)], "jax": [jax], "control": [short]}
        assert [verdict.kind for verdict in verdicts(rows).values()] == ["same", kind, "same", kind]


def test_a_launch_that_was_disturbed_still_proves_what_its_program_computes() -> None:
    torch, flow, jax = (but(records.proved(each), program=each.cell.framework) for each in records.launches(n=1))
    busy = replace(flow, metrics={"host": {"disturbance": {"others_share": 0.6}}})
    short = but(replace(flow, launch=1), losses=(), updates={}, own=None, float64=None)
    for by, kind in ((1.0, "same"), (1.02, "differs")):
        held = [torch, scaled(busy, by), short, jax]
        (one,) = group([Launch(each, "a", "a.json") for each in held])
        assert [len(row.ok) for row in one.rows] == [1, 1, 1]
        assert [verdict.kind for verdict in judge(one.rows).values()] == ["same", kind, "same"]


def test_batches_are_compared_within_a_batch_size_only() -> None:
    assert kinds([*records.launches(n=1), *records.launches(n=1, batch=64)]) == ["same"] * 6


def test_no_fingerprint_is_no_evidence() -> None:
    torch, flow, jax = records.launches(n=1)
    assert kinds([torch, replace(flow, identity=None), jax]) == ["same", "no evidence", "same"]
    empty = Identity("w", "b", (), {})
    assert kinds([torch, replace(flow, identity=empty), jax]) == ["same", "no evidence", "same"]


def test_evidence_of_some_launches_is_not_that_of_all() -> None:
    launches = records.launches(n=2)
    launches[1] = replace(launches[1], identity=None)
    verdict = judged(launches)["tensorflow-fp32-b32-graph"]
    assert str(verdict) == "no evidence: 1 of 2 launches without"


def test_one_framework_has_nothing_to_compare_with() -> None:
    assert kinds(records.launches(["jax"], n=3)) == ["alone"]


@pytest.mark.parametrize("frameworks", [["jax"], ["pytorch", "tensorflow", "jax"]])
def test_launches_of_a_cell_must_agree_with_one_another(frameworks: list[str]) -> None:
    launches = records.launches(frameworks, n=3)
    launches[-1] = scaled(launches[-1], 1.02)
    assert str(judged(launches)["jax-fp32-b32-compile"]) == "differs: losses at step 4 by 2e-02"
    launches[-1] = but(launches[0], weights="other")
    launches[-1] = replace(launches[-1], cell=replace(launches[-1].cell, framework="jax", compile="compile"))
    assert str(judged(launches)["jax-fp32-b32-compile"]) == "differs: weights are not the others'"


def test_cells_of_one_framework_are_held_against_one_another() -> None:
    eager = records.launches(["pytorch"], n=1)
    compiled = [scaled(each, 1.02) for each in records.launches(["pytorch"], n=1, compile="compile")]
    assert "differs" in kinds([*eager, *compiled])


def test_batches_of_another_seed_are_others_and_the_rest_is_still_compared() -> None:
    torch, flow, jax = (replace(each, run={"id": str(i), "seed": i}) for i, each in enumerate(records.launches(n=1)))
    assert kinds([torch, but(flow, batches="other"), jax]) == ["same"] * 3
    assert kinds([torch, scaled(flow, 1.02), jax]) == ["same", "differs", "same"]


def test_precisions_data_and_specs_are_never_mixed() -> None:
    torch, flow, _ = records.launches(n=1)
    for other in (
        replace(flow, cell=replace(flow.cell, precision="fp64")),
        replace(flow, data={**flow.data, "digest": "other"}),
        replace(flow, workload={**flow.workload, "digest": "other"}),
    ):
        assert kinds([torch, scaled(other, 1.5)]) == ["alone", "alone"]


def test_double_precision_is_held_to_its_own_tolerance() -> None:
    torch, flow, jax = records.launches(n=1, precision="fp64")
    assert kinds([torch, flow, jax]) == ["same"] * 3
    assert kinds([torch, scaled(flow, 1 + 1e-7), jax]) == ["same", "differs", "same"]


def test_a_loss_of_zero_is_no_division_by_zero() -> None:
    launches = [but(each, losses=(0.0,) * 6, updates={"w": 0.0}) for each in records.launches(n=1)]
    assert [str(verdict) for verdict in judged(launches).values()] == ["same (0)"] * 3


def test_float64_of_another_size_is_not_compared() -> None:
    torch, flow, jax = (records.proved(each) for each in records.launches(n=1))
    for size, kind in (("small", "same"), ("", "differs")):
        other = but(flow, float64=Trace((1.0, 1.0, 1.0), UPDATES), float64_size=size)
        assert kinds([torch, other, jax]) == ["same", kind, "same"]


def test_a_fingerprint_at_the_cell_s_batch_is_compared_with_those_of_the_same_only() -> None:
    small = [records.proved(each) for each in records.launches(n=1)]
    large = [records.proved(each) for each in records.launches(n=1, batch=64)]
    large = [but(each, own=Trace((3.9, 3.8), UPDATES)) for each in large]
    assert kinds([*small, *large]) == ["same"] * 6


def test_records_of_older_versions_keep_their_verdict() -> None:
    torch, flow, jax = records.launches(n=1)
    assert kinds([torch, records.proved(flow), jax]) == ["same"] * 3
    assert kinds([torch, scaled(records.proved(flow), 1.02), jax]) == ["same", "differs", "same"]


@pytest.mark.parametrize("precision", ["tf32", "fp16"])
def test_derived_bounds_are_called_provisional(precision: str) -> None:
    found = judged(records.launches(n=1, precision=precision))
    assert {verdict.kind for verdict in found.values()} == {"same"}
    assert all("provisional bounds" in str(verdict) for verdict in found.values())
    torch, flow, jax = records.launches(n=1, precision=precision)
    assert kinds([torch, scaled(flow, 1.02), jax]) == ["same", "differs", "same"]


def test_a_gpu_has_slack_where_its_kernels_are_not_measured() -> None:
    early = 0.5 * GPU_SLACK * TOLERANCE["cifar100_cnn", "fp32"].early_updates
    changed = {**UPDATES, "conv1/kernel": UPDATES["conv1/kernel"] * (1 + early)}
    for device, kind in (("cpu", "differs"), ("cuda", "same")):
        torch, flow, jax = (
            replace(records.proved(each), settings={"device": device}) for each in records.launches(n=1)
        )
        own = flow.identity and flow.identity.own
        assert own
        found = judged([torch, but(flow, own=replace(own, updates=changed)), jax])
        assert found["tensorflow-fp32-b32-graph"].kind == kind
        assert found["pytorch-fp32-b32-eager"].provisional == (device == "cuda")


@pytest.mark.parametrize(("precision", "kind"), [("fp32", "differs"), ("bf16", "same")])
def test_updates_at_the_cell_s_batch_are_judged_where_they_were_measured(precision: str, kind: str) -> None:
    launches = [records.proved(record) for record in records.launches(n=1, precision=precision)]
    last = launches[-1]
    assert last.identity
    assert last.identity.own
    far = {name: 1.5 * norm for name, norm in last.identity.own.updates.items()}
    launches[-1] = replace(last, identity=replace(last.identity, own=replace(last.identity.own, updates=far)))
    assert kinds(launches)[-1] == kind
