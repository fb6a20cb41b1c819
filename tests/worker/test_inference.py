"""Inference of a launch: how requests are timed, what a record has of them, and what is wrong with an answer."""

from __future__ import annotations

import itertools
import json
import random
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from suite.analysis.identity.self_checks import self_checks
from suite.plan.cell import Cell
from suite.plan.measuring import LEAST_FOR_P99, Plan
from suite.record.parts.evidence import Answered, Decoded, Identity, Inference
from suite.record.parts.history import NUMBER_MOST
from suite.worker.evidence import answered
from suite.worker.launch import inference
from suite.worker.launch.inference import WARM_UP, Answers, model_of, requests, summary
from tests.frameworks import (
    batches,
    each_cell,
    framework_of,
    module,
    narrow,
    needs_frameworks,
    switches_restored,
)

pytestmark = pytest.mark.long

SAMPLES, CLASSES = 40, 10
SPEC: Any = SimpleNamespace(ignored_label=None, evaluation_batch=50)


class Linear:
    """A model of NumPy that serves, and that evaluates as a training does."""

    def __init__(self) -> None:
        self.kernel = np.random.default_rng(0).normal(0, 1, (6, CLASSES))

    def answer(self, inputs: Any) -> Any:
        return inputs.astype(np.float64) @ self.kernel

    def evaluate(self, batch: Any) -> Any:
        logits = self.answer(batch[0])
        losses = np.log(np.exp(logits).sum(1)) - np.take_along_axis(logits, batch[1][:, None], 1)[:, 0]
        return losses, logits.argmax(1) == batch[1]

    def put(self, batch: Any) -> Any:
        return batch

    get = put

    def checkpoint(self) -> dict[str, Any]:
        return {"kernel": self.kernel}

    def restore(self, state: dict[str, Any]) -> None:
        self.kernel = state["kernel"]


def asked(answer: Any = None, count: int = 100, clock: Any = None) -> tuple[Answers, list[float]]:
    """The answers that are kept of so many requests, and their latencies."""
    draws, model = np.random.default_rng(1), Linear()
    batch = draws.normal(0, 1, (8, 6))
    answers = Answers(draws.normal(0, 1, (SAMPLES, 6)), [(batch, model.answer(batch))])
    timed = {"clock": clock} if clock else {}
    return answers, requests(answer or model.answer, answers, count, random.Random(3), **timed)


def found(answers: Answers, precision: str = "fp32") -> Answered:
    return answered.check_answers(answers, Linear(), Linear().checkpoint(), precision, SPEC)


def test_a_launch_that_is_not_asked_does_not_infer() -> None:
    usual, asked_for = Plan(), Plan(phases=("train", "infer"), chosen=True)
    assert not usual.serves
    assert usual.to_json().keys() == {"min_window_s", "windows", "max_warmup_s"}
    assert asked_for.with_parts == ("train", "infer", "infer_loaded")
    assert json.loads(json.dumps(asked_for.to_json())) == asked_for.to_json(), "so that a run can be resumed"
    assert asked_for.of_launch(1019) == asked_for == Plan.from_json(json.loads(json.dumps(asked_for.to_json())))


def test_each_request_is_timed_by_itself() -> None:
    ticks = itertools.count(0, 1_000_000)  # each look at the clock is a millisecond after the one before
    answers, latencies = asked(clock=lambda: next(ticks))
    assert latencies == [0.001] * 100
    assert len(answers.kept) == inference.ANSWERS_KEPT


def test_no_request_is_that_of_the_one_before() -> None:
    seen: list[bytes] = []

    def answer(inputs: Any) -> Any:
        seen.append(inputs.tobytes())
        return Linear().answer(inputs)

    asked(answer)
    assert len(seen) == WARM_UP + 100
    assert all(one != another for one, another in itertools.pairwise(seen))


def test_requests_that_would_take_too_long_are_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inference, "LONGEST_S", 0.01)
    ticks = itertools.count(0, 1_000_000)
    answers, latencies = asked(clock=lambda: next(ticks))
    assert len(latencies) == 6
    assert answers.kept, "at least the last one, for the evidence"


def test_a_99th_percentile_takes_enough_requests() -> None:
    first = {"first_s": 1.0, "first_batch_s": 1.0}
    few = summary([0.001] * (LEAST_FOR_P99 - 1), **first)
    enough = summary([0.001] * (LEAST_FOR_P99 - 20) + [0.5] * 20, **first)
    assert few.p99_s is None
    assert enough.p99_s == 0.5
    assert (enough.median_s, enough.p95_s, enough.worst_s) == (0.001, 0.001, 0.5)


def test_a_record_refuses_percentiles_that_no_requests_have() -> None:
    with pytest.raises(ValueError, match="out of order"):
        Inference(1000, 0.2, 0.1, 0.3, 0.4, 1.0, 1.0, 1.0)
    with pytest.raises(ValueError, match="take 1 s, and by their percentiles 50 or more"):
        Inference(1000, 0.1, 0.2, 0.3, 0.4, 1.0, 1.0, 1.0)
    with pytest.raises(ValueError, match="99th percentile of 10 requests"):
        Inference(10, 0.1, 0.2, 0.3, 0.4, 1.0, 1.0, 1.0)


def test_the_answers_of_the_trained_model_are_the_evaluation_s() -> None:
    answered = found(asked()[0])
    assert (answered.requests, answered.wrong, answered.gradient) == (inference.ANSWERS_KEPT, 0, False)
    assert answered.off < 1e-9


def test_the_answer_of_the_previous_request_is_noticed() -> None:
    held: list[Any] = [np.zeros((1, CLASSES))]

    def late(inputs: Any) -> Any:
        held.append(Linear().answer(inputs))
        return held[-2]

    answers, _ = asked(late)
    assert found(answers).wrong == inference.ANSWERS_KEPT
    assert found(answers, "bf16").wrong == inference.ANSWERS_KEPT


def test_answers_that_are_no_numbers_are_noticed() -> None:
    answers, _ = asked(lambda inputs: Linear().answer(inputs) * np.nan)
    assert found(answers).off == NUMBER_MOST


def test_other_answers_of_a_batch_are_noticed() -> None:
    answers, _ = asked()
    ((inputs, logits),) = answers.batches
    answers.batches = [(inputs, logits * 0.9)]
    assert found(answers).off > 0.01


def test_answers_of_each_phase_are_evaluated_from_the_first_of_a_batch_to_its_last() -> None:
    answers, _ = asked()
    inputs = np.random.default_rng(2).normal(0, 1, (32, 6))
    logits = Linear().answer(inputs)
    answers.batches.append((inputs, logits))
    assert found(answers).off < 1e-9
    logits[8:] = 0.0  # eight of 32 computed, the rest made up
    assert found(answers).off > 0.01


def test_losses_of_one_output_are_those_of_both_labels() -> None:
    losses = answered.losses(np.array([[0.5]]), answered.labels_of(1))
    assert losses[0] == pytest.approx([np.log1p(np.exp(0.5)), np.log1p(np.exp(-0.5))])


@pytest.mark.parametrize(
    ("answered", "words"),
    [
        (Answered(8, 1e-6, 0, False), ""),
        (Answered(8, 1e-6, 0, True), "inference keeps a gradient"),
        (Answered(8, 1e-2, 3, False), "3 of 8 answers are another request's"),
        (Answered(8, 1e-2, 0, False), "answers are off the evaluation by 1e-02"),
        (Answered(8, 1e-6, 0, False, 1e-2), "with its cache, decoding is off the whole pass by 1e-02"),
    ],
)
def test_what_is_wrong_is_said(answered: Answered, words: str) -> None:
    served: dict[str, Any] = {
        "inference": summary([0.1], first_s=1.0, first_batch_s=1.0),
        "cell": Cell("imdb_lstm", "jax"),
    }
    record: Any = SimpleNamespace(identity=Identity(answered=answered), **served)
    assert self_checks([record]) == words
    unchecked: Any = SimpleNamespace(identity=Identity(), **served)
    assert self_checks([unchecked]) == "the answers of inference were not checked"
    decoded = replace(served["inference"], decoded=(Decoded(1, 8, 8, 0.1, 0.1),))
    without: Any = SimpleNamespace(
        identity=Identity(answered=Answered(8, 1e-6, 0, False)), **served | {"inference": decoded}
    )
    assert self_checks([without]) == "decoding was not checked against passes without a cache"


@needs_frameworks
@each_cell
def test_the_function_that_serves_answers_as_the_evaluation_does(workload: str, framework: str) -> None:
    """After a step, so that running statistics are none that a model starts with, and with dropout in the model."""
    spec, cell = narrow(workload), Cell(workload, framework, batch=8, size="small")
    source = batches(spec, 8)
    with switches_restored(framework):
        framework_of(framework).prepare(cell, "cpu", 0)
        make = framework_of(framework).Training
        training = make(cell, spec, module(workload, framework), spec.reference_weights(0), "cpu", dropout=True)
        training.fence(training.step(training.put(source[0])))
        inputs, _ = source[1]
        serving = model_of(cell).Model(training)
        logits = serving.answer(np.ascontiguousarray(inputs[:1]))
        many = serving.on_host(serving.predict(training.put(source[1])[0]))
        assert not serving.keeps_gradient(inputs[:1])
        serving.close()
        labels = answered.labels_of(logits.size)
        expected = answered.losses_of_evaluation(training, inputs, labels, spec)
    assert answered.losses(logits.reshape(1, -1), labels)[0] == pytest.approx(expected[0], rel=1e-4, abs=1e-4)
    assert answered.losses(many.reshape(8, -1), labels) == pytest.approx(expected, rel=1e-4, abs=1e-4)
