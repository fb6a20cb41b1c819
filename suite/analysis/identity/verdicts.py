"""Did the frameworks compute the same? Compares the evidence of the launches.

Evidence (`suite.record.parts.evidence.Identity`) is compared only with evidence of the same workload, size, precision,
data and spec. Digests must be equal; numbers may differ by the bounds of `suite.analysis.identity.tolerances`. Evidence
that a record of an older version lacks is not judged. A launch without a fingerprint rests on one of the same program.

With three or more frameworks the reference is the median over them, element by element (of the median of each
framework's launches). With two it is the other framework. With one it is its own median; of an even number that is the
lower of the middle two, which leaves the whole distance of one to the other. A high-level interface is an
implementation of its own: it is held against the suite's own loops, and is part of no reference where there are any, as
all backends of Keras would share a mistake of it. Releases of a framework are one implementation beside other
frameworks, and where there are none, each is one of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from statistics import median, median_low
from typing import Any, TypeVar

from suite.analysis.identity.self_checks import printed_losses, say_losses, self_checks
from suite.analysis.identity.tolerances import EARLY_UPDATES, STILL, loss_bound, relative, tolerance_of
from suite.analysis.records.ledger import UNACCOUNTED, find_unaccounted
from suite.plan.cell import INTERFACES
from suite.plan.settings.strategies import has_local_statistics
from suite.record.parts.evidence import Identity, Trace
from suite.record.record import Record
from workloads.spec import Bounds

#: That two variants of a reader's own script compute the same is not proved, and their ratio stands all the same.
UNPROVED = "not proved"

#: What counts as one implementation: a framework's interface, and where there is one alone, each of its releases.
Implementation = tuple[str, ...]


def implementation(record: Record) -> Implementation:
    return record.cell.framework, record.cell.interface


def of_release(record: Record) -> Implementation:
    return *implementation(record), record.cell.release


def group_by(records: Iterable[Record], key: Callable[[Record], Hashable]) -> dict[Any, list[Record]]:
    grouped: dict[Any, list[Record]] = {}
    for record in records:
        grouped.setdefault(key(record), []).append(record)
    return grouped


def reference_records(records: Sequence[Record]) -> Sequence[Record]:
    """The records that a reference is made of: those of the suite's own loops, where there are any."""
    return [record for record in records if record.cell.interface == INTERFACES[0]] or records


def majority(digests: Iterable[tuple[str, str]]) -> str | None:
    """The digest of more than half of the frameworks, from pairs of framework and digest."""
    by_framework: dict[str, Counter[str]] = {}
    for framework, digest in digests:
        by_framework.setdefault(framework, Counter())[digest] += 1
    votes = Counter(counts.most_common(1)[0][0] for counts in by_framework.values())
    digest, count = votes.most_common(1)[0]
    return digest if 2 * count > len(by_framework) else None


Key = TypeVar("Key", bound=Hashable)
Rows = Mapping[Key, Sequence[Record]]

#: The evidence that must be equal, and whose reference is what most frameworks have, with its name in words.
DIGESTS = {"weights": "weights", "initial": "initial weights", "batches": "batches"}
#: The evidence that is compared between frameworks, and the words before a deviation; the fingerprint comes first.
COMPARED = {
    "fingerprint": "",
    "float64": "in float64, ",
    "own": "at the cell's batch, ",
    "evaluation": "in evaluation, ",
    "inference": "in inference, ",
    "dropout": "with dropout, ",
}


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


def verdicts(rows: Rows[Key], set_aside: Rows[Key] | None = None) -> dict[Key, Verdict]:
    """A verdict per row. Each row is the successful launches of one cell; without any there is no evidence.

    Those that were ``set_aside`` for what disturbed their speed count where they alone have a row's whole evidence.
    """
    accounted, aside = rows, set_aside or {}
    rows = {key: [*records, *_whole(records, aside.get(key, ()))] for key, records in rows.items()}
    judged: dict[Key, Verdict] = {}
    groups: dict[tuple[str, ...], dict[Key, Sequence[Record]]] = {}
    identities = [(key, each.identity) for key, records in rows.items() for each in records if each.identity]
    proved = {identity.program for _, identity in identities if identity.losses} - {""}
    place = min((len(printed_losses(record)) for records in rows.values() for record in records), default=0) - 1
    for key, records in rows.items():
        if records and records[0].cell.is_of_script:
            judged[key] = Verdict(UNPROVED, "; ".join(["a script of your own", *say_losses(records, place)]))
            continue
        with_evidence = [
            record for record in records
            if record.identity and (record.identity.losses or record.identity.program in proved)
        ]  # fmt: skip
        if with_evidence and len(with_evidence) == len(records):
            groups.setdefault(_group_key(with_evidence[0]), {})[key] = with_evidence
        else:
            detail = f"{len(records) - len(with_evidence)} of {len(records)} launches without" if with_evidence else ""
            judged[key] = Verdict("no evidence", detail)
    for group in groups.values():
        judged |= _group(group)
    spoiled = {each.program: judged[key] for key, each in identities if each.losses and judged[key].kind == "differs"}
    for key, each in identities:
        if not each.losses and each.program in spoiled and judged[key].kind in ("same", "alone"):
            judged[key] = spoiled[each.program]
    for key, problem in find_unaccounted(accounted).items():
        kind = judged[key].kind if judged[key].kind == "differs" else UNACCOUNTED
        judged[key] = replace(judged[key], kind=kind, detail="; ".join(filter(None, [judged[key].detail, problem])))
    return {key: judged[key] for key in rows}


def _whole(records: Sequence[Record], set_aside: Sequence[Record]) -> Sequence[Record]:
    own, others = ([each for each in held if each.identity and each.identity.losses] for held in (records, set_aside))
    return others if records and not own else ()


def _group_key(record: Record) -> tuple[str, ...]:
    cell, digests = record.cell, (str(source.get("digest")) for source in (record.data, record.workload))
    # Devices that normalise their samples apart from each other are another training than one device is.
    devices = str(cell.devices) if has_local_statistics(cell) else ""
    return cell.workload, cell.size, cell.precision, devices, cell.lengths, *digests


def _group(rows: Mapping[Key, Sequence[Record]]) -> dict[Key, Verdict]:
    records = [record for launches in rows.values() for record in launches]
    own = implementation if len(set(map(implementation, records))) > 1 else of_release
    workload, precision = records[0].cell.workload, records[0].cell.precision
    cuda = any(record.settings.get("device") == "cuda" for record in records)
    tolerance = tolerance_of(workload, precision, cuda)
    if tolerance is None:
        detail = f"no tolerance is set for {workload} in {precision}"
        return dict.fromkeys(rows, Verdict("no evidence", detail))
    bounds = {name: tolerance_of(workload, precision, cuda, name) or tolerance for name in COMPARED}
    usual = "alone" if len(set(map(own, records))) == 1 else "same"
    majorities, references, still = _majorities(records), _references(records, own), _find_still(records)
    judged = {}
    for key, launches in rows.items():
        problems, losses, updates = [*_digests(launches, majorities)], 0.0, 0.0
        for record, name in product(launches, COMPARED):
            if trace := _identity(record).traces.get(name):
                reference = references[name, _kind(record, name), own(record)]
                loss, update, problem = _deviation(name, trace, reference, bounds[name], still)
                problems += [COMPARED[name] + problem] if problem else []
                if name == "fingerprint":
                    losses, updates = max(losses, loss), max(updates, update)
        first_problem = next(iter(problems), "") or self_checks(launches, still)
        kind = "differs" if first_problem else usual
        judged[key] = Verdict(kind, first_problem, losses, updates, tolerance.provisional)
    return judged


def _find_still(records: Sequence[Record]) -> frozenset[str]:
    """The tensors whose gradient is zero by mathematics, such as that of a bias before a normalisation.

    Rounding moves them, in each framework another way, and Adam as far as any other in a narrow precision. They move in
    no record by more than `STILL` of the largest movement of the model, in float64 or, without, in the fingerprint.
    """
    still = set[str]()
    for name in ("float64", "fingerprint"):
        traces = [trace.updates for record in records if (trace := _identity(record).traces.get(name))]
        most: dict[str, float] = {}
        for tensor, moved in (each for trace in traces for each in trace.items()):
            most[tensor] = max(moved, most.get(tensor, 0.0))
        largest = max(most.values(), default=0.0)
        still |= {tensor for tensor, moved in most.items() if 0 < moved <= STILL * largest}
    return frozenset(still)


def _identity(record: Record) -> Identity:
    assert record.identity is not None
    return record.identity


def _kind(record: Record, name: str) -> Hashable:
    seed = str(record.run.get("seed"))  # each launch that trains to the end has one of its own
    if name == "initial":
        return seed
    if name == "batches":
        return record.effective_batch, seed
    if name == "fingerprint":  # older ones took more steps
        return len(_identity(record).losses)
    if name == "float64":
        return _identity(record).float64_size
    return (record.effective_batch, record.cell.accumulate) if name == "own" else ()


def _majorities(records: Sequence[Record]) -> dict[tuple[str, Hashable], str | None]:
    found = {}
    for name in DIGESTS:
        digests = [record for record in records if getattr(_identity(record), name)]
        for kind, of_kind in group_by(digests, partial(_kind, name=name)).items():
            votes = [(each.cell.framework, getattr(_identity(each), name)) for each in reference_records(of_kind)]
            found[name, kind] = majority(votes)
    return found


def _digests(launches: Sequence[Record], majorities: Mapping[tuple[str, Hashable], str | None]) -> Iterator[str]:
    for record, name in product(launches, DIGESTS):
        digest = getattr(_identity(record), name)
        if digest and digest != majorities[name, _kind(record, name)]:
            yield f"{DIGESTS[name]} are not the others'"


def _references(
    records: Sequence[Record], own: Callable[[Record], Implementation]
) -> dict[tuple[str, Hashable, Implementation], Trace]:
    references = {}
    for name in COMPARED:
        with_evidence = [record for record in records if name in _identity(record).traces]
        for kind, of_kind in group_by(with_evidence, partial(_kind, name=name)).items():
            by_own = group_by(reference_records(of_kind), own)
            middle = median if len(by_own) > 1 else median_low
            medians = {
                each: _median([_identity(record).traces[name] for record in of_own], middle)
                for each, of_own in by_own.items()
            }
            for each in set(map(own, of_kind)):
                others = {key: other for key, other in medians.items() if key != each} if len(medians) == 2 else medians
                references[name, kind, each] = _median([*others.values()], median)
    return references


def _median(traces: Sequence[Trace], middle: Callable[[Iterable[float]], float]) -> Trace:
    steps = max(len(trace.losses) for trace in traces)
    updates: dict[str, list[float]] = {}
    for name, moved in (each for trace in traces for each in trace.updates.items()):
        updates.setdefault(name, []).append(moved)
    return Trace(
        tuple(middle(trace.losses[i] for trace in traces if i < len(trace.losses)) for i in range(steps)),
        {name: middle(values) for name, values in updates.items()},
    )


def _deviation(
    name: str, trace: Trace, reference: Trace, bounds: Bounds, still: frozenset[str]
) -> tuple[float, float, str]:
    if len(trace.losses) != len(reference.losses):
        return 0.0, 0.0, f"{len(trace.losses)} losses against {len(reference.losses)}"
    names, others = trace.updates, reference.updates
    missing = next((each for one, two in ((others, names), (names, others)) for each in one if each not in two), "")
    if missing and name != "dropout":  # where a framework may not show a layer's input
        return 0.0, 0.0, f"tensor {missing} is not in all of them"
    losses = [relative(*pair) for pair in zip(trace.losses, reference.losses, strict=True)]
    shared = [each for each in names if each in others and (each not in still or name == "dropout")]
    updates = {tensor: relative(trace.updates[tensor], reference.updates[tensor]) for tensor in shared}
    return max(losses, default=0.0), max(updates.values(), default=0.0), _beyond(name, losses, updates, bounds)


def _beyond(name: str, losses: Sequence[float], updates: Mapping[str, float], bounds: Bounds) -> str:
    for step, deviation in enumerate(losses, 1):
        if deviation > loss_bound(bounds, step):
            return f"losses at step {step} by {deviation:.0e}"
    worst = max(updates, key=lambda tensor: updates[tensor], default="")
    if worst and updates[worst] > (bounds.early_updates if len(losses) <= EARLY_UPDATES else bounds.updates):
        return f"{'spread before' if name == 'dropout' else 'update of'} {worst} by {updates[worst]:.0e}"
    return ""
