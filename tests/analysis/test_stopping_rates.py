"""The simulation of `tests.studies.stopping` tests as a run does, and finds few wrong answers."""

from __future__ import annotations

import numpy as np
import pytest

from suite.analysis.statistics import inference
from suite.analysis.statistics.inference import Paired
from suite.analysis.statistics.noise import TableNoise, measure_noise
from suite.analysis.statistics.sequential import Design, Look, looks
from tests.studies import stopping
from tests.studies.stopping_worlds import World, cells, sources, worlds

DESIGN = Design()


def logarithms(answers: int = 4) -> np.ndarray:
    """Logarithms of throughputs (answers, cells, blocks)."""
    return np.random.default_rng(7).normal(0.0, 0.05, (answers, len(cells()), DESIGN.most))


def noise_of(logs: np.ndarray, first: int) -> TableNoise:
    """What the program says of the table of one answer (cells, blocks) that this cell is in."""
    (places,) = (part for part in stopping.OF_WORKLOAD if first in part)
    return measure_noise(logs[places], places.tolist(), range(DESIGN.most))


def test_many_answers_are_tested_as_one_is() -> None:
    logs = logarithms()
    logs[:, :3] += np.array([0.0, 0.1, 0.4])[:, None]
    logs -= np.where(np.random.default_rng(8).random(logs.shape) < 0.1, 0.6, 0.0)  # so that some are cut
    word, blocks, _ = stopping.sequential(logs, DESIGN)
    names = {0: "inconclusive", 1: "faster", -1: "slower", 2: "equal"}
    for answer, each in enumerate(logs):
        tests: list[list[Paired]] = []
        for first, second in stopping.pairs():
            noise = noise_of(each, first).of_pair(first, second)
            tests.append(looks(dict(enumerate(each[first] - each[second])), noise, DESIGN))
        said = ["inconclusive"] * len(tests)
        ended = [DESIGN.most] * len(tests)
        for at, count in enumerate(DESIGN.looks):
            for pair, new in enumerate(inference.verdicts([each[at] for each in tests])):
                if said[pair] == "inconclusive" and new != "inconclusive":
                    said[pair], ended[pair] = new, count
        assert [names[int(each)] for each in word[answer]] == said
        assert blocks[answer].tolist() == ended


def test_the_shared_variance_is_that_of_a_fit() -> None:
    """With launches that are missing, too."""
    logs = logarithms()
    logs[np.random.default_rng(9).random(logs.shape) < 0.2] = np.nan
    shared = stopping.cut(logs)[2]
    for answer, found in zip(logs, shared, strict=True):
        for first, variance in zip(stopping.FIRST, found, strict=True):
            assert variance == pytest.approx(noise_of(answer, first).variance[DESIGN.most - 1])


def test_holm_is_that_of_tables() -> None:
    p = np.random.default_rng(1).random((5, 12)) ** 3
    assert [row.tolist() for row in stopping.holm(p)] == [pytest.approx(inference.holm(row.tolist())) for row in p]


def test_six_launches_are_tested_as_a_table_does() -> None:
    logs = logarithms(1)
    logs[0, 1, 2] -= 0.6
    word, _, value = stopping.fixed(logs)
    ratios = [np.exp(logs[0, first] - logs[0, second])[: stopping.FIXED].tolist() for first, second in stopping.pairs()]
    tests = [test for each in ratios if (test := inference.run_t_test(each))]
    assert value[0] == pytest.approx([test.value for test in tests])
    said = {"faster": 1, "slower": -1, "equal": 2, "inconclusive": 0}
    assert word[0].tolist() == [said[each] for each in inference.verdicts(tests)]


def test_what_is_wrong_is_counted() -> None:
    true = stopping.truths()["one framework by 5 %"]
    shape = (1, len(stopping.FIRST))
    word = np.zeros(shape)
    word[0, 0] = stopping.FASTER  # PyTorch and TensorFlow do not differ
    word[0, 1] = stopping.FASTER  # and JAX is faster than PyTorch
    tally = stopping.judge((word, np.full(shape, 4.0), np.ones(shape)), true, 10.0)
    assert (tally.answers, tally.wrong, tally.wrong_side, tally.decided) == (1, 1, 1, 2.0)
    assert tally.seconds == 4 * len(cells()) * 10.0


def test_every_committed_run_lends_its_noise() -> None:
    assert {"0005", "0011", "0017", "0023", "0032", "0027", "0029", "0030"} <= sources().keys()


@pytest.mark.parametrize("what", ["nothing", "one framework by 5 %"])
def test_few_answers_are_wrong(what: str) -> None:
    """Two thousand answers with the noise of a published run: at most 5 %, and three standard errors."""
    (noise, *_) = (each for name, each in sources().items() if name == "0005")
    world: World = worlds(noise)["normal"]
    tally = stopping.run(world, stopping.truths()[what], DESIGN, 2000)["sequential"]
    assert tally.wrong / tally.answers < 0.05 + 3 * (0.05 * 0.95 / 2000) ** 0.5
    assert isinstance(stopping.look_at(logarithms()[0], 0.0, 0.0, Design(first=4)), Look)
