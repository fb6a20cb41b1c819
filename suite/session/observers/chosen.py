"""Makes the observers that the command line asks for; the only place where a session knows what can be exported to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from suite.export.live import Live
from suite.export.target import ExportError, target
from suite.plan.options import TRACKERS
from suite.plan.suggest import unknown
from suite.record.text import clean
from suite.session.observers.observer import Observer, Observers
from suite.session.observers.tracker import Tracker

PORTS = 65_535


def check(config: pytest.Config) -> None:
    """Raise `ExportError` for an observer that cannot be: an unknown tracker, no library, no port."""
    for _ in _trackers(config):
        pass
    port = config.getoption("metrics_port")
    if port is not None:
        if not 0 <= port <= PORTS:
            raise ExportError(f"--metrics-port is {port}; it is a port, 0 (any that is free) to {PORTS}")
        target("prometheus")


def observers(config: pytest.Config, say: Callable[[str], None], show: Callable[[str], None]) -> Observers:
    """The observers of a run; metrics are served from here on. Raises `ExportError`."""
    made: list[Observer] = [
        Tracker(name, place, _named(place), say, show) for name, place in dict.fromkeys(_trackers(config))
    ]
    port = config.getoption("metrics_port")
    if port is not None:
        live = Live(port, config.getoption("metrics_host"))
        say(f"metrics: http://{clean(live.host)}:{live.open()}/metrics")
        made.append(live)
    return Observers(made)


def _trackers(config: pytest.Config) -> Iterator[tuple[str, str]]:
    """Each tracker's name and place."""
    for text in config.getoption("track") or ():
        name, _, given = text.partition("=")
        if name not in TRACKERS:
            raise ExportError(f"--track: {unknown('tracker', name, TRACKERS)}")
        try:
            chosen: Any = target(name)
            yield name, chosen.place(given or None)
        except ExportError as error:
            raise ExportError(f"--track {name}: {error}") from None


def _named(place: str) -> str:
    """The place as it may be shown: an address without a user's name and password."""
    scheme, _, rest = place.rpartition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}" if scheme else place
