"""A Ray cluster as an engine: each host's process is started by an actor that has the host's CPUs and GPUs.

``ray`` is a cluster that this host belongs to (``RAY_ADDRESS``, or the one that was started here), ``ray://HOST:PORT``
one that its client server reaches. Nodes without CPUs, such as a head that only schedules, take no launches. An actor
holds all CPUs and GPUs of its node, in a placement group of one bundle a host, so that nothing else of the cluster runs
beside a launch. Ray is imported only with this engine.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import psutil

from suite.session.engines import Engine
from suite.session.hosts.remote import HostLostError, Pipe, Remote
from suite.session.interrupts import REQUESTS
from suite.session.launches.launch import LaunchError

#: How long a host may take to be given to this run, in seconds: others may use its CPUs or GPUs.
RESERVE_S = 60.0

#: How long Ray may take to answer, when it does not say that the actor has died.
ANSWER_S = 30.0

#: How long a cluster's address may take to answer, in seconds.
CONNECT_S = 10.0

#: Letters of a node's id that make a host's name; Ray makes these ids at random.
NAME_LETTERS = 8

#: The end of the path of an allocator that Ray preloads into its own processes; the measured one must not have it.
RAYS_ALLOCATOR = "ray/core/libjemalloc.so"

#: What stands before the address of a client server.
CLIENT = "ray://"

INSTALL = "--on ray needs Ray: pip install 'framework-training-suite[ray]', in the same version as the cluster's"


class Relay:
    """The actor on a host: starts the host's process with that host's own environment, and passes lines on."""

    def __init__(self) -> None:
        self.pipe = Pipe(environment=_environment())

    def send(self, line: str) -> None:
        self.pipe.send(line)

    def receive(self, within_s: float) -> Sequence[str] | None:
        """The lines that came, waiting for the first; None once the process has ended."""
        try:
            return self.pipe.receive(within_s)
        except HostLostError:
            return None


def _environment() -> dict[str, str]:
    """The variables with which this node was started, and the GPUs that Ray gave to this actor.

    Those of the actor itself are not the user's: Ray sets, for example, ``OMP_NUM_THREADS``.
    """
    own = dict(os.environ)
    given = own.get("CUDA_VISIBLE_DEVICES")
    with contextlib.suppress(KeyError, ValueError, psutil.Error):
        own = psutil.Process(int(own["RAY_RAYLET_PID"])).environ()
    environment = {name: value for name, value in own.items() if not name.startswith("RAY_")}
    if environment.get("LD_PRELOAD", "").endswith(RAYS_ALLOCATOR):
        del environment["LD_PRELOAD"]
    if given is not None:
        environment["CUDA_VISIBLE_DEVICES"] = given
    return environment


@dataclass
class ActorWire:
    ray: Any
    actor: Any
    group: Any
    name: str

    def send(self, line: str) -> None:
        self._answer(self.actor.send.remote(line), ANSWER_S)

    def receive(self, within_s: float) -> Sequence[str]:
        lines = self._answer(self.actor.receive.remote(within_s), within_s + ANSWER_S)
        if lines is None:
            raise HostLostError(f"the process on host {self.name} has ended")
        return list(lines)

    def close(self) -> None:
        with contextlib.suppress(Exception):  # it is gone already, or Ray is
            self.ray.kill(self.actor)
        with contextlib.suppress(Exception):
            self.ray.util.remove_placement_group(self.group)

    def _answer(self, reference: Any, within_s: float) -> Any:
        try:
            return self.ray.get(reference, timeout=within_s)
        except (self.ray.exceptions.RayError, ConnectionError) as error:
            reason = str(error).strip().splitlines() or [type(error).__name__]
            raise HostLostError(f"host {self.name} is lost: {reason[0]}") from None


@dataclass
class Cluster:
    """A Ray cluster; what is taken of it is given back when ``until`` closes."""

    address: str
    settings: dict[str, Any]
    say: Callable[[str], None]
    until: ExitStack

    def __post_init__(self) -> None:
        self.ray = _ray()
        with _handlers_kept():
            try:
                _answers(self.address)
                self.ray.init(address=self.address, log_to_driver=False, logging_level="ERROR", namespace="suite")
            except Exception as error:  # of many kinds: no cluster, another version of Ray or Python, no server
                reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
                raise LaunchError(
                    f"no Ray cluster at {self.address}: {reason}; start one with `ray start --head`, or name its "
                    "client server: --on ray://HOST:10001"
                ) from None
        self.until.callback(self.ray.shutdown)

    def nodes(self) -> dict[str, dict[str, Any]]:
        living = {node["NodeID"]: node for node in self.ray.nodes() if node["Alive"]}
        return {name: node for name, node in sorted(living.items()) if node["Resources"].get("CPU", 0) >= 1}

    def host(self, node: dict[str, Any]) -> Remote:
        name = node["NodeID"][:NAME_LETTERS]
        resources = {kind: node["Resources"][kind] for kind in ("CPU", "GPU") if node["Resources"].get(kind)}
        group = self.ray.util.placement_group(
            [resources], strategy="STRICT_PACK", bundle_label_selector=[{"ray.io/node-id": node["NodeID"]}]
        )
        if not group.wait(RESERVE_S):
            self.ray.util.remove_placement_group(group)
            raise LaunchError(f"host {name} was not free within {RESERVE_S:g} s: something else uses its CPUs or GPUs")
        strategy = self.ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy(group)
        actor = (
            self.ray.remote(Relay)
            .options(
                num_cpus=resources["CPU"], num_gpus=resources.get("GPU", 0), max_concurrency=4, max_restarts=0,
                scheduling_strategy=strategy,
            )
            .remote()
        )  # fmt: skip
        wire = ActorWire(self.ray, actor, group, name)
        self.until.callback(wire.close)
        return Remote(name, str(node["NodeManagerAddress"]), wire, self.say, self.settings).begin()


def _ray() -> Any:
    try:
        import ray
        import ray.util.scheduling_strategies
    except ImportError:
        raise LaunchError(INSTALL) from None
    return ray


def _answers(address: str) -> None:
    """Raise OSError at once if nobody listens at ``HOST:PORT``, for which Ray would wait minutes."""
    host, _, port = address.rpartition("/")[2].rpartition(":")
    if port.isdecimal():
        socket.create_connection((host, int(port)), timeout=CONNECT_S).close()


@contextlib.contextmanager
def _handlers_kept() -> Iterator[None]:
    main = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in REQUESTS} if main else {}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _open(on: str, settings: dict[str, Any], say: Callable[[str], None], until: ExitStack) -> Cluster:
    address = on if on.startswith(CLIENT) else os.environ.get("RAY_ADDRESS") or "auto"
    return Cluster(address, settings, say, until)


ENGINE = Engine(
    "ray",
    "on every host of the Ray cluster that this host belongs to",
    ("ray://HOST:PORT", "of the one that this client server reaches"),
    lambda: "" if find_spec("ray") else "no module named ray",
    _open,
)
