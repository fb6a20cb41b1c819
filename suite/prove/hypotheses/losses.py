"""Of the loss, where the logits agree."""

from __future__ import annotations

import numpy as np

from suite.prove.arithmetic import cross_entropy, softmax
from suite.prove.case import Case, explains, whole_number


def summed(case: Case) -> str:
    """One sums over the batch, or over some other number, where the other averages."""
    one, other = float(case.one.arrays["loss"]), float(case.other.arrays["loss"])
    count = whole_number(other / one) if one else 0
    logits, batch = case.one.arrays["logits"], len(case.given.batches[0][1])
    values = {batch: "the batch's samples", logits.size: "all logits", logits.shape[1]: "a sample's logits"}
    if case.tokens is not None:
        values |= {case.tokens.size: "all positions", case.tokens.shape[1]: "a sample's positions"}
    if count not in values:
        return ""
    larger, of = case.other if other > one else case.one, values[count]
    return f"the loss of {larger.framework} is {count} times as large: a sum over {of}"


def softmax_twice(case: Case) -> str:
    """One takes its logits for shares, or shares for logits."""
    logits, labels = case.one.arrays["logits"], case.given.batches[0][1]
    if logits.ndim != 2 or logits.shape[1] < 2 or labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
        return ""
    twice = cross_entropy(softmax(logits), labels)
    for side in (case.one, case.other):
        if explains(float(side.arrays["loss"]), twice):
            return f"{side.framework} takes the softmax of what is one already"
    return ""


def masked(case: Case) -> str:
    """One divides by all positions, the other by the unpadded ones."""
    tokens, one = case.tokens, float(case.one.arrays["loss"])
    if tokens is None or not one:
        return ""
    share, ratio = np.count_nonzero(tokens) / tokens.size, float(case.other.arrays["loss"]) / one
    for value, name in ((ratio, case.other.framework), (1 / ratio, case.one.framework)):
        if share < 1 and explains(value, share):
            return f"{name} divides by all positions, not by the unpadded ones"
    return ""
