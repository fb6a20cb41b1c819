"""The phases of a launch: the same code, timed with and without some of its parts."""

from __future__ import annotations

from dataclasses import dataclass

from suite.catalog import installed


@dataclass(frozen=True)
class Phase:
    """One phase: ``meaning`` says which steps it takes, ``title`` what its windows are called in plots.

    ``shade`` and ``hatch`` are the look of its band in a timeline. Only cells with several devices have one that is
    not ``of_every_cell``.
    """

    name: str
    meaning: str
    title: str
    shade: str = "#FFFFFF"
    hatch: str = ""
    of_every_cell: bool = True


_ALL = (
    Phase("train", "training with its loader", "training", "#BDBDBD"),
    Phase("compute", "the same steps on batches already on the device", "compute-only", "#E2E2E2"),
    Phase("input", "only the loader and the transfer to the device", "loading-only", "#F4F4F4", "..."),
    Phase("local", "the steps of `compute` without communication", "communication-free", of_every_cell=False),
)

#: By name, in the order in which they are shown.
PHASES: dict[str, Phase] = {each.name: each for each in (*_ALL, *installed("phases"))}
