"""A launch in this process: the worker's own steps on a little synthetic data, with windows of one step each."""

from __future__ import annotations

import tempfile
import traceback
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from suite.plan.cell import Cell
from suite.plan.measuring import Plan
from suite.record.job import Job
from suite.record.record import SCHEMA, Record
from suite.worker.distributed.ranks import ALONE, Ranks
from suite.worker.launch.description import classify
from suite.worker.process import _Launch
from tests.frameworks import framework_of, switches_restored
from workloads.data import cache as caches
from workloads.data import synthetic
from workloads.spec import specification

#: Samples of the twins; the training split does not hold a whole number of batches.
TRAIN, TEST = 250, 40
#: No window is timed: each is one step, and there are so many that the loader comes into its second epoch.
PLAN = Plan(min_window_s=0.0, windows=10, max_warmup_s=0.0)
SEED = 7
#: Requests of a launch that serves.
REQUESTS = 20


class Rehearsal(_Launch):
    """A launch without the search for the device's peak, which takes longer than all the rest.

    Nor are its settings read back, of which some are those that the process of a launch starts with.
    """

    def _read_back(self, *_: Any) -> None:
        """Nothing."""

    def _measure_peak(self) -> None:
        self.send(part={"settings": self.settings})


@cache
def data(name: str) -> Path:
    """The folder of a small twin; it lasts as long as the process."""
    folder = Path(_place().name)
    caches.write(synthetic.generate(name, TRAIN, TEST), folder)
    return caches.folder_of(folder, name, "synthetic")


@cache
def _place() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="mutants-")


def rehearse(cell: Cell, ranks: Ranks = ALONE, serves: bool = False) -> Record:
    """The record of a launch of this cell on the CPU, however it ended; of several ``ranks`` each calls it."""
    plan = replace(PLAN, phases=("train", "infer"), requests=REQUESTS) if serves else PLAN
    job = Job(cell, str(data(specification(cell.workload).data)), seed=SEED, device="cpu", plan=plan, epochs=1)
    parts: dict[str, Any] = {"outcome": {"status": "ok", "reason": ""}}

    def send(**message: Any) -> None:
        parts.update(message.get("part", {}))

    framework = framework_of(cell.framework)
    try:
        with switches_restored(cell.framework):
            Rehearsal(job, framework, send, 0.0, ranks).run()
        ranks.leave()
    except Exception as error:
        traceback.print_exc()
        status, reason = classify(error, job, framework)
        parts["outcome"] = {"status": status, "reason": reason}
    started = "2026-01-01T00:00:00+00:00"
    return Record.from_json(
        {"schema": SCHEMA, "cell": cell.to_json(), "launch": 0, "started": started, "run": {"seed": SEED}, **parts}
    )
