"""The form of sentences that all findings share: what was changed, what that does, and the figures as evidence.

``bf16 instead of fp32 makes the IMDB LSTM faster in JAX (1.31x, 95 % interval 1.28 to 1.34, 6 launches), and slower in
PyTorch (0.86x, 0.83 to 0.89)``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from suite.analysis.rows.wording import listing
from suite.analysis.statistics.ratios import Ratio
from suite.report.format.names import count

#: How a sentence says each verdict; an untested change is told by its direction.
VERDICTS = {
    "faster": "faster",
    "slower": "slower",
    "equal": "equally fast",
    "inconclusive": "not decidedly faster or slower",
}

#: Who, the ratio, and further figures.
Told = tuple[str, Ratio, Sequence[str]]


def change(subject: str, what: str, told: Sequence[Told], unit: str = "launch") -> str:
    """Returns what ``subject`` does to the training of ``what``, in each framework by its verdict."""
    parts: dict[str, list[str]] = {}
    for at, (who, ratio, further) in enumerate(told):
        kind = ratio.verdict or ("faster" if (ratio.value or 0.0) >= 1 else "slower")
        words = ", ".join([evidence(ratio, unit if not at else ""), *further])
        parts.setdefault(VERDICTS[kind], []).append(f"{who} ({words})")
    verb = "makes" if any(ratio.verdict for _, ratio, _ in told) else "made"
    *first, last = (f"{kind} in {listing(names)}" for kind, names in parts.items())
    return f"{subject} {verb} {what} {', '.join(first)}{', and ' if first else ''}{last}"


def evidence(ratio: Ratio, unit: str) -> str:
    """Returns ratio and bounds; with ``unit``, also what these are and the number of launches."""
    value, bounds = span([ratio.value or 0.0]), span([ratio.low or 0.0, ratio.high or 0.0])
    if not unit:
        return f"{value}x, {bounds}"
    kind = f"95 % interval {bounds}, " if ratio.verdict else f"{bounds} in " if ratio.low != ratio.high else ""
    return f"{value}x, {kind}{count(ratio.blocks, unit)}{'' if ratio.verdict else ', not tested'}"


def span(values: Iterable[float], mark: str = " to ") -> str:
    """Returns ``1.5 to 2.0`` for the lowest and highest value, or one figure if both read alike."""
    low, high = min(known := list(values)), max(known)
    digits = 2 if low < 1.995 else 1 if low < 9.95 else 0
    ends = [f"{low:.{digits}f}", f"{high:.{digits}f}" if high < 9.95 else f"{high:.0f}"]
    return mark.join(dict.fromkeys(ends))
