"""Observers of a run, and the options that ask for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from suite.catalog.suggest import unknown
from suite.export.target import HOST, ExportError, abouts, target
from suite.plan.command.common import Option, option
from suite.record.text import clean

PORTS = 65_535


@dataclass
class Observers:
    """Tells each member what happens in a run; what one of them raises ends its part, and nothing else.

    A member has some of these methods, each of which must return soon: ``begin(journal, run, planned, done)``, where
    ``done`` are launches that the journal held already; of each launch ``start(cell, launch)``, ``watch(monitor)`` of
    one on this machine, ``progress(message)`` and ``end(record, left_s)``, with an estimate for the rest of the run;
    and ``close()``, which returns lines for the end of the run.
    """

    members: Sequence[Any] = ()
    _begun: bool = False
    _failed: dict[int, str] = field(default_factory=dict)

    def tell(self, event: str, *given: Any) -> list[str]:
        """Call the method of this name of each member that has it; returns the lines that they return."""
        self._begun |= event == "begin"
        lines: list[str] = []
        for number, member in enumerate(self.members):
            if number not in self._failed:
                try:
                    lines += getattr(member, event, lambda *_: None)(*given) or ()
                except Exception as error:  # whatever it is, the run is worth more
                    reason = clean(f"{type(error).__name__}: {error}")
                    self._failed[number] = f"{type(member).__name__} failed, and the run went on without: {reason}"
        return lines

    def close(self) -> list[str]:
        """The lines of all, once; those that failed have something to close too."""
        failed, self._failed = self._failed, {}
        lines = self.tell("close") if self._begun else []
        self._begun = False
        return list(dict.fromkeys([*failed.values(), *lines, *self._failed.values()]))


def options() -> list[Option]:
    return [
        option(
            "--track", metavar="TARGET", action="extend", default=[],
            type=lambda text: [text] if "=" in text else text.split(","),
            help=f"send each launch, as it ends, to one of: {', '.join(_followers())}; TARGET=PLACE names a server's "
            "address or a folder, as --to of training-suite export does",
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


def make_observers(config: pytest.Config, say: Callable[[str], None], show: Callable[[str], None]) -> Observers:
    """The observers of a run; metrics are served from here on. Raises `ExportError`."""
    from suite.export.live import Live  # NumPy and SciPy, which what is mistyped does not wait for
    from suite.session.tracker import Tracker

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
    return [name for name, about in abouts().items() if about.follows]
