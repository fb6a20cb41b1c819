"""The phases of a launch: the same code, timed with and without some of its parts."""

from __future__ import annotations

from dataclasses import dataclass

from suite.catalog import load_installed

#: Where the worker has the steps of the suite's own phases.
_TRAINING, _INFERENCE = "suite.worker.launch.phases", "suite.worker.launch.inference"
_CHECKPOINTS = "suite.worker.launch.checkpoints"


@dataclass(frozen=True)
class Phase:
    """One phase: ``meaning`` says which steps it takes, ``title`` what its windows are called in plots.

    ``steps`` is the worker's function that makes them, as ``module:function``; it gets the `Timed` object and returns
    a function that takes a number of steps. ``shade`` and ``hatch`` are the look of its band in a timeline.

    Phases ``in_turn`` take turns, as they are compared with each other. One ``within`` another is taken wherever that
    one is. What ``serves`` or ``saves`` is measured after the memory of training was read; the latter are steps of
    training with and without a checkpoint. Steps of what ``loads`` take a batch of the loader each. Only cells with
    several devices, or launches that ask for it, have a phase that is not ``of_every_cell``.
    """

    name: str
    meaning: str
    title: str
    shade: str = "#FFFFFF"
    hatch: str = ""
    of_every_cell: bool = True
    steps: str = ""
    in_turn: bool = False
    within: str = ""
    serves: bool = False
    saves: bool = False
    loads: bool = False

    @property
    def is_late(self) -> bool:
        return self.serves or self.saves


_ALL = (
    Phase("train", "training with its loader", "training", "#BDBDBD", steps=f"{_TRAINING}:train", loads=True),
    Phase(
        "compute", "the same steps on batches already on the device", "compute-only", "#E2E2E2",
        steps=f"{_TRAINING}:compute", in_turn=True,
    ),
    Phase(
        "input", "only the loader and the transfer to the device", "loading-only", "#F4F4F4", "...",
        steps=f"{_TRAINING}:load", loads=True,
    ),
    Phase(
        "local", "the steps of `compute` without communication", "communication-free", of_every_cell=False,
        steps=f"{_TRAINING}:local", in_turn=True, within="compute",
    ),
    Phase(
        "infer", "forward passes in evaluation mode on batches already on the device", "inference-only", "#D4E6F1",
        of_every_cell=False, steps=f"{_INFERENCE}:resident", serves=True,
    ),
    Phase(
        "infer_loaded", "the same passes with the loader", "inference with loading", "#EAF3F8", "...",
        of_every_cell=False, steps=f"{_INFERENCE}:passes_over_loader", within="infer", serves=True, loads=True,
    ),
    Phase(
        "checkpoint", "the steps of `compute` after the begin of one synchronous save in each window", "checkpoints",
        "#D8EAD3", of_every_cell=False, steps=f"{_CHECKPOINTS}:saved", in_turn=True, saves=True,
    ),
    Phase(
        "checkpoint_async", "the same with an asynchronous save", "asynchronous checkpoints", "#EAF4E8", "...",
        of_every_cell=False, steps=f"{_CHECKPOINTS}:saved", in_turn=True, within="checkpoint", saves=True,
    ),
    Phase(
        "unsaved", "the same steps without a save", "without checkpoints", "#F4F8F2", of_every_cell=False,
        steps=f"{_CHECKPOINTS}:unsaved", in_turn=True, within="checkpoint", saves=True,
    ),
)  # fmt: skip

#: By name, in the order in which they are shown.
PHASES: dict[str, Phase] = {each.name: each for each in (*_ALL, *load_installed("phases"))}

#: The first phase, which every launch has.
TRAIN = "train"

#: Those that ``--phases`` takes.
CHOICES = tuple(name for name, each in PHASES.items() if not each.within)
