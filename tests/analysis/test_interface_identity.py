"""Keras' rows are held against the suite's own loops, and are no part of what these are held against."""

from __future__ import annotations

from dataclasses import replace

from suite.analysis.identity.verdicts import verdicts
from suite.analysis.records.load import Launch
from suite.analysis.rows.groups import group
from suite.record.record import Record
from suite.report.tables.frame import table
from tests import records


def off(record: Record, factor: float) -> Record:
    """The record with all losses and updates off by a factor."""
    assert record.identity
    updates = {name: update * factor for name, update in record.identity.updates.items()}
    losses = tuple(loss * factor for loss in record.identity.losses)
    return replace(record, identity=replace(record.identity, losses=losses, updates=updates))


def kinds(held: list[Record]) -> dict[tuple[str, str], str]:
    found = verdicts({each.cell: [each] for each in held})
    return {(cell.framework, cell.interface): verdict.kind for cell, verdict in found.items()}


def test_a_mistake_that_all_backends_share_does_not_outvote_the_own_loops() -> None:
    native = records.launches(n=1)
    wrong = [off(each, 1.02) for name in ("keras", "keras-fit") for each in records.launches(n=1, interface=name)]
    found = kinds([*native, *wrong])
    assert {found[framework, "native"] for framework in ("pytorch", "tensorflow", "jax")} == {"same"}
    assert {kind for (_, interface), kind in found.items() if interface != "native"} == {"differs"}


def test_an_interface_is_compared_with_the_own_loop_of_its_only_framework() -> None:
    native, keras = (records.launches(["jax"], n=1, interface=name) for name in ("native", "keras"))
    assert set(kinds(native).values()) == {"alone"}
    assert set(kinds([*native, *keras]).values()) == {"same"}
    assert kinds([*native, *(off(each, 1.02) for each in keras)])["jax", "keras"] == "differs"


def test_without_own_loops_the_backends_are_held_against_each_other() -> None:
    torch, flow, jax = records.launches(n=1, interface="keras")
    assert set(kinds([torch, flow, jax]).values()) == {"same"}
    assert kinds([torch, off(flow, 1.02), jax])["tensorflow", "keras"] == "differs"


def test_what_comfort_costs_is_a_ratio_within_the_framework() -> None:
    held = [*records.launches(n=6), *records.launches(n=6, interface="keras")]
    launches = [Launch(record, str(record.run["id"]), "file.json") for record in held]
    found = table(group(launches, "interface")[0], None)
    assert found.baseline == "native"
    keras = found.frame[found.frame["interface"] == "keras"]
    assert len(keras) == 3
    assert all(name in cell for name, cell in zip(keras["framework"], keras["ratio_baseline"], strict=True))
    assert keras["ratio_min"].notna().all()
