"""The form of sentences that all findings share: what was changed, what that does, and the figures as evidence.

``bf16 instead of fp32 makes the IMDB LSTM faster in JAX (1.31x, corrected interval 1.28 to 1.34, 6 launches), and
slower in PyTorch (0.86x, 0.83 to 0.89)``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from suite.analysis.rows.wording import listing
from suite.analysis.statistics.inference import CLOSE, CLOSE_TO_ONE, PROBABLE, Estimate
from suite.report.format.names import count

#: How a sentence says each verdict; an untested change is told by its direction.
VERDICTS = {"faster": "faster", "slower": "slower", "equal": "equally fast"}

#: Who, the ratio, and further figures.
Told = tuple[str, Estimate, Sequence[str]]


def change(subject: str, what: str, told: Sequence[Told], unit: str = "launch") -> str:
    """Returns what ``subject`` does to the training of ``what``, in each framework by its verdict."""
    parts: dict[str, list[str]] = {}
    for at, (who, ratio, further) in enumerate(told):
        kind = ratio.verdict or ("faster" if (ratio.value or 0.0) >= 1 else "slower")
        words = ", ".join([evidence(ratio, unit if not at else ""), *further])
        parts.setdefault(VERDICTS.get(kind) or doubt(ratio), []).append(f"{who} ({words})")
    verb = "makes" if any(ratio.verdict for _, ratio, _ in told) else "made"
    *first, last = (f"{kind} in {listing(names)}" for kind, names in parts.items())
    return f"{subject} {verb} {what} {', '.join(first)}{', and ' if first else ''}{last}"


def doubt(ratio: Estimate) -> str:
    """Returns what is known of a change that no verdict decides."""
    if ratio.doubt == CLOSE:
        return f"at most {CLOSE_TO_ONE - 1:.0%} faster or slower"
    if ratio.doubt == PROBABLE:
        return f"probably {ratio.probably} ({_say_correction(ratio)})"
    return "not decidedly faster or slower"


def uncertain(ratios: Sequence[Estimate]) -> str:
    """Returns the direction that undecided ratios of some settings probably have; empty if even that is open."""
    likely = [ratio for ratio in ratios if ratio.doubt == PROBABLE]
    counts = Counter(ratio.probably for ratio in likely)
    where = f" in {{}} of {len(ratios)} settings" if len(ratios) > 1 and likely != [*ratios] else ""
    words = [f"probably {way}{where.format(n)}" for way, n in counts.items()]
    return f"{listing(words)}, {_say_correction(likely[0])}" if words else ""


def _say_correction(ratio: Estimate) -> str:
    return f"not certain after correction for {count(ratio.tests, 'comparison')}"


def kind_of_interval(tests: int, many: bool = False) -> str:
    """Returns what the bounds of a ratio are that was corrected with so many tests."""
    kind = "corrected interval" if tests > 1 else "95 % interval"
    return f"{kind}s within" if many else kind


def evidence(ratio: Estimate, unit: str) -> str:
    """Returns ratio and bounds; with ``unit``, also what these are and the number of launches."""
    value, bounds = span([ratio.value or 0.0]), span([ratio.low or 0.0, ratio.high or 0.0])
    if not unit:
        return f"{value}x, {bounds}"
    kind = (
        f"{kind_of_interval(ratio.tests)} {bounds}, "
        if ratio.verdict
        else f"{bounds} in "
        if ratio.low != ratio.high
        else ""
    )
    return f"{value}x, {kind}{count(ratio.blocks, unit)}{'' if ratio.verdict else ', not tested'}"


def span(values: Iterable[float], mark: str = " to ") -> str:
    """Returns ``1.5 to 2.0`` for the lowest and highest value, or one figure if both read alike."""
    low, high = min(known := list(values)), max(known)
    digits = 2 if low < 1.995 else 1 if low < 9.95 else 0
    ends = [f"{low:.{digits}f}", f"{high:.{digits}f}" if high < 9.95 else f"{high:.0f}"]
    return mark.join(dict.fromkeys(ends))
