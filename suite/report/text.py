"""How strings and numbers are written in tables; see `suite.analysis.wording` and `suite.record.text` too."""

from __future__ import annotations

from suite.analysis.wording import DASH, NONE, figure


def no_formula(text: str) -> str:
    """Text that a spreadsheet shows as it stands; what begins with ``=``, ``+``, ``-`` or ``@`` it would compute."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def spread(value: float | None, low: float | None, high: float | None, digits: int = 3) -> str:
    """``26.3 (25.1-27.9)``, with a dash; the brackets are left out where all three are one."""
    middle = figure(value, digits)
    if middle == NONE or low is None or high is None or low == value == high:
        return middle
    return f"{middle} ({figure(low, digits)}{DASH}{figure(high, digits)})"
