"""The evidence of identity that needs no other framework: formulas, dropout's draws, what is timed after its end."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from statistics import fmean
from typing import Any

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
from suite.catalog.metrics import number
from suite.record.parts.evidence import Draws, Identity
from suite.record.record import Record
from workloads.spec import read_declaration

#: Weights' norms of one training agree relatively to this (the order of sums moves less), and launches that tell.
NORMS_SAME, NORMS_LEAST = 1e-6, 4


def self_checks(launches: Sequence[Record], still: Container[str] = ()) -> str:
    """What is wrong with the evidence that needs no reference, in words; tensors that are ``still`` need not move."""
    identities = [record.identity for record in launches if record.identity]
    served = [(each.inference, each.identity.answered) for each in launches if each.inference and each.identity]
    if not all(answered for _, answered in served):
        return "the answers of inference were not checked"
    if any(inference.decoded and answered and answered.cached is None for inference, answered in served):
        return "decoding was not checked against passes without a cache"
    coarse = launches[0].cell.precision not in ("fp32", "fp64")
    problems = (words for identity in identities for words in (*_faults(identity, still), *_excesses(identity, coarse)))
    dropouts = [identity.dropout for identity in identities if identity.dropout]
    return next(problems, "") or (_dropout(dropouts, launches[0].cell.workload) if dropouts else "")


def _faults(identity: Identity, still: Container[str]) -> Iterator[str]:
    recomputed, last, answered = identity.recomputed, identity.last, identity.answered
    if identity.losses and len(identity.losses) not in STEPS:
        yield f"the fingerprint has {len(identity.losses)} steps"
    if recomputed and recomputed.kept_bytes >= recomputed.usual_bytes:
        yield f"checkpointing keeps {recomputed.kept_bytes} bytes, and {recomputed.usual_bytes} are kept without it"
    if answered and answered.gradient:
        yield "inference keeps a gradient"
    if last and not last.equal:
        yield f"batch {last.batch} is not the reference's"
    for name, norm in last.updates.items() if last else ():
        if not norm and name not in still:
            yield f"{name} does not move after the last window"


def _excesses(identity: Identity, coarse: bool) -> Iterator[str]:
    bounded = [
        (identity.optimizer, OPTIMIZER, "the optimizer is off its formula by {:.0e}"),
        (identity.own_optimizer, OWN_OPTIMIZER, "at the cell's batch, the optimizer is off its formula by {:.0e}"),
    ]
    if identity.recomputed:
        bounded.append((identity.recomputed.gradient, RECOMPUTED, "checkpointing moves a gradient by {:.0e}"))
    if scored := identity.scored:
        samples = f"of {scored.samples} test samples are not scored, or not by their most probable label"
        sums = "in evaluation, the probabilities of a sample's labels are off 1 by {:.0e} in sum"
        fresh = "what is evaluated is off a fresh model with the trained weights by {:.0e}"
        bounded += [
            (scored.wrong, 0, f"{{}} {samples}"),
            (scored.total, TOTAL, sums),
            (scored.replayed, EVALUATED, fresh),
        ]
        bounded.append((scored.fp32, EVALUATED_COARSELY, "the loss in evaluation is off that in fp32 by {:.0e}"))
    if answered := identity.answered:
        most = EVALUATED_COARSELY if coarse else ANSWERED
        others = f"{{}} of {answered.requests} answers are another request's"
        bounded += [
            (answered.wrong, 0, others),
            (answered.cached, most, "with its cache, decoding is off the whole pass by {:.0e}"),
            (answered.off, most, "answers are off the evaluation by {:.0e}"),
        ]
    if last := identity.last:
        again = SCATTERED * (last.again or 0.0) if last.checked else REPLAYED  # older records have no second one
        bounded.append((last.replayed, again, "after the last window, steps are off a fresh model's by {:.0e}"))
    return (words.format(value) for value, most, words in bounded if (value or 0.0) > most)


def _dropout(found: Sequence[Draws], workload: str) -> str:
    if any(len(set(draws.losses)) < len(draws.losses) for draws in found):
        return "dropout draws the same masks in every step"
    if (shared := fmean(draws.shared or 0.0 for draws in found)) > SHARED:
        return f"dropout's masks are not independent in a batch, whose mean varies {shared:.1f} times as much"
    for size in dict.fromkeys(draws.size for draws in found):  # a run that went on under a newer version has both
        if words := _spreads([draws for draws in found if draws.size == size], workload):
            return words
    return ""


def _spreads(found: Sequence[Draws], workload: str) -> str:
    bounds, size = read_declaration(workload).dropout_bounds, found[0].size
    expected, spread = bounds.spread.get(size), fmean(draws.spread for draws in found)
    if expected and relative(spread, expected) > DROPOUT_APART + bounds.scatter / len(found) ** 0.5:
        return f"dropout spreads the logits by {spread:.4f}, not by {expected:.4f}"
    for name, at_layer in bounds.layers.get(size, {}).items():
        seen = [draws.layers[name] for draws in found if name in draws.layers]
        if seen and relative(fmean(seen), at_layer) > bounds.apart:
            return f"dropout spreads the input of {name} by {fmean(seen):.4f}, not by {at_layer:.4f}"
    return ""


def printed_losses(record: Record) -> Sequence[Any]:
    """The losses that a script printed, in order."""
    return stored if isinstance(stored := record.settings.get("losses"), list) else ()


def find_norms_apart(launches: Sequence[Record], others: Sequence[Record]) -> float:
    """How far apart, relatively, the norms of two scripts' weights lie; 0 if not farther than launches of one of them.

    Two launches each tell where a script repeats itself exactly, and `NORMS_LEAST` where its draws differ each time.
    """
    both = [[norm for each in of if (norm := number(each.settings.get("weights_norm")))] for of in (launches, others)]
    if (fewest := min(map(len, both))) < 2:
        return 0.0
    (low, high), (other_low, other_high) = ((min(norms), max(norms)) for norms in both)
    gap, width = max(low - other_high, other_low - high), max(high - low, other_high - other_low)
    is_enough = fewest >= NORMS_LEAST or width <= NORMS_SAME * other_high
    return gap / other_high if is_enough and gap > max(width, NORMS_SAME * other_high) else 0.0


def say_losses(records: Sequence[Record], place: int) -> list[str]:
    """What each launch of a script shows of its learning: its loss at this place, and the norm of its weights.

    Empty where none is known of all scripts.
    """
    losses = [number(printed_losses(record)[place]) for record in records] if place >= 0 else []
    norms = [number(record.settings.get("weights_norm")) for record in records]
    told = [_say_values(f"loss {place + 1} of those printed", losses, 6)] if losses else []
    return told + ([_say_values("norm of the weights after the first steps", norms, 9)] if norms and all(norms) else [])


def _say_values(name: str, values: Sequence[float | None], digits: int) -> str:
    known = [value for value in values if value is not None]
    told = " to ".join(dict.fromkeys(f"{value:.{digits}g}" for value in (min(known), max(known)))) if known else ""
    return f"{name}: {told if len(known) == len(values) else 'not finite in all launches'}"
