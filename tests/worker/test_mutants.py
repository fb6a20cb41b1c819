"""Planted differences are noticed: one of each kind here, all of them by `python -m tests.studies.mutants`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from suite.plan.cell import FRAMEWORKS
from tests.frameworks import needs_frameworks
from tests.studies.mutants.catalogue import KINDS, MUTANTS, part_of
from tests.studies.mutants.mutant import REFUSED, Mutant
from tests.studies.mutants.page import page
from tests.studies.mutants.study import EVIDENCE, Judgement, false_alarms, judge_beside, judge_beside_itself

pytestmark = pytest.mark.long

#: Its own framework's unchanged launch, in another one's place: where another would build a program for one kind alone.
#: That frameworks agree there is shown without a launch: by `test_settings` (accumulation) and `test_evidence`.
ITSELF = ("itself",)
#: One of each kind, and which frameworks it is compared with: with none, where a launch shows it by itself.
#: PyTorch's launches are the shortest, and JAX's compile for the longest.
CHOSEN: dict[str, tuple[str, tuple[str, ...]]] = {
    "dropout": ("pytorch: rate .3 for .25", ()),
    "loop": ("pytorch: stops updating after 20 steps", ()),
    "accumulation": ("pytorch: gradients summed", ITSELF),
    "optimizer": ("pytorch: learning rate 1 % higher", ()),
    "loss": ("pytorch: labels smoothed", ITSELF),
    "layout": ("pytorch: input and forget gate swapped", ()),
    "layer": ("pytorch: a bias that is not trained", ()),
    "LSTM": ("pytorch: padding not embedded", ITSELF),
    "initial weights": ("tensorflow: the LSTM's bias doubled", ("pytorch",)),
    "data": ("pytorch: samples of a batch in another order", ITSELF),
    "data in the middle of a run": ("pytorch: the first epoch's plan in all", ()),
    "precision": ("pytorch: bf16 everywhere", ()),
    "evaluation": ("pytorch: of half the test split", ITSELF),
    "batch normalisation": ("pytorch: never updated", ("tensorflow",)),
    "recipe": ("pytorch: rates late by one step", ()),
    "several devices": ("pytorch: gradients not exchanged", ("tensorflow",)),
    "attention": ("pytorch: scores not scaled", ("tensorflow",)),
    "late": ("pytorch: no dropout after 20 steps", ()),
    "inference": ("pytorch: the answer of the previous request", ()),
}


def chosen(kind: str) -> Mutant:
    return next(mutant for mutant in MUTANTS if (mutant.kind, mutant.id) == (kind, CHOSEN[kind][0]))


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Models of this size are too small for more, which would wait for one another."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        yield


#: The only one of ResNet-18, which takes longest; that its statistics agree is shown by `test_recipes` in every run.
#: And launches of two processes; `test_several_devices` compares those of each framework in every run.
#: And the Transformer, whose launches are longer; `fingerprint` and `float64` notice another model in three kinds more.
#: And that of scores, which `test_recipes` compares in every run.
#: And that of weights, which is TensorFlow's; `test_fingerprint` nudges one.
SLOW = ("batch normalisation", "several devices", "attention", "evaluation", "initial weights")


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(
            kind, marks=[needs_frameworks(name.partition(":")[0]), *([pytest.mark.slow] if kind in SLOW else [])]
        )
        for kind, (name, _) in CHOSEN.items()
    ],
)
def test_one_of_each_kind_is_noticed(kind: str) -> None:
    others = CHOSEN[kind][1]
    if kind == "precision":
        from suite.worker.frameworks.pytorch.device import lstm_in_bf16

        if not lstm_in_bf16():
            pytest.skip("PyTorch has no LSTM in bf16 on this CPU, which is to be planted")
    mutant, draws = chosen(kind), kind == "dropout"
    itself = others == ITSELF
    judgement = judge_beside_itself(mutant, draws) if itself else judge_beside(mutant, others, draws)
    assert judgement.killed, judgement


@pytest.mark.slow  # in every run `test_launch_frameworks` compares real launches
@needs_frameworks("pytorch", "tensorflow")
def test_what_was_not_changed_raises_no_alarm() -> None:
    cell = chosen("LSTM").cell
    assert not false_alarms(cell, ("pytorch", "tensorflow"))


def test_the_catalogue_is_in_order() -> None:
    assert len(MUTANTS) >= 60
    assert {mutant.framework for mutant in MUTANTS} == set(FRAMEWORKS)
    assert len({mutant.key for mutant in MUTANTS}) == len(MUTANTS)
    assert set(CHOSEN) == set(KINDS)
    for mutant in MUTANTS:
        assert bool(mutant.noticed_by) != bool(mutant.survives), mutant.id
        assert set(mutant.noticed_by) <= {*EVIDENCE, REFUSED}, mutant.id


@pytest.fixture
def mutant() -> Mutant:
    return next(mutant for mutant in MUTANTS if mutant.id == "pytorch: channels flattened first")


def test_a_mutant_that_is_not_noticed_as_it_must_be_is_a_problem(mutant: Mutant) -> None:
    assert mutant.noticed_by == ("fingerprint", "float64")
    assert not mutant.problem({"fingerprint", "float64", "own"}, killed=True)
    assert mutant.problem({"own", "float64"}, killed=True) == "not noticed by fingerprint"
    assert not mutant.problem({REFUSED}, killed=True), "a launch that ends has nothing to compare"
    assert mutant.problem((), killed=False) == "survives"
    expected = Mutant("loop", "x", "jax", "imdb_lstm", mutant.plant, (), survives="nobody looks")
    assert not expected.problem((), killed=False)
    assert expected.problem({"last"}, killed=True) == "no longer survives"
    assert expected.problem((), killed=False, failed=True) == "planted wrong"


def test_the_page_shows_what_was_planted_and_what_survives(mutant: Mutant) -> None:
    survivor = Mutant("loop", "rests now and then", "jax", "imdb_lstm", mutant.plant, (), survives="nobody looks")
    judged = {mutant: Judgement("differs", "x", {"fingerprint": "x", "own": "y"}), survivor: Judgement("same")}
    text = page(judged, 2, 3, datetime(2026, 1, 2, tzinfo=UTC))
    assert "1 of 2 (50.0%) mutants are noticed by the record alone" in text
    assert "- loop, jax: rests now and then: nobody looks" in text
    assert "\nNoticed of planted: layout 1/1, loop 0/1.\n" in text
    assert "Of the catalogue 3 more were not run" in text
    assert "2026-01-02" in text


def test_processes_side_by_side_judge_every_mutant_once() -> None:
    parts = [part_of(MUTANTS, part, 3) for part in (1, 2, 3)]
    assert sorted(mutant.key for part in parts for mutant in part) == sorted(mutant.key for mutant in MUTANTS)
    assert max(map(len, parts)) - min(map(len, parts)) < 3
