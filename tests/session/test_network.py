"""Where other hosts reach this one, and what each rank is told of it."""

from __future__ import annotations

import pytest

from suite.plan.cell import Cell
from suite.record.job import HostRanks
from suite.record.parts.environment import select_variables
from suite.session.launches import ranks
from suite.session.launches.ranks import interface_of, own_address, towards


def test_the_interface_that_is_named_gives_the_address() -> None:
    assert own_address({"SUITE_INTERFACE": "lo", "SUITE_ADDRESS": "10.1.2.3"}) == "127.0.0.1"
    assert own_address({"SUITE_ADDRESS": "10.1.2.3", "SLURM_LAUNCH_NODE_IPADDR": "127.0.0.1"}) == "10.1.2.3"
    assert own_address({"SLURM_LAUNCH_NODE_IPADDR": "127.0.0.1"}) == towards("127.0.0.1") == "127.0.0.1"


def test_an_interface_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(ValueError, match=r"SUITE_INTERFACE is 'ib7'; this host has .*lo"):
        own_address({"SUITE_INTERFACE": "ib7"})


def test_ranks_of_several_hosts_know_the_address_and_the_interface_of_their_own() -> None:
    assert interface_of("127.0.0.1") == "lo"
    assert interface_of("10.255.255.254") == ""
    cell = Cell("imdb_lstm", "jax", devices=2)
    (own,) = ranks.environments(cell, "cpu", part=HostRanks(1, 1, 2, "10.0.0.1:7000", "127.0.0.1", "secret"))
    assert (own["SUITE_ADDRESS"], own["SUITE_INTERFACE"]) == ("127.0.0.1", "lo")
    first, _ = ranks.environments(cell, "cpu")
    assert (first["SUITE_ADDRESS"], first["SUITE_INTERFACE"]) == ("127.0.0.1", "lo")


def test_the_interface_is_no_difference_between_one_device_and_several() -> None:
    assert select_variables({"NCCL_SOCKET_IFNAME": "eth0", "NCCL_ALGO": "Ring"}) == {"NCCL_ALGO": "Ring"}
