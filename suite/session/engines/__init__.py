"""Where launches start: a file here for each kind of cluster, which holds one `Engine` as ``ENGINE``.

An engine gives the nodes of a cluster; on each a process of `suite.session.hosts` takes orders. The rest is the same
everywhere: the job, the monitor, the worker, the record.
"""

from __future__ import annotations

import argparse
import pkgutil
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from suite.catalog.suggest import unknown
from suite.plan.command.common import LOCAL, one_of, option

if TYPE_CHECKING:
    from suite.session.hosts.remote import Remote

#: How the ranks of a launch are dealt to hosts: one host is filled after the other, or each has one before any has two.
PLACEMENTS = ("pack", "spread")


class Nodes(Protocol):
    """The hosts that an engine can take."""

    def nodes(self) -> dict[str, Any]:
        """The living nodes, by a name of their own."""

    def host(self, node: Any) -> Remote:
        """Take a node and start its process. Raises `LaunchError` or `HostLostError`."""


@dataclass(frozen=True)
class Engine:
    """One engine: its value of ``--on``, and what that means.

    ``addressed`` is how a value with an address is written, such as ``ray://HOST:PORT``, and what it means. ``lack``
    says why this machine cannot use it, empty where it can. ``nodes`` opens the cluster: it gets the value of ``--on``,
    what hosts begin with, what prints a line, and the stack that closes what it opens. This host has none.
    """

    name: str
    help: str
    addressed: tuple[str, str] = ("", "")
    lack: Callable[[], str] = lambda: ""
    nodes: Callable[[str, dict[str, Any], Callable[[str], None], ExitStack], Nodes] | None = None

    def takes(self, text: str) -> bool:
        """Whether a value of ``--on`` names this engine."""
        prefix = self.addressed[0].partition("HOST")[0]
        return text == self.name or bool(prefix and text.startswith(prefix) and ":" in text[len(prefix) :])


def engines() -> list[Engine]:
    """All engines: this machine, then those of clusters in the order of their files' names."""
    modules = [import_module(f"{__name__}.{each.name}") for each in pkgutil.iter_modules(__path__)]
    return [Engine(LOCAL, "on this host"), *(module.ENGINE for module in modules)]


def engine_of(text: str) -> Engine:
    """The engine that a value of ``--on`` names. Raises `argparse.ArgumentTypeError`."""
    if text == "kubernetes":
        raise argparse.ArgumentTypeError(
            "there is no engine kubernetes; use Ray there, by KubeRay: kubectl apply -f clusters/kubernetes/rayjob.yaml"
        )
    every = engines()
    for engine in every:
        if engine.takes(text):
            return engine
    names = [*(each.name for each in every), *(each.addressed[0] for each in every if each.addressed[0])]
    raise argparse.ArgumentTypeError(unknown("engine", text, names))


def options() -> list[Any]:
    pairs = [pair for each in engines() for pair in ((each.name, each.help), each.addressed) if pair[0]]
    meanings = "; ".join(f"{name}, {meaning}" for name, meaning in pairs)
    on = option(
        "--on", type=lambda text: engine_of(text) and text, default=LOCAL, metavar="ENGINE",
        help=f"where launches start: {meanings}. Blocks run side by side, each on one host (default: {LOCAL})",
    )  # fmt: skip
    placement = option(
        "--placement", type=one_of("placement", PLACEMENTS), default=PLACEMENTS[0], metavar="HOW",
        help="with --on, how the processes of a cell with several devices are dealt to hosts: pack fills one host "
        "after the other, spread gives each host one before any gets a second (default: pack)",
    )  # fmt: skip
    return [on, placement]
