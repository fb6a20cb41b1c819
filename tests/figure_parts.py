"""The parts of a figure: estimates as tuples, and fields without what is missing (`tests.figures`)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from suite.analysis.statistics.inference import Estimate
from suite.analysis.statistics.scaling import is_communication_bound
from suite.catalog.settings import SETTINGS

Fields = dict[str, Any]

#: The parts of an estimate, in their order. ``none`` says that a reason stands in its place.
PARTS = (
    "value", "low", "high", "n", "p", "verdict", "none", "caveat", "to_decide", "tests", "alone_low", "alone_high",
    "probably", "base",
)  # fmt: skip
#: The attributes that hold parts of another name.
ATTRIBUTES = {"n": "blocks", "none": "reason", "to_decide": "blocks_to_decide", "base": "baseline"}
#: Parts that a control and an explained pair have not.
OTHERS = "n p tests to_decide alone_low alone_high probably base"


def power_of(made: Any) -> Fields:
    ranges = {name: [*getattr(made.power, name)] for name in ("noise_range", "smallest_range", "launches_range")}
    noise = take(made.power.noise, "deviation freedom of_control")
    return take(made.power, "blocks smallest launches") | ranges | {"noise": noise}


def estimate_of(found: Any, without: str = "", **attributes: str) -> tuple[Any, ...] | None:
    """The parts of an estimate; ``attributes`` hold some of them under other names."""
    read = {name: getattr(found, (ATTRIBUTES | attributes).get(name, name), None) for name in PARTS}
    read |= {"none": bool(read["none"]) or None, "caveat": bool(read["caveat"]) or None}
    parts = [None if name in without.split() or read[name] == "" else read[name] for name in PARTS]
    while parts and parts[-1] is None:
        parts.pop()
    return tuple(parts) or None


def first_name_of(name: str, value: str) -> str:
    """A value of a setting by the name that it had when the figures were stored."""
    return str(SETTINGS[name].first_name(value)) if name in SETTINGS else value


def with_verdict(found: Any, verdict: Any, without: str) -> tuple[Any, ...] | None:
    """The parts of an estimate whose verdict stands beside it."""
    return estimate_of(replace(found or Estimate(), verdict=verdict), without)


def communication_of(cost: Any) -> tuple[Any, ...] | None:
    return cost and with_verdict(cost, is_communication_bound(cost), OTHERS[2:])


def cause_of(cause: Any) -> tuple[Any, ...] | None:
    """The share, and the interval and p-value of the seconds."""
    return estimate_of(replace(cause.difference or Estimate(), value=cause.share), f"n {OTHERS[3:]}")


def take(found: Any, names: str) -> Fields:
    """These attributes, None where there is nothing to have them."""
    return {name: getattr(found, name, None) for name in names.split()}


def sums_of(columns: Mapping[str, Sequence[Any]]) -> Fields:
    """The sum of each column, of words how many different ones; and how many values are missing."""
    found = {}
    for name, column in columns.items():
        values = [value for value in column if value is not None and value == value]
        numeric = all(isinstance(value, int | float) for value in values)
        found[name] = math.fsum(map(float, values)) if numeric else len(set(values))
        found[f"{name} missing"] = len(column) - len(values) or None
    return fields_of(found)


def fields_of(*fields: Mapping[str, Any], **more: Any) -> Fields:
    """All fields, without those that are missing, empty or false."""
    found: Fields = {}
    for name, value in (item for each in (*fields, more) for item in each.items()):
        parts = dict(enumerate(value)) if isinstance(value, list) else value
        kept = fields_of({str(part): each for part, each in parts.items()}) if isinstance(parts, Mapping) else parts
        if not (kept is None or kept is False or kept in ("", {}) or kept != kept):
            found[name] = kept
    return found
