"""The evidence of identity that needs no other framework: formulas, dropout's draws, what is timed after its end."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from suite.analysis.identity.tolerances import (
    ANSWERED,
    DROPOUT_APART,
    EVALUATED,
    EVALUATED_COARSELY,
    OPTIMIZER,
    OWN_OPTIMIZER,
    RECOMPUTED,
    REPLAYED,
    SCATTERED,
    SHARED,
    STEPS,
    TOTAL,
    relative,
)
from suite.record.inference import Answered
from suite.record.parts.evidence import Draws, Identity, Last, Recomputed, Scored
from suite.record.record import Record
from workloads.spec import read_declaration


def by_itself(launches: Sequence[Record]) -> str:
    """What is wrong with the evidence that needs no reference, in words."""
    identities = [record.identity for record in launches if record.identity]
    if any(each.inference and each.identity and not each.identity.answered for each in launches):
        return "the answers of inference were not checked"
    exact = launches[0].cell.precision in ("fp32", "fp64")
    problems = (problem for identity in identities if (problem := _of_launch(identity, exact)))
    dropouts = [identity.dropout for identity in identities if identity.dropout]
    return next(problems, "") or (_dropout(dropouts, launches[0].cell.workload) if dropouts else "")


def _of_launch(identity: Identity, exact: bool) -> str:
    if identity.losses and len(identity.losses) not in STEPS:
        return f"the fingerprint has {len(identity.losses)} steps"
    if identity.optimizer is not None and identity.optimizer > OPTIMIZER:
        return f"the optimizer is off its formula by {identity.optimizer:.0e}"
    if identity.own_optimizer is not None and identity.own_optimizer > OWN_OPTIMIZER:
        return f"at the cell's batch, the optimizer is off its formula by {identity.own_optimizer:.0e}"
    parts = (
        _recomputed(identity.recomputed) if identity.recomputed else "",
        _scored(identity.scored) if identity.scored else "",
        _answered(identity.answered, ANSWERED if exact else EVALUATED_COARSELY) if identity.answered else "",
        _at_the_end(identity.last) if identity.last else "",
    )
    return next(filter(None, parts), "")


def _dropout(found: Sequence[Draws], workload: str) -> str:
    """Returns what is wrong with the draws of dropout in some launches, in words."""
    if any(len(set(draws.losses)) < len(draws.losses) for draws in found):
        return "dropout draws the same masks in every step"
    if (shared := fmean(draws.shared or 0.0 for draws in found)) > SHARED:
        return f"dropout's masks are not independent in a batch, whose mean varies {shared:.1f} times as much"
    bounds = read_declaration(workload).dropout_bounds
    for size in dict.fromkeys(draws.size for draws in found):  # a run that went on under a newer version has both
        spreads = [draws.spread for draws in found if draws.size == size]
        expected, spread = bounds.spread.get(size), fmean(spreads)
        if expected and relative(spread, expected) > DROPOUT_APART + bounds.scatter / len(spreads) ** 0.5:
            return f"dropout spreads the logits by {spread:.4f}, not by {expected:.4f}"
        for name, at_layer in bounds.layers.get(size, {}).items():
            seen = [draws.layers[name] for draws in found if draws.size == size and name in draws.layers]
            if seen and relative(fmean(seen), at_layer) > bounds.apart:
                return f"dropout spreads the input of {name} by {fmean(seen):.4f}, not by {at_layer:.4f}"
    return ""


def _recomputed(found: Recomputed) -> str:
    """Returns what is wrong with gradient checkpointing, in words."""
    if found.kept_bytes >= found.usual_bytes:
        return f"checkpointing keeps {found.kept_bytes} bytes, and {found.usual_bytes} are kept without it"
    if found.gradient > RECOMPUTED:
        return f"checkpointing moves a gradient by {found.gradient:.0e}"
    return ""


def _scored(found: Scored) -> str:
    """Returns what is wrong with the last evaluation, in words."""
    if found.wrong:
        return f"{found.wrong} of {found.samples} test samples are not scored, or not by their most probable label"
    if found.total > TOTAL:
        return f"in evaluation, the probabilities of a sample's labels are off 1 by {found.total:.0e} in sum"
    if found.replayed > EVALUATED:
        return f"what is evaluated is off a fresh model with the trained weights by {found.replayed:.0e}"
    if (found.fp32 or 0.0) > EVALUATED_COARSELY:
        return f"the loss in evaluation is off that in fp32 by {found.fp32:.0e}"
    return ""


def _answered(found: Answered, bound: float) -> str:
    """Returns what is wrong with the answers of inference, in words."""
    if found.gradient:
        return "inference keeps a gradient"
    if found.wrong:
        return f"{found.wrong} of {found.requests} answers are another request's"
    return f"answers are off the evaluation by {found.off:.0e}" if found.off > bound else ""


def _at_the_end(last: Last) -> str:
    """Returns what is wrong with the steps after the last window, in words."""
    if not last.equal:
        return f"batch {last.batch} is not the reference's"
    if unmoved := [name for name, norm in last.updates.items() if not norm]:
        return f"{unmoved[0]} does not move after the last window"
    again = REPLAYED if not last.checked else SCATTERED * (last.again or 0.0)  # older records have no second one
    if (deviation := last.replayed or 0.0) > again:
        return f"after the last window, steps are off a fresh model's by {deviation:.0e}"
    return ""
