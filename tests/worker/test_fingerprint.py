"""The evidence in every record: what it holds, and that it tells wrong models, weights and batches from right ones."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from suite.analysis.identity.verdicts import Verdict, verdicts
from suite.plan.cell import WORKLOADS
from suite.record.parts.evidence import Identity
from suite.worker.evidence.fingerprint import BATCH, DIGESTED_BATCHES, SEED, STEPS, fixed_batches, movement
from tests import records
from tests.frameworks import batches, cells, data, needs_frameworks, training
from tests.isolation import in_own_process
from workloads.data.augment import batches_digest
from workloads.spec import specification
from workloads.weights import weights_digest

pytestmark = [pytest.mark.usefixtures("unoptimized"), pytest.mark.long]

WEIGHTS = {"kernel": np.arange(6, dtype=np.float32).reshape(2, 3), "bias": np.zeros(3, np.float32)}
#: Of the fixed batches, made from the first 200 samples of the synthetic twin.
GOLDEN = {
    "cifar100": "da948439a80b719cf4ca8f4f04ff1a98f3b605077d5be9b977e1a403eeff685a",
    "imdb": "876b66fdce943e0daab859d7d72ff6ff6766932fb0e0126edd803ed33c44a0eb",
}


@pytest.mark.parametrize(("name", "length"), [("cifar100", None), ("imdb", 80)])
def test_golden_batches(name, length):
    fixed = fixed_batches(data(name), length, steps=10)
    assert len(fixed_batches(data(name), length)) == STEPS
    assert {len(labels) for _, labels in fixed} == {BATCH}
    assert batches_digest(fixed) == GOLDEN[name]


def delivered():
    source = batches(specification("cifar100_cnn"), 16)
    return [source[number] for number in range(DIGESTED_BATCHES)]


def evidence(before=WEIGHTS, after=WEIGHTS, losses=(1.0,), given=()) -> Identity:
    return Identity(weights_digest(before), batches_digest(given), tuple(losses), movement(before, after))


def test_updates_are_relative_where_the_tensor_had_a_size():
    after = {"kernel": WEIGHTS["kernel"] * np.float32(1.5), "bias": np.float32([3, 0, 4])}
    found = evidence(after=after)
    assert found.updates == {"kernel": pytest.approx(0.5), "bias": 5.0}
    assert found.losses == (1.0,)
    assert found.weights == weights_digest(WEIGHTS)
    assert evidence().updates == {"kernel": 0.0, "bias": 0.0}


def test_updates_are_summed_in_float64():
    before = {"table": np.ones(10**6, np.float32)}
    after = {"table": np.full(10**6, np.nextafter(np.float32(1), np.float32(2)))}
    assert evidence(before, after).updates["table"] == pytest.approx(np.spacing(np.float32(1)), rel=1e-9)


# With the frameworks.


@cache
@in_own_process
def fingerprint(workload, framework, gates=(0, 1, 2, 3), nudge="") -> Identity:
    """As a worker takes it.

    ``gates``: the model holds the LSTM's gates in this order, unknown to whoever asks. ``nudge``: the first element of
    this tensor starts a little off.
    """
    spec = specification(workload, "small")
    weights = spec.reference_weights(SEED)
    if nudge:
        weights[nudge].flat[0] += np.float32(1e-6)
    with training(workload, framework, "fp32", weights=reordered(weights, gates)) as running:
        put = [
            running.put(batch) for batch in fixed_batches(spec.arrange(data(spec.data)), getattr(spec, "length", None))
        ]
        back = tuple(np.argsort(gates))
        before = reordered(running.weights(), back)
        losses = running.read([running.step(batch) for batch in put])
        return evidence(before, reordered(running.weights(), back), losses, delivered())


def reordered(weights, gates):
    """The same weights with the gates of every LSTM tensor in another order."""
    if gates == (0, 1, 2, 3):
        return weights
    return {
        name: array.reshape(*array.shape[:-1], 4, -1)[..., gates, :].reshape(array.shape)
        if name.startswith("lstm/")
        else array
        for name, array in weights.items()
    }


def judged(workload, found: dict[str, Identity]) -> dict[str, Verdict]:
    return verdicts({name: [records.record(name, workload=workload, identity=each)] for name, each in found.items()})


@needs_frameworks
@cells(("imdb_lstm",))
def test_exported_weights_are_copies(workload, framework):
    """A view of a tensor that is updated in place would show no update at all, or half of one."""
    spec = specification(workload, "small")
    with training(workload, framework, "fp32") as running:
        batch = running.put(batches(spec, BATCH)[0])
        before = running.weights()
        running.read([running.step(batch)])
        assert weights_digest(before) == weights_digest(spec.reference_weights(0))
        after = running.weights()
        unmoved = [name for name in before if np.array_equal(before[name], after[name])]
        assert not unmoved
        for array in after.values():
            assert array.flags.owndata or array.base.flags.owndata
            array[...] = 7  # belongs to whoever asked
        assert not any((array == 7).all() for array in running.weights().values())


@needs_frameworks
@pytest.mark.parametrize(
    "workload", [pytest.param(name, marks=[] if name == "imdb_lstm" else [pytest.mark.slow]) for name in WORKLOADS]
)
def test_the_three_have_the_same_fingerprint(workload):
    found = {framework: fingerprint(workload, framework) for framework in ("pytorch", "tensorflow", "jax")}
    assert {each.weights for each in found.values()} == {
        weights_digest(specification(workload, "small").reference_weights(SEED))
    }
    assert {name: verdict.kind for name, verdict in judged(workload, found).items()} == dict.fromkeys(found, "same")


@needs_frameworks
@pytest.mark.parametrize("gates", [(1, 0, 2, 3), (3, 1, 2, 0)], ids=str)
def test_swapped_gates_differ_though_the_weights_read_back_right(gates):
    swapped = fingerprint("imdb_lstm", "pytorch", gates=gates)
    found = {framework: fingerprint("imdb_lstm", framework) for framework in ("tensorflow", "jax")}
    found["pytorch"] = swapped
    assert swapped.weights == found["jax"].weights
    told = judged("imdb_lstm", found)
    assert told["pytorch"].kind == "differs"
    assert "losses at step" in told["pytorch"].detail
    assert told["jax"].kind == "same"


@needs_frameworks
def test_one_other_weight_differs():
    found = {framework: fingerprint("imdb_lstm", framework) for framework in ("tensorflow", "jax")}
    found["pytorch"] = fingerprint("imdb_lstm", "pytorch", nudge="lstm/kernel")
    told = judged("imdb_lstm", found)
    assert (told["pytorch"].kind, told["pytorch"].detail) == ("differs", "weights are not the others'")
