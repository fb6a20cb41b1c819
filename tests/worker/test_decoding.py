"""Words that follow prompts, from a cache: how they are timed and what is noticed; the model is one of NumPy."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from suite.analysis.identity.self_checks import self_checks
from suite.analysis.statistics.serving import FIGURES
from suite.plan.cell import Cell
from suite.plan.measuring import DECODED
from suite.record.parts.evidence import Answered, Decoded, Identity
from suite.record.parts.history import NUMBER_MOST
from suite.worker.frameworks import RecompiledError
from suite.worker.launch.inference import ROUNDS, check_decoded, continue_prompts, decode

WORDS, LENGTH = 11, 8
DRAWS = np.random.default_rng(0)
TABLE, PLACES = DRAWS.normal(0, 1, (WORDS, WORDS)), DRAWS.normal(0, 1, (LENGTH + 1, WORDS))


class Counting:
    """The logits after a word are a row of a table, and one of its place; the sum of all before is the cache.

    ``late`` is how many places too late the cache begins; ``best`` is the rank of the word that is chosen.
    """

    def __init__(self, late: int = 0, best: int = 1) -> None:
        self.late, self.best, self.passes, self.programs = late, best, 0, 1

    def logits(self, batch: Any) -> Any:
        """Of all places, without a cache."""
        return TABLE[batch[0]].cumsum(1) + PLACES[: batch[0].shape[1]]

    def put(self, batch: Any) -> Any:
        return batch

    def on_host(self, array: Any) -> Any:
        return array

    def prefill(self, inputs: Any) -> Any:
        self.passes += 1
        end = inputs.shape[1]
        cache = TABLE[inputs].sum(1)
        return cache + PLACES[end - 1], cache, end + self.late

    def decode(self, state: Any) -> Any:
        self.passes += 1
        logits, cache, at = state
        words = np.argsort(logits, -1)[:, -self.best]
        cache = cache + TABLE[words]
        return words, (cache + PLACES[at], cache, at + 1)

    def fence(self, pending: deque[Any]) -> None:
        assert pending

    def count_compiled(self) -> int:
        return self.programs


PROMPTS = DRAWS.integers(0, WORDS, (3, LENGTH // 2), dtype=np.int32)


def test_a_cache_gives_what_a_whole_pass_gives() -> None:
    words, off = continue_prompts(Counting(), Counting(), PROMPTS, LENGTH)
    assert words.shape == (3, LENGTH // 2)
    assert off < 1e-12


def test_a_cache_that_is_off_by_one_and_another_word_are_noticed() -> None:
    assert continue_prompts(Counting(late=1), Counting(), PROMPTS, LENGTH)[1] > 0.01
    assert continue_prompts(Counting(best=2), Counting(), PROMPTS, LENGTH)[1] == NUMBER_MOST


def test_one_prompt_and_more_are_timed_with_all_their_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("suite.worker.launch.inference.ROUNDS_S", 0.0)
    model = Counting()
    samples = DRAWS.integers(0, WORDS, (5, LENGTH), dtype=np.int32)
    found = decode(model, model, samples, LENGTH)
    timed = [rounds.decoded for rounds in found]
    assert [(each.batch, each.prompt, each.words) for each in timed] == [(count, 4, 4) for count in DECODED]
    assert model.passes == len(DECODED) * (1 + ROUNDS) * (1 + LENGTH // 2), "the first round is no figure"
    assert [rounds.words.shape for rounds in found] == [(count, 4) for count in DECODED]


def test_words_that_were_timed_are_those_that_follow_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("suite.worker.launch.inference.ROUNDS_S", 0.0)
    rounds = decode(Counting(), Counting(), DRAWS.integers(0, WORDS, (5, LENGTH), dtype=np.int32), LENGTH)
    assert all(check_decoded(each, Counting(), Counting(), LENGTH) < 1e-12 for each in rounds)
    other = rounds[0]._replace(words=rounds[0].words[:, ::-1])
    assert check_decoded(other, Counting(), Counting(), LENGTH) == NUMBER_MOST


def test_a_model_that_compiles_while_words_are_timed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Compiling(Counting):
        def decode(self, state: Any) -> Any:
            self.programs = self.passes
            return super().decode(state)

    monkeypatch.setattr("suite.worker.launch.inference.ROUNDS_S", 0.0)
    with pytest.raises(RecompiledError, match="inside of what is timed"):
        decode(Compiling(), Counting(), DRAWS.integers(0, WORDS, (5, LENGTH), dtype=np.int32), LENGTH)


def test_the_figures_are_of_one_prompt_and_of_eight() -> None:
    decoded = (Decoded(1, 4, 4, 0.01, 0.2), Decoded(8, 4, 4, 0.02, 0.4))
    record: Any = SimpleNamespace(inference=SimpleNamespace(decoded=decoded))
    names = ("prefill_ms", "tokens_per_s", "tokens_per_s_of_8")
    assert [FIGURES[name](record) for name in names] == [pytest.approx(each) for each in (10.0, 20.0, 80.0)]
    assert FIGURES["tokens_per_s"](SimpleNamespace(inference=SimpleNamespace(decoded=()))) is None  # type: ignore[arg-type]


def test_a_cache_that_is_off_is_said() -> None:
    found = Answered(8, 1e-6, 0, False, 0.2)
    record: Any = SimpleNamespace(identity=Identity(answered=found), inference=None, cell=Cell("gpt_small", "jax"))
    assert self_checks([record]) == "with its cache, decoding is off the whole pass by 2e-01"
