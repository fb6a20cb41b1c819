"""Plants a mutant, rehearses a launch, and asks the comparison which evidence notices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache

from suite.analysis.identity import verdicts
from suite.plan.cell import FRAMEWORKS, Cell
from suite.record.evidence import Identity
from suite.record.record import Record
from tests.studies.mutants.mutant import Mutant
from tests.studies.mutants.rehearsal import rehearse

#: The parts of a record that can notice something, by the fields of `Identity` that they are made of.
EVIDENCE = {
    "weights": ("weights",),
    "batches": ("batches",),
    "fingerprint": ("losses", "updates"),
    "early": ("early_updates",),
    "float64": ("float64",),
    "own": ("own",),
    "timed": ("timed",),
    "last": ("last",),
    "dropout": ("dropout",),
    "optimizer": ("optimizer",),
    "evaluation": ("evaluation",),
}
#: A launch that fails, or that its own probes refuse, is never compared.
REFUSED = "refused"


@dataclass(frozen=True)
class Judgement:
    """What became of a mutant: in ``noticed`` each part that notices it by itself, and the comparison's words."""

    kind: str
    words: str = ""
    noticed: dict[str, str] = field(default_factory=dict)

    @property
    def killed(self) -> bool:
        return self.kind in ("differs", REFUSED)


def judge(mutant: Mutant) -> Judgement:
    """Launch the mutant's cell with the difference in it, and compare with the other frameworks' launches."""
    unchanged = twins(mutant.cell.but(framework=FRAMEWORKS[0]))
    with mutant.planted():
        record = rehearse(mutant.cell)
    return compare(record, unchanged)


def compare(record: Record, unchanged: Mapping[str, Record]) -> Judgement:
    """The comparison of this record with the other frameworks' ones, as a whole and part by part.

    A part notices by itself what remains when all other evidence is that of the framework's unchanged launch.
    """
    name = record.cell.framework
    if not record.outcome.ok:
        return Judgement(REFUSED, record.outcome.reason, {REFUSED: record.outcome.reason})
    verdict = _verdict(record, unchanged)
    clean, changed = unchanged[name].identity, record.identity
    assert clean is not None
    assert changed is not None
    noticed = {}
    for part, fields in EVIDENCE.items():
        known = {field: getattr(changed, field) for field in fields if hasattr(Identity, field) or field in vars(clean)}
        alone = _verdict(replace(record, identity=replace(clean, **known)), unchanged)
        if alone[0] == "differs":
            noticed[part] = alone[1]
    return Judgement(*verdict, noticed)


def _verdict(record: Record, unchanged: Mapping[str, Record]) -> tuple[str, str]:
    name = record.cell.framework
    found = verdicts({**{key: [each] for key, each in unchanged.items()}, name: [record]})[name]
    return found.kind, found.detail


@cache
def twins(cell: Cell) -> dict[str, Record]:
    """The launches of all frameworks without any difference."""
    return {framework: rehearse(cell.but(framework=framework)) for framework in FRAMEWORKS}


def false_alarms(cell: Cell) -> dict[str, str]:
    """What the comparison finds wrong where nothing was planted, by framework."""
    unchanged = twins(cell)
    failed = {name: record.outcome.reason for name, record in unchanged.items() if not record.outcome.ok}
    compared = verdicts({name: [record] for name, record in unchanged.items() if record.outcome.ok})
    return failed | {name: str(each) for name, each in compared.items() if each.kind != "same"}
