"""Numbers and names as text, for sentences and tables."""

from __future__ import annotations

import math
import re

#: An en dash: between the ends of a range, and in place of a missing figure.
DASH = "\u2013"
NONE = DASH


def figure(value: float | None, digits: int = 3) -> str:
    """A number with at least ``digits`` significant digits and a comma between thousands; None is a dash.

    >>> figure(1234.4), figure(26.31), figure(0.02631)
    ('1,234', '26.3', '0.0263')
    """
    if value is None or not math.isfinite(value):
        return NONE
    if value == 0:
        return "0"
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    return f"{value:,.{max(0, decimals)}f}" if decimals < 8 else f"{value:.{digits - 1}e}"


def middle(text: str, limit: int = 24) -> str:
    """A long name without its middle, since names differ at their ends."""
    return text if len(text) <= limit else f"{text[: limit // 2 - 1]}…{text[-(limit // 2) :]}"


def fill(words: str, value: str) -> str:
    """The words of a setting around a value; "1" makes the noun at their end singular.

    >>> fill("with {} threads", "2"), fill("with {} threads", "1")
    ('with 2 threads', 'with 1 thread')
    """
    filled = words.format(value)
    return filled.removesuffix("s") if value == "1" and re.search(r"{} \w+s$", words) else filled


def listing(words: list[str], last: str = "and") -> str:
    """``a, b and c``."""
    return f" {last} ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


def percent(text: str) -> float:
    """``3%`` and ``3`` as 0.03. Raises `ValueError` unless it is between 0 and 100 %.

    >>> percent("2.5%")
    0.025
    """
    value = float(text.removesuffix("%").rstrip())
    if not 0 < value < 100:
        raise ValueError(text)
    return value / 100
