"""Recipes: the schedule's numbers, and that a changing rate moves all three frameworks alike."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
import pytest

from suite.plan.cell import FRAMEWORKS
from tests.frameworks import (
    PAIRS,
    assert_within,
    batches,
    distance,
    distances,
    narrow,
    needs_frameworks,
    training,
)
from tests.isolation import in_own_process
from workloads.recipes import Recipe, recipe
from workloads.spec import WORKLOADS, AdamW, Lamb, Lars, Sgd, specification

pytestmark = [pytest.mark.usefixtures("unoptimized"), pytest.mark.long]


def test_a_schedule_rises_falls_and_ends_near_zero():
    rates = Recipe(Sgd(0.1, 0.9, 0.0), epochs=2, target=0.5, warmup=0.2, decay=True).rates(10)
    assert rates.dtype == np.float32
    assert rates[:2] == pytest.approx([0.05, 0.1])
    assert rates[2:] == pytest.approx([0.1 * (1 + np.cos(np.pi * k / 8)) / 2 for k in range(8)])
    assert all(a > b for a, b in pairwise(rates[2:]))


def test_the_rate_grows_with_the_batch_by_the_rule():
    known = {"epochs": 2, "target": 0.5, "warmup": 0.2, "reference_batch": 64}
    linear = Recipe(Sgd(0.1, 0.9, 0.0), scaling="linear", gradual=True, **known)
    assert linear.rates(10, 256) == pytest.approx([0.25, 0.4, *[0.4] * 8])
    assert linear.rates(10, 64) == pytest.approx([0.1] * 10) == linear.rates(10)
    assert linear.rates(10, 32) == pytest.approx([0.05] * 10)
    root = Recipe(Lamb(0.1), scaling="root", **known)
    assert root.rates(10, 256) == pytest.approx([0.1, 0.2, *[0.2] * 8])


def test_the_batch_is_no_part_of_the_digest_and_recipes_without_a_rule_keep_theirs():
    """So cells with several devices stand beside those with one, and new launches beside published ones."""
    spec = specification("imdb_lstm", "small")
    published = "fd3cead30b8adeae697cf924d5f63a5977986f69c98a51f9e7871fb2019cbf21"
    assert recipe("modern", spec).digest(spec) == published
    assert recipe("linear", spec).digest(spec) not in (published, recipe("lamb", spec).digest(spec))


@pytest.mark.parametrize("workload", WORKLOADS)
def test_the_study_s_recipe_is_the_spec_s_own(workload):
    spec = specification(workload)
    assert recipe("study", spec).apply_to(spec) == spec


def test_the_target_is_no_part_of_the_digest_and_the_epochs_are():
    spec = specification("imdb_lstm", "small")
    digests = {recipe("modern", spec, epochs, target).digest(spec) for epochs in (2, 3) for target in (0.5, 0.6)}
    assert len(digests) == 2
    assert spec.digest not in digests


@in_own_process
def trained(workload, framework, optimizer):
    """Losses and weights after ten steps at a rate that jumps, in float64 and without dropout."""
    spec = replace(narrow(workload), optimizer=optimizer)
    rates = np.array([1, 1, 1, 0.1, 0.1, 2, 2, 0, 0, 1], np.float32) * np.float32(optimizer.learning_rate)
    with training(workload, framework, "fp64", spec=spec, rates=rates) as running:
        source = batches(spec, 8)
        losses = running.read([running.step(running.put(source[number])) for number in range(len(rates))])
        return losses, running.weights()


@needs_frameworks
@pytest.mark.parametrize(
    ("workload", "optimizer"),
    [
        pytest.param("imdb_lstm", Sgd(0.01, momentum=0.9, l2=5e-4), marks=pytest.mark.slow),
        ("imdb_lstm", AdamW(1e-3, decay=0.1)),
        pytest.param("cifar100_cnn", Lars(10.0), marks=pytest.mark.slow),
        pytest.param("imdb_lstm", Lamb(1e-2), marks=pytest.mark.slow),
    ],
    ids=["sgd", "adamw", "lars", "lamb"],
)
def test_a_change_of_rate_moves_all_three_alike(workload, optimizer):
    made = {framework: trained(workload, framework, optimizer) for framework in FRAMEWORKS}
    for one, other in PAIRS:
        assert distance(np.array(made[one][0]), np.array(made[other][0])) < 1e-9
        assert_within(distances(made[one][1], made[other][1]), 1e-9)


@in_own_process
def evaluations(workload, framework, steps=0, times=1, dropout=False):
    """Losses and right answers of a batch of 16 in float64, after some steps, so many times."""
    spec = narrow(workload)
    source = batches(spec, 16)
    with training(workload, framework, "fp64", spec=spec, dropout=dropout) as running:
        for number in range(steps):
            running.step(running.put(source[number]))
        return [running.get(running.evaluate(running.put(source[steps]))) for _ in range(times)]


#: JAX, which compiles the others for longest, joins them in the slow tests.
agreeing = pytest.mark.parametrize(
    ("workload", "frameworks"),
    [
        *((name, FRAMEWORKS if name == "imdb_lstm" else FRAMEWORKS[:2]) for name in WORKLOADS),
        *(pytest.param(name, FRAMEWORKS, marks=pytest.mark.slow) for name in WORKLOADS if name != "imdb_lstm"),
    ],
)


@needs_frameworks
@agreeing
def test_evaluation_agrees_between_frameworks(workload, frameworks):
    scores = {}
    for framework in frameworks:
        first, again = evaluations(workload, framework, times=2, dropout=True)
        assert first[0].tobytes() == again[0].tobytes(), "no dropout, and nothing that an evaluation changes"
        scores[framework] = first
    assert_scores_agree(scores, 16)


@needs_frameworks
@pytest.mark.parametrize("frameworks", [FRAMEWORKS[:2], pytest.param(FRAMEWORKS, marks=pytest.mark.slow)])
def test_evaluation_agrees_after_training(frameworks):
    """What is collected in training for the evaluation, as running variances are, is the same as well."""
    scores = {framework: evaluations("cifar100_resnet18", framework, steps=5)[0] for framework in frameworks}
    assert_scores_agree(scores, 16)


def assert_scores_agree(scores, samples):
    """Losses and right answers, by framework, in float64."""
    for one, other in combinations(scores, 2):
        assert scores[one][0].shape == (samples,)
        assert distance(scores[one][0], scores[other][0]) < 1e-9
        assert (scores[one][1] == scores[other][1]).all()
