"""Every kind of evidence of identity is judged, and named where it is not the others' or not what it must be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from suite.analysis.identity.self_checks import _dropout
from suite.analysis.identity.verdicts import Verdict, verdicts
from suite.analysis.records.load import Launch
from suite.analysis.rows.groups import group
from suite.record.parts.evidence import Draws, Last, Scored, Trace
from suite.record.record import Record
from suite.report.tables.frame import table
from tests import records
from tests.analysis.test_identity import but, judged, kinds
from workloads.spec import read_declaration


def of_all(framework: str, **changes: Any) -> dict[str, Verdict]:
    """Verdicts on three launches with all evidence, that of one framework changed."""
    launches = [records.proved(each) for each in records.launches(n=1)]
    return judged([but(each, **changes) if each.cell.framework == framework else each for each in launches])


def test_all_evidence_agrees_and_shows_the_fingerprint_s_deviation() -> None:
    assert {str(verdict) for verdict in of_all("none").values()} == {"same (0)", "same (1e-06)", "same (2e-06)"}


UPDATES = records.UPDATES
MOVED = {**UPDATES, "conv1/kernel": UPDATES["conv1/kernel"] * 1.01}
STILL = {**UPDATES, "conv1/bias": 0.0}
SEEN = {
    "half of the batch": (
        {"own": Trace((4.605, 4.4669 * 1.001), UPDATES)},
        "at the cell's batch, losses at step 2 by 1e-03",
    ),
    "another optimizer at the cell's batch": (
        {"own": Trace(records.LOSSES[:2], MOVED)},
        "at the cell's batch, update of conv1/kernel by 1e-02",
    ),
    "float64": (
        {"float64": Trace((*records.LOSSES[:2], records.LOSSES[2] * (1 + 1e-8)), UPDATES)},
        "in float64, losses at step 3 by 1e-08",
    ),
    "an end of training": ({"last": Last(900, True, STILL)}, "conv1/bias does not move after the last window"),
    "another batch": ({"last": Last(900, False, UPDATES)}, "batch 900 is not the reference's"),
    "another step at the end": (
        {"last": Last(900, True, UPDATES, 0.9)},
        "after the last window, steps are off a fresh model's by 9e-01",
    ),
    "a step at the end that is off by a bit": (
        {"last": Last(900, True, UPDATES, 1e-9, 0.0, (3, 700))},
        "after the last window, steps are off a fresh model's by 1e-09",
    ),
    "a step that a backend does not repeat, and that is further off": (
        {"last": Last(900, True, UPDATES, 1e-3, 1e-5, (3, 700))},
        "after the last window, steps are off a fresh model's by 1e-03",
    ),
    "the optimizer at the cell's batch": (
        {"own_optimizer": 2e-3},
        "at the cell's batch, the optimizer is off its formula by 2e-03",
    ),
    "answers that are right among the best five": (
        {"scored": Scored(2, 1e-7, 2, 0.0)},
        "2 of 2 test samples are not scored, or not by their most probable label",
    ),
    "an evaluation of other weights": (
        {"scored": Scored(2, 1e-7, 0, 0.3)},
        "what is evaluated is off a fresh model with the trained weights by 3e-01",
    ),
    "losses that are no logarithms of probabilities": (
        {"scored": Scored(2, 0.2, 0, 0.0)},
        "in evaluation, the probabilities of a sample's labels are off 1 by 2e-01 in sum",
    ),
    "an evaluation that is coarser than it may be": (
        {"scored": Scored(2, 1e-7, 0, 0.0, 0.2)},
        "the loss in evaluation is off that in fp32 by 2e-01",
    ),
    "a mask for all samples": (
        {"dropout": Draws(0.2475, (4.6, 4.5), 31.0)},
        "dropout's masks are not independent in a batch, whose mean varies 31.0 times as much",
    ),
    "the optimizer": ({"optimizer": 2e-3}, "the optimizer is off its formula by 2e-03"),
    "a rate of dropout": (
        {"dropout": Draws(0.2633, (4.6, 4.5))},
        "dropout spreads the logits by 0.2633, not by 0.2475",
    ),
    "dropout at another place": (
        {"dropout": Draws(0.2475, (4.6, 4.5), 1.0, "small", {"conv2/kernel": 0.3, "fused/kernel": 0.2})},
        "with dropout, spread before conv2/kernel by 5e-01",
    ),
    "a frozen mask": ({"dropout": Draws(0.2475, (4.6, 4.6))}, "dropout draws the same masks in every step"),
}


@pytest.mark.parametrize(("changes", "words"), SEEN.values(), ids=SEEN)
def test_every_kind_of_evidence_is_judged_and_named(changes: dict[str, Any], words: str) -> None:
    found = of_all("tensorflow", **changes)
    assert str(found["tensorflow-fp32-b32-graph"]) == f"differs: {words}"
    assert [verdict.kind for verdict in found.values()] == ["same", "differs", "same"]


@pytest.mark.parametrize("changes", [{"last": Last(9, False, UPDATES)}, {"optimizer": 1e-2}], ids=["last", "optimizer"])
def test_what_needs_no_reference_is_judged_alone(changes: dict[str, Any]) -> None:
    (launch,) = records.launches(["jax"], n=1)
    assert kinds([records.proved(launch)]) == ["alone"]
    assert kinds([but(records.proved(launch), **changes)]) == ["differs"]


def test_the_mean_spread_of_more_launches_is_held_against_a_narrower_bound() -> None:
    drawn = {"dropout": Draws(0.2530, (4.6, 4.5), 1.0, "small")}
    one, *more = [but(records.proved(each), **drawn) for each in records.launches(["jax"], n=16)]
    assert kinds([one]) == ["alone"]
    assert kinds([one, *more]) == ["differs"]
    older = but(one, dropout=Draws(0.2475, (4.6, 4.5)))
    assert kinds([one, older]) == ["alone"], "each is held against what its size and its number of launches allow"


def test_a_transformer_alone_is_held_against_what_was_measured_at_its_layers() -> None:
    layers = read_declaration("imdb_transformer").dropout_bounds.layers["small"]
    assert _dropout([Draws(0.03, (0.7, 0.6), 1.0, "small", layers)], "imdb_transformer") == ""
    more = layers | {"block1_attention/kernel": 0.12**0.5}
    words = "dropout spreads the input of block1_attention/kernel by 0.3464, not by 0.3179"
    assert _dropout([Draws(0.03, (0.7, 0.6), 1.0, "small", more)], "imdb_transformer") == words


def off(record: Record, factor: float) -> Record:
    """The record with all losses and updates off by a factor."""
    assert record.identity
    updates = {name: update * factor for name, update in record.identity.updates.items()}
    losses = tuple(loss * factor for loss in record.identity.losses)
    return replace(record, identity=replace(record.identity, losses=losses, updates=updates))


def by_interface(held: list[Record]) -> dict[tuple[str, str], str]:
    found = verdicts({each.cell: [each] for each in held})
    return {(cell.framework, cell.interface): verdict.kind for cell, verdict in found.items()}


def test_a_mistake_that_all_backends_share_does_not_outvote_the_own_loops() -> None:
    native = records.launches(n=1)
    wrong = [off(each, 1.02) for name in ("keras", "keras-fit") for each in records.launches(n=1, interface=name)]
    found = by_interface([*native, *wrong])
    assert {found[framework, "native"] for framework in ("pytorch", "tensorflow", "jax")} == {"same"}
    assert {kind for (_, interface), kind in found.items() if interface != "native"} == {"differs"}


def test_an_interface_is_compared_with_the_own_loop_of_its_only_framework() -> None:
    native, keras = (records.launches(["jax"], n=1, interface=name) for name in ("native", "keras"))
    assert set(by_interface(native).values()) == {"alone"}
    assert set(by_interface([*native, *keras]).values()) == {"same"}
    assert by_interface([*native, *(off(each, 1.02) for each in keras)])["jax", "keras"] == "differs"


def test_without_own_loops_the_backends_are_held_against_each_other() -> None:
    torch, flow, jax = records.launches(n=1, interface="keras")
    assert set(by_interface([torch, flow, jax]).values()) == {"same"}
    assert by_interface([torch, off(flow, 1.02), jax])["tensorflow", "keras"] == "differs"


def test_what_comfort_costs_is_a_ratio_within_the_framework() -> None:
    held = [*records.launches(n=6), *records.launches(n=6, interface="keras")]
    launches = [Launch(record, str(record.run["id"]), "file.json") for record in held]
    found = table(group(launches, "interface")[0], None)
    assert found.baseline == "native"
    keras = found.frame[found.frame["interface"] == "keras"]
    assert len(keras) == 3
    assert all(name in cell for name, cell in zip(keras["framework"], keras["ratio_baseline"], strict=True))
    assert keras["ratio_min"].notna().all()
