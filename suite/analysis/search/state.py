"""The state of a race between cells: which are left, which are out and why, and the figures that it is judged by."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from suite.analysis.rows.metrics import Prices, joules_per_sample
from suite.analysis.rows.wording import NONE, figure
from suite.analysis.search.significance import all_tie, spent
from suite.analysis.statistics.noise import Fit, Scores, fit
from suite.plan.cell import Cell
from suite.plan.objective import KINDS, Question
from suite.record.record import Record

#: Where the peak memory of a launch stands: of the GPU's allocator if there is one, else of the process.
MEMORY = ("allocator_peak_bytes", "rss_peak_bytes")


def value(record: Record, name: str, question: Question) -> float | None:
    """The quantity of this name, in its own unit; None if the launch did not measure it, or reached no target."""
    if name == "samples/s":
        found = record.samples_per_s
    elif name == "step-latency":
        phase = record.phases.get("train")
        found = phase.step_s if phase else None
    elif name == "joules/sample":
        found = joules_per_sample(record)
    elif name == "cost":
        joules = joules_per_sample(record)
        found = Prices(question.price_hour, question.price_kwh).of_a_million(record.samples_per_s, joules)
    elif name == "memory":
        found = next((float(record.memory[kind]) for kind in MEMORY if kind in record.memory), None)
    else:
        found = record.course.seconds_to_target if record.course else None
    return found if found and found > 0 and math.isfinite(found) else None


def score(quantity: float | None, name: str) -> float:
    if quantity is None:
        return math.nan
    return math.log(quantity) if KINDS[name].more else -math.log(quantity)


def why_none(record: Record, question: Question) -> str:
    """Why a launch that ended well has no figure for an objective; empty if it has all."""
    for objective in question.objectives:
        if value(record, objective.name, question) is None:
            if objective.target is not None and record.course:
                epochs, last = len(record.course.epochs), record.course.final_accuracy
                return f"did not reach {objective.target:g} in {epochs} epochs (it ended at {last:.3f})"
            return f"its launch measured no {objective.name}"
    return ""


def figure_of(score: float, name: str) -> float:
    return math.exp(score if KINDS[name].more else -score)


def mean(scores: NDArray[np.float64]) -> float:
    return float(np.nanmean(scores))


def format_value(value: float | None, name: str) -> str:
    """A quantity with its unit, such as ``1,234 samples/s``, ``12.3 ms`` or ``2.11 GiB``."""
    if value is None:
        return NONE
    if name == "memory":
        return f"{figure(value / 2**30)} GiB" if value >= 2**30 else f"{figure(value / 2**20)} MiB"
    if name == "step-latency":
        return f"{figure(1e3 * value)} ms"
    return f"{figure(value)} {KINDS[name].unit}".rstrip()


#: Why a cell is out, in a word.
WORSE, LIMIT, FAILED, LEARNED, UNPROVEN = "worse", "limit", "failed", "learned worse", "not proved"


@dataclass(frozen=True)
class Exit:
    """Why a cell is out, after how many blocks and launches of the race; ``launched`` are its own launches."""

    kind: str
    reason: str
    blocks: int
    launches: int
    launched: int


@dataclass(frozen=True)
class Step:
    """The launches that a race had made by the end of a block, and the cells that were then left."""

    launches: int
    left: int


@dataclass(frozen=True)
class Race:
    """The state of a race. ``due`` are the cells of the block that runs, in their order; without any it is over.

    ``records`` (by cell) are the launches that ended well, by block. ``blocks`` counts those that are complete.
    """

    cells: tuple[Cell, ...]
    question: Question
    alive: tuple[Cell, ...]
    out: Mapping[Cell, Exit]
    blocks: int
    launches: int
    due: tuple[Cell, ...]
    records: Mapping[Cell, Mapping[int, Record]]
    path: tuple[Step, ...] = ()

    @property
    def over(self) -> bool:
        return not self.due

    @cached_property
    def scores(self) -> list[Scores]:
        count = 1 + max((block for each in self.records.values() for block in each), default=-1)
        return [table(self.cells, self.records, self.question, each.name, count) for each in self.question.objectives]

    @cached_property
    def fits(self) -> list[Fit]:
        return [fit(each) for each in self.scores if each.size]

    @property
    def risk(self) -> float | None:
        """The risk that the tests so far dropped the best cell; None before the second block, which is first tested."""
        return spent(self.blocks - 1) if self.blocks > 1 else None

    @cached_property
    def ranked(self) -> list[Cell]:
        """The cells that are left, the best by the first objective first; those without a launch last."""
        means = dict(zip(self.cells, self.fits[0].means, strict=True)) if self.fits else {}
        return sorted(self.alive, key=lambda cell: -means[cell] if not math.isnan(means.get(cell, math.nan)) else 1e9)

    @property
    def recommended(self) -> list[Cell]:
        """The cells that are left, the best first, without those that are beyond a limit on average."""
        return [cell for cell in self.ranked if not self.exceeded_limit(cell)] if self.blocks else []

    @property
    def launched_once(self) -> list[Cell]:
        return [] if self.blocks else [cell for cell in self.ranked if cell in self.records]

    def exceeded_limit(self, cell: Cell) -> str:
        for limit in self.question.limits:
            logs = self.logs(cell, limit.name)
            if len(logs) and mean(logs) < score(limit.value, limit.name):
                return str(limit)
        return ""

    def logs(self, cell: Cell, name: str) -> Scores:
        records = self.records.get(cell, {})
        figures = (value(records[block], name, self.question) for block in sorted(records))
        return np.array([score(figure, name) for figure in figures if figure is not None])

    @property
    def agreed(self) -> bool:
        """Whether the cells that are left are shown to lie within the margin of each other, or there is only one."""
        left = np.array([cell in set(self.alive) for cell in self.cells])
        return len(self.alive) < 2 or all(all_tie(each, left, self.question.margin) for each in self.scores)


def table(
    cells: Sequence[Cell], records: Mapping[Cell, Mapping[int, Record]], question: Question, name: str, blocks: int
) -> Scores:
    scores = np.full((blocks, len(cells)), np.nan)
    for at, cell in enumerate(cells):
        for block, record in records.get(cell, {}).items():
            scores[block, at] = score(value(record, name, question), name)
    return scores
