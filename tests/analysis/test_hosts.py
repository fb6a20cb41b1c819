"""Launches on the hosts of a cluster: a ratio is of two launches on one host, and of hosts of one kind."""

from __future__ import annotations

from suite.analysis.records.load import Launch
from suite.analysis.rows.groups import group
from suite.record.record import Record
from suite.report.tables.frame import Table, table
from tests import records
from tests.records import replace


def on(record: Record, host: str, cpu: str = "AMD EPYC 7R13") -> Record:
    """The same launch on this host."""
    machine = record.environment.get("machine", {}) | {"cpu": cpu, "cores": 2}
    return replace(record, run=record.run | {"host": host}, environment=record.environment | {"machine": machine})


def compared(held: list[Record]) -> Table:
    (found,) = group([Launch(record, str(record.run["id"]), "file.json") for record in held], "framework")
    return table(found)


def test_blocks_on_several_hosts_of_one_kind_give_ratios() -> None:
    found = compared([on(record, f"host{record.block}") for record in records.launches()])
    assert set(found.frame["ratio_reason"]) == {""}
    assert min(found.frame["ratio_blocks"]) == 3


def test_a_launch_that_ran_on_another_host_than_its_block_is_in_no_ratio() -> None:
    held = [
        on(record, "elsewhere" if (record.cell.framework, record.block) == ("jax", 1) else "here")
        for record in records.launches()
    ]
    found = compared(held)
    blocks = dict(zip(found.frame["framework"], found.frame["ratio_blocks"], strict=True))
    assert blocks["jax"] == 2
    assert blocks["tensorflow"] == 3


def test_hosts_of_two_kinds_give_no_ratio() -> None:
    kinds = ("AMD EPYC 7R13", "AMD EPYC 9R14")
    held = [on(record, f"host{record.block % 2}", kinds[record.block % 2]) for record in records.launches()]
    found = compared(held)
    reasons = [reason for reason in found.frame["ratio_reason"] if reason]
    assert reasons
    assert all("ran on hosts of several kinds (AMD EPYC 7R13, 2 cores" in reason for reason in reasons)
