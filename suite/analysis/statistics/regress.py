"""Has a cell become slower between two runs on one machine? For CI: ``suite.compare BASE NEW --fail-if slower=5%``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from suite.analysis.records.load import Launch, LoadError
from suite.analysis.records.machines import SAME, Machines, compare
from suite.analysis.rows.blocks import select_counting, why_unplanned
from suite.analysis.statistics.inference import LEVEL, Paired, holm, welch
from suite.plan.cell import Cell
from suite.record.record import Record

#: With fewer launches on either side there is too little scatter to test a difference against.
LEAST_LAUNCHES = 3


@dataclass(frozen=True)
class Change:
    """New throughput over the base's with its 95 % interval; p is the one after Holm's correction over all cells."""

    cell: Cell
    ratio: Paired

    def slower(self, threshold: float) -> bool:
        """Whether it is significantly slower by more than this share, so that noise rarely fails a build."""
        return self.ratio.p < LEVEL and self.ratio.high < 1 - threshold

    def __str__(self) -> str:
        interval = f"{self.ratio.low:.3f} to {self.ratio.high:.3f}, p {self.ratio.p:.2g}"
        return f"{self.cell.id}: {self.ratio.value:.3f} of the base's throughput ({interval})"


def changes(launches: Iterable[Launch]) -> tuple[list[Change], list[str]]:
    """The change of every cell from the first run to the second, and why some cells have none.

    Raises `LoadError` unless the launches are of two runs on one machine.
    """
    launches = list(launches)
    runs: dict[str, dict[Cell, list[Record]]] = {}
    for launch in launches:
        if not launch.record.control:
            runs.setdefault(launch.run, {}).setdefault(launch.record.cell, []).append(launch.record)
    if len(runs) != 2:
        raise LoadError(f"--fail-if compares two runs, BASE and NEW; {len(runs)} were given")
    base, new = runs.values()
    _check_machines(launches)
    tested: list[tuple[Cell, Paired]] = []
    notes = [f"{cell.id}: not in both runs" for cell in {**base, **new} if not (cell in base and cell in new)]
    for cell in (cell for cell in base if cell in new):
        if reason := _obstacle(base[cell], new[cell]):
            notes.append(f"{cell.id}: {reason}")
        else:
            tested.append((cell, welch(_rates(new[cell]), _rates(base[cell]))))
    corrected = zip(tested, holm([test.p for _, test in tested]), strict=True)
    return [Change(cell, replace(test, p=p)) for (cell, test), p in corrected], notes


def _check_machines(launches: Iterable[Launch]) -> None:
    pairs = [(launch.run, launch.record) for launch in launches if launch.record.outcome.ok]
    machines = Machines(pairs)
    found = list(dict.fromkeys(machines.find(*pair) for pair in pairs))
    for each in found[1:]:
        likeness, why = compare(found[0], each)
        if likeness != SAME:
            raise LoadError(f"--fail-if needs both runs from one machine, as a slower one is no regression: {why}")


def _obstacle(base: Sequence[Record], new: Sequence[Record]) -> str:
    ok = [select_counting(records) for records in (base, new)]
    if min(map(len, ok)) < LEAST_LAUNCHES:
        return f"{len(ok[0])} and {len(ok[1])} launches ended well; a test takes {LEAST_LAUNCHES} of each"
    if reason := why_unplanned(base) or why_unplanned(new):
        return reason
    for field, name in (("data", "data"), ("workload", "spec")):
        if len({getattr(record, field).get("digest") for records in ok for record in records}) > 1:
            return f"the {name} changed: another question"
    return ""


def _rates(records: Iterable[Record]) -> list[float]:
    return [rate for record in select_counting(records) if (rate := record.samples_per_s)]
