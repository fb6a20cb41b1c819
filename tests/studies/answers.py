"""How often does an answer call anything faster where nothing is? ``python -m tests.studies.answers`` simulates it.

An answer reads several tests at once: the ratios of two tables (two workloads of two batch sizes each), the pairs of
frameworks without the baseline, and the gains of each setting. The noise is that of run 0005, drawn again, as in
`tests.studies.significance`. With compile modes PyTorch and TensorFlow run in two each, and a framework is judged by
the faster one, chosen on the same launches. That bias is printed too.
"""

# ruff: noqa: T201 - a command that prints

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import combinations, product

import numpy as np

from suite.analysis.statistics.inference import LEVEL, Paired, correct, run_t_test
from tests.studies.significance import Values, of_launches

WORKLOADS, BATCHES = ("cifar100_cnn", "imdb_lstm"), ("32", "64")
ONE_MODE = {"pytorch": 1, "tensorflow": 1, "jax": 1}
MODES = {"pytorch": 2, "tensorflow": 2, "jax": 1}

Row = tuple[str, str, int]  # batch, framework, mode


def lists(rates: dict[Row, Values]) -> list[list[Paired]]:
    """The tests of one workload: those of its table with the pairs without the baseline, then those of each setting."""

    def test(row: Row, base: Row) -> Paired:
        found = run_t_test((rates[row] / rates[base]).tolist())
        assert found
        return found

    table, chosen = [], []
    for batch in BATCHES:
        rows = [row for row in rates if row[0] == batch]
        base = (batch, "pytorch", 0)
        table += [test(row, base) for row in rows if row[1] != "pytorch"]
        best = {row[1]: row for row in sorted(rows, key=lambda row: float(np.median(rates[row])))}
        chosen += [test(a, b) for a, b in combinations(best.values(), 2) if base not in (a, b)]
    batches = [test((BATCHES[1], *row[1:]), row) for row in rates if row[0] == BATCHES[0]]
    modes = [test(row, (*row[:2], 0)) for row in rates if row[2]]
    return [each for each in ([*table, *chosen], batches, modes) if each]


def drawn(modes: dict[str, int], draws: np.random.Generator, launches: int = 6) -> list[list[Paired]]:
    """All lists of tests of an answer about cells that are all equally fast."""
    rows = [(batch, name, mode) for batch, name in product(BATCHES, modes) for mode in range(modes[name])]
    noise = [of_launches("0005", workload) for workload in WORKLOADS]
    return [each for pool in noise for each in lists({row: np.exp(draws.choice(pool, launches)) for row in rows})]


def wrong(modes: dict[str, int], answers: int, seed: int = 0) -> tuple[float, float]:
    """The shares of answers that call anything faster or slower: with a correction for each list, and with one."""
    draws, apart, together = np.random.default_rng(seed), 0, 0
    for _ in range(answers):
        found = drawn(modes, draws)
        one = [each.verdict for each in correct([test for each in found for test in each])]
        apart += any({"faster", "slower"} & {test.verdict for test in correct(each)} for each in found)
        together += bool({"faster", "slower"} & {*one})
    return apart / answers, together / answers


def bias(modes: int, deviation: float = 0.03, launches: int = 6, draws: int = 1000) -> float:
    """How much too high the ratio of the fastest of so many equal modes is to one other framework, on average."""
    rates = np.random.default_rng(0).standard_normal((draws, modes + 1, launches)) * deviation
    best = np.median(rates[:, :modes], axis=2).argmax(axis=1)
    return float(np.expm1((rates[np.arange(draws), best] - rates[:, modes]).mean()))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", type=int, default=1000, help="simulated for each line (default: 1000)")
    options = parser.parse_args(arguments)
    print(f"Answers that call anything faster or slower where nothing is, of {options.answers}; level {LEVEL}")
    for name, modes in (("one mode each", ONE_MODE), ("two modes of PyTorch and TensorFlow", MODES)):
        apart, together = wrong(modes, options.answers)
        print(f"{name:38} corrected list by list {apart:.3f}, all together {together:.3f}", flush=True)
    for count in (2, 3):
        print(f"fastest of {count} equal modes, 3 % scatter, 6 launches: {bias(count):.2%} too fast")


if __name__ == "__main__":
    main()
