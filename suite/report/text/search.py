"""The answer of a search in words and tables: what to set, what each setting brought, and what is not known."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from shlex import join

from framework_training_suite import PROGRAM
from suite.analysis.rows.wording import NONE, listing
from suite.analysis.search.effects import Effect, effects
from suite.analysis.search.significance import LEVEL
from suite.analysis.search.state import FAILED, LEARNED, LIMIT, UNPROVEN, WORSE, Race, figure_of, format_value, mean
from suite.analysis.statistics.inference import Paired
from suite.catalog.settings import SETTINGS
from suite.plan.cell import Cell
from suite.plan.sweeps.sweep import AXES, spell_value
from suite.record.text import clean
from suite.report.format.names import count, number, workload_title
from suite.report.format.view import LEFT, RIGHT, Grid
from suite.report.text.missing import name_settings
from workloads.registry import folder_of

#: Cells and reasons that a list shows at most.
LISTED_MOST = 6

#: The matrix that trains by a recipe.
RECIPE_MATRICES = {"modern": "accuracy", "study": "accuracy-study", "no-dropout": "loss-curve"}

#: Axes that a cell's command names whatever their value.
ALWAYS = tuple(name for name, each in SETTINGS.items() if each.is_always_named)

#: Why cells are out, as the subject of a count.
WHY = {
    WORSE: "are worse than the best",
    LIMIT: "break a limit",
    FAILED: "failed or were not launched",
    LEARNED: "learn worse",
    UNPROVEN: "have no proof of identity",
}


def label(cell: Cell, cells: Iterable[Cell]) -> str:
    """The framework and the settings in which the cells differ: ``jax · bf16 · b128 · compile``."""
    cells = list(cells)
    parts = [
        SETTINGS[axis].short.format(spell_value(axis, getattr(cell, axis)))
        for axis in AXES[2:]
        if len({getattr(each, axis) for each in cells}) > 1
    ]
    return " · ".join([cell.framework, *parts])


def title(race: Race) -> str:
    """Such as ``small IMDB LSTM, samples/s``."""
    cell = race.cells[0]
    size = "" if cell.size == "full" else f"{cell.size} "
    return f"{size}{workload_title(cell.workload)}, {listing(list(map(str, race.question.objectives)))}"


def relative(race: Race, cell: Cell, objective: int = 0) -> Paired | None:
    """How good a cell is as a share of the best one that is left, and the 95 % interval; None for the best itself.

    Without any estimate of the noise the interval is from 0 to infinity.
    """
    fitted, top = race.fits[objective], race.cells.index(race.ranked[0])
    at = race.cells.index(cell)
    if at == top or math.isnan(fitted.means[at]):
        return None
    log = float(fitted.means[at] - fitted.means[top])
    half = fitted.reach(LEVEL / 2) * float(fitted.errors(top)[at]) if fitted.freedom else math.inf
    return Paired(math.exp(log), math.exp(log - half), math.exp(log + half) if half < 700 else math.inf)


def standing(race: Race, cells: Sequence[Cell]) -> Grid:
    """A row per cell: the quantities of the question, its share of the best, the interval, and its launches."""
    names = race.question.names
    headers = ["cell", *names, "of the best", "95 % interval", "launches"]
    rows = []
    for cell in cells:
        figures = [race.logs(cell, name) for name in names]
        values = [
            format_value(figure_of(mean(logs), name), name).removesuffix(f" {name}") if len(logs) else NONE
            for logs, name in zip(figures, names, strict=True)
        ]
        ratio = relative(race, cell) if race.fits else None
        known = ratio and ratio.low > 0
        interval = f"{ratio.low:.3f} to {ratio.high:.3f}" if ratio and known else NONE
        part = f"{ratio.value:.3f}" if ratio else "1" if len(figures[0]) else NONE
        rows.append([label(cell, race.cells), *values, part, interval, str(len(race.records.get(cell, {})))])
    return Grid(headers, rows, [LEFT, *[RIGHT] * len(names), RIGHT, LEFT, RIGHT])


def verdict(race: Race) -> str:
    """What the race found, in one or two sentences."""
    left = race.recommended
    if not left and not race.blocks and race.alive:
        ran = f"{len(race.launched_once)} of {count(len(race.alive), 'cell')} ran"
        return f"No cell can be recommended: {ran}, and a comparison needs a launch of each."
    if not left:
        return "No cell can be recommended: " + reasons(race)
    best, others = label(left[0], race.cells), len(left) - 1
    if len(race.question.objectives) > 1:
        end = "" if race.over else " More launches may take cells out of it."
        return f"{count(len(left), 'cell')} on the Pareto front, {best} best in {race.question.objectives[0]}.{end}"
    if not others:
        return f"Best: {best}. All other cells are out."
    margin = f"{100 * race.question.margin:g} %"
    verb = "is" if others == 1 else "are"
    if race.agreed:
        return f"Best: {best}. {count(others, 'other')} {verb} equal to it within the margin of {margin}."
    ended = "after the most launches that a race makes" if race.over else "where the search stopped"
    return (
        f"Best so far: {best}. {count(others, 'other')} {verb} not shown to be worse, {ended}: undecided. "
        "To decide, continue with a larger --budget."
    )


def findings(race: Race) -> Grid | None:
    """A row per value of a setting: what it brought over the first value, and what that depends on."""
    found = effects(race.cells, race.scores[0], race.fits[0]) if race.fits else []
    if not found:
        return None
    rows = [
        [
            each.setting, f"{each.value} over {each.base}", f"{each.ratio.value:.3f}",
            f"{each.ratio.low:.3f} to {each.ratio.high:.3f}", str(each.ratio.blocks), depends(each),
        ]
        for each in found
    ]  # fmt: skip
    headers = ["setting", "values", "ratio", "95 % interval", "pairs", "depends on"]
    return Grid(headers, rows, [LEFT, LEFT, RIGHT, LEFT, RIGHT, LEFT], names=2)


def depends(effect: Effect) -> str:
    """The setting that an effect depends on, with the ratio at each of its values; empty where it does not."""
    if not effect.depends_on or effect.by_value is None:
        return "" if effect.p is None or effect.p >= LEVEL else "differs between cells"
    values = ", ".join(f"{value} {ratio.value:.2f}" for value, ratio in effect.by_value.items())
    return f"{effect.depends_on}: {values}"


def command(cell: Cell, target: float | None = None, launches: int = 6) -> str:
    """The command that measures this cell as `training-suite run` does, or trains it to the end."""
    words = [PROGRAM, "run"]
    folder = folder_of(cell.workload)
    words += ["--workloads", folder] if folder else []
    words += ["--matrix", RECIPE_MATRICES[cell.recipe]] if cell.recipe else []
    words += [] if target is None else ["--target", f"{target:g}"]
    return join([*words, *name_settings([cell], ALWAYS), "--launches", str(launches)])


def reasons(race: Race) -> str:
    """How many cells are out, by the reason: ``12 are worse than the best; 3 break a limit``."""
    kinds = Counter(gone.kind for gone in race.out.values())
    return "; ".join(f"{n} {WHY[kind].replace('are', 'is') if n == 1 else WHY[kind]}" for kind, n in kinds.items())


def outs(race: Race) -> list[str]:
    """A line for each reason for which cells are out without having been beaten, with the cells."""
    by_reason: dict[str, list[Cell]] = {}
    for cell, gone in race.out.items():
        if gone.kind != WORSE:
            by_reason.setdefault(gone.reason, []).append(cell)
    lines = []
    for reason, cells in by_reason.items():
        names = [label(cell, race.cells) for cell in cells]
        more = f" and {len(names) - LISTED_MOST} more" if len(names) > LISTED_MOST else ""
        launched = sum(race.out[cell].launched > 0 for cell in cells)
        part = (
            "" if launched == len(cells) else f" ({number(launched) if launched else 'none'} of {len(cells)} launched)"
        )
        lines.append(f"Out: {reason}{part}: {', '.join(names[:LISTED_MOST])}{more}")
    return lines


def say_untried(race: Race) -> str:
    """How many cells were never launched, and why; empty if all were."""
    never = [cell for cell in race.cells if cell in race.out and not race.out[cell].launched]
    waiting = [cell for cell in race.alive if not race.records.get(cell)]
    words = [f"{count(len(never), 'cell')} was ruled out before" if len(never) == 1 else
             f"{count(len(never), 'cell')} were ruled out before"] if never else []  # fmt: skip
    words += [f"the search stopped before {count(len(waiting), 'cell')}"] if waiting else []
    return f"Not tried: {'; '.join(words)}." if words else ""


def risk(race: Race) -> str:
    """The risk that a better cell was dropped, in words."""
    if race.risk is None:
        return "Nothing was tested: that takes two launches of each cell."
    return f"Risk that the tests dropped the best cell: at most {100 * race.risk:.1f} %."


def say_flagged(race: Race) -> str:
    """How many launches were flagged, by flag: on a busy machine none of the figures means much; maybe empty."""
    records = [record for each in race.records.values() for record in each.values()]
    counts = Counter(clean(flag, 40) for record in records for flag in dict.fromkeys(record.flags))
    listed = ", ".join(f"{flag} {n}" for flag, n in counts.most_common())
    return f"Flagged launches, of {len(records)}: {listed}." if counts else ""


def cost(race: Race, seconds: float) -> str:
    """What the race took, and what all cells would have taken with six launches each."""
    whole = 6 * len([cell for cell in race.cells if cell not in race.out or race.out[cell].launched])
    share = f", {race.launches / whole:.0%} of the {whole} that all cells take with six each" if whole else ""
    return f"{count(race.launches, 'launch')} in {seconds / 60:.1f} minutes{share}."


def summary(race: Race, seconds: float) -> dict[str, object]:
    """The answer for programs."""
    values = {
        cell: {name: figure_of(mean(logs), name) for name in race.question.names if len(logs := race.logs(cell, name))}
        for cell in race.cells
    }
    return {
        "workload": race.cells[0].workload,
        "size": race.cells[0].size,
        "question": race.question.to_json(),
        "cells": len(race.cells),
        "recommended": [cell.id for cell in race.recommended],
        "agreed": race.agreed,
        "over": race.over,
        "launches": race.launches,
        "seconds": round(seconds, 1),
        "risk": race.risk,
        "values": {cell.id: each for cell, each in values.items() if each},
        "out": {
            cell.id: {"kind": gone.kind, "reason": gone.reason, "launches": gone.launched}
            for cell, gone in race.out.items()
        },
        "path": [[step.launches, step.left] for step in race.path],
    }
