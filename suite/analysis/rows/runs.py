"""Whole runs: their launches, and what is computed once from them."""

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
