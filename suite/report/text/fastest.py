"""Which framework is fastest in a setting: the line of an answer, and the shorter one of an index.

All lines of an answer have one form: where and how often it was measured, the finding, and ratios with their bounds.
``IMDB LSTM, batch 32 (6 launches): PyTorch is fastest: 2.0x TensorFlow (1.79 to 2.24), 1.54x JAX (1.42 to 1.67)``
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from suite.analysis.rows.wording import DASH, listing
from suite.analysis.statistics.fastest import ALIKE, EQUAL, PARTLY, FastestBySetting
from suite.analysis.statistics.inference import CLOSE, CLOSE_TO_ONE, INCONCLUSIVE, Estimate
from suite.plan.cell import FRAMEWORKS
from suite.report.format.names import counts, framework, frameworks, strategy

#: Verdicts that say something.
DECIDED = ("faster", "slower", "equal")
#: What is said of leaders of whom none is decidedly ahead, in a sentence and in a line.
YET, UNDECIDED = "(not decided yet)", "(undecided)"
#: What follows ratios that are the ends of several settings.
BY_SETTING = " (by setting)"
#: The length of a card's line.
CARD = 80


def line(contest: FastestBySetting, where: str, unit: str = "launch") -> str:
    """Returns what the contest of one setting shows; ``where`` names the workload and the setting."""
    if not contest.rivals:
        return f"{where}: there is nothing to compare {framework(contest.top)} with"
    pairs = [(contest.top, name) for name in contest.rivals]
    ratios = ", ".join(_ratio(contest, *pair) for pair in pairs)
    others = [pair for pair in contest.decided_pairs if pair not in pairs]
    ratios += "".join(f", {_name(contest, pair[0])} {_ratio(contest, *pair)}" for pair in others)
    subject = f"{_name(contest, contest.top)} " * (len(contest.leaders) > 1)
    return f"{label(where, [contest.gap(*pair) for pair in pairs], unit)}: {head(contest, unit)}: {subject}{ratios}"


def short(contest: FastestBySetting, where: str) -> str:
    """Returns the finding alone, with the first leader's ratios to all decidedly behind it, or behind it untested."""
    if not contest.rivals:
        return f"{where}: {framework(contest.top)} alone"
    if not (contest.is_untested or contest.behind or contest.decided_pairs or contest.tie in (EQUAL, ALIKE)):
        return f"{where}: no difference decided{_apart(contest)}"
    ratios = [_bare(contest, contest.top, name) for name in contest.trailing]
    subject = f"{framework(contest.top)} " * bool(ratios and len(contest.leaders) > 1)
    ratios += [f"{_name(contest, pair[0])} {_bare(contest, *pair)}" for pair in contest.decided_pairs]
    finding = ": ".join(filter(None, [head(contest).replace(YET, UNDECIDED), subject + ", ".join(ratios)]))
    return f"{where}: {finding}{_apart(contest)}"


def _bare(contest: FastestBySetting, name: str, other: str) -> str:
    gap = contest.gap(name, other)
    return bounded(_shorten(gap) if contest.is_untested else gap, _name(contest, other), mark=DASH)


def _shorten(ratio: Estimate) -> Estimate:
    """The same without the lowest and the highest, unless they are so far apart that one launch may be behind it."""
    apart = (ratio.high or 1.0) > CLOSE_TO_ONE * (ratio.low or 1.0)
    return ratio if apart else without_bounds(ratio)


def _apart(contest: FastestBySetting) -> str:
    """Returns what was not tested: all, with the number of blocks, or some beside several leaders; else nothing."""
    if contest.is_untested:
        return f" (n = {min(contest.gap(contest.top, name).blocks for name in contest.rivals)}, not tested)"
    return f"; not tested for {frameworks(contest.untested)}" * bool(contest.untested and contest.leaders[1:])


def head(contest: FastestBySetting, unit: str = "launch", plain: bool = False) -> str:
    """Returns the finding, such as ``PyTorch is fastest``; ``plain`` without modes, strategies and releases."""
    names = [framework(name) if plain else _name(contest, name) for name in _in_order(contest.leaders)]
    tested, untested = ("trains", "trained") if unit == "seed" else ("is", "ran")
    if len(names) == 1:
        some = " of those tested" if contest.untested and not contest.is_untested else ""
        return f"{names[0]} {untested if contest.is_untested else tested} fastest{some}"
    if contest.is_untested:
        return (
            f"{listing(names, 'or')} ran fastest"
            if len(names) < len(contest.rows)
            else "none ran ahead in every launch"
        )
    if contest.tie == PARTLY:
        return "no framework is decidedly fastest"
    if contest.tie in (EQUAL, ALIKE):
        return f"{listing(names)} {'are equally fast' if contest.tie == EQUAL else 'cannot be told apart'}"
    return f"{listing(names, 'or')} {YET}"


def card(contests: Sequence[FastestBySetting], most: int = CARD) -> str:
    """Returns all settings: one finding with its ratios, or how often each occurs; in ``most`` characters if it can."""
    contested = [contest for contest in contests if contest.rivals]
    if not contested:
        names = _in_order({row.cell.framework for contest in contests for row in contest.rows})
        return f"{frameworks(names)} alone" if names else "no launch ended well"
    blocks = min(contest.gap(contest.top, name).blocks for contest in contested for name in contest.rivals)
    some = " (partly tested)" if any(contest.untested for contest in contested) else ""
    note = f" (n = {blocks}, not tested)" if all(contest.is_untested for contest in contested) else some
    heads = Counter(head(contest, plain=len(contested) > 1) for contest in contested)
    (first, n), *others = heads.most_common()
    if others:
        rest = "".join(f"; {words} in {count}" for words, count in others)
        lines = [f"{first} in {n} of {len(contested)} settings{each}{note}" for each in ("", rest)]
    else:
        ahead, settings = _ahead(contested), {1: "", 2: " in both settings"}.get(n, f" in all {n} settings")
        lines = [first + note, first + settings + note]
        shown = [", ".join(ahead[:upto]) for upto in range(1, len(ahead) + 1)]
        lines += (f"{first}{where}: {each}{note}" for where in ("", settings) for each in shown)
    lines += [f"{first} (not tested)", "speed not tested"] * (note != some)
    fitting = (each for each in lines if len(each) <= most)
    return max(fitting, key=lambda each: (each.count("x "), len(each)), default=lines[0])


def _ahead(contests: Sequence[FastestBySetting]) -> list[str]:
    """Returns the ratios of the fastest to each framework that is decidedly behind it, or behind it without a test."""
    values: dict[str, list[Estimate]] = {}
    for contest in contests:
        for name in contest.trailing:
            values.setdefault(name, []).append(contest.gap(contest.top, name))
    if len(contests) == 1:
        ratios = [(name, _shorten(gap) if not gap.verdict else without_bounds(gap)) for name, (gap,) in values.items()]
        return [bounded(ratio, _name(contests[0], name), mark=DASH) for name, ratio in ratios]
    note = BY_SETTING * (len(contests) > 2)
    return [f"{over_settings(gap.value for gap in values[name])} {framework(name)}{note}" for name in _in_order(values)]


def over_settings(ratios: Iterable[float | None]) -> str:
    """Returns ``1.5x and 2.0x`` of two settings, in their order, and the ends of more: ``1.5x to 2.0x``."""
    known = [ratio or 0.0 for ratio in ratios]
    if len(known) > 2:
        return f"{span(known, 'x to ')}x"
    return " and ".join(dict.fromkeys(f"{span([each])}x" for each in known))


def _ratio(contest: FastestBySetting, name: str, other: str) -> str:
    gap = contest.gap(name, other)
    note = state(gap) if gap.probably or not (gap.verdict or contest.is_untested) else ""
    return bounded(gap, _name(contest, other), note)


def _name(contest: FastestBySetting, name: str) -> str:
    """Returns ``PyTorch in mode compile``, the fastest, where several modes were measured; so of other settings."""
    words = [("{}", contest.releases), ("in mode {}", contest.modes), ("with {}", contest.strategies)]
    return " ".join([framework(name), *(text.format(strategy(of[name])) for text, of in words if name in of)])


def _in_order(names: Iterable[str]) -> list[str]:
    return sorted(names, key=FRAMEWORKS.index)


def label(where: str, ratios: Sequence[Estimate], unit: str) -> str:
    """Returns where ratios are from, and their number of launches or seeds."""
    untested = "" if any(ratio.verdict for ratio in ratios) else ", not tested"
    known = [ratio.blocks for ratio in ratios if ratio.blocks] or [0]
    return f"{where} ({counts(known, unit)}{untested})"


def decided(ratios: Sequence[tuple[str, Estimate]]) -> str:
    """Returns the ratios that were decided, each after its name, then which were not; without any test, all ratios."""
    if not any(ratio.verdict for _, ratio in ratios):
        values = (f"{name} {bounded(_shorten(ratio), mark=DASH)}" for name, ratio in ratios)
        return f"{', '.join(values)} (n = {min(ratio.blocks for _, ratio in ratios)}, not tested)"
    parts = [", ".join(f"{name} {bounded(each, mark=DASH)}" for name, each in ratios if each.verdict in DECIDED)]
    for words, verdict in (("no difference decided", INCONCLUSIVE), ("not tested", "")):
        names = [name for name, ratio in ratios if ratio.verdict == verdict]
        parts.append(f"{words} for {listing(names)}" if len(names) < len(ratios) and names else words * bool(names))
    return "; ".join(filter(None, parts))


def bounded(ratio: Estimate, other: str = "", note: str = "", mark: str = " to ") -> str:
    """Returns a ratio with its bounds, such as ``2.0x TensorFlow (1.79 to 2.24)``."""
    if not ratio.value:
        return f"no ratio to {other}"
    low, high = ratio.low or 0.0, ratio.high or 0.0
    inside = ", ".join(filter(None, [span([low, high], mark) if low != high else "", note]))
    return f"{span([ratio.value])}x{f' {other}' * bool(other)}{f' ({inside})' * bool(inside)}"


def without_bounds(ratio: Estimate) -> Estimate:
    return replace(ratio, low=None, high=None)


def state(ratio: Estimate) -> str:
    """Returns what the test says of a ratio."""
    if ratio.verdict != "inconclusive":
        return {"": "not tested", "equal": "equally fast"}.get(ratio.verdict, ratio.verdict)
    if ratio.doubt == CLOSE:
        return f"at most {CLOSE_TO_ONE - 1:.0%} faster or slower"
    return f"probably {ratio.probably}" if ratio.probably else "not decided"


def span(values: Iterable[float], mark: str = " to ") -> str:
    """Returns ``1.5 to 2.0`` for the lowest and highest value, or one figure if both read alike."""
    low, high = min(known := list(values)), max(known)
    digits = 2 if low < 1.995 else 1 if low < 9.95 else 0
    ends = [f"{low:.{digits}f}", f"{high:.{digits}f}" if high < 9.95 else f"{high:.0f}"]
    return mark.join(dict.fromkeys(ends))
