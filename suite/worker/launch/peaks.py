"""The rates that the device reaches at best: measured last, as their large arrays would hide training's peak memory."""

from __future__ import annotations

import traceback
from types import ModuleType
from typing import Any

from suite.plan.cell import Cell
from suite.worker.distributed.team import Team
from suite.worker.launch.probe import peak_flops_per_s


def measure_peaks(
    cell: Cell, framework: ModuleType, device: str, settings: dict[str, Any], team: Team | None, *, profiled: bool
) -> None:
    """Add the peak rates to the settings, of all devices together as the throughput is.

    If one fails, the record does not have it: the measurements remain valid, and the log holds the reason.
    """
    try:
        settings["peak_flops_per_s"] = peak_flops_per_s(cell, framework, device)
    except Exception:
        traceback.print_exc()
    if team:
        team.add_up(settings, "peak_flops_per_s", device)
    if profiled:
        from suite.worker.launch import profiling

        try:
            if team:
                team.ranks.barrier()  # all at once, since devices of a CPU share its memory
            settings["peak_bytes_per_s"] = profiling.peak_bytes_per_s(cell.framework, device)
        except Exception:
            traceback.print_exc()
        if team:
            team.add_up(settings, "peak_bytes_per_s", device)
