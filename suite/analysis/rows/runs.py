"""Whole runs: their launches, and whether the machine was quiet enough for what was measured on it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from suite.analysis.records.load import Launch


class Runs:
    """All launches that groups were made from, by run, and what is computed once from a whole run."""

    def __init__(self, launches: Iterable[Launch] = ()) -> None:
        self.launches: dict[str, list[Launch]] = {}
        self.computed: dict[tuple[str, float], Any] = {}
        for launch in launches:
            self.launches.setdefault(launch.run, []).append(launch)


def too_busy(run: Iterable[Launch]) -> str:  # noqa: ARG001 - no reading tells it yet
    """Why the launches of a run name no winner, in words: what else the machine did. Empty if it was quiet enough."""
    return ""
