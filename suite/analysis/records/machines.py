"""The machines of several runs, and names that tell them apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from suite.analysis.records.hardware import (
    FACTS,
    SAME,
    Facts,
    Machine,
    compare,
    identify,
    machine,
    memory,
    rate,
    read_facts,
    word,
)
from suite.record.record import Record


def distinguish(machines: Iterable[Machine]) -> dict[Machine, str]:
    """A label for each machine, one for those that are the same; empty where a name is that of one machine only.

    Peaks may differ a little more from run to run, so each joins those that are all the same as it, the oldest first.
    """
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
        """The machine of a launch."""
        return self._machines[(run, *self._describe(record))]

    def name(self, run: str, record: Record) -> str:
        """Its name, which no other of these machines has; empty if the record names none."""
        found = self.find(run, record)
        return found.name(self._labels[found])

    def _describe(self, record: Record) -> tuple[str, Facts]:
        """Name and facts of a record; thousands share an environment, which is read once."""
        known = self._read.get(id(record.environment))
        if known is None or known[0] is not record.environment:
            known = record.environment, machine(record), read_facts(record)
            self._read[id(record.environment)] = known
        return known[1:]


def _label(one: Machine, others: Sequence[Machine]) -> str:
    """What tells a machine from others of its name: facts, else the memory, else a peak, else a run."""
    gauges = dict.fromkeys(gauge for each in (one, *others) for gauge, _ in each.peaks)
    descriptions: list[Callable[[Machine], str]] = [_generation, *(partial(word, name) for name in FACTS), memory]
    descriptions += [*(partial(_peak, gauge) for gauge in gauges), _run]
    words = []
    for describe in descriptions:
        own = describe(one)
        if own and (told := [other for other in others if describe(other) != own]):
            words.append(own)
            others = [other for other in others if other not in told]
    return ", ".join(words)


def _generation(one: Machine) -> str:
    return ", ".join(filter(None, (word("family", one), word("model", one))))


def _peak(gauge: str, one: Machine) -> str:
    peaks = dict(one.peaks)
    return rate(peaks[gauge]) if gauge in peaks else ""


def _run(one: Machine) -> str:
    return f"run {one.run}"
