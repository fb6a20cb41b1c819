"""Did the frameworks compute the same? Compares the evidence of the launches.

Evidence (`suite.record.parts.evidence.Identity`) is compared only with evidence of the same workload, size, precision,
data and spec. The digest of the loader's batches also needs the same batch size and seed, and a fingerprint at the
cell's own batch size needs that size. Digests must be equal; numbers may differ by the tolerance
(`suite.analysis.identity.tolerances`). Evidence that a record of an older version lacks is not judged. A launch without
a fingerprint rests on one of the same program.

No framework is the norm. With three or more frameworks the reference is the median over them, element by element (of
the median of each framework's launches). With two it is the other framework. With one it is its own median, so that at
least its launches and cells are compared with each other. What a high-level interface trains is an implementation of
its own: it is held against the suite's own loops, and is part of no reference where there are any, as all backends of
Keras would share a mistake of it. Releases of a framework are one implementation beside other frameworks, and where
there are none, each is one of its own. Evidence that needs no reference (the optimizer's formula,
dropout's spread, the batches and steps of what is timed) is judged by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import TypeVar

from suite.analysis.identity.by_itself import by_itself
from suite.analysis.identity.reference import (
    Implementation,
    group_by,
    implementation,
    majority,
    of_release,
    reference_records,
)
from suite.analysis.identity.tolerances import (
    Tolerance,
    relative,
    tolerance_of,
)
from suite.analysis.records.ledger import UNACCOUNTED, unaccounted
from suite.plan.settings.strategies import normalised_apart
from suite.record.parts.evidence import Identity, Trace
from suite.record.record import Record

Key = TypeVar("Key", bound=Hashable)

#: The evidence that is compared between frameworks, and the words before a deviation; the fingerprint comes first.
COMPARED = {
    "fingerprint": "",
    "float64": "in float64, ",
    "own": "at the cell's batch, ",
    "evaluation": "in evaluation, ",
    "inference": "in inference, ",
    "dropout": "with dropout, ",
}
#: What a `Trace` holds of each tensor, where it is not the norm of its update.
OF_TENSORS = {"dropout": "spread before"}


@dataclass(frozen=True)
class Verdict:
    """``kind`` is `same`, `differs`, `no evidence`, `alone` or `unaccounted`; deviations are the largest relative ones.

    ``provisional`` says that the bounds are derived, not yet measured.
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
    """A verdict per row. Each row is the successful launches of one cell; without any there is no evidence."""
    judged: dict[Key, Verdict] = {}
    groups: dict[tuple[str, ...], dict[Key, Sequence[Record]]] = {}
    identities = [record.identity for records in rows.values() for record in records if record.identity]
    proved = {identity.program for identity in identities if identity.losses} - {""}
    for key, records in rows.items():
        with_evidence = [
            record for record in records
            if record.identity and (record.identity.losses or record.identity.program in proved)
        ]  # fmt: skip
        if with_evidence and len(with_evidence) == len(records):
            groups.setdefault(_comparable(with_evidence[0]), {})[key] = with_evidence
        else:
            detail = f"{len(records) - len(with_evidence)} of {len(records)} launches without" if with_evidence else ""
            judged[key] = Verdict("no evidence", detail)
    for group in groups.values():
        judged |= _group(group)
    judged |= _resting(rows, judged)
    for key, problem in unaccounted(rows).items():
        kind = judged[key].kind if judged[key].kind == "differs" else UNACCOUNTED
        judged[key] = replace(judged[key], kind=kind, detail="; ".join(filter(None, [judged[key].detail, problem])))
    return {key: judged[key] for key in rows}


def _resting(rows: Mapping[Key, Sequence[Record]], judged: Mapping[Key, Verdict]) -> dict[Key, Verdict]:
    """The verdict of a row that differs, for every row that rests on a launch of it."""
    spoiled = {
        _identity(record).program: judged[key]
        for key, records in rows.items() if judged[key].kind == "differs"
        for record in records if record.identity and record.identity.losses
    }  # fmt: skip
    resting = {
        key: spoiled[record.identity.program]
        for key, records in rows.items()
        for record in records if record.identity and not record.identity.losses and record.identity.program in spoiled
    }  # fmt: skip
    return {key: verdict for key, verdict in resting.items() if judged[key].kind in ("same", "alone")}


def _comparable(record: Record) -> tuple[str, ...]:
    cell, digests = record.cell, (str(source.get("digest")) for source in (record.data, record.workload))
    # Devices that normalise their samples apart from each other are another training than one device is.
    devices = str(cell.devices) if normalised_apart(cell) else ""
    return cell.workload, cell.size, cell.precision, devices, *digests


def _batch_kind(record: Record) -> tuple[int, str]:
    """What a loader's batches depend on besides the data: batch size and seed."""
    return record.effective_batch, str(record.run.get("seed"))


def _group(rows: Mapping[Key, Sequence[Record]]) -> dict[Key, Verdict]:
    records = [record for launches in rows.values() for record in launches]
    several = len({implementation(record) for record in records}) > 1
    own = implementation if several else of_release
    implementations = {own(record) for record in records}
    workload, precision = records[0].cell.workload, records[0].cell.precision
    cuda = any(record.settings.get("device") == "cuda" for record in records)
    tolerance = tolerance_of(workload, precision, cuda)
    if tolerance is None:
        detail = f"no tolerance is set for {workload} in {precision}"
        return dict.fromkeys(rows, Verdict("no evidence", detail))
    digests = [(record.cell.framework, _identity(record).weights) for record in reference_records(records)]
    weights = majority([each for each in digests if each[1]])
    by_kind: dict[tuple[int, str], list[tuple[str, str]]] = {}
    for kind, of_kind in group_by(records, _batch_kind).items():
        by_kind[kind] = [(record.cell.framework, _identity(record).batches) for record in reference_records(of_kind)]
    batches = {kind: majority(digests) for kind, digests in by_kind.items()}
    references = _references(records, own)
    judged = {}
    for key, launches in rows.items():
        evidence = [_identity(record) for record in launches]
        # Each launch that trains to the end has a seed and so an order of its own.
        kinds = [_batch_kind(record) for record in launches]
        problems = [
            _between(evidence, kinds, tolerance),
            _digests(evidence, weights, [batches[kind] for kind in kinds]),
        ]
        losses, updates = 0.0, 0.0
        for record in launches:
            for name, introduction in COMPARED.items():
                if (trace := _trace(record, name)) is None:
                    continue
                reference = references[name, _kind(record, name), own(record)]
                bounds = tolerance_of(workload, precision, cuda, name) or tolerance
                if name == "dropout":  # a layer's input that one framework does not show is not judged
                    trace = replace(trace, updates={k: v for k, v in trace.updates.items() if k in reference.updates})
                    reference = replace(reference, updates={k: reference.updates[k] for k in trace.updates})
                loss, update, problem = _deviation(trace, reference, bounds, OF_TENSORS.get(name, "update of"))
                problems.append(introduction + problem if problem else "")
                if name == "fingerprint":
                    losses, updates = max(losses, loss), max(updates, update)
        problems.append(by_itself(launches))
        first_problem = next((problem for problem in problems if problem), "")
        kind = "differs" if first_problem else "alone" if len(implementations) == 1 else "same"
        judged[key] = Verdict(kind, first_problem, losses, updates, tolerance.provisional)
    return judged


def _identity(record: Record) -> Identity:
    assert record.identity is not None
    return record.identity


def _trace(record: Record, name: str) -> Trace | None:
    """The record's evidence of a name in `COMPARED`; None if it has none."""
    identity = _identity(record)
    if name == "fingerprint":
        return Trace(identity.losses, identity.updates) if identity.losses else None
    if name == "dropout":
        return Trace((), identity.dropout.layers) if identity.dropout and identity.dropout.layers else None
    return identity.traces.get(name)


def _kind(record: Record, name: str) -> Hashable:
    """What evidence of this name depends on besides what all records of a group share."""
    if name == "fingerprint":  # older ones took more steps
        return len(_identity(record).losses)
    if name == "float64":
        return _identity(record).float64_size
    return (record.effective_batch, record.cell.accumulate) if name == "own" else ()


def _references(
    records: Iterable[Record], own: Callable[[Record], Implementation]
) -> dict[tuple[str, Hashable, Implementation], Trace]:
    """The reference for each implementation's evidence, by the name and kind of the evidence."""
    comparable: dict[tuple[str, Hashable], list[Record]] = {}
    for record in records:
        for name in COMPARED:
            if _trace(record, name):
                comparable.setdefault((name, _kind(record, name)), []).append(record)
    found = {}
    for (name, kind), with_evidence in comparable.items():
        traces: dict[Implementation, list[Trace]] = {}
        for record in reference_records(with_evidence):
            if trace := _trace(record, name):
                traces.setdefault(own(record), []).append(trace)
        for each in dict.fromkeys(map(own, with_evidence)):
            found[name, kind, each] = _reference(each, traces)
    return found


def _reference(own: Implementation, traces: Mapping[Implementation, Sequence[Trace]]) -> Trace:
    """The median over implementations; for one of two, the other."""
    others = {name: each for name, each in traces.items() if name != own} if len(traces) == 2 else traces
    return _median([_median(each) for each in others.values()])


def _median(traces: Sequence[Trace]) -> Trace:
    """Element by element, over those that have the element."""
    steps = max(len(trace.losses) for trace in traces)
    names = dict.fromkeys(name for trace in traces for name in trace.updates)
    return Trace(
        tuple(median(trace.losses[i] for trace in traces if i < len(trace.losses)) for i in range(steps)),
        {name: median(trace.updates[name] for trace in traces if name in trace.updates) for name in names},
    )


def _digests(evidence: Sequence[Identity], weights: str | None, batches: Sequence[str | None]) -> str:
    """Whether weights or batches are not those of the majority, in words; empty if they are."""
    for field, expected in (("weights", [weights] * len(evidence)), ("batches", batches)):
        if any(
            getattr(identity, field) not in ("", digest) for identity, digest in zip(evidence, expected, strict=True)
        ):
            return f"{field} are not the others'"
    return ""


def _between(evidence: Sequence[Identity], kinds: Sequence[Hashable], tolerance: Tolerance) -> str:
    """What the launches of one cell disagree on among themselves: it says more than a comparison with others."""
    first_batches = {kind: identity.batches for kind, identity in zip(reversed(kinds), reversed(evidence), strict=True)}
    if len({identity.weights for identity in evidence} - {""}) > 1:
        return "weights change between launches"
    first: dict[int, Trace] = {}
    for kind, identity in zip(kinds, evidence, strict=True):
        if identity.batches != first_batches[kind]:
            return "batches change between launches"
        trace = Trace(identity.losses, identity.updates)
        if problem := _deviation(trace, first.setdefault(len(trace.losses), trace), tolerance)[2]:
            return f"{problem} between launches"
    return ""


def _deviation(
    trace: Trace, reference: Trace, tolerance: Tolerance, of_tensor: str = "update of"
) -> tuple[float, float, str]:
    """The largest relative deviations of losses and updates, and in words the first that is beyond the tolerance."""
    losses, updates = reference.losses, reference.updates
    if len(trace.losses) != len(losses):
        return 0.0, 0.0, f"{len(trace.losses)} losses against {len(losses)}"
    if missing := sorted(updates.keys() ^ trace.updates.keys()):
        return 0.0, 0.0, f"tensor {missing[0]} is not in all of them"
    by_step = [relative(loss, expected) for loss, expected in zip(trace.losses, losses, strict=True)]
    by_tensor = {name: relative(trace.updates[name], updates[name]) for name in updates}
    beyond = (step for step, deviation in enumerate(by_step, 1) if deviation > tolerance.loss(step))
    problem = next((f"losses at step {step} by {by_step[step - 1]:.0e}" for step in beyond), "")
    if not problem and by_tensor:
        name = max(by_tensor, key=lambda each: by_tensor[each])
        if by_tensor[name] > tolerance.updates:
            problem = f"{of_tensor} {name} by {by_tensor[name]:.0e}"
    return max(by_step, default=0.0), max(by_tensor.values(), default=0.0), problem
