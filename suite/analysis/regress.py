"""Has a cell become slower between two runs on one machine? For CI: ``suite.compare BASE NEW --fail-if slower=5%``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from suite.analysis.groups import machine
from suite.analysis.load import Launch, LoadError
from suite.analysis.statistics import LEVEL, Paired, holm, welch
from suite.plan.cell import Cell
from suite.record.record import Record

#: With fewer launches on either side a difference has no scatter to be held against.
LEAST_LAUNCHES = 3


@dataclass(frozen=True)
class Change:
    """New throughput over the base's, its 95 % interval, and the p-value after Holm over all cells of both runs."""

    cell: Cell
    ratio: float
    low: float
    high: float
    p: float

    def slower(self, apart: float) -> bool:
        """Whether it is slower by more than that share, significantly: noise never fails a build."""
        return self.p < LEVEL and self.high < 1 - apart

    def __str__(self) -> str:
        interval = f"{self.low:.3f} to {self.high:.3f}, p {self.p:.2g}"
        return f"{self.cell.id}: {self.ratio:.3f} of the base's throughput ({interval})"


def threshold(text: str) -> float:
    """``slower=5%`` as 0.05. Raises `ValueError`."""
    found = re.fullmatch(r"slower=(\d+(?:\.\d+)?)%", text)
    if not found or float(found[1]) >= 100:
        raise ValueError(text)
    return float(found[1]) / 100


def changes(launches: Iterable[Launch]) -> tuple[list[Change], list[str]]:
    """The change of every cell from the first run to the second, and why others have none.

    Raises `LoadError` unless the launches are of two runs on one machine.
    """
    runs: dict[str, dict[Cell, list[Record]]] = {}
    for launch in launches:
        if not launch.record.control:
            runs.setdefault(launch.run, {}).setdefault(launch.record.cell, []).append(launch.record)
    if len(runs) != 2:
        raise LoadError(f"--fail-if compares two runs, BASE and NEW; {len(runs)} were given")
    base, new = runs.values()
    machines = {machine(r) for held in (base, new) for records in held.values() for r in records if r.outcome.ok}
    if len(machines) > 1:
        raise LoadError("--fail-if needs both runs from one machine: a slower machine is no regression")
    tested: list[tuple[Cell, Paired]] = []
    notes = [f"{cell.id}: not in both runs" for cell in {**base, **new} if not (cell in base and cell in new)]
    for cell in (cell for cell in base if cell in new):
        if reason := _obstacle(base[cell], new[cell]):
            notes.append(f"{cell.id}: {reason}")
        else:
            tested.append((cell, welch(_rates(new[cell]), _rates(base[cell]))))
    corrected = holm([found.p for _, found in tested])
    changed = [
        Change(cell, found.value, found.low, found.high, p) for (cell, found), p in zip(tested, corrected, strict=True)
    ]
    return changed, notes


def _obstacle(base: Sequence[Record], new: Sequence[Record]) -> str:
    ok = [[record for record in records if record.outcome.ok] for records in (base, new)]
    if min(map(len, ok)) < LEAST_LAUNCHES:
        return f"{len(ok[0])} and {len(ok[1])} launches ended well; a test takes {LEAST_LAUNCHES} of each"
    for what, name in (("data", "data"), ("workload", "spec")):
        if len({getattr(record, what).get("digest") for records in ok for record in records}) > 1:
            return f"the {name} changed: another question"
    return ""


def _rates(records: Iterable[Record]) -> list[float]:
    return [rate for record in records if record.outcome.ok and (rate := record.samples_per_s)]
