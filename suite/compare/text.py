"""How strings and numbers are written in tables and plots. For strings of a record see `suite.text` too."""

from __future__ import annotations

import math

#: An en dash: between the ends of a range, and where there is no figure.
DASH = "\u2013"
NONE = DASH


def markdown(text: str) -> str:
    """Text that a Markdown reader shows as it stands, in a table's cell as well."""
    text = text.replace("\\", "\\\\").replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    for special in "|`*_~[]$!":
        text = text.replace(special, f"\\{special}")
    # Else some readers make links of bare addresses.
    return text.replace("#", "&#35;").replace("://", "&#58;//").replace("www.", "www&#46;")


def no_formula(text: str) -> str:
    """Text that a spreadsheet shows as it stands; what begins with ``=``, ``+``, ``-`` or ``@`` it would compute."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def figure(value: float | None, digits: int = 3) -> str:
    """A number with at least ``digits`` significant ones, thousands parted: 1,234 and 26.3 and 0.0263; None is a dash.

    >>> figure(1234.4), figure(26.31), figure(0.02631)
    ('1,234', '26.3', '0.0263')
    """
    if value is None or not math.isfinite(value):
        return NONE
    if value == 0:
        return "0"
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    return f"{value:,.{max(0, decimals)}f}" if decimals < 8 else f"{value:.{digits - 1}e}"


def spread(value: float | None, low: float | None, high: float | None, digits: int = 3) -> str:
    """``26.3 (25.1-27.9)``, with a dash; the brackets are left out where all three are one."""
    middle = figure(value, digits)
    if middle == NONE or low is None or high is None or low == value == high:
        return middle
    return f"{middle} ({figure(low, digits)}{DASH}{figure(high, digits)})"


def middle(text: str, limit: int = 24) -> str:
    """A long name with its middle left out, since the ends tell names apart."""
    return text if len(text) <= limit else f"{text[: limit // 2 - 1]}…{text[-(limit // 2) :]}"


def listing(words: list[str]) -> str:
    """``a, b and c``."""
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)
