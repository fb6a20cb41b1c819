"""What makes two sides differ, named only where it explains the numbers: the causes, and where each is looked for.

Most are found by one loop over formulas (`suite.prove.search`): whatever a formula can do in two ways is a cause.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice

import numpy as np

from suite.prove.draws import first_differing
from suite.prove.formulas import attention, between, inside, training
from suite.prove.layers import Case
from suite.prove.numbers import TOLERANCE, distance
from suite.prove.search import Change, Formula, find_change
from workloads.data.dataset import Array

#: What to do about a cause, where the ways of both sides do not say it.
REMEDIES = {
    "layout of a kernel": "transpose the kernel where weights are imported, and keep its canonical order",
    "order of a flattened input": "move the channels last before flattening",
    "order of gates": "reorder the gates where weights are imported",
    "bias of the forget gate": "add 1 where the weights are drawn, not in the layer",
    "bias twice": "drop one of the two biases, or keep it at zero and untrained",
    '"same" padding with stride 2': "pad explicitly on both sides",
    "epsilon": "set epsilon; the frameworks' defaults differ",
    "normalised axes": "normalise over the same axes, by the batch's own statistics in training",
    "temperature": "divide the scores by the root of a head's width, once",
    "masked padding": "leave padded positions out of the mean, and out of the divisor",
    "order of means": "take one mean over all labels that count, or one of each sample's, on both sides",
    "sum for mean": "divide by the number of values",
    "pooling": "pool in the same way: window, stride, padding, and whether the padding counts",
    "edges": "pad on the same sides, and round lengths alike: ceil_mode=True and padding keep what others cut off",
    "form of GELU": "choose the same form; approximate=False is exact",
    "order of channels": "concatenate in the same order",
    "order of directions": "concatenate the forward states before the backward ones, in every layer",
    "order of layers": "give each layer its own tensors",
    "direction": "let the backward layer read from the last word, and turn its states around again",
    "product for sum": "add on both sides, or multiply on both",
    "order of positions": "turn what runs backwards around again, and pad on the same side",
    "float32": "compute it in the weights' type: cast the inputs first, and give Keras' losses a dtype",
    "softmax twice": "give the loss logits where it expects them",
    "weight decay": "leave the decay to the spec's optimizer",
    "no gradient": "remove the detach or stop_gradient before this tensor",
    "not trained": "hand this tensor to the optimizer",
    "momentum convention": "PyTorch's momentum is one minus the others'",
    "dropout in evaluation": "switch dropout off in evaluation",
    "answers": "score an answer as right if the largest logit is the label's",
    "shared draws": "draw anew for every sample, position and head, and in every pass (flax: broadcast_dropout=False)",
    "rate for keep": "give the share that is dropped",
    "dropout unscaled": "divide what is kept by 1 - rate in training",
}
#: Less than this rounding to float32 moves anything by.
NARROW = 1e-5

#: Parts of a concatenation that are tried at most.
PARTS = 8

#: What a formula calls otherwise than the causes.
SAME_AS = {"layout of heads": "attention heads", "order of heads": "attention heads"}


def find_causes(case: Case) -> dict[str, str]:
    """The causes that explain the numbers, by their names, with the ways of both sides."""
    found: dict[str, str] = {}
    for change in _find(case) if case.place.reached else ():
        ways = zip(case.pair.names, (change.one, change.other), strict=True)
        found.setdefault(_name(change), "; ".join(f"{side}: {way}" for side, way in ways))
    return found


def _find(case: Case) -> Iterator[Change]:
    stage, sides = case.place.stage, case.pair.sides
    if case.edges:
        yield Change("edges", *case.edges)
    elif stage == "logits" and case.targets is not None:
        formulas = [inside.formulas(case)] if case.place.inside and case.layer else [between.formulas(case)]
        change = _first(chain(attention.formulas(case), *formulas), case.targets, case.few)
        found = [change] if change else [*between.transformations(case), *_find_narrow(*case.targets)]
        found = found or [*between.orders(*case.targets)]
        yield from found or (() if case.place.inside else _find_in_part(case))
    elif stage == "loss":
        one, other = (np.array([float(side.arrays["loss"])]) for side in sides)
        change = _first(training.loss(case), (one, other))
        decays = [each for each in training.gradients(case) if each.what == "weight decay"]
        yield from [change] if change else decays or _find_narrow(one, other)
    elif stage == "gradients":
        yield from training.gradients(case)
    elif stage in ("three steps", "parameters trained"):
        yield from training.steps(case)
    elif stage == "evaluation":
        yield from _evaluation(case)
    elif stage == "dropout" and (differing := first_differing(case.pair)) and differing[1].what:
        yield differing[1]


def _first(formulas: Iterable[Formula], targets: tuple[Array, Array], few: list[int] | None = None) -> Change | None:
    return next((change for formula in formulas if (change := find_change(formula, targets, few))), None)


def _find_in_part(case: Case) -> Iterator[Change]:
    """What explains some of the channels, where the others are alike."""
    for part in islice(between.parts(case), PARTS):
        if part.targets and (change := _first(between.formulas(part), part.targets, part.few)):
            yield change
            return


def _find_narrow(one: Array, other: Array) -> Iterator[Change]:
    """Whether one side has numbers of float32 alone, and the other not."""
    narrow = [bool(np.array_equal(side, side.astype(np.float32))) for side in (one, other)]
    if narrow[0] != narrow[1] and distance(one, other) < NARROW:
        yield Change("float32", *("float32" if each else "float64" for each in narrow))


def _evaluation(case: Case) -> Iterator[Change]:
    sides = case.pair.sides
    twice = [
        (side.arrays.get("evaluation/dropout", np.zeros(1)), side.arrays.get("evaluation/again", np.zeros(1)))
        for side in sides
    ]
    if any(distance(*pair) > TOLERANCE for pair in twice):
        yield Change("dropout in evaluation", *("off" if distance(*pair) <= TOLERANCE else "on" for pair in twice))
    if case.layer and (means := case.layer.pair("mean")) and (variances := case.layer.pair("variance")):
        one, other = (np.stack([mean, variance]) for mean, variance in zip(means, variances, strict=True))
        if one.shape == other.shape and (change := _first(training.statistics(case), (one, other))):
            yield change
    shares = [
        float(side.arrays["evaluation/likeliest"].mean()) for side in sides if "evaluation/likeliest" in side.arrays
    ]
    if not case.layer and len(shares) == 2 and abs(shares[0] - shares[1]) > 0.5:
        yield Change("answers", *(f"{share:.0%} of the likeliest labels right" for share in shares))


def _name(change: Change) -> str:  # noqa: PLR0911 -- a list of names
    """The cause: what was changed, or a more particular name by the ways of both sides."""
    what, ways = SAME_AS.get(change.what, change.what), (change.one, change.other)
    if what == "activation":
        return "form of GELU" if all(way.startswith("GELU") for way in ways) else what
    if what == "bias":
        return "bias missing" if any(way.startswith("no bias") for way in ways) else "bias twice"
    if what == "residual":
        return "lost residual" if "nothing" in ways else "another residual"
    if what == "padding" and len({way.partition(",")[0] for way in ways}) == 1:
        causal = "causal kernel" if any(way.endswith(" 0 behind") and "across" not in way for way in ways) else what
        return causal if ways[0].startswith("stride 1,") else '"same" padding with stride 2'
    if what == "pooling" and any("position" in way or "words" in way for way in ways):
        return what if len({"mean" if "divided" in way else way.split()[1] for way in ways}) > 1 else "masked padding"
    if what == "momentum":
        return "momentum convention" if abs(sum(float(way.split()[0]) for way in ways) - 1) < 1e-3 else what
    return what
