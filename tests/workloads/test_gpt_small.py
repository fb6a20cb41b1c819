"""What only the decoder has: a causal mask, words that are not scored, the answer to a window."""

from __future__ import annotations

from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from suite.plan.cell import FRAMEWORKS
from tests.frameworks import PAIRS, batches, distance, each_framework, narrow, needs_frameworks, training
from tests.isolation import in_own_process
from workloads.data.dataset import Array
from workloads.gpt_small.spec import IGNORED, VOCABULARY, specification

pytestmark = [needs_frameworks, pytest.mark.usefixtures("unoptimized")]

NAME = "gpt_small"


def computed(framework: str, tokens: Array, **changes: Any) -> Array:
    spec = narrow(NAME)
    with training(NAME, framework, "fp64", spec=spec, **changes) as running:
        found: Array = running.logits(running.put((tokens, tokens)))
    return found


jax_slow = pytest.mark.parametrize("framework", ["pytorch", "tensorflow", pytest.param("jax", marks=pytest.mark.slow)])


@jax_slow
def test_a_word_sees_itself_and_those_before_it_alone(framework: str) -> None:
    tokens, _ = batches(narrow(NAME), 2)[0]
    changed, at = tokens.copy(), 5
    changed[:, at] = (changed[:, at] + 1) % VOCABULARY
    before, after = computed(framework, tokens), computed(framework, changed)
    assert before.shape == (*tokens.shape, VOCABULARY)
    assert np.array_equal(before[:, :at], after[:, :at])
    assert all(distance(before[:, place], after[:, place]) > 1e-6 for place in range(at, tokens.shape[1]))


@each_framework
def test_the_answer_is_the_logits_of_the_word_after_the_last(framework: str) -> None:
    from suite.worker.launch.inference import model_of

    spec = narrow(NAME)
    tokens, _ = batches(spec, 3)[0]
    with training(NAME, framework, "fp64", spec=spec) as running:
        expected = running.logits(running.put((tokens, tokens)))[:, -1]
        model = model_of(running.cell).Model(running)
        found = model.on_host(model.predict(running.put((tokens, tokens))[0]))
        model.close()
    assert found.shape == (3, VOCABULARY)
    assert distance(found, expected) < 1e-13


@jax_slow
def test_words_that_are_ignored_are_not_scored(framework: str) -> None:
    spec = narrow(NAME)
    tokens, labels = batches(spec, 4)[0]
    with training(NAME, framework, "fp64", spec=spec) as running:

        def scored(labels: Array) -> tuple[Array, Array]:
            found: tuple[Array, Array] = running.get(running.evaluate(running.put((tokens, labels))))
            return found

        logits = running.logits(running.put((tokens, labels)))
        one_each = [
            scored(np.where(np.arange(spec.length) == place, labels, IGNORED)) for place in range(spec.length)
        ]  # fmt: skip
        losses, shares = scored(labels)
    exact = np.log(np.exp(logits).sum(-1)) - np.take_along_axis(logits, labels[..., None], 2)[..., 0]
    found = np.array([each for each, _ in one_each]).T
    assert found == pytest.approx(exact, rel=1e-12)
    assert losses == pytest.approx(exact.mean(1), rel=1e-12)
    right = logits.argmax(-1) == labels
    assert np.array_equal(np.array([each for _, each in one_each]).T, right)
    assert shares == pytest.approx(right.mean(1))


@in_own_process
def scored_after(steps: int, framework: str) -> tuple[Array, Array]:
    """Of a batch of windows the losses and the shares of words that are right, in float64."""
    spec = narrow(NAME)
    source = batches(spec, 8)
    with training(NAME, framework, "fp64", spec=spec) as running:
        for number in range(steps):
            running.step(running.put(source[number]))
        found: tuple[Array, Array] = running.get(running.evaluate(running.put(source[0])))
        return found


@pytest.mark.parametrize("frameworks", [FRAMEWORKS[:2], pytest.param(FRAMEWORKS, marks=pytest.mark.slow)])
def test_the_frameworks_score_alike(frameworks: tuple[str, ...]) -> None:
    found = {framework: scored_after(2, framework) for framework in frameworks}
    for one, other in combinations(frameworks, 2):
        assert distance(found[one][0], found[other][0]) < 1e-9
        assert found[one][1] == pytest.approx(found[other][1], abs=1e-12)


@cache
@in_own_process
def decoded(framework: str, precision: str = "fp64") -> tuple[Array, float]:
    """The words that follow two prompts, and how far their logits with the cache are off those without."""
    from suite.worker.launch.inference import continue_prompts, model_of

    spec = narrow(NAME)
    source = batches(spec, 2)
    with training(NAME, framework, precision, spec=spec) as running:
        for number in range(2):
            running.step(running.put(source[number]))
        model = model_of(running.cell).Model(running)
        found = continue_prompts(model, running, source[3][0][:, : spec.length // 2], spec.length)
        model.close()
    return found


@each_framework
def test_decoding_with_a_cache_is_decoding_without_one(framework: str) -> None:
    words, off = decoded(framework)
    assert words.shape == (2, narrow(NAME).length // 2)
    assert off < 1e-12


def test_the_frameworks_go_on_with_the_same_words() -> None:
    for one, other in PAIRS:
        assert np.array_equal(decoded(one)[0], decoded(other)[0])


def test_an_answer_is_about_the_last_word_alone() -> None:
    spec = specification("full")
    logits = 2 * spec.width * VOCABULARY
    assert spec.flops_per_sample - spec.answer_flops_per_sample == (spec.length - 1) * logits
