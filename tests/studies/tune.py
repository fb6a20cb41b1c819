"""Does a search find the best setting? ``python -m tests.studies.tune`` simulates it, for docs/lab/search.md.

Nothing of the noise is invented: it is that of the launches in `results/runs`, drawn again, and the effects are those
of committed cells (`tests.studies.tune_worlds`). Every search has 24 cells: the best one, two within 3 % of it, and 21
others. A search succeeds if the true best cell, or one within the margin of 2 %, is among those recommended.
"""

# ruff: noqa: T201 - a command that prints

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from suite.analysis.search import significance
from suite.plan.measuring import MARGIN
from suite.plan.objective import usual_budget
from tests.studies.tune_worlds import BLOCKS, CELLS, Search, Values, World, worlds

PAGE = Path("docs/lab/search.md")
BEGIN, END = "<!-- study: {} -->", "<!-- end of study -->"
FULL = 6 * CELLS


@dataclass(frozen=True)
class Rates:
    """Shares of searches: with a good cell among those recommended, without the best, with a good choice; and means."""

    found: float
    dropped: float
    chosen: float
    recommended: float
    launches: float
    regret: float


def choose(search: Search, budget: int) -> tuple[Values, int]:
    """The cells that a search within so many launches recommends (a mask), and its choice, as `suite.tune` does it."""
    scores, alive = np.empty((0, CELLS)), np.ones(CELLS, dtype=bool)
    while alive.sum() > 1 and search.launched + alive.sum() <= budget and len(scores) < BLOCKS:
        scores = np.vstack([scores, search.block(len(scores), alive)])
        alive &= ~significance.find_eliminated(scores, alive, MARGIN)
        if significance.all_tie(scores, alive, MARGIN):
            break
    return alive, significance.fit(scores).best(alive)


def rates(world: World, searches: int, seed: int = 0) -> Rates:
    """The rates over so many searches in one world."""
    draws, budget = np.random.default_rng(seed), usual_budget(CELLS)
    rows = []
    for _ in range(searches):
        search = world.search(draws)
        recommended, chosen = choose(search, budget)
        best, least = search.truth.max(), search.truth.max() - math.log1p(MARGIN)
        found, good = search.truth[recommended].max() >= least, search.truth[chosen] >= least
        regret = -math.expm1(search.truth[chosen] - best)
        dropped = not recommended[search.truth.argmax()]
        rows.append((found, dropped, good, recommended.sum(), search.launched / FULL, regret))
    return Rates(*np.mean(rows, axis=0).tolist())


def by_world(searches: int) -> Iterator[str]:
    """A row per kind of noise: the worst world of this kind, and ranges."""
    yield "| noise | good cell recommended | best cell dropped | cells recommended | choice good | regret | launches |"
    yield "|:--|--:|--:|--:|--:|--:|--:|"
    kinds: dict[str, list[Rates]] = {}
    for name, world in worlds().items():
        each = rates(world, searches, seed=1)
        print(
            f"{name}: found {each.found:.1%}, dropped {each.dropped:.1%}, {each.recommended:.1f} recommended, "
            f"choice {each.chosen:.0%}, regret {each.regret:.1%}, {each.launches:.0%} of the launches",
            flush=True,
        )
        kinds.setdefault(name.partition(", ")[2] or "as published", []).append(each)
    for kind, found in kinds.items():
        recommended = sorted(each.recommended for each in found)
        launches = sorted(each.launches for each in found)
        yield (
            f"| {kind} | {min(each.found for each in found):.1%} | {max(each.dropped for each in found):.1%} "
            f"| {recommended[0]:.1f} to {recommended[-1]:.1f} | {min(each.chosen for each in found):.0%} "
            f"| {max(each.regret for each in found):.1%} | {launches[0]:.0%} to {launches[-1]:.0%} |"
        )


def written(text: str, name: str, lines: Iterable[str]) -> str:
    """The page with these lines between the marks of this name. Raises ValueError where it has none."""
    before, mark, rest = text.partition(BEGIN.format(name))
    _, end, after = rest.partition(END)
    if not mark or not end:
        raise ValueError(f"{PAGE} has no {BEGIN.format(name)}")
    return "\n".join([f"{before}{mark}", "", *lines, "", f"{end}{after}"])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--searches", type=int, default=1000, help="of each world (default: 1000)")
    parser.add_argument("--write", action="store_true", help=f"write the table into {PAGE}")
    options = parser.parse_args(arguments)
    lines = list(by_world(options.searches))
    print("", *lines, sep="\n")
    if options.write:
        PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), "worlds", lines), encoding="utf-8")


if __name__ == "__main__":
    main()
