"""What all probes share: their request, one line of JSON per answer, and a framework's training outside of a launch."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from suite.plan.cell import Cell
from suite.record.parts.environment import redact
from suite.worker.frameworks import UnsupportedError
from workloads.data.augment import Batches
from workloads.data.cache import open_cached
from workloads.spec import specification

#: The seconds that a round of what is timed lasts at least.
ROUND_S = 0.2


@dataclass(frozen=True)
class Request:
    """What `tests.cuda.launcher` asks for; ``rest`` is the probe's own."""

    framework: str
    device: str
    data: dict[str, str]
    answers: Path
    rest: dict[str, Any]

    @classmethod
    def read(cls) -> Request:
        """From the command line. The kernel ends this process when its parent dies (prctl, PR_SET_PDEATHSIG)."""
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
        told = json.loads(sys.argv[1])
        own = {name: told.pop(name) for name in ("framework", "device", "data")}
        return cls(**own, answers=Path(told.pop("answers")), rest=told)

    @property
    def code(self) -> ModuleType:
        """The framework's file; importing it imports the framework."""
        return import_module(f"suite.worker.frameworks.{self.framework}.training")

    def prepare(self, cell: Cell) -> None:
        """Set the framework's switches for a cell. Raises `UnsupportedError`."""
        found, _ = self.code.prepare(cell, self.device, 0)
        assert found == self.device

    def batches(self, cell: Cell) -> Batches:
        spec = specification(cell.workload, cell.size)
        return Batches(
            spec.arrange(open_cached(Path(self.data[spec.data]))), cell.batch, 0, getattr(spec, "length", None)
        )

    def training(self, cell: Cell) -> Any:
        """The measured training of a cell, prepared, with its dropout."""
        self.prepare(cell)
        spec = specification(cell.workload, cell.size)
        module = import_module(f"workloads.{cell.workload}.{self.framework}")
        return self.code.Training(cell, spec, module, spec.reference_weights(0), self.device, dropout=True)

    def answer(self, check: str, **told: Any) -> None:
        with self.answers.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"check": check, **told}) + "\n")


def answer_all(request: Request, checks: Mapping[str, Callable[[Request], Any]]) -> None:
    """Make the checks that were asked for, one by one; what one of them raises is its answer. Ends the process."""
    for name in request.rest["checks"]:
        began = time.perf_counter()
        try:
            told = {"found": checks[name](request)}
        except UnsupportedError as error:
            told = {"unsupported": str(error)}
        except Exception as error:
            traceback.print_exc()
            told = {"error": redact(f"{type(error).__name__}: {error}"[:2000])}
        request.answer(name, **told, seconds=time.perf_counter() - began)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # the frameworks' threads take seconds to be taken down in order


class Stepper:
    """Steps of one cell on one batch that stays on the device, in rounds that end with a fence."""

    def __init__(self, request: Request, cell: Cell) -> None:
        self.request, self.cell = request, cell
        self.training = request.training(cell)
        self.batch = self.training.put(request.batches(cell)[0])
        self.training.compile(self.batch)
        self.steps = 1
        self.seconds()  # the first step does what is done once
        while (seconds := self.seconds()) < ROUND_S:  # warms up, too
            self.steps = max(self.steps + 1, min(10 * self.steps, round(1.2 * ROUND_S / seconds * self.steps)))

    def seconds(self) -> float:
        """The time of one round."""
        self.request.prepare(self.cell)  # switches are global, and another cell's may be set
        began = time.perf_counter()
        for _ in range(self.steps):
            loss = self.training.step(self.batch)
        self.training.fence(loss)
        return time.perf_counter() - began
