"""Plants a mutant, rehearses a launch, and asks the comparison which evidence notices."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cache

import pytest

from suite.analysis.identity.verdicts import verdicts
from suite.plan.cell import FRAMEWORKS, Cell
from suite.record.parts.evidence import Draws
from suite.record.record import Record
from suite.worker.evidence import collector as evidence
from suite.worker.evidence.subject import EvidenceContext
from tests.isolation import in_own_process
from tests.studies.mutants.mutant import REFUSED, Mutant
from tests.studies.mutants.ranked import rehearse_ranks
from tests.studies.mutants.rehearsal import rehearse

#: The parts of a record that can notice something, by the fields of `Identity` that they are made of.
EVIDENCE = {
    "weights": ("weights", "initial"),
    "batches": ("batches",),
    "fingerprint": ("losses", "updates"),
    "float64": ("float64",),
    "own": ("own",),
    "last": ("last",),
    "dropout": ("dropout",),
    "optimizer": ("optimizer",),
    "own optimizer": ("own_optimizer",),
    "evaluation": ("evaluation",),
    "scored": ("scored",),
    "inference": ("inference",),
    "answered": ("answered",),
}
#: A launch that its own probes refuse is never compared. One that fails otherwise says nothing: it was planted wrong.
FAILED = "failed"


@dataclass(frozen=True)
class Judgement:
    """What became of a mutant: the comparison's verdict on it, and in ``noticed`` each part that notices it alone."""

    kind: str
    words: str = ""
    noticed: dict[str, str] = field(default_factory=dict)

    @property
    def killed(self) -> bool:
        return self.kind in ("differs", REFUSED)


def judge(mutant: Mutant) -> Judgement:
    """The comparison of the mutant's launch with the other frameworks' launches, as a whole and part by part.

    A part notices by itself what remains when all other evidence is that of the framework's unchanged launch.
    """
    unchanged = twins(mutant.cell, serves=mutant.serves)
    record, whole = _launched(mutant, unchanged)
    if whole.kind == REFUSED:
        return replace(whole, noticed={REFUSED: whole.words})
    if whole.kind == FAILED:
        return whole
    clean, changed = unchanged[mutant.framework].identity, record.identity
    assert clean is not None
    assert changed is not None
    noticed = {}
    for part, fields in EVIDENCE.items():
        taken = {name: getattr(changed, name) for name in fields}
        alone = _compared(replace(record, identity=replace(clean, **taken)), unchanged)
        if alone.killed:
            noticed[part] = alone.words
    return replace(whole, noticed=noticed)


def judge_beside(mutant: Mutant, others: Sequence[str], draws: bool = True) -> Judgement:
    """The verdict beside unchanged launches of these frameworks only; beside none, what a launch shows by itself.

    Without ``draws`` those of dropout are as they were measured once: many passes, which say nothing of another kind.
    """
    unchanged = twins(mutant.cell, others, mutant.serves, draws)
    with nullcontext() if draws else _as_measured():
        return _launched(mutant, unchanged)[1]


def judge_beside_itself(mutant: Mutant, draws: bool = True) -> Judgement:
    """The verdict beside the unchanged launch of its own framework, which stands there as another one's."""
    unchanged = _twin(mutant.framework, mutant.cell, mutant.serves, draws)
    other = next(name for name in FRAMEWORKS if name != mutant.framework)
    with nullcontext() if draws else _as_measured():
        return _launched(mutant, {other: replace(unchanged, cell=mutant.cell.but(framework=other))})[1]


@contextmanager
def _as_measured() -> Iterator[None]:
    def measured(subject: EvidenceContext) -> Draws:
        return Draws(subject.spec.dropout_bounds.spread[""], (1.0, 2.0))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evidence, "draws", measured)
        yield


def _launched(mutant: Mutant, unchanged: Mapping[str, Record]) -> tuple[Record, Judgement]:
    if mutant.cell.devices > 1:
        record = rehearse_ranks(mutant.cell, mutant.key)
    else:
        with mutant.planted():
            record = rehearse(mutant.cell, serves=mutant.serves)
    if not record.outcome.ok:
        refused = record.outcome.status == "diverged" or record.outcome.reason.startswith("asked for")
        return record, Judgement(REFUSED if refused else FAILED, record.outcome.reason)
    return record, _compared(record, unchanged)


def _compared(record: Record, unchanged: Mapping[str, Record]) -> Judgement:
    rows = {name: [each] for name, each in unchanged.items()} | {record.cell.framework: [record]}
    found = verdicts(rows)[record.cell.framework]
    return Judgement(found.kind, found.detail)


def twins(
    cell: Cell, frameworks: Sequence[str] = FRAMEWORKS, serves: bool = False, draws: bool = True
) -> dict[str, Record]:
    """The launches of this cell in some frameworks, without any difference; each is launched once."""
    others = {framework: cell.but(framework=framework) for framework in frameworks if framework != cell.framework}
    return {framework: _twin(framework, others.get(framework, cell), serves, draws) for framework in frameworks}


@cache
@in_own_process
def _twin(framework: str, cell: Cell, serves: bool, draws: bool) -> Record:
    assert framework == cell.framework
    if cell.devices > 1:
        return rehearse_ranks(cell)
    with nullcontext() if draws else _as_measured():
        record = rehearse(cell, serves=serves)
    gc.collect()
    gc.freeze()  # launches collect often, which takes its time with a framework loaded
    evidence.collect_new = _collected  # which would unfreeze them
    return record


@contextmanager
def _collected() -> Iterator[None]:
    yield
    gc.collect()


def false_alarms(cell: Cell, frameworks: Sequence[str] = FRAMEWORKS) -> dict[str, str]:
    """What the comparison finds wrong where nothing was planted, by framework."""
    unchanged = twins(cell, frameworks)
    failed = {name: record.outcome.reason for name, record in unchanged.items() if not record.outcome.ok}
    compared = verdicts({name: [record] for name, record in unchanged.items() if record.outcome.ok})
    return failed | {name: str(each) for name, each in compared.items() if each.kind != "same"}
