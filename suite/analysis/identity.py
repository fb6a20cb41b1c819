"""Did the frameworks compute the same? The fingerprints of the launches, set side by side.

A fingerprint (`suite.record.record.Identity`) is compared with those of the same workload, size, precision, data and
spec only, the digest of the loader's batches with those of the same batch size and seed. Digests must be equal; numbers
may lie apart by the precision's tolerance.

No framework is the norm. With three or more the reference is the median over frameworks, element by element (each
framework first being the median of its own launches); with two it is the other one; with one it is its own median, so
that at least its launches and cells are held against one another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

from suite.record.record import Identity, Record


@dataclass(frozen=True)
class Tolerance:
    """The largest relative deviation that still counts as the same.

    ``first_loss`` is held closest: it is the forward pass alone, and shows a wrong layout, input or kernel. ``losses``
    are those after it and ``updates`` the tensors', in which training amplifies every rounding.
    """

    first_loss: float
    losses: float
    updates: float


# In float32 ten times the largest deviation between any two of the frameworks, rounded up, as `python -m
# tests.studies.tolerances` found it on a CPU (x86-64 with AVX-512, two cores; torch 2.13.0, TensorFlow 2.21.0, Keras
# 3.15.1, JAX 0.10.2) with real data and batch 8:
#                                                        first loss   losses   updates
#   cifar100_cnn       full, 10 steps, 10 seeds, 2 threads  1.0e-7    9.5e-5    2.2e-2
#                      full, 10 steps,  5 seeds, 1 thread        -    4.8e-5    2.4e-2
#                      small, 20 steps, 10 seeds, 2 threads 1.1e-7    1.5e-6    1.1e-3
#   cifar100_resnet18  full, 10 steps,  4 seeds, 2 threads  2.6e-7    2.7e-3    6.2e-2
#                      small, 10 steps,  5 seeds, 2 threads 3.0e-7    9.5e-5    3.4e-2
#   imdb_lstm          full, 10 steps, 10 seeds, 2 threads  1.7e-7    4.8e-7    1.8e-5
#                      full, 10 steps,  5 seeds, 1 thread        -    4.8e-7    7.8e-6
#                      small, 20 steps, 12 seeds, 2 threads 1.7e-7    1.7e-6    1.4e-4
# And in bf16, ten steps and two threads:
#   cifar100_cnn       full,   3 seeds                      1.0e-6    1.3e-4    6.6e-2
#                      small,  4 seeds                      1.3e-5    3.9e-4    1.2e-1
#   cifar100_resnet18  full,   3 seeds                      7.5e-4    1.3e-2    1.5e-1
#                      small,  4 seeds                      6.9e-4    2.5e-3    6.1e-1
#   imdb_lstm          full,   4 seeds                      2.9e-5    3.0e-4    1.1e-2
#                      small,  4 seeds                      3.9e-5    3.5e-4    4.6e-3
# There the CNN's updates, and all of ResNet-18's figures, have five times what was found: ten times would let anything
# pass. ResNet-18's updates, whose smallest tensors scatter most, have .9: that still shows a tensor that does not move.
# The first loss has more, for GPUs' kernels, which were not measured; a wrong layout moved it by 1e-5 to 4e-3. The
# other figures of the CNNs are larger since a max-pool's or a ReLU's choice between two almost equal values turns with
# the last bit and moves a gradient by 1e-3. In float64 all are below 1e-12; 1e-9 is what the project promises.
TOLERANCE = {
    ("cifar100_cnn", "fp64"): Tolerance(first_loss=1e-9, losses=1e-9, updates=1e-9),
    ("cifar100_cnn", "fp32"): Tolerance(first_loss=5e-6, losses=1e-3, updates=0.25),
    ("cifar100_cnn", "bf16"): Tolerance(first_loss=2e-4, losses=5e-3, updates=0.65),
    ("cifar100_resnet18", "fp64"): Tolerance(first_loss=1e-9, losses=1e-9, updates=1e-9),
    ("cifar100_resnet18", "fp32"): Tolerance(first_loss=5e-6, losses=3e-2, updates=0.65),
    ("cifar100_resnet18", "bf16"): Tolerance(first_loss=4e-3, losses=6.5e-2, updates=0.9),
    ("imdb_lstm", "fp64"): Tolerance(first_loss=1e-9, losses=1e-9, updates=1e-9),
    ("imdb_lstm", "fp32"): Tolerance(first_loss=5e-6, losses=2e-5, updates=2e-3),
    ("imdb_lstm", "bf16"): Tolerance(first_loss=5e-4, losses=5e-3, updates=0.15),
}

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class Verdict:
    """``kind`` is `same`, `differs`, `no evidence` or `alone`; the deviations are the row's largest, relative."""

    kind: str
    detail: str = ""
    losses: float | None = None
    updates: float | None = None

    def __str__(self) -> str:
        if self.kind == "same":
            worst = max(self.losses or 0.0, self.updates or 0.0)
            return f"same ({worst:.0e})" if worst else "same (0)"
        return f"{self.kind}: {self.detail}" if self.detail else self.kind


def verdicts(rows: Mapping[Key, Sequence[Record]]) -> dict[Key, Verdict]:
    """A verdict per row. ``rows`` hold the successful launches of one cell each; a row without any has no evidence."""
    found: dict[Key, Verdict] = {}
    groups: dict[tuple[str, ...], dict[Key, Sequence[Record]]] = {}
    for key, records in rows.items():
        told = [record for record in records if record.identity and record.identity.losses]
        if told and len(told) == len(records):
            groups.setdefault(_comparable(told[0]), {})[key] = told
        else:
            detail = f"{len(records) - len(told)} of {len(records)} launches without" if told else ""
            found[key] = Verdict("no evidence", detail)
    for group in groups.values():
        found |= _group(group)
    return {key: found[key] for key in rows}


def _comparable(record: Record) -> tuple[str, ...]:
    cell = record.cell
    return cell.workload, cell.size, cell.precision, *(str(x.get("digest")) for x in (record.data, record.workload))


def _loaded(record: Record) -> tuple[int, str]:
    """What the batches of a loader depend on, besides the data."""
    return record.effective_batch, str(record.run.get("seed"))


def _group(rows: Mapping[Key, Sequence[Record]]) -> dict[Key, Verdict]:
    records = [record for launches in rows.values() for record in launches]
    by_framework: dict[str, list[Identity]] = {}
    for record in records:
        by_framework.setdefault(record.cell.framework, []).append(_identity(record))
    tolerance = TOLERANCE.get((records[0].cell.workload, records[0].cell.precision))
    weights = _majority((r.cell.framework, _identity(r).weights) for r in records)
    loaded: dict[tuple[int, str], list[Record]] = {}
    for record in records:
        loaded.setdefault(_loaded(record), []).append(record)
    batches = {kind: _majority((r.cell.framework, _identity(r).batches) for r in held) for kind, held in loaded.items()}
    references = {name: _reference(name, by_framework) for name in by_framework}
    found = {}
    for key, launches in rows.items():
        cell = launches[0].cell
        evidence = [_identity(r) for r in launches]
        if tolerance is None:
            found[key] = Verdict("no evidence", f"no tolerance is set for {cell.workload} in {cell.precision}")
            continue
        # Launches that train to the end are seeds, each with an order of its own.
        kinds = [_loaded(record) for record in launches]
        worst = _between(evidence, kinds, tolerance) or _digests(evidence, weights, [batches[kind] for kind in kinds])
        deviations = [_deviation(each, references[cell.framework], tolerance) for each in evidence]
        losses, updates = max(d[0] for d in deviations), max(d[1] for d in deviations)
        worst = worst or next((d[2] for d in deviations if d[2]), "")
        if worst:
            found[key] = Verdict("differs", worst, losses, updates)
        else:
            found[key] = Verdict("alone" if len(by_framework) == 1 else "same", "", losses, updates)
    return found


def _identity(record: Record) -> Identity:
    assert record.identity is not None
    return record.identity


def _majority(held: Iterable[tuple[str, str]]) -> str | None:
    """The digest that more than half of the frameworks hold, or None: with one against one, neither is right."""
    by_framework: dict[str, Counter[str]] = {}
    for framework, digest in held:
        by_framework.setdefault(framework, Counter())[digest] += 1
    votes = Counter(digests.most_common(1)[0][0] for digests in by_framework.values())
    digest, count = votes.most_common(1)[0]
    return digest if 2 * count > len(by_framework) else None


def _reference(name: str, by_framework: Mapping[str, Sequence[Identity]]) -> tuple[list[float], dict[str, float]]:
    if len(by_framework) == 2:
        return _median([_middle(held) for framework, held in by_framework.items() if framework != name])
    return _median([_middle(held) for held in by_framework.values()])


def _middle(held: Sequence[Identity]) -> tuple[list[float], dict[str, float]]:
    return _median([(list(each.losses), each.updates) for each in held])


def _median(held: Sequence[tuple[list[float], dict[str, float]]]) -> tuple[list[float], dict[str, float]]:
    """Element by element, over those that have the element."""
    steps = max(len(losses) for losses, _ in held)
    names = dict.fromkeys(name for _, updates in held for name in updates)
    return (
        [median(losses[i] for losses, _ in held if i < len(losses)) for i in range(steps)],
        {name: median(updates[name] for _, updates in held if name in updates) for name in names},
    )


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
        if words := _deviation(each, (list(first.losses), first.updates), tolerance)[2]:
            return f"{words} between launches"
    return ""


def _deviation(
    one: Identity, reference: tuple[list[float], dict[str, float]], tolerance: Tolerance
) -> tuple[float, float, str]:
    """The largest relative deviations of losses and updates, and in words the first that is beyond the tolerance."""
    losses, updates = reference
    if len(one.losses) != len(losses):
        return 0.0, 0.0, f"{len(one.losses)} losses against {len(losses)}"
    if missing := sorted(updates.keys() ^ one.updates.keys()):
        return 0.0, 0.0, f"tensor {missing[0]} is not in all of them"
    steps = [_relative(a, b) for a, b in zip(one.losses, losses, strict=True)]
    tensors = {name: _relative(one.updates[name], updates[name]) for name in updates}
    bounds = {1: tolerance.first_loss}
    beyond = (i for i, d in enumerate(steps, 1) if d > bounds.get(i, tolerance.losses))
    words = next((f"losses at step {i} by {steps[i - 1]:.0e}" for i in beyond), "")
    if not words and tensors:
        name = max(tensors, key=lambda each: tensors[each])
        words = f"update of {name} by {tensors[name]:.0e}" if tensors[name] > tolerance.updates else ""
    return max(steps, default=0.0), max(tensors.values(), default=0.0), words


def _relative(value: float, reference: float) -> float:
    return abs(value - reference) / max(abs(reference), 1e-12)
