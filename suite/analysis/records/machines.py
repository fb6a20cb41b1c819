"""The machine that a record was measured on: its name, and whether two runs are from one machine.

Names do not tell: virtual machines call processors of several generations "AMD EPYC". Records hold what a processor
says of itself (`suite.record.parts.environment`). Older ones do not, and are recognised by the peak that they measured.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import Annotated, Any

from msgspec import Meta

from suite.plan.cell import FRAMEWORKS
from suite.record.record import Record
from suite.record.text import clean

#: What a processor says of itself, and how it is written. One that says all of `WHOLE` needs no peak to be recognised.
FACTS = {
    "vendor": "{}", "family": "family {}", "model": "model {}", "stepping": "stepping {}", "simd": "{}",
    "caches": "caches {}", "threads_per_core": "{} threads per core", "hypervisor": "hypervisor {}",
    "instructions": "instructions {}",
}  # fmt: skip
WHOLE = FACTS.keys() - {"threads_per_core", "hypervisor"}
#: A kernel keeps a part of the memory to itself, and another kernel a larger one: so much of it may be missing.
MEMORY = 1 / 16

#: The largest ratio of the peaks of two runs on one machine, where there is nothing else to recognise it by; in each
#: framework and precision. It lies between what was published of one machine, and of two: parts of one run (six
#: launches or more of each framework) agree within 1.10 in 82 of 83 pairs, and three runs of one AMD EPYC within 1.06;
#: two other EPYCs of that name differ from it by 1.24 at least.
PEAK_ALONE = 1.16
#: The same where the processors are equal in all that they say: a machine of which others took 16 % of the time
#: measured 1.5 times less. A quota, or two threads on one core instead of two cores, makes more.
PEAK_OF_EQUALS = 1.6

SAME, DIFFERENT, UNKNOWN = "same", "different", "unknown"

Word = Annotated[str, Meta(max_length=120)]
Flops = Annotated[float, Meta(gt=0, lt=1e21)]
Facts = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Machine:
    """What is known of a machine. ``peaks`` are medians over launches in FLOP/s, by what measured them.

    ``run`` is one that ran there; it names a machine of which nothing else is known.
    """

    cpu: Word
    cores: Word = ""
    gpus: Annotated[str, Meta(max_length=300)] = ""
    run: Word = ""
    facts: Annotated[tuple[tuple[Word, Word], ...], Meta(max_length=20)] = ()
    memory_bytes: Annotated[float, Meta(ge=0, lt=1e18)] = 0.0
    peaks: Annotated[tuple[tuple[Word, Flops], ...], Meta(max_length=100)] = ()

    def processor(self, label: str = "") -> str:
        own = f"{self.cpu} ({label})" if self.cpu and label else self.cpu
        return f"{own}, {self.cores} cores" if self.cores else own

    def name(self, label: str = "") -> str:
        """Processor and GPUs: ``AMD EPYC, 2 cores; NVIDIA H100``."""
        return "; ".join(filter(None, (self.processor(label), self.gpus)))


def machine(record: Record) -> str:
    return _bare(record).name()


def processor(record: Record) -> str:
    return _bare(record).processor()


def gpus(record: Record) -> str:
    """``2 x NVIDIA H100``, or with several models ``NVIDIA H100; NVIDIA A100``; empty without any."""
    return _bare(record).gpus


def identify(records: Sequence[Record], run: str = "") -> Machine:
    """The machine that all of these launches, at least one, ran on."""
    known = [record for record in records if record.outcome.ok] or records
    first = next((record for record in known if read_facts(record)), known[0])
    peaks: dict[tuple[int, int, str], list[float]] = {}
    for record in known:
        if peak := _number(record.settings.get("peak_flops_per_s")):
            peaks.setdefault(_gauge(record), []).append(peak)
    return replace(
        _bare(first),
        run=clean(run, 80),
        facts=read_facts(first),
        memory_bytes=_number(_hardware(first).get("memory_bytes")),
        peaks=tuple((key[-1], float(f"{median(peaks[key]):.4g}")) for key in sorted(peaks)),
    )


def compare(one: Machine, other: Machine) -> tuple[str, str]:
    """Whether two machines are the `SAME`, `DIFFERENT` or `UNKNOWN`, and in words what differs or is not known."""
    if not (one.cpu and other.cpu):
        return UNKNOWN, "a run does not name its machine"
    if one.name() != other.name():
        return DIFFERENT, f"{one.name()}, and {other.name()}"
    facts, others = dict(one.facts), dict(other.facts)
    shared = [name for name in FACTS if name in facts and name in others]
    words = [(word(name, one), word(name, other)) for name in shared if facts[name] != others[name]]
    least, most = sorted((one.memory_bytes, other.memory_bytes))
    if least and most - least > MEMORY * most:
        words.append((memory(one), memory(other)))
    if words:
        return DIFFERENT, "; ".join(f"{this}, and {that}" for this, that in words)
    whole = bool(least) and set(shared) >= WHOLE
    peaks = dict(one.peaks)
    pairs = [(gauge, peaks[gauge], peak) for gauge, peak in other.peaks if gauge in peaks]
    if not pairs:
        why = "not all of their records describe it, and they have no measured peak in common"
        return (SAME, "") if whole else (UNKNOWN, why)
    gauge, this, that = max(pairs, key=lambda pair: abs(math.log(pair[1] / pair[2])))
    if max(this, that) <= (PEAK_OF_EQUALS if whole else PEAK_ALONE) * min(this, that):
        return SAME, ""
    return DIFFERENT, f"a measured peak of {rate(this)}, and of {rate(that)}, by {gauge}"


def word(name: str, one: Machine) -> str:
    facts = dict(one.facts)
    return FACTS[name].format(facts[name] or "none") if name in facts else ""


def memory(one: Machine) -> str:
    return f"{one.memory_bytes / 2**30:.0f} GiB of memory" if one.memory_bytes else ""


def rate(flops_per_s: float) -> str:
    return f"{flops_per_s / 1e9:.0f} GFLOP/s" if flops_per_s < 1e13 else f"{flops_per_s / 1e12:.0f} TFLOP/s"


def read_facts(record: Record) -> Facts:
    hardware = _hardware(record)
    return tuple((name, _text(hardware[name])) for name in FACTS if name in hardware)


def _hardware(record: Record) -> Mapping[str, Any]:
    hardware = record.environment.get("machine")
    return hardware if isinstance(hardware, dict) else {}


def _bare(record: Record) -> Machine:
    hardware = record.environment.get("machine")
    if not isinstance(hardware, dict):
        return Machine("")
    names = hardware.get("gpus")
    counts = Counter(clean(gpu, 60) for gpu in names) if isinstance(names, list) else Counter[str]()
    listed = "; ".join(name if n == 1 else f"{n} x {name}" for name, n in counts.items())
    return Machine(clean(hardware.get("cpu", "unknown processor"), 60), clean(hardware.get("cores", "?"), 10), listed)


def _text(value: object) -> str:
    if isinstance(value, dict):
        return clean(", ".join(f"{name} {_number(size) / 2**10:.0f} KiB" for name, size in value.items()), 120)
    return clean(value, 120)


def _gauge(record: Record) -> tuple[int, int, str]:
    cell = record.cell
    usual = {"devices": 1, "threads": 0, "cores": 0, "bind": ""}
    others = [f"{name} {value}" for name, default in usual.items() if (value := getattr(cell, name)) != default]
    rank = FRAMEWORKS.index(cell.framework) if cell.framework in FRAMEWORKS else len(FRAMEWORKS)
    words = (cell.framework, cell.precision, record.settings.get("device", ""), *others)
    return rank, len(others), clean(" ".join(str(each) for each in words if each), 120)


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) and 0 < value < math.inf else 0.0


def distinguish(machines: Iterable[Machine]) -> dict[Machine, str]:
    """A label for each machine, one for those that are the same; empty where a name is that of one machine only."""
    by_name: dict[str, list[list[Machine]]] = {}
    for each in sorted(set(machines), key=lambda one: (one.run, one.facts, one.peaks)):
        groups = by_name.setdefault(each.name(), [])
        near = (group for group in groups if all(compare(each, other)[0] == SAME for other in group))
        if (group := next(near, None)) is None:
            groups.append(group := [])
        group.append(each)
    return {
        each: _label(group[0], [other[0] for other in groups if other is not group])
        for groups in by_name.values()
        for group in groups
        for each in group
    }


class Machines:
    """The machines of some launches, given as runs and records. A run is from one machine, unless its records differ.

    Those of several hosts may; a run that a newer version resumed has records with facts beside some without.
    """

    def __init__(self, launches: Iterable[tuple[str, Record]]) -> None:
        self._read: dict[int, tuple[object, str, Facts]] = {}
        held: dict[tuple[str, str], dict[Facts, list[Record]]] = {}
        for run, record in launches:
            name, facts = self._describe(record)
            held.setdefault((run, name), {}).setdefault(facts, []).append(record)
        self._machines: dict[tuple[str, str, Facts], Machine] = {}
        for (run, name), by_facts in held.items():
            plain = by_facts.pop((), [])
            for facts, records in by_facts.items() or [((), [])]:
                found = identify([*records, *plain], run)
                self._machines |= {(run, name, facts): found} | ({(run, name, ()): found} if plain else {})
                plain = []
        self._labels = distinguish(self._machines.values())

    def find(self, run: str, record: Record) -> Machine:
        return self._machines[(run, *self._describe(record))]

    def name(self, run: str, record: Record) -> str:
        """Its name, which no other of these machines has; empty if the record names none."""
        found = self.find(run, record)
        return found.name(self._labels[found])

    def _describe(self, record: Record) -> tuple[str, Facts]:
        known = self._read.get(id(record.environment))
        if known is None or known[0] is not record.environment:
            known = record.environment, machine(record), read_facts(record)
            self._read[id(record.environment)] = known
        return known[1:]


def _label(one: Machine, others: Sequence[Machine]) -> str:
    gauges = dict.fromkeys(gauge for each in (one, *others) for gauge, _ in each.peaks)
    descriptions: list[Callable[[Machine], str]] = [
        lambda each: ", ".join(filter(None, (word("family", each), word("model", each)))),
        *(partial(word, name) for name in FACTS),
        memory,
        *(partial(_peak, gauge) for gauge in gauges),
        lambda each: f"run {each.run}",
    ]
    words = []
    for describe in descriptions:
        own = describe(one)
        if own and (told := [other for other in others if describe(other) != own]):
            words.append(own)
            others = [other for other in others if other not in told]
    return ", ".join(words)


def _peak(gauge: str, one: Machine) -> str:
    peaks = dict(one.peaks)
    return rate(peaks[gauge]) if gauge in peaks else ""
