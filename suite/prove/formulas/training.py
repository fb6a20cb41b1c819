"""Of loss, gradients, steps and running statistics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from suite.prove.arithmetic import softmax
from suite.prove.layers import Case
from suite.prove.numbers import GRADIENT_LEAST, TOLERANCE, distance, distances
from suite.prove.search import EXPLAINED, Change, Formula
from workloads.data.dataset import Array

#: How near a difference must come to a multiple of the weights.
MULTIPLE = 1e-6


def loss(case: Case) -> Iterator[Formula]:
    """The cross entropy of logits, (b, classes), (b, positions * classes) or (b, 1), which agree.

    Positions with a negative label do not count.
    """
    logits, (inputs, labels) = case.pair.one.arrays["logits"], case.pair.given.batches[0]
    if not np.issubdtype(labels.dtype, np.integer) or logits.shape[1] % (labels.size // len(labels)):
        return
    flat, targets = logits.reshape(labels.size, -1), labels.ravel()
    if flat.shape[1] == 1:
        flat = np.concatenate([np.zeros_like(flat), flat], 1)
    there = targets >= 0
    if not there.any() or targets.max() >= flat.shape[1]:
        return
    each_counts = there.reshape(len(labels), -1).sum(1)
    by_sample = np.repeat(1 / np.maximum(each_counts, 1), each_counts) / len(labels)
    means = {"of all labels": np.full(each_counts.sum(), 1 / each_counts.sum()), "of the samples' means": by_sample}
    flat, targets = flat[there], targets[there]
    counts = {"the mean": 1.0, "the sum over the samples": float(len(labels)), "the sum over all logits": logits.size}
    counts |= {"the sum over a sample's logits": logits.shape[1], "the sum over all labels": labels.size}
    counts |= {"the sum over a sample's positions": inputs.shape[1]} if inputs.ndim == 2 else {}
    tokens = case.tokens if case.tokens is not None and case.tokens.any() else np.ones(1)
    share = np.count_nonzero(tokens) / tokens.size

    def entropies(probabilities: bool, weights: Array) -> tuple[float, float]:
        given = softmax(flat) if probabilities else flat
        shares = np.log(np.maximum(softmax(given), 1e-300))
        return -float(weights @ shares[np.arange(len(targets)), targets]), -float(weights @ shares.mean(1))

    def smoothing(value: float) -> Iterator[float]:
        for factor in counts.values():
            right, even = entropies(probabilities=False, weights=means["of all labels"])
            epsilon = (value / factor - right) / (even - right) if even != right else 0.0
            if 0 < epsilon < 1 and abs(epsilon * 1000 - round(epsilon * 1000)) < 1e-4:
                yield round(epsilon, 3)

    found = {each for side in case.pair.sides for each in smoothing(float(side.arrays["loss"]))}

    def computed(_: Any, **ways: Any) -> Array:
        right, even = entropies(ways["softmax twice"], ways["order of means"])
        mean = (1 - ways["label smoothing"]) * right + ways["label smoothing"] * even
        return np.array([mean * ways["sum for mean"] * ways["masked padding"]])

    yield Formula(
        {
            "sum for mean": counts,
            "softmax twice": {"the softmax of the logits": False, "the softmax of their softmax": True},
            "label smoothing": {"none": 0.0} | {f"{each:g}": each for each in sorted(found)},
            "order of means": means if len({*each_counts}) > 1 else {"of all labels": means["of all labels"]},
            "masked padding": {
                "all positions": 1.0,
                "the words alone": 1 / share,
                "the words, by all positions": share,
                **({} if there.all() else {"the labels that count, by all": there.mean()}),
            },
        },
        computed,
    )


def gradients(case: Case) -> Iterator[Change]:
    """Multiples, gradients that are missing, and the weights themselves among them."""
    one, other = (side.group("gradients") for side in case.pair.sides)
    names = [name for name in one if name in other and one[name].shape == other[name].shape]
    batch = len(case.pair.given.batches[0][1])
    for at, (a, b) in enumerate(((one, other), (other, one))):
        if names and all(distance(batch * a[name], b[name]) <= EXPLAINED for name in names):
            yield _ordered("sum for mean", "the mean", f"{batch} times as much, the sum over the samples", at)
        without = [name for name in names if np.any(a[name]) and not np.any(b[name])]
        if without:
            yield _ordered("no gradient", "one", f"none for {_list(without)}", at)
    yield from _decay(case, one, other, "gradient")


def _decay(case: Case, one: dict[str, Array], other: dict[str, Array], what: str) -> Iterator[Change]:
    """The sides differ by multiples of some weights, and by nothing in the others.

    It is one multiple in all of them, or each has its own, and the losses differ by the squares whose gradients they
    are, as by means of squares.
    """
    weights = {name: array.astype(np.float64) for name, array in case.pair.given.weights.items()}
    names = [name for name in one if name in other and name in weights and one[name].shape == other[name].shape]
    gaps = distances({name: one[name] for name in names}, {name: other[name] for name in names}, GRADIENT_LEAST)
    apart = {name: other[name] - one[name] for name in names if gaps[name] > EXPLAINED and np.any(weights[name])}
    factors = {name: float(np.vdot(array, weights[name]) / np.sum(weights[name] ** 2)) for name, array in apart.items()}
    if not factors or any(distance(apart[name], factors[name] * weights[name]) > MULTIPLE for name in factors):
        return
    factor = max(factors.values(), key=abs)
    squares = sum(each / 2 * float(np.sum(weights[name] ** 2)) for name, each in factors.items())
    losses = [float(side.arrays.get("loss", 0.0)) for side in case.pair.sides]
    if what == "gradient" and distance(*losses) > TOLERANCE:  # else only gradients were changed, or steps
        explained = distance(losses[1] - losses[0], squares) <= MULTIPLE
    else:
        explained = bool(np.ptp([*factors.values()]) <= MULTIPLE * abs(factor))
    if explained:
        decayed = f"{abs(factor):.3g} times {_list(list(factors))}"
        yield _ordered("weight decay", f"the {what} alone", f"besides, {decayed}", 0 if factor > 0 else 1)


def steps(case: Case) -> Iterator[Change]:
    """Tensors that stay, that move twice as far, or that decay."""
    one, other = (case.pair.moved(side, "first") for side in case.pair.sides)
    trained = [int(side.facts.get("trained", 0)) for side in case.pair.sides]
    more, extra = abs(trained[1] - trained[0]), int(trained[1] < trained[0])
    vectors = [name for name, array in case.pair.given.weights.items() if "bias" in name and array.size == more]
    for at, (a, b) in enumerate(((one, other), (other, one))):
        both = [name for name in a if name in b and np.any(a[name])]
        twice = [name for name in vectors if name in both and distance(2 * a[name], b[name]) <= EXPLAINED]
        if twice:
            yield _ordered("bias twice", f"one bias {twice[0]}", "two, which both move", at)
        still = [name for name in both if not np.any(b[name])]
        if still:
            yield _ordered("not trained", "all trained", f"{_list(still)} left as it is", at)
    if vectors:  # what the second one adds does not show among the exported tensors
        yield _ordered("bias twice", f"{_list(vectors)} once", "as many parameters more", extra)
    moved = [{name: -array for name, array in side.items()} for side in (one, other)]
    yield from _decay(case, moved[0], moved[1], "step")


def statistics(case: Case) -> Iterator[Formula]:
    """Running mean and variance after a step from 0 and 1, of a layer whose input agrees."""
    layer = case.layer
    x = layer.common("input") if layer else None
    pairs = (layer.pair("mean"), layer.pair("variance")) if layer else (None, None)
    if x is None or None in pairs or x.shape[-1:] != pairs[0][0].shape:  # type: ignore[index]
        return
    axes = tuple(range(x.ndim - 1))
    mean, variance, count = x.mean(axes), x.var(axes), x.size // x.shape[-1]
    shares = [float(mean @ side / (mean @ mean or 1.0)) for side in pairs[0] or ()]
    named = {f"{share:.4g} of the batch's": share for share in (*shares, *(1 - share for share in shares))}

    def computed(_: Any, **ways: Any) -> Array:
        share, unbiased = ways["momentum"], ways["biased variance"]
        return np.stack([share * mean, 1 - share + share * variance * (count / (count - 1) if unbiased else 1)])

    yield Formula(
        {"momentum": named, "biased variance": {"the biased variance": False, "the unbiased one": True}}, computed
    )


def _ordered(what: str, usual: str, unusual: str, at: int) -> Change:
    """``at`` is 0 where the first side has the usual way."""
    return Change(what, *((usual, unusual) if not at else (unusual, usual)))


def _list(names: list[str]) -> str:
    return ", ".join(names[:3]) + (" and more" if len(names) > 3 else "")
