"""Whether a machine was quiet enough for what was measured on it."""

from __future__ import annotations

from collections.abc import Iterable

from suite.analysis.records.load import Launch


def too_busy(run: Iterable[Launch]) -> str:  # noqa: ARG001 - no reading tells it yet
    """Why the launches of a run name no winner, in words: what else the machine did. Empty if it was quiet enough."""
    return ""
