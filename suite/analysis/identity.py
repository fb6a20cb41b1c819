"""Did the frameworks compute the same? The evidence of the launches, set side by side.

Evidence (`suite.record.evidence.Identity`) is compared with that of the same workload, size, precision, data and spec
only: the digest of the loader's batches, and the first steps of what is timed, with those of the same batch size and
seed, a fingerprint at the cell's own batch size with those of the same. Digests must be equal; numbers may lie apart by
the tolerance (`suite.analysis.tolerances`). What a record of an older version lacks is not judged.

No framework is the norm. With three or more the reference is the median over frameworks, element by element (each
framework first being the median of its own launches); with two it is the other one; with one it is its own median, so
that at least its launches and cells are held against one another. What needs no reference (the optimizer's formula,
dropout's spread, the last batch and step) is judged by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import TypeVar

from suite.analysis.tolerances import (
    DROPOUT,
    DROPOUT_SPREAD,
    OPTIMIZER,
    REPLAYED,
    SCATTERED,
    TOLERANCE,
    Tolerance,
    tolerance_of,
)
from suite.record.evidence import Identity, Last, Trace
from suite.record.record import Record

Key = TypeVar("Key", bound=Hashable)

#: The evidence that is compared between frameworks, and what a deviation is introduced with; the fingerprint is first.
COMPARED = {
    "fingerprint": "",
    "early": "after two steps, ",
    "float64": "in float64, ",
    "own": "at the cell's batch, ",
    "timed": "in what is timed, ",
    "evaluation": "in evaluation, ",
}


@dataclass(frozen=True)
class Verdict:
    """``kind`` is `same`, `differs`, `no evidence` or `alone`; the deviations are the fingerprints' largest, relative.

    ``provisional`` says that the bounds were derived, and not yet measured.
    """

    kind: str
    detail: str = ""
    losses: float | None = None
    updates: float | None = None
    provisional: bool = False

    def __str__(self) -> str:
        if self.kind == "same":
            worst = max(self.losses or 0.0, self.updates or 0.0)
            words = f"{worst:.0e}" if worst else "0"
            return f"same ({words}, provisional bounds)" if self.provisional else f"same ({words})"
        return f"{self.kind}: {self.detail}" if self.detail else self.kind


def verdicts(rows: Mapping[Key, Sequence[Record]]) -> dict[Key, Verdict]:
    """A verdict per row. ``rows`` hold the successful launches of one cell each; a row without any has no evidence."""
    judged: dict[Key, Verdict] = {}
    groups: dict[tuple[str, ...], dict[Key, Sequence[Record]]] = {}
    for key, records in rows.items():
        proved = [record for record in records if record.identity and record.identity.losses]
        if proved and len(proved) == len(records):
            groups.setdefault(_comparable(proved[0]), {})[key] = proved
        else:
            detail = f"{len(records) - len(proved)} of {len(records)} launches without" if proved else ""
            judged[key] = Verdict("no evidence", detail)
    for group in groups.values():
        judged |= _group(group)
    return {key: judged[key] for key in rows}


def _comparable(record: Record) -> tuple[str, ...]:
    cell = record.cell
    return cell.workload, cell.size, cell.precision, *(str(x.get("digest")) for x in (record.data, record.workload))


def _loaded(record: Record) -> tuple[int, str]:
    """What the batches of a loader depend on, besides the data."""
    return record.effective_batch, str(record.run.get("seed"))


def _group(rows: Mapping[Key, Sequence[Record]]) -> dict[Key, Verdict]:
    records = [record for launches in rows.values() for record in launches]
    frameworks = {record.cell.framework for record in records}
    workload, precision = records[0].cell.workload, records[0].cell.precision
    cuda = any(record.settings.get("device") == "cuda" for record in records)
    tolerance = tolerance_of(workload, precision, cuda)
    if tolerance is None:
        detail = f"no tolerance is set for {workload} in {precision}"
        return dict.fromkeys(rows, Verdict("no evidence", detail))
    weights = _majority((r.cell.framework, _identity(r).weights) for r in records)
    loaded: dict[tuple[int, str], list[Record]] = {}
    for record in records:
        loaded.setdefault(_loaded(record), []).append(record)
    batches = {kind: _majority((r.cell.framework, _identity(r).batches) for r in held) for kind, held in loaded.items()}
    references = _references(records)
    judged = {}
    for key, launches in rows.items():
        evidence = [_identity(record) for record in launches]
        # Launches that train to the end are seeds, each with an order of its own.
        kinds = [_loaded(record) for record in launches]
        words = [_between(evidence, kinds, tolerance), _digests(evidence, weights, [batches[kind] for kind in kinds])]
        losses, updates = 0.0, 0.0
        for record in launches:
            for name, introduction in COMPARED.items():
                if (trace := _trace(record, name)) is None:
                    continue
                reference = references[name, _kind(record, name), record.cell.framework]
                off, moved, problem = _deviation(trace, reference, _bounds(record, name, tolerance))
                words.append(introduction + problem if problem else "")
                if name == "fingerprint":
                    losses, updates = max(losses, off), max(updates, moved)
        words.append(_by_itself(launches))
        worst = next((each for each in words if each), "")
        kind = "differs" if worst else "alone" if len(frameworks) == 1 else "same"
        judged[key] = Verdict(kind, worst, losses, updates, tolerance.provisional)
    return judged


def _identity(record: Record) -> Identity:
    assert record.identity is not None
    return record.identity


def _trace(record: Record, name: str) -> Trace | None:
    """The record's evidence of a name in `COMPARED`, where it has any."""
    identity = _identity(record)
    if name == "fingerprint":
        return Trace(identity.losses, identity.updates)
    if name == "early":
        return Trace((), identity.early_updates) if identity.early_updates else None
    return identity.traces.get(name)


def _kind(record: Record, name: str) -> Hashable:
    """What evidence of a name depends on, besides what all records of a group share."""
    if name == "own":
        return record.effective_batch, record.cell.accumulate
    return (_loaded(record), record.cell.accumulate) if name == "timed" else ()


def _bounds(record: Record, name: str, tolerance: Tolerance) -> Tolerance:
    if name in ("float64", "evaluation"):
        return TOLERANCE[record.cell.workload, "fp64"]
    if name == "timed" and _identity(record).dropout:
        return SCATTERED
    return tolerance if name == "fingerprint" else tolerance.early


def _references(records: Iterable[Record]) -> dict[tuple[str, Hashable, str], Trace]:
    """What each framework's evidence is held against, by the evidence' name and kind."""
    comparable: dict[tuple[str, Hashable], dict[str, list[Trace]]] = {}
    for record in records:
        for name in COMPARED:
            if trace := _trace(record, name):
                by_framework = comparable.setdefault((name, _kind(record, name)), {})
                by_framework.setdefault(record.cell.framework, []).append(trace)
    return {
        (name, kind, framework): _reference(framework, by_framework)
        for (name, kind), by_framework in comparable.items()
        for framework in by_framework
    }


def _reference(name: str, by_framework: Mapping[str, Sequence[Trace]]) -> Trace:
    if len(by_framework) == 2:
        return _median([_median(traces) for framework, traces in by_framework.items() if framework != name])
    return _median([_median(traces) for traces in by_framework.values()])


def _median(traces: Sequence[Trace]) -> Trace:
    """Element by element, over those that have the element."""
    steps = max(len(trace.losses) for trace in traces)
    names = dict.fromkeys(name for trace in traces for name in trace.updates)
    return Trace(
        tuple(median(trace.losses[i] for trace in traces if i < len(trace.losses)) for i in range(steps)),
        {name: median(trace.updates[name] for trace in traces if name in trace.updates) for name in names},
    )


def _majority(held: Iterable[tuple[str, str]]) -> str | None:
    """The digest that more than half of the frameworks hold, or None: with one against one, neither is right."""
    by_framework: dict[str, Counter[str]] = {}
    for framework, digest in held:
        by_framework.setdefault(framework, Counter())[digest] += 1
    votes = Counter(digests.most_common(1)[0][0] for digests in by_framework.values())
    digest, count = votes.most_common(1)[0]
    return digest if 2 * count > len(by_framework) else None


def _digests(evidence: Sequence[Identity], weights: str | None, batches: Sequence[str | None]) -> str:
    for what, right in (("weights", [weights] * len(evidence)), ("batches", batches)):
        if any(getattr(each, what) != own for each, own in zip(evidence, right, strict=True)):
            return f"{what} are not the others'"
    return ""


def _between(evidence: Sequence[Identity], kinds: Sequence[Hashable], tolerance: Tolerance) -> str:
    """In what the launches of one cell do not agree even with one another: it says more than any comparison."""
    first = evidence[0]
    loaded = {kind: each.batches for kind, each in zip(reversed(kinds), reversed(evidence), strict=True)}
    for kind, each in zip(kinds, evidence, strict=True):
        if each.weights != first.weights:
            return "weights change between launches"
        if each.batches != loaded[kind]:
            return "batches change between launches"
        one, other = (Trace(identity.losses, identity.updates) for identity in (each, first))
        if words := _deviation(one, other, tolerance)[2]:
            return f"{words} between launches"
    return ""


def _by_itself(launches: Sequence[Record]) -> str:
    """What is wrong with the evidence that needs no reference, in words."""
    for identity in map(_identity, launches):
        if identity.optimizer is not None and identity.optimizer > OPTIMIZER:
            return f"the optimizer is off its formula by {identity.optimizer:.0e}"
        if identity.last and (words := _at_the_end(identity.last)):
            return words
    drawn = [identity.dropout for identity in map(_identity, launches) if identity.dropout]
    if any(len(set(draws.losses)) < len(draws.losses) for draws in drawn):
        return "dropout draws the same masks in every step"
    expected = DROPOUT_SPREAD.get(launches[0].cell.workload)
    if drawn and expected:
        spread = fmean(draws.spread for draws in drawn)
        if _relative(spread, expected) > DROPOUT:
            return f"dropout spreads the logits by {spread:.4f}, not by {expected:.4f}"
    return ""


def _at_the_end(last: Last) -> str:
    """What is wrong with the steps after the last window, in words."""
    if not last.equal:
        return f"batch {last.batch} is not the reference's"
    if still := [name for name, moved in last.updates.items() if not moved]:
        return f"{still[0]} does not move after the last window"
    if (off := last.replayed or 0.0) > REPLAYED:
        return f"after the last window, steps are off a fresh model's by {off:.0e}"
    return ""


def _deviation(one: Trace, reference: Trace, tolerance: Tolerance) -> tuple[float, float, str]:
    """The largest relative deviations of losses and updates, and in words the first that is beyond the tolerance."""
    losses, updates = reference.losses, reference.updates
    if len(one.losses) != len(losses):
        return 0.0, 0.0, f"{len(one.losses)} losses against {len(losses)}"
    if missing := sorted(updates.keys() ^ one.updates.keys()):
        return 0.0, 0.0, f"tensor {missing[0]} is not in all of them"
    steps = [_relative(a, b) for a, b in zip(one.losses, losses, strict=True)]
    tensors = {name: _relative(one.updates[name], updates[name]) for name in updates}
    beyond = (i for i, d in enumerate(steps, 1) if d > tolerance.loss(i))
    words = next((f"losses at step {i} by {steps[i - 1]:.0e}" for i in beyond), "")
    if not words and tensors:
        name = max(tensors, key=lambda each: tensors[each])
        words = f"update of {name} by {tensors[name]:.0e}" if tensors[name] > tolerance.updates else ""
    return max(steps, default=0.0), max(tensors.values(), default=0.0), words


def _relative(value: float, reference: float) -> float:
    return abs(value - reference) / max(abs(reference), 1e-12)
