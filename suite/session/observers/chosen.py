"""Makes the observers that the command line asks for; the only place where a session knows what can be exported to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from suite.catalog.suggest import unknown
from suite.export.live import HOST, Live
from suite.export.target import ExportError, abouts, target
from suite.plan.command.common import Option, option
from suite.record.text import clean
from suite.session.observers import Observers
from suite.session.observers.tracker import Tracker

PORTS = 65_535


def options() -> list[Option]:
    """The options that ask for observers."""
    return [
        option(
            "--track", metavar="TARGET", action="append", default=[],
            help=f"send each launch, as it ends, to one of: {', '.join(_followers())}; TARGET=PLACE names a server's "
            "address or a folder, as --to of python -m suite.export does",
        ),
        option(
            "--metrics-port", type=int, metavar="PORT",
            help="serve Prometheus metrics of the run on this port while it goes on, such as 9464",
        ),
        option(
            "--metrics-host", default=HOST, metavar="ADDRESS",
            help=f"with --metrics-port, the address to serve on; 0.0.0.0 shows them to the network (default: {HOST})",
        ),
    ]  # fmt: skip


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
    made: list[Any] = [
        Tracker(name, place, _without_password(place), say, show) for name, place in dict.fromkeys(_trackers(config))
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
        if name not in _followers():
            raise ExportError(f"--track: {unknown('tracker', name, _followers())}")
        try:
            target(name)
            yield name, abouts()[name].place(given or None)
        except ExportError as error:
            raise ExportError(f"--track {name}: {error}") from None


def _without_password(place: str) -> str:
    """The place as it may be shown: an address without a user's name and password."""
    scheme, _, rest = place.rpartition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}" if scheme else place


def _followers() -> list[str]:
    """The targets that can follow a run."""
    return [name for name, about in abouts().items() if about.follows]
