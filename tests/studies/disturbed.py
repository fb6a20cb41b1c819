"""What do cutting outliers and repeating disturbed launches gain, and do they buy a verdict? It is simulated.

The answers are those of `tests.studies.stopping`, where something disturbs the launches. *Plain* is the test without
cutting, *cut* the suite's, where no disturbance is flagged. *Repeat* is the rule of a run: a launch that was flagged is
in no test, one more at the end of its block takes its place, if a third of the planned launches are not used up, and
nothing is decided while more than a third of all places have no undisturbed launch. Flags do not depend on a launch's
own speed: the perfect ones find each disturbance, the others miss half of them, and call one undisturbed launch in ten
disturbed. ``python -m tests.studies.disturbed --write`` puts what it prints into docs/lab/method.md.
"""

# ruff: noqa: T201 - a command that prints

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from suite.analysis.rows.blocks import LOST_MOST
from suite.analysis.statistics.sequential import Design
from suite.plan.blocks import repeats_allowed
from tests.studies.stopping import (
    FASTER,
    FIRST,
    FIXED,
    LARGE,
    LEAN_S,
    PAGE,
    SECOND,
    SLOWER,
    Tally,
    judge,
    sequential,
    truths,
)
from tests.studies.stopping_worlds import DISTURBANCES, DISTURBED, Values, World, sources
from tests.studies.tune import written

MARK = "disturbed"
#: A launch that lost less is not disturbed, in logarithms; processes of two speeds are not, either.
FELT, NEVER = 0.25, ("two speeds of JAX alone",)
TRUE = NOTHING, TWICE = "nothing", "one framework by a factor of two"


@dataclass(frozen=True)
class Flags:
    """The chance that a disturbed launch is flagged, and that an undisturbed one is."""

    found: float
    false: float = 0.0

    def draw(self, disturbed: Values, draws: np.random.Generator) -> Values:
        flagged: Values = draws.random(disturbed.shape) < np.where(disturbed, self.found, self.false)
        return flagged


@dataclass(frozen=True)
class Launched:
    """Logarithms (answers, cells, blocks), NaN without an undisturbed launch; by block, whether busy, and launches."""

    logs: Values
    busy: Values
    launches: Values


def repeat(both: Values, flagged: Values) -> Launched:
    """Applies the rule to launches and those that repeat them, and to their flags (answers, cells, blocks, 2)."""
    cells, blocks = both.shape[1:3]
    asked = flagged[..., 0]
    repeated, done = np.zeros(asked.shape, bool), np.zeros(len(both))
    for block in range(blocks):
        left = repeats_allowed(cells, block) - done
        repeated[..., block] = asked[..., block] & (asked[..., block].cumsum(-1) <= left[:, None])
        done += repeated[..., block].sum(-1)
    logs = np.where(~asked, both[..., 0], np.where(repeated & ~flagged[..., 1], both[..., 1], np.nan))
    planned = cells * np.arange(1, blocks + 1)
    empty = np.isnan(logs).sum(1).cumsum(-1)
    return Launched(logs, empty > LOST_MOST * planned, planned + repeated.sum(1).cumsum(-1))


def launch(world: World, flags: Flags, true: Values, answers: int, draws: np.random.Generator) -> Launched:
    """Many answers of one world, with repeats."""
    blocks, calm = Design().most, replace(world, disturbance="")
    both = np.stack([calm.logarithms(true, answers, blocks, draws) for _ in range(2)], axis=-1)
    slow = world.disturb(both.shape[:-1], draws)
    disturbed = (slow < -FELT) & (world.disturbance not in NEVER)
    return repeat(both + slow, flags.draw(disturbed, draws))


RULES: dict[str, tuple[Flags, bool]] = {
    "plain": (Flags(0.0), False),
    "cut": (Flags(0.0), True),
    "repeat": (Flags(1.0), True),
    "repeat, imperfect flags": (Flags(0.5, 0.1), True),
}


def tally(world: World, rule: str, true: Values, answers: int) -> Tally:
    """Counts what became of answers; a difference is found soon within the launches of so many blocks of the plan."""
    flags, outliers = RULES[rule]
    made = launch(world, flags, true, answers, np.random.default_rng(3))
    word, blocks, value = sequential(made.logs, Design(), made.busy, outliers=outliers)
    counted = judge((word, blocks, value), true, LEAN_S)
    used = np.take_along_axis(made.launches, blocks.astype(int) - 1, -1)
    large = np.abs(true[FIRST] - true[SECOND]) > LARGE
    soon = np.isin(word, (FASTER, SLOWER)) & (used <= FIXED * made.logs.shape[1]) & large
    return replace(counted, soon=float(soon.sum()))


def lines(found: dict[str, dict[tuple[str, str], list[Tally]]]) -> Iterator[str]:
    """The table: by disturbance and rule, the differences found with each run's noise; and the most wrong answers."""
    large = int((np.abs(np.subtract(*(truths()[TWICE][side] for side in (FIRST, SECOND)))) > LARGE).sum())
    yield f"| disturbance | {' | '.join(RULES)} |"
    yield f"|:--|{'--:|' * len(RULES)}"
    for name, rules in found.items():
        cells = [
            "/".join(f"{100 * each.soon / each.answers / large:.1f}" for each in rules[rule, TWICE]) for rule in RULES
        ]
        yield f"| {name} | {' | '.join(cells)} |"
    wrong = {
        rule: max(each.wrong / each.answers for rules in found.values() for true in TRUE for each in rules[rule, true])
        for rule in RULES
    }
    yield f"| wrong answers, at most | {' | '.join(f'{100 * share:.1f}' for share in wrong.values())} |"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", type=int, default=2000, help="simulated for each figure (default: 2000)")
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE.name}")
    options = parser.parse_args(arguments)
    noise = {run: each for run, each in sources().items() if run in DISTURBED}
    found: dict[str, dict[tuple[str, str], list[Tally]]] = {}
    for name in DISTURBANCES:
        for rule, true in product(RULES, TRUE):
            tallies = [
                tally(World(noise[run], disturbance=name), rule, truths()[true], options.answers) for run in DISTURBED
            ]
            found.setdefault(name, {})[rule, true] = tallies
            print(name, rule, true, *tallies, sep="; ", flush=True)
    error = 100 * math.sqrt(0.05 * 0.95 / options.answers)
    note = (
        f"Percent with the noise of runs {', '.join(DISTURBED)}; {options.answers:,} answers for each figure: the "
        f"standard error of 5 % is {error:.1f} points, and at most {error / 0.05**0.5 / 0.95**0.5 / 2:.1f} in any."
    )
    table = [*lines(found), "", note]
    print("", *table, sep="\n")
    if options.write:
        PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), MARK, table), encoding="utf-8")


if __name__ == "__main__":
    main()
