"""How often is a run wrong that stops when it is decided, and how soon does it stop? It is simulated and printed.

Simulates whole answers: three frameworks at two batch sizes of two workloads, so that twelve pairs are tested together.
Each cell has the noise of one committed cell, whose launches are drawn anew: that of every committed run
with four launches or more of each cell, smoothed, and with drift, outliers, processes of two speeds, and normal. Every
run is looked at after each block, as a real one is, and a cell takes part until all its pairs are decided. The fixed
design, six launches of each cell, is run on the same draws.

An answer is *wrong* if any pair without a difference is called faster or slower, or equal where it differs by more than
the margin; the *wrong side* is faster in place of slower. ``python -m tests.studies.stopping --write`` puts what it
prints into docs/lab/method.md. Ten minutes on one core.
"""

# ruff: noqa: T201 - a command that prints

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
from scipy import special

from suite.analysis.statistics.inference import LEVEL
from suite.analysis.statistics.noise import cut_outliers, widen
from suite.analysis.statistics.sequential import Design, Look, look_at
from suite.plan.measuring import MARGIN
from tests.studies.stopping_worlds import BATCHES, FRAMEWORKS, Values, World, cells, sources, worlds
from tests.studies.tune import written

PAGE = Path(__file__).parents[2] / "docs" / "lab" / "method.md"
MARK = "stopping"
#: Ratios of throughput to PyTorch's in the committed answers, roughly: those of the CNN, then of the LSTM.
REAL = ({"pytorch": 1.0, "tensorflow": 1.0, "jax": 0.6}, {"pytorch": 1.0, "tensorflow": 0.55, "jax": 0.5})
#: Seconds of a launch that times its training alone, and of one with all phases.
LEAN_S, WHOLE_S = 10.0, 23.0
#: The launches of the fixed design; and a difference in logarithms that so many blocks should decide.
FIXED, LARGE = 6, 0.6
UNDECIDED, FASTER, SLOWER, EQUAL = 0, 1, -1, 2
#: Answers that are simulated at a time.
PART = 2000


def pairs() -> list[tuple[int, int]]:
    """The comparisons of an answer: each two frameworks of each setting, as places among the cells."""
    places = {cell: place for place, cell in enumerate(cells())}
    return [
        (places[workload, batch, first], places[workload, batch, second])
        for workload in (0, 1)
        for batch in BATCHES
        for first, second in combinations(FRAMEWORKS, 2)
    ]


FIRST, SECOND = (np.array(side) for side in zip(*pairs(), strict=True))
OF_WORKLOAD = [np.array([place for place, cell in enumerate(cells()) if cell[0] == which]) for which in (0, 1)]


def holm(p: Values) -> Values:
    """p-values (answers, tests) after Holm's correction over the tests of each answer."""
    order = np.argsort(p, axis=-1, kind="stable")
    left = p.shape[-1] - np.arange(p.shape[-1])
    adjusted = np.maximum.accumulate(np.minimum(1.0, left * np.take_along_axis(p, order, -1)), axis=-1)
    back = np.empty_like(p)
    np.put_along_axis(back, order, adjusted, -1)
    return back


def levels(p: Values) -> Values:
    """The levels of the intervals (answers, tests), as in `suite.analysis.statistics.inference.correct`."""
    rejected = (holm(p) < LEVEL).sum(-1, keepdims=True)
    ranks = np.argsort(np.argsort(p, axis=-1, kind="stable"), axis=-1, kind="stable")
    return LEVEL / (p.shape[-1] - np.minimum(ranks, rejected))


def verdicts(low: Values, high: Values) -> Values:
    """What `suite.analysis.statistics.inference.verdict` says of intervals."""
    equal = (low >= 1 / (1 + MARGIN)) & (high <= 1 + MARGIN)
    return np.select([low > 1 + MARGIN, high < 1 / (1 + MARGIN), equal], [FASTER, SLOWER, EQUAL], UNDECIDED)


def cut(logs: Values, outliers: bool = True) -> tuple[Values, Values, Values]:
    """Logarithms (answers, cells, blocks) after cutting, which were cut, and the shared variance (answers, pairs)."""
    kept, off, shared = logs.copy(), np.zeros(logs.shape, bool), np.empty((len(logs), len(FIRST)))
    for places in OF_WORKLOAD:
        part = logs[:, places]
        beyond, rest = cut_outliers(part) if outliers else (np.zeros(part.shape), part)
        kept[:, places], off[:, places] = part - beyond, beyond != 0
        counted = (~np.isnan(part)).sum((-1, -2))
        share = counted / np.maximum(counted - (beyond != 0).sum((-1, -2)), 1)
        variance = _variance(np.where(beyond, part - rest, part)) * share
        shared[:, np.isin(FIRST, places)] = 2 * variance[:, None]
    return kept, off, shared


def _variance(logs: Values) -> Values:
    """The variance (answers,) of a launch for many tables at a time, as `two_way.fit` of `estimates` has it."""
    known = ~np.isnan(logs)
    if known.all():  # sooner, without equations
        rest = logs - logs.mean(-1, keepdims=True) - logs.mean(-2, keepdims=True) + logs.mean((-1, -2), keepdims=True)
        every: Values = (rest**2).sum((-1, -2)) / ((logs.shape[-1] - 1) * (logs.shape[-2] - 1))
        return every
    values, weights = np.where(known, logs, 0.0), known.astype(float)
    counts, of_blocks = np.maximum(weights.sum(-1, keepdims=True), 1), weights.sum(-2)
    blocks = logs.shape[-1]
    matrix = np.eye(blocks) * (of_blocks[..., None] + 1e-9) - np.swapaxes(weights / counts, -1, -2) @ weights + 1
    right = (values - weights * values.sum(-1, keepdims=True) / counts).sum(-2)
    effects = np.linalg.solve(matrix, right[..., None])[..., 0][..., None, :]
    means = ((values - effects) * weights).sum(-1, keepdims=True) / counts
    rest = (values - means - effects) * weights
    freedom = weights.sum((-1, -2)) - known.any(-1).sum(-1) - known.any(-2).sum(-1) + 1
    found: Values = np.where(freedom > 0, (rest**2).sum((-1, -2)) / np.maximum(freedom, 1), 0.0)
    return found


@dataclass
class Tally:
    """What became of the answers of one world: counts, and sums over answers."""

    answers: int = 0
    wrong: int = 0
    wrong_side: int = 0
    decided: float = 0.0
    soon: float = 0.0
    seconds: float = 0.0
    bias: float = 0.0

    def __add__(self, other: Tally) -> Tally:
        return Tally(*(one + another for one, another in zip(vars(self).values(), vars(other).values(), strict=True)))


def sequential(
    logs: Values, design: Design, busy: Values | None = None, outliers: bool = True
) -> tuple[Values, Values, Values]:
    """The verdict, the blocks and the ratio of each pair (answers, pairs), as of the look at which it was decided.

    A launch without an undisturbed figure is NaN, and its pairs lack that block. ``busy`` (answers, blocks) says
    whether nothing is decided, since too few launches were undisturbed by then; ``outliers`` whether they are cut.
    """
    shape = len(logs), len(FIRST)
    word, ended, value = (np.zeros(shape) for _ in range(3))
    held: dict[int, list[tuple[Values, Look]]] = {}  # by the blocks that pairs have: which pairs, and their look
    p = np.ones(shape)
    for block in range(design.first, design.most + 1):
        for count, at, look in _look(logs[..., :block], design, outliers):
            held.setdefault(count, []).append((at, look))
            p[at] = np.minimum(p[at], look.p)
        now, low, high = _intersect(held, levels(p))
        left = word == UNDECIDED
        said = verdicts(low, high)
        if busy is not None:
            said = np.where(busy[:, block - 1, None], UNDECIDED, said)
        word = np.where(left, said, word)
        ended, value = np.where(left, block, ended), np.where(left, now, value)
    return word, ended, value


def _look(logs: Values, design: Design, outliers: bool) -> Iterator[tuple[int, Values, Look]]:
    """The looks of those pairs that have the last block, by the number of blocks that they have."""
    kept, off, shared = cut(logs, outliers)
    ratios = kept[:, FIRST] - kept[:, SECOND]
    known = ~np.isnan(ratios)
    counts = known.sum(-1)
    for count in design.looks:
        at = (counts == count) & known[..., -1]
        if at.any():
            here = known[at]
            cuts = [off[:, side][at][here].reshape(-1, count).sum(-1) for side in (FIRST, SECOND)]
            yield count, at, look_at(ratios[at][here].reshape(-1, count), shared[at], np.maximum(*cuts), design)


def _intersect(held: Mapping[int, Sequence[tuple[Values, Look]]], level: Values) -> tuple[Values, Values, Values]:
    """What `intersect` says of all pairs (answers, pairs), each with its looks in their order."""
    value, low, high = np.ones(level.shape), np.zeros(level.shape), np.full(level.shape, np.inf)
    for count in sorted(held):
        for at, look in held[count]:
            new_low, new_high = look.interval(level[at])
            apart = np.maximum(low[at], new_low) > np.minimum(high[at], new_high)
            low[at] = np.where(apart, new_low, np.maximum(low[at], new_low))
            high[at] = np.where(apart, new_high, np.minimum(high[at], new_high))
            value[at] = np.exp(look.mean)
    return np.clip(value, low, high), low, high


def fixed(logs: Values) -> tuple[Values, Values, Values]:
    """The same by six launches of each cell: a paired t-test."""
    ratios = (logs[:, FIRST] - logs[:, SECOND])[..., :FIXED]
    beyond = cut_outliers(ratios[..., None, :])[0][..., 0, :]
    ratios = ratios - beyond
    error = ratios.std(-1, ddof=1) / math.sqrt(FIXED) * widen(FIXED, np.count_nonzero(beyond, axis=-1))
    mean = ratios.mean(-1)
    p = 2 * special.stdtr(FIXED - 1, -np.abs(mean) / np.maximum(error, 1e-300))
    reach = special.stdtrit(FIXED - 1, 1 - levels(p) / 2) * error
    word = verdicts(np.exp(mean - reach), np.exp(mean + reach))
    return word, np.full(mean.shape, float(FIXED)), np.exp(mean)


def judge(found: tuple[Values, Values, Values], true: Values, launch_s: float) -> Tally:
    """Counts what is wrong in answers, given the logarithms of the cells' true throughputs (cells,)."""
    word, blocks, value = found
    differences = true[FIRST] - true[SECOND]
    claims = np.isin(word, (FASTER, SLOWER))
    wrong = (claims & (differences == 0)) | ((word == EQUAL) & (np.abs(differences) > math.log1p(MARGIN)))
    side = claims & (word * differences < 0)
    right = claims & (differences != 0)
    bias = np.where(right, (np.log(value) - differences) * np.sign(differences), 0.0).sum(-1)
    launches = [blocks[:, (place == FIRST) | (place == SECOND)].max(-1) for place in range(len(true))]
    return Tally(
        len(word), int(wrong.any(-1).sum()), int(side.any(-1).sum()), float((word != UNDECIDED).sum()),
        float((claims & (blocks <= FIXED) & (np.abs(differences) > LARGE)).sum()),
        float(np.sum(launches)) * launch_s, float((bias / np.maximum(right.sum(-1), 1)).sum()),
    )  # fmt: skip


def run(world: World, true: Values, design: Design, answers: int, seed: int = 0) -> dict[str, Tally]:
    """Many answers of one world, by both designs on the same draws."""
    draws, tallies = np.random.default_rng(seed), {"sequential": Tally(), "fixed": Tally()}
    for begin in range(0, answers, PART):
        logs = world.logarithms(true, min(PART, answers - begin), design.most, draws)
        tallies["sequential"] += judge(sequential(logs, design), true, LEAN_S)
        tallies["fixed"] += judge(fixed(logs), true, WHOLE_S)
    return tallies


def truths() -> dict[str, Values]:
    """The logarithms of the cells' true throughputs (cells,), by what differs."""
    by = {
        "nothing": lambda _, __: 1.0,
        "one framework by 5 %": lambda _, name: 1.05 if name == "jax" else 1.0,
        "one framework by 10 %": lambda _, name: 1.1 if name == "jax" else 1.0,
        "one framework by a factor of two": lambda _, name: 0.5 if name == "jax" else 1.0,
        "as in the published runs": lambda workload, name: REAL[workload][name],
    }
    return {what: np.log([rate(workload, name) for workload, _, name in cells()]) for what, rate in by.items()}


def _range(values: Iterable[float], form: str) -> str:
    held = list(values)
    low, high = f"{min(held):{form}}", f"{max(held):{form}}"
    return (low if low == high else f"{low.removesuffix('%')} to {high}").replace("%", " %")


def lines(tallies: Mapping[str, Sequence[Mapping[str, Tally]]]) -> Iterator[str]:
    """The table for the documentation: what differs, and the range over all worlds, of both designs."""
    six = "by six launches: wrong | decided | minutes"
    yield f"| what differs | wrong | on the wrong side | decided, of 12 | minutes | {six} |"
    yield "|:--|--:|--:|--:|--:|--:|--:|--:|"
    for what, found in tallies.items():
        parts = [what]
        for kind in ("sequential", "fixed"):
            held = [each[kind] for each in found]
            parts.append(_range((each.wrong / each.answers for each in held), ".1%"))
            if kind == "sequential":
                parts.append(_range((each.wrong_side / each.answers for each in held), ".2%"))
            parts.append(_range((each.decided / each.answers for each in held), ".1f"))
            parts.append(_range((each.seconds / each.answers / 60 for each in held), ".0f"))
        yield f"| {' | '.join(parts)} |"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", type=int, default=10_000, help="simulated of each world (default: 10000)")
    parser.add_argument("--what", choices=truths(), help="what differs, one line of the table only")
    parser.add_argument("--first", type=int, default=Design.first, help=f"first look (default: {Design.first})")
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE.name}")
    options = parser.parse_args(arguments)
    design = Design(first=options.first)
    tallies: dict[str, list[dict[str, Tally]]] = {}
    for what, true in truths().items():
        if options.what not in (None, what):
            continue
        print(f"\n{what}\n{'noise':26}{'design':12}{'wrong':>8}{'side':>8}{'decided':>9}{'minutes':>9}{'bias':>8}")
        for source, noise in sources().items():
            for label, world in worlds(noise).items():
                found = run(world, true, design, options.answers)
                tallies.setdefault(what, []).append(found)
                for kind, each in found.items():
                    n = each.answers
                    shares = f"{each.wrong / n:8.2%}{each.wrong_side / n:8.2%}{each.decided / n:9.1f}"
                    print(
                        f"{source + ', ' + label:26}{kind:12}{shares}{each.seconds / n / 60:9.1f}{each.bias / n:8.2%}"
                    )
    errors = [f"{100 * math.sqrt(share * (1 - share) / options.answers):.2f}" for share in (0.05, 0.001)]
    count = len(next(iter(tallies.values())))
    note = (
        f"{count} worlds, {options.answers:,} answers of each; the standard error of a share of 5 % "
        f"is {errors[0]} points, that of 0.1 % {errors[1]}."
    )
    table = [*lines(tallies), "", note]
    print("", *table, sep="\n")
    if options.write and not options.what:
        PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), MARK, table), encoding="utf-8")


if __name__ == "__main__":
    main()
