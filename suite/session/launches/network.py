"""Where other hosts reach this one: the address and the network interface over which ranks of several hosts talk."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

import psutil

from suite.record.handover.variables import ADDRESS, INTERFACE

#: The variable in which SLURM tells a task the address of the host that called ``srun``.
CALLER = "SLURM_LAUNCH_NODE_IPADDR"


def own_address(variables: Mapping[str, str] = os.environ) -> str:
    """The address of this host: that of the interface that ``SUITE_INTERFACE`` names, else ``SUITE_ADDRESS``, else the
    one by which it reaches the host that started it, else the one that its name leads to.

    Raises ValueError for an interface that this host does not have, and OSError if its name leads nowhere.
    """
    if interface := variables.get(INTERFACE):
        addresses = _addresses()
        if interface not in addresses:
            raise ValueError(f"{INTERFACE} is {interface!r}; this host has {', '.join(sorted(addresses))}")
        return addresses[interface]
    if address := variables.get(ADDRESS):
        return address
    return towards(variables[CALLER]) if variables.get(CALLER) else socket.gethostbyname(socket.gethostname())


def towards(other: str) -> str:
    """The address by which this host reaches another one; nothing is sent. Raises OSError."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((other, 9))
        return str(probe.getsockname()[0])


def interface_of(address: str) -> str:
    """The network interface of this host that has an address; empty if none has it."""
    return next((name for name, own in _addresses().items() if own == address), "")


def _addresses() -> dict[str, str]:
    """The IPv4 address of each network interface of this host, its first."""
    every = psutil.net_if_addrs().items()
    return {
        name: next(each.address for each in addresses if each.family == socket.AF_INET)
        for name, addresses in every
        if any(each.family == socket.AF_INET for each in addresses)
    }
