"""Dropout in the state draws and drops as the framework's own layer does, until it is turned off."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from suite.analysis.identity.tolerances import OWN_OPTIMIZER, tolerance_of
from suite.record.parts.evidence import Last
from suite.worker.evidence.collector import Evidence
from suite.worker.evidence.fingerprint import take_own_fingerprint
from suite.worker.evidence.updates import Replay
from tests.frameworks import batches, each_framework, framework_of, narrow, needs_frameworks
from tests.subjects import BATCH, apart, subject

pytestmark = [needs_frameworks, pytest.mark.usefixtures("unoptimized")]


@needs_frameworks("tensorflow")
@pytest.mark.parametrize("precision", ["float32", "float64", "mixed_bfloat16"])
def test_tensorflow_s_drops_what_keras_own_layer_drops(precision: str) -> None:
    framework_of("tensorflow")
    keras = pytest.importorskip("keras")
    from workloads.defaults.tensorflow import Dropout

    x = np.random.default_rng(0).normal(size=(50, 20)).astype(np.float32)
    answers = []
    for layer in (Dropout, keras.layers.Dropout):
        keras.utils.set_random_seed(3)
        dropped = layer(0.25, dtype=precision)
        answers.append([np.asarray(dropped(x, training=training), np.float64) for training in (True, True, False)])
    for one, other in zip(*answers, strict=True):
        np.testing.assert_array_equal(one, other)
    assert (answers[0][0] == 0).mean() == pytest.approx(0.25, abs=0.05)


@needs_frameworks("tensorflow")
def test_tensorflow_s_is_turned_off_within_blocks_too() -> None:
    framework_of("tensorflow")
    keras = pytest.importorskip("keras")
    from workloads.defaults.tensorflow import Dropout, turn_off

    def block() -> Any:
        return keras.Sequential([keras.Input((20,)), Dropout(0.5)])

    model = keras.Sequential([keras.Input((20,)), block(), Dropout(0.5)])
    x = np.ones((3, 20), np.float32)
    assert (np.asarray(model(x, training=True)) == 0).any()
    turn_off(model.layers)
    np.testing.assert_array_equal(model(x, training=True), x)


@needs_frameworks("jax")
def test_jax_s_switch_drops_what_flax_drops_or_nothing() -> None:
    jax = pytest.importorskip("jax")
    nn = pytest.importorskip("flax.linen")
    from workloads.defaults.jax import COLLECTION, keep_if_off, switches, turn_off

    class Model(nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
        @nn.compact
        def __call__(self, x: Any) -> Any:
            dropped = nn.Dropout(0.25, deterministic=False)(x)
            return dropped, keep_if_off(self, dropped, x)

    x, on = jax.numpy.ones((50, 20)), SimpleNamespace(dropout=True)
    off = turn_off(switches(on))
    for statistics, left in ((switches(on), 0), (off, 1), (turn_off(off), 1)):
        answers = Model().apply({COLLECTION: statistics}, x, rngs={"dropout": jax.random.key(0)})
        np.testing.assert_array_equal(answers[1], (answers[0], x)[left])
    assert switches(SimpleNamespace(dropout=False)) == turn_off({}) == {}


def replayed(framework: str) -> Evidence:
    """The evidence of a little CNN with dropout that was trained for some steps, after its replay."""
    one = replace(subject("cifar100_cnn", framework), spec=narrow("cifar100_cnn"))
    timed = one.fresh()
    held = [timed.put(batches(one.spec, BATCH)[number]) for number in range(4)]
    timed.compile(held[0])
    timed.read([timed.step(batch) for batch in held[:2]])
    evidence = Evidence(one, lambda **message: None)
    evidence.parts["last"] = Last(2, True, {})
    evidence.replay = Replay.of(timed, held[2:])
    evidence.parts |= evidence._replay()
    return evidence


@each_framework
def test_what_is_timed_with_dropout_is_replayed_and_takes_a_fingerprint_without(framework: str) -> None:
    evidence = replayed(framework)
    assert (evidence.parts["last"].replayed, evidence.parts["last"].again) == (0.0, None)
    fresh = evidence.fresh
    graphs = fresh.count_compiled()["graphs"]
    bounds = tolerance_of("cifar100_cnn", "fp32", cuda=False)
    assert bounds
    found = evidence._take_own()
    losses, updates = apart(found["own"], take_own_fingerprint(evidence.subject)["own"])
    assert losses <= bounds.first_loss
    assert updates <= bounds.early_updates
    assert found["own_optimizer"] < OWN_OPTIMIZER
    assert fresh.count_compiled()["graphs"] == graphs, "nothing was compiled anew"


@pytest.mark.parametrize(
    "framework", ["pytorch", *(pytest.param(name, marks=pytest.mark.slow) for name in ("tensorflow", "jax"))]
)
def test_dropout_that_stays_on_would_show(framework: str, monkeypatch: pytest.MonkeyPatch) -> None:
    evidence = replayed(framework)
    monkeypatch.setattr(evidence.subject.tools, "without_dropout", lambda training: None)
    assert apart(evidence._take_own()["own"], take_own_fingerprint(evidence.subject)["own"])[1] > 0.05
