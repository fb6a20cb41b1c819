"""A launch of several processes on this host: whether there can be one, and the variables and network of each rank."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from suite.catalog.devices import has_gpu
from suite.catalog.settings import COMPACT, SPREAD
from suite.plan.cell import Cell
from suite.plan.settings.strategies import SERVER, has_server, why_not_measured
from suite.record.job import HostRanks, Job
from suite.record.parts.environment import own_cores, usable_cores
from suite.record.record import Record
from suite.record.variables import (
    ADDRESS,
    COORDINATOR,
    CORES,
    HOST_CORES,
    INTERFACE,
    LOCAL_RANK,
    RANK,
    TOKEN,
    WORLD_SIZE,
)  # fmt: skip
from suite.session.launches.namespace import NamespaceError, own_network

HOST = "127.0.0.1"

#: How often a launch begins anew because somebody else took the port that was free a moment before.
PORT_TRIES = 3
_TAKEN = re.compile(r"already in use|EADDRINUSE", re.IGNORECASE)


def impossible(cell: Cell, device: str, part: HostRanks | None = None) -> str:
    """Why a cell's devices cannot be measured on this host; empty where they can, as far as the parent knows.

    With a ``part``, this host needs devices for its own ranks alone.
    """
    if cell.devices == 1 and not cell.cores:
        return ""
    if reason := why_not_measured(cell):
        return reason
    count = part.count if part else cell.devices
    if device == "cpu" or not has_gpu():
        cores = usable_cores()
        if count * max(cell.cores, 1) > cores:
            need = f"{cell.cores} cores" if cell.cores > 1 else "a core"
            who = f"{count} devices on a CPU need {need} each" if count > 1 else f"the cell needs {need}"
            return f"{who}, and {cores} can be used here{_over_hosts(cell)}"
        return ""
    listed = _list_devices()
    if listed is not None and count > len(listed):
        shown = f"CUDA_VISIBLE_DEVICES shows {len(listed)}"
        return f"{count} devices are asked for, and {shown}{_over_hosts(cell)}"
    return ""


def _over_hosts(cell: Cell) -> str:
    """What TensorFlow needs to use the devices of several hosts, since its usual strategy has one process."""
    return "; over several hosts, use --strategy multiworker --trusted-network" if cell.strategy == "mirrored" else ""


def environments(cell: Cell, device: str, part: HostRanks | None = None) -> list[dict[str, str]]:
    """The variables of each rank besides those that every worker gets: also the cores of a CPU that it may use.

    With a ``part``, only its ranks are started here.
    """
    world, cores = cell.processes, own_cores()
    first, here = (part.first, part.count) if part else (0, world)
    on_cpu = device == "cpu" or not has_gpu()
    asked = cell.cores * cell.devices if on_cpu else 0
    placed = place(cores, cell.bind, asked) if on_cpu else cores
    if world == 1:
        chosen = placed[: asked or None] if on_cpu and (asked or cell.bind) else []
        return [{HOST_CORES: str(len(cores)), CORES: ",".join(map(str, chosen))} if chosen else {}]
    each = cell.cores if asked else min(len(placed), usable_cores()) // here
    shared = {HOST_CORES: str(len(cores)), WORLD_SIZE: str(world)}
    if part:
        shared |= {COORDINATOR: part.coordinator, TOKEN: part.token, ADDRESS: part.address}
    else:
        shared |= {COORDINATOR: f"{HOST}:{free_port(HOST)}", TOKEN: secrets.token_hex(16), ADDRESS: HOST}
    shared |= {INTERFACE: interface} if (interface := interface_of(shared[ADDRESS])) else {}
    made = []
    for rank in range(here):
        own = {RANK: str(first + rank), LOCAL_RANK: str(rank)}
        if each:
            own[CORES] = ",".join(map(str, placed[rank * each : (rank + 1) * each]))
        if not on_cpu:  # each sees its own device alone, as its first
            listed = _list_devices()
            own["CUDA_VISIBLE_DEVICES"] = listed[rank] if listed else str(rank)
        made.append(shared | own)
    return made


def network(job: Job, part: HostRanks | None, until: contextlib.ExitStack) -> list[str]:
    """The words before a command that run it in a network of its own, if its cell has a server; else none.

    Raises `NamespaceError` where the server is not to be started.
    """
    if not has_server(job.cell):
        return []
    why_not = "which ranks on several hosts cannot have"
    if not part:
        try:
            return until.enter_context(own_network())
        except NamespaceError as error:
            why_not = f"which this machine refuses: {error}"
    if job.trusted_network:
        return []
    raise NamespaceError(
        f"{SERVER.format(strategy=job.cell.strategy)}. So it needs a network of its own, {why_not}. Use --strategy "
        "mirrored, or give --trusted-network if nobody else reaches this machine"
    )


def free_port(address: str = "") -> int:
    """A port of this host, or of one of its addresses, that nobody has at the moment."""
    with socket.socket() as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


def log_of(log: Path, rank: int) -> Path:
    """The log of a rank; rank 0 has the launch's own."""
    return log.with_suffix(f".rank{rank}{log.suffix}") if rank else log


def port_taken(record: Record) -> bool:
    """Whether a launch failed because its port was taken, so that another one may do."""
    failed = record.outcome.status in ("error", "crashed")
    return failed and any(_TAKEN.search(line) for line in (record.outcome.reason, *record.log))


def _list_devices() -> list[str] | None:
    """The devices that CUDA_VISIBLE_DEVICES shows; None where it is not set."""
    variable = os.environ.get("CUDA_VISIBLE_DEVICES")
    return None if variable is None else [name for name in variable.split(",") if name]


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
    every = psutil.net_if_addrs().items()  # backwards, so that the first one stays
    return {name: each.address for name, own in every for each in own[::-1] if each.family == socket.AF_INET}


TOPOLOGY = Path("/sys/devices/system/cpu")


def place(cores: Sequence[int], bind: str, count: int = 0) -> list[int]:
    """The cores that may be used, in the order in which they are taken.

    ``compact`` has both hardware threads of a core before the next core, one socket after the other. ``spread`` has the
    first thread of each core, the sockets in turn, and the further threads only for a ``count`` beyond these. Linux
    tells where a core lies; elsewhere each is one of its own.
    """
    places = {core: _place(core) for core in cores}
    if bind == COMPACT:
        return sorted(cores, key=lambda core: (*places[core], core))
    if bind != SPREAD:
        return list(cores)
    threads: dict[tuple[int, int], int] = {}
    sockets: dict[tuple[int, int], int] = {}
    order = {}
    for core in sorted(cores, key=lambda core: (*places[core], core)):
        socket, _ = place_of = places[core]
        thread = threads[place_of] = threads.get(place_of, -1) + 1
        number = sockets[socket, thread] = sockets.get((socket, thread), -1) + 1
        order[core] = thread, number, socket
    spread = sorted(cores, key=order.__getitem__)
    first = [core for core in spread if order[core][0] == 0]
    return spread if count > len(first) else first


def _place(core: int) -> tuple[int, int]:
    folder = TOPOLOGY / f"cpu{core}" / "topology"
    try:
        return int((folder / "physical_package_id").read_text()), int((folder / "core_id").read_text())
    except (OSError, ValueError):
        return 0, core
