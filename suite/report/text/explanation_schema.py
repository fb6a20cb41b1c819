"""The types of what explains a ratio, as part of a comparison in JSON (`suite.report.json.comparison_schema`)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Cause:
    """A category in both cells, and its difference as a share of that of the steps.

    It is one of operations, or the recurrent layer if only one cell has a kernel for it. ``low`` and ``high`` are
    the 95 % interval of the difference in seconds, ``p`` is corrected after Holm; null if nothing was tested. ``known``
    are known causes that may apply, with their sources.
    """

    category: str
    seconds: float
    other_seconds: float
    share: float
    calls: float
    other_calls: float
    low: float | None
    high: float | None
    p: float | None
    known: list[str]


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """What makes the steps of ``cell`` longer or shorter than those of ``other``, from their profiles.

    ``lines`` are the same in words. ``causes`` are the largest first and name 90 % of the difference where they can,
    ``against`` go the other way. ``per`` is step or sample. ``covered`` and ``other_covered`` are the profiled steps
    over the timed ones, to which all times are scaled. Without both profiles there are only ``lines``, which say so.
    """

    cell: str
    other: str
    title: str
    verdict: str
    lines: list[str]
    per: str
    step_s: float | None
    other_step_s: float | None
    covered: float | None
    other_covered: float | None
    blocks: int
    causes: list[Cause]
    against: list[Cause]
