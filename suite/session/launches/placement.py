"""Which cores of a CPU a launch gets: by their numbers, close together, or one hardware thread of each core."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from suite.catalog.settings import COMPACT, SPREAD

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
    """The socket of a core, and its physical core there."""
    folder = TOPOLOGY / f"cpu{core}" / "topology"
    try:
        return int((folder / "physical_package_id").read_text()), int((folder / "core_id").read_text())
    except (OSError, ValueError):
        return 0, core
