"""Known mistakes in ports: each with a test of its hypothesis on the numbers of both sides.

A cause is named only where its hypothesis explains the numbers to `EXPLAINED`, for example if transposing the kernel
makes the layer agree. A test returns what it found in words, or nothing. It gets a `Case`; which of the two sides has
the mistake is the user's to know, so the words name both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from suite.prove.case import Case
from suite.prove.hypotheses import (
    attention,
    between,
    dropout,
    inputs,
    kernels,
    losses,
    normalisation,
    recurrent,
    training,
)


@dataclass(frozen=True)
class Cause:
    """A mistake: its name, the check at which it shows, its test, and how to mend it."""

    name: str
    stages: tuple[str, ...]
    test: Callable[[Case], str]
    remedy: str


FORWARD, LOSS, GRADIENTS, EVALUATION, DROPOUT = ("logits",), ("loss",), ("gradients",), ("evaluation",), ("dropout",)
STEPS = ("three steps", "parameters trained")

TRANSPOSE = "transpose the kernel where weights are imported"
ONE_BIAS = "drop one of the two biases, or keep it at zero and untrained"
MEAN = "divide by the number of values"
MASK = "leave padded positions out of the mean, and out of the divisor"

#: In this order; a case may fit several.
CAUSES = (
    Cause("layout of a kernel", FORWARD, kernels.transposed, TRANSPOSE),
    Cause("layout of a kernel", FORWARD, kernels.turned, "keep the kernel's order: height, width, in, out"),
    Cause("order of a flattened input", FORWARD, inputs.flattened, "move the channels last before flattening"),
    Cause("order of gates", FORWARD, recurrent.gates, "reorder the gates where weights are imported"),
    Cause("bias twice", FORWARD, kernels.bias_twice, ONE_BIAS),
    Cause("bias twice", FORWARD, recurrent.bias_twice, ONE_BIAS),
    Cause("bias twice", FORWARD, inputs.bias_twice, ONE_BIAS),
    Cause("bias missing", FORWARD, kernels.bias_missing, "add the bias"),
    Cause("bias missing", FORWARD, recurrent.bias_missing, "add the bias"),
    Cause('"same" padding with stride 2', FORWARD, kernels.padding, "pad explicitly on both sides"),
    Cause("epsilon", FORWARD, normalisation.epsilon, "set epsilon; the frameworks' defaults differ"),
    Cause("biased variance", FORWARD, normalisation.variance, "divide by n in both, or by n - 1 in both"),
    Cause("causal kernel", FORWARD, kernels.causal, "pad before the first position in both, or on both sides"),
    Cause("attention mask", FORWARD, attention.mask, "attend to the same positions in both"),
    Cause("softmax axis", FORWARD, attention.axis, "take the softmax over the keys"),
    Cause("temperature", FORWARD, attention.temperature, "divide the scores by the root of a head's width, once"),
    Cause("swapped projections", FORWARD, attention.projections, "give queries, keys and values their own kernels"),
    Cause("attention heads", FORWARD, attention.heads, "split and join the heads in the same way"),
    Cause("positions", FORWARD, between.positions, "begin at the same row for the same word"),
    Cause("scaled embedding", FORWARD, between.scaled_embedding, "multiply by the root of the width in both, or not"),
    Cause("lost residual", FORWARD, between.lost_residual, "add the input of the branch to its output"),
    Cause("another residual", FORWARD, between.another_residual, "add the same in both"),
    Cause("masked padding", FORWARD, between.masked, MASK),
    Cause("sum for mean", FORWARD, inputs.summed, MEAN),
    Cause("pooling", FORWARD, between.pooling, "pool in the same way"),
    Cause("form of GELU", FORWARD, between.gelu_form, "choose the same form; approximate=False is exact"),
    Cause("activation", FORWARD, between.activation, "choose the same activation"),
    Cause("scale of the inputs", FORWARD, inputs.rescaled, "normalise the inputs in the same way"),
    Cause("sum for mean", LOSS, losses.summed, MEAN),
    Cause("softmax twice", LOSS, losses.softmax_twice, "give the loss logits where it expects them"),
    Cause("masked padding", LOSS, losses.masked, MASK),
    Cause("sum for mean", GRADIENTS, training.summed, MEAN),
    Cause("no gradient", GRADIENTS, training.stopped, "remove the detach or stop_gradient before this tensor"),
    Cause("bias twice", STEPS, training.bias_twice, ONE_BIAS),
    Cause("not trained", STEPS, training.frozen, "hand this tensor to the optimizer"),
    Cause("momentum convention", EVALUATION, normalisation.momentum, "PyTorch's momentum is one minus the others'"),
    Cause("momentum", EVALUATION, normalisation.another_momentum, "take the same share of the batch's statistics"),
    Cause("biased variance", EVALUATION, normalisation.running, "multiply the running variance by n / (n - 1)"),
    Cause("dropout in evaluation", EVALUATION, dropout.in_evaluation, "switch dropout off in evaluation"),
    Cause("shared draws", DROPOUT, dropout.shared, "draw anew for every sample and every pass"),
    Cause("place of dropout", DROPOUT, dropout.elsewhere, "drop at the same place in both"),
    Cause("dropout missing", DROPOUT, dropout.missing, "have it in both, in training mode, or in neither"),
    Cause("rate for keep", DROPOUT, dropout.rate_for_keep, "give the share that is dropped"),
    Cause("rate of dropout", DROPOUT, dropout.another_rate, "give both the spec's rate"),
    Cause("dropout unscaled", DROPOUT, dropout.unscaled, "divide what is kept by 1 - rate in training"),
)


def find_causes(case: Case) -> list[tuple[Cause, str]]:
    """The causes that explain the numbers, with what was found; each name once."""
    found: dict[str, tuple[Cause, str]] = {}
    for cause in CAUSES if case.place.reached else ():
        if case.place.stage in cause.stages and cause.name not in found and (words := cause.test(case)):
            found[cause.name] = cause, words
    return list(found.values())
