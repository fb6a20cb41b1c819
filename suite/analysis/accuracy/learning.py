"""Does a setting learn worse? Cells of a race that train to the end, against a reference cell, by test."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from suite.analysis.statistics.inference import holm
from suite.plan.cell import Cell
from suite.record.record import Record
from workloads.spec import specification

ByBlock = Mapping[Cell, Mapping[int, Record]]


def reference(cells: Sequence[Cell], records: ByBlock) -> Cell | None:
    """The cell that the accuracy of the others is compared with: fp32, at the batch nearest to the workload's own.

    Of the cells that trained to their end at least once; None while there is none.
    """

    def distance(cell: Cell) -> tuple[bool, float, int]:
        own = specification(cell.workload).batch
        return cell.precision != "fp32", abs(math.log(cell.effective_batch / own)), -len(records[cell])

    return min((cell for cell in cells if records.get(cell)), key=distance, default=None)


def find_worse_learners(cells: Iterable[Cell], records: ByBlock, base: Cell | None) -> dict[Cell, str]:
    """The cells whose final test accuracy is significantly lower than that of ``base``, beyond a percentage point.

    Seeds are blocks. The tests are those of accuracy tables (`suite.analysis.accuracy.comparison`), with Holm's
    correction, and need three seeds that both have.
    """
    from suite.analysis.accuracy.comparison import difference, verdict  # pandas, which a search for speed does not need

    base_accuracies = _accuracies(records.get(base, {})) if base else {}
    found = {
        cell: tested
        for cell in cells
        if cell != base and (tested := difference(_accuracies(records.get(cell, {})), base_accuracies))
    }
    differs, same = (holm([getattr(each, name) for each in found.values()]) for name in ("p_differs", "p_same"))
    worse = {}
    for (cell, tested), p_differs, p_same in zip(found.items(), differs, same, strict=True):
        if verdict(replace(tested, p_differs=p_differs, p_same=p_same)) == "lower" and base:
            worse[cell] = (
                f"its accuracy is {-100 * tested.value:.1f} points below that of {base.id} (p {p_differs:.2g})"
            )
    return worse


def _accuracies(records: Mapping[int, Record]) -> dict[int, float]:
    return {block: record.course.final_accuracy for block, record in records.items() if record.course}
