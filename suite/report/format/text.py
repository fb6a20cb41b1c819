"""Formats strings and numbers for tables; see `suite.analysis.rows.wording` and `suite.record.text` too."""

from __future__ import annotations

import math
import re
from dataclasses import fields, is_dataclass, replace
from typing import Any

from suite.analysis.rows.wording import DASH, NONE, figure
from suite.plan.cell import PRECISIONS

#: Where a table, a plot or a sentence names the unit of what was counted.
_UNIT = re.compile(r"\bsample(?=s?(?:/s| per second)\b)|(?<=\bper )sample\b|(?<=\b1M )sample(?=s\b)")


def in_unit(shown: Any, unit: str) -> Any:
    """Returns a text, a table or a plot whose unit is ``steps`` where no samples were seen."""
    if unit == "samples":
        return shown
    if isinstance(shown, str):
        return _UNIT.sub(unit.removesuffix("s"), shown)
    if isinstance(shown, (list, tuple)):
        return type(shown)(in_unit(each, unit) for each in shown)
    if is_dataclass(shown) and not isinstance(shown, type):
        return replace(shown, **{each.name: in_unit(getattr(shown, each.name), unit) for each in fields(shown)})
    return shown


def no_formula(text: str) -> str:
    """Returns text that a spreadsheet does not compute, as it would if it began with ``=``, ``+``, ``-`` or ``@``."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def spread(value: float | None, low: float | None, high: float | None, digits: int = 3) -> str:
    """Returns ``26.3 (25.1-27.9)``, with an en dash; without brackets if all three values are equal."""
    middle = figure(value, digits)
    if middle == NONE or low is None or high is None or low == value == high:
        return middle
    return f"{middle} ({figure(low, digits)}{DASH}{figure(high, digits)})"


def round_up(value: float) -> float:
    """Returns the next round number (1, 1.5, 2, 3 and so on) for a scale; 1 for zero and less."""
    if value <= 0:
        return 1.0
    unit = 10.0 ** math.floor(math.log10(value))
    return next(step * unit for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if step * unit >= value * (1 - 1e-9))


def capital(text: str) -> str:
    """Returns the text with a capital first letter, unless it begins with the name of a number format."""
    return text if text.startswith(PRECISIONS) else f"{text[:1].upper()}{text[1:]}"
