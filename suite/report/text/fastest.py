"""What the contests of a table show, as one sentence: who is fastest, by how much, and what is not decided."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from suite.analysis.rows.wording import DASH, listing
from suite.analysis.statistics.fastest import ALIKE, EQUAL, PARTLY, UNDECIDED, FastestBySetting
from suite.analysis.statistics.inference import Estimate
from suite.plan.cell import FRAMEWORKS
from suite.report.format.names import counts, framework, frameworks, scope, strategy, times
from suite.report.text.voice import kind_of_interval, span, uncertain

#: The most clauses of a sentence; with more of them the sentence counts settings instead.
CLAUSES_MOST = 2

#: The length of a card's line.
CARD = 80


def sentence(contests: Sequence[FastestBySetting], where: str, unit: str = "launch") -> str:
    """Returns the sentence without its full stop; ``where`` names the workload, as ``On the IMDB LSTM``."""
    contested = [contest for contest in contests if contest.rivals]
    if not contested:
        return _say_alone(contests, where)
    groups = _alike(contested)
    words = _Words(contested, unit)
    if len(groups) > CLAUSES_MOST:
        text = words.count_ahead(groups)
    else:
        text = "; ".join(words.clause(group, first=not at) for at, group in enumerate(groups))
    return f"{where}, {text}{_say_unranked(contests)}"


def card(contests: Sequence[FastestBySetting], most: int = CARD) -> str:
    """Returns the same in at most ``most`` characters, for an index."""
    contested = [contest for contest in contests if contest.rivals]
    if not contested:
        return f"{frameworks(_measured_frameworks(contests))} alone" if contests else "no launch ended well"
    groups = _alike(contested)
    n = min(contest.gaps[contest.top, name].blocks for contest in contested for name in contest.rivals)
    untested = all(group[0].is_untested for group in groups)
    few = any(contest.untested for contest in contested)
    note = f" (n = {n}, not tested)" if untested else " (partly tested)" if few else ""
    if len(groups) == 1:
        head = _head(groups[0], plain=False)
        ahead = [span(each, DASH) + f"x {framework(name)}" for name, each in _distances(groups[0]).items()]
        lines = [head + note, *(f"{head}, {', '.join(ahead[:n])}{note}" for n in range(1, len(ahead) + 1))]
    else:
        lines = [_depends(groups) + note]
        # Where a part of the settings was tested, the others would stand among the fastest as if they had been.
        if untested or not any(group[0].is_untested for group in groups):
            parts = [f"{_head(group, plain=True)} {scope(group, contested)}" for group in groups]
            lines.append(f"fastest: {'; '.join(parts)}{note}")
    return max((line for line in lines if len(line) <= most), key=len, default=lines[0][:CARD])


def _depends(groups: Sequence[Sequence[FastestBySetting]]) -> str:
    """Returns which frameworks are fastest in some setting, those that are decidedly so if anything was tested."""
    tested = [group[0] for group in groups if not group[0].is_untested]
    decided = [contest for contest in tested if len(contest.leaders) == 1]
    if not tested:
        names = frameworks(_in_order({group[0].top for group in groups}), "or")
        return f"{names} ran fastest, depending on the setting"
    if not decided:
        return "no framework is decidedly fastest in any setting"
    names = frameworks(_in_order({contest.top for contest in decided}), "or")
    if len(decided) == len(groups):
        return f"{names} is fastest, depending on the setting"
    return f"{names} is fastest in some settings; others are undecided"


def bounds(gaps: Sequence[Estimate]) -> str:
    """Returns the bounds of one gap, or those within which the bounds of all lie."""
    return span([*(gap.low or 0.0 for gap in gaps), *(gap.high or 0.0 for gap in gaps)])


@dataclass
class _Words:
    """Words on contests; the first bounds of a sentence say what bounds are, and how many launches are behind them."""

    every: Sequence[FastestBySetting]
    unit: str
    _told: set[bool] = field(default_factory=set)

    def clause(self, group: Sequence[FastestBySetting], first: bool) -> str:
        """Returns what contests with the same leaders show."""
        leaders = _in_order(group[0].leaders)
        where = scope(group, self.every, each=len(leaders) > 1)
        before, after = ("", f" {where}" if where else "") if first else (f"{where} " if where else "", "")
        if group[0].is_untested:
            return f"{before}{_name(group, group[0].top)} {self._verb(False)} fastest{after}, {self._ahead(group, [])}"
        if len(leaders) == 1:
            text = (
                f"{before}{_name(group, leaders[0])} {self._verb(True)} fastest{after}, {self._ahead(group, leaders)}"
            )
        else:
            text = f"{before}{self._tie(group, leaders, after)}{self._rest(group, leaders)}"
        return text + self._say_untested(group)

    def count_ahead(self, groups: Sequence[Sequence[FastestBySetting]]) -> str:
        """Returns in how many settings which framework is ahead."""
        tested = any(not contest.is_untested for contest in self.every)
        # A contest with an untested rival names no fastest one, unless nothing was tested at all.
        few = [contest for contest in self.every if tested and contest.untested]
        by_name: dict[str, list[FastestBySetting]] = {}
        ties: dict[str, list[FastestBySetting]] = {}
        for contest in (each for group in groups for each in group if each not in few):
            kind = contest.tie
            if kind:
                ties.setdefault(kind, []).append(contest)
            else:
                by_name.setdefault(contest.top, []).append(contest)
        parts = [
            f"{framework(name)} {self._verb(tested)} fastest {scope(some, self.every)}"
            for name, some in sorted(by_name.items(), key=lambda each: -len(each[1]))
        ]
        if equal := ties.pop(EQUAL, []):
            parts.append(f"the fastest are equally fast {scope(equal, self.every)}")
        if alike := ties.pop(ALIKE, []):
            parts.append(f"the fastest cannot be told apart {scope(alike, self.every)}")
        if undecided := [contest for some in ties.values() for contest in some]:
            parts.append(f"the fastest is not decided {scope(undecided, self.every)}")
        if few:
            parts.append(f"not all are tested {scope(few, self.every)}")
        blocks = [contest.gaps[contest.top, name].blocks for contest in self.every for name in contest.rivals]
        launches = counts([n for n in blocks if n] or [0], self.unit)
        return f"the fastest framework depends on the setting: {listing(parts)} ({launches})"

    def _verb(self, tested: bool) -> str:
        if self.unit == "seed":
            return "trains" if tested else "trained"
        return "is" if tested else "ran"

    def _tie(self, group: Sequence[FastestBySetting], leaders: Sequence[str], where: str) -> str:
        """Returns that these leaders are equal, or that it is not decided which is fastest, and what is decided."""
        kind = group[0].tie
        words = {
            EQUAL: f"{_names(group, leaders)} are equally fast{where.replace('either', 'each')}",
            ALIKE: f"{_names(group, leaders)} cannot be told apart{where}",
            UNDECIDED: f"whether {_names(group, leaders, 'or')} is fastest is not decided yet{where}",
            PARTLY: f"no framework is decidedly fastest{where.replace('either', 'each')}",
        }[kind]
        base, *others = leaders
        parts = []
        for at, name in enumerate(others):
            gaps = [gap for contest in group if (gap := contest.gap(name, base)).value]
            speed = "the speed of" if not at else "that of"
            ratio = f"{framework(name)} at {_figures(gaps)}x {speed} {framework(base)}"
            likely = f", {found}" if (found := uncertain(gaps)) else ""
            parts.append(f"{ratio}{likely}; {self._bounds(gaps)}" if gaps else f"no ratio to {framework(name)}")
        text = f"{words} ({'; '.join(parts)})"
        return text + self._say_decided(group) if kind == PARTLY else text

    def _say_decided(self, group: Sequence[FastestBySetting]) -> str:
        """Returns the pairs of leaders that are decided although none of them is fastest."""
        parts = []
        pairs = {pair: None for contest in group for pair in contest.decided_pairs}
        for name, other in pairs:
            some = [contest for contest in group if (name, other) in contest.decided_pairs]
            gaps = [contest.gap(name, other) for contest in some]
            where = f"{scope(some, self.every)} " if len(some) < len(group) else ""
            ratio = f"{_figures(gaps)}x as fast as {_name(group, other)} ({self._bounds(gaps)})"
            parts.append(f", but {where}{_name(group, name)} is {ratio}")
        return "".join(parts)

    def _rest(self, group: Sequence[FastestBySetting], leaders: Sequence[str]) -> str:
        """Returns how far leaders that tie are ahead of the others, of each of them if that is decided for all."""
        parts = []
        for name in _in_order({name for contest in group for name in contest.behind}):
            some = [contest for contest in group if name in contest.behind]
            decided = all(contest.gap(leader, name).verdict == "faster" for contest in some for leader in leaders)
            gaps = _gaps(some, leaders if decided else [], name)
            subject = ("both" if len(leaders) == 2 else "they") if decided else "the faster one"
            verb = "are" if decided else "is"
            where = f"{scope(some, self.every)} " if len(some) < len(group) else ""
            ratio = f"{verb} {_figures(gaps)}x as fast as {_name(group, name)} ({self._bounds(gaps)})"
            parts.append(f", and {where}{subject} {ratio}")
        return "".join(parts)

    def _ahead(self, group: Sequence[FastestBySetting], leaders: Sequence[str]) -> str:
        """Returns ``2.0x as fast as TensorFlow (corrected interval ...) and 1.5x as fast as JAX (...)``."""
        parts = []
        names = {name for contest in group for name in (contest.behind if leaders else contest.rivals)}
        for name in _in_order(names):
            gaps = _gaps([contest for contest in group if name in contest.rivals], leaders, name)
            ratio = f"{_figures(gaps)}x as fast as {_name(group, name)} ({self._bounds(gaps)})" if gaps else ""
            parts.append(ratio or f"without a ratio to {framework(name)}")
        return listing(parts)

    def _say_untested(self, group: Sequence[FastestBySetting]) -> str:
        """Returns what is said of frameworks with too few launches among others with enough."""
        parts = []
        for name in _in_order({name for contest in group for name in contest.untested}):
            some = [contest for contest in group if name in contest.untested]
            gaps = _gaps(some, [], name)
            where = f" {scope(some, self.every)}" if len(some) < len(self.every) else ""
            few = f"ran only {times(min((gap.blocks for gap in gaps), default=0))}{where} and is not tested there"
            parts.append(f"; {framework(name)} {few if gaps else f'has no ratio{where}'}")
        return "".join(parts)

    def _bounds(self, gaps: Sequence[Estimate]) -> str:
        """Returns the bounds; the first time also what they are and the number of launches."""
        tested = all(gap.verdict for gap in gaps)
        first = tested not in self._told
        self._told.add(tested)
        n = counts((gap.blocks for gap in gaps), self.unit)
        if not tested:
            single = all(gap.low == gap.high for gap in gaps)
            mixed = ", not tested" if first and not all(contest.is_untested for contest in self.every) else ""
            return f"{n}{mixed}" if single else f"{bounds(gaps)} in {n}{mixed}" if first else bounds(gaps)
        kind = kind_of_interval(max(gap.tests for gap in gaps), len(gaps) > 1)
        return f"{kind} {bounds(gaps)}, {n}" if first else bounds(gaps)


def _alike(contests: Sequence[FastestBySetting]) -> list[list[FastestBySetting]]:
    """Returns the contests with the same leaders and kind of evidence together, the largest group first."""
    groups: dict[tuple[object, ...], list[FastestBySetting]] = {}
    for contest in contests:
        key = frozenset(contest.leaders), contest.tie, contest.is_untested
        groups.setdefault(key, []).append(contest)
    return sorted(groups.values(), key=len, reverse=True)


def _name(group: Sequence[FastestBySetting], name: str) -> str:
    """Returns ``PyTorch``, or ``PyTorch in mode compile``, the fastest, where several modes were measured.

    The same for releases, and for strategies where all of these contests are of several devices: ``PyTorch with FSDP``.
    """
    cells = [row.cell for contest in group for row in contest.rows if row.cell.framework == name]
    words = framework(name)
    if any(name in contest.modes for contest in group):
        modes = {cell.compile for cell in cells}
        words += f" in {f'mode {modes.pop()}' if len(modes) == 1 else 'its fastest mode'}"
    if all(name in contest.strategies for contest in group):
        ways = {cell.strategy for cell in cells}
        words += f" with {strategy(ways.pop()) if len(ways) == 1 else 'its fastest strategy'}"
    if any(name in contest.releases for contest in group):
        releases = {contest.releases[name] for contest in group if name in contest.releases}
        words += f" {releases.pop() if len(releases) == 1 else 'in its fastest release'}"
    return words


def _names(group: Sequence[FastestBySetting], names: Sequence[str], last: str = "and") -> str:
    return listing([_name(group, name) for name in names], last)


def _head(group: Sequence[FastestBySetting], plain: bool) -> str:
    """Returns ``PyTorch is fastest``, or ``PyTorch`` if the words around say so."""
    leaders = _in_order(group[0].leaders)
    if len(leaders) == 1:
        return _name(group, leaders[0]) + ("" if plain else " ran fastest" if group[0].is_untested else " is fastest")
    if group[0].tie in (words := {EQUAL: "equal", ALIKE: "cannot be told apart"}):
        return f"{_names(group, leaders)} ({words[group[0].tie]})"
    for name in leaders:
        gaps = [contest.gap(name, other) for contest in group for other in leaders if other != name]
        if all("faster" in (gap.verdict, gap.probably) for gap in gaps):
            return f"{_name(group, name)} is probably fastest (not certain)"
    return f"{_names(group, leaders, 'or')} (not decided yet)"


def _distances(group: Sequence[FastestBySetting]) -> dict[str, list[float]]:
    """Returns how many times as fast the leaders are as each other framework, of those of which that is decided."""
    distances: dict[str, list[float]] = {}
    untested = group[0].is_untested
    for name in _in_order({name for contest in group for name in (contest.rivals if untested else contest.behind)}):
        some = [contest for contest in group if name in (contest.rivals if untested else contest.behind)]
        gaps = _gaps(some, [] if untested else group[0].leaders, name)
        distances[name] = [gap.value or 0.0 for gap in gaps if untested or gap.verdict == "faster"]
    return {name: values for name, values in distances.items() if values}


def _figures(gaps: Sequence[Estimate]) -> str:
    return span(gap.value or 0.0 for gap in gaps)


def _gaps(group: Sequence[FastestBySetting], leaders: Sequence[str], other: str) -> list[Estimate]:
    """Returns the gaps of these leaders, by default of each contest's fastest, to another framework."""
    return [gap for contest in group for name in (leaders or [contest.top]) if (gap := contest.gap(name, other)).value]


def _say_unranked(contests: Sequence[FastestBySetting]) -> str:
    reasons = {framework(name): why for contest in contests for name, why in contest.unranked.items()}
    return "".join(f"; {name} is not ranked: {why}" for name, why in reasons.items())


def _say_alone(contests: Sequence[FastestBySetting], where: str) -> str:
    names = _measured_frameworks(contests)
    if not names:
        return f"{where}, no launch gave a result that can be ranked{_say_unranked(contests)}"
    return f"{where}, there is nothing to compare {frameworks(names)} with{_say_unranked(contests)}"


def _measured_frameworks(contests: Sequence[FastestBySetting]) -> list[str]:
    return _in_order({row.cell.framework for contest in contests for row in contest.rows})


def _in_order(names: Iterable[str]) -> list[str]:
    return sorted(names, key=FRAMEWORKS.index)
