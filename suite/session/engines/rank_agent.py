"""Starts one rank on the host that it runs on, and passes on what the rank says: the far end of `gathered`.

Something else starts the agent on its host: ``srun``, or a pod of Kubernetes. It connects to the controller, shows that
it knows the token, says what its host has, gets the job, starts the worker as the local launcher does, and ends it when
the controller closes the connection or is gone. With ``--stay`` it then waits for the next launch of the run.

    python -m suite.session.engines.rank_agent [--stay]

``SUITE_CONTROLLER`` is ``host:port`` of the controller; without the host, it is the one that called ``srun``.
``SUITE_TOKEN`` is the secret of the run. The rank is that of `suite.record.clusters`.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection
from pathlib import Path
from typing import Any, TextIO

import psutil

from suite.plan.device import has_gpu
from suite.record.clusters import rank_variables
from suite.record.environment import own_cores, usable_cores
from suite.record.job import Job
from suite.record.rank_variables import INTERFACE, RANK, TOKEN
from suite.session import logs
from suite.session.launch import LaunchError, interpreter, scratch_folder, started
from suite.session.ranks import is_stopped, visible_devices
from workloads.data.own import OWN, prepare_own
from workloads.data.prepare import prepare
from workloads.registry import register
from workloads.spec import specification

CONTROLLER = "SUITE_CONTROLLER"

#: What a message is, by its first byte: what the worker said, what it printed, that it was spawned, that somebody
#: stopped or continued it, and how it ended. The first and the second are bytes as they come, the others JSON.
SAID, PRINTED, SPAWNED, STOPPED, ENDED = b"s", b"p", b"w", b"t", b"e"

#: How long the controller may take to answer, how often an agent tries again, and how often it looks at its worker.
CONNECT_WITHIN_S, AGAIN_S, LOOK_S = 120.0, 0.5, 0.5
CHUNK = 1 << 16


class NoControllerError(RuntimeError):
    """The controller cannot be reached, or does not know the token."""


def main(arguments: list[str]) -> int:
    """Serve one launch, or with ``--stay`` all launches of a run."""
    served = 0
    try:
        while True:
            connection = connected(os.environ)
            more = serve(connection)
            served += more
            if not more or "--stay" not in arguments:
                return 0
    except NoControllerError as error:
        sys.stderr.write(f"{error}\n")
        return 0 if served else 1  # the run has ended


def serve(connection: Connection) -> bool:
    """Run a rank for the controller at the other end; False if there is nothing more to do."""
    with connection:
        try:
            connection.send_bytes(json.dumps(about(connection)).encode())
            message = json.loads(connection.recv_bytes())
        except (EOFError, OSError):
            return False
        if "job" not in message:
            return False
        with contextlib.suppress(EOFError, OSError):  # the controller is gone, and the worker has ended with it
            try:
                _run(connection, Job.loads(message["job"]), message["variables"], message["data"])
            except Exception as error:
                connection.send_bytes(ENDED + json.dumps({"code": 1, "reason": f"{error}"}).encode())
        return True


def connected(variables: Mapping[str, str]) -> Connection:
    """A connection to the controller, which shares the token. Raises `NoControllerError`."""
    host, _, port = variables.get(CONTROLLER, "").rpartition(":")
    host = host or variables.get("SLURM_LAUNCH_NODE_IPADDR", "")
    if RANK not in rank_variables(variables):
        raise NoControllerError(f"nothing says which rank this is: start it by srun, in an indexed job, or set {RANK}")
    if not (host and port.isdecimal() and variables.get(TOKEN)):
        raise NoControllerError(f"{CONTROLLER} must be host:port of the controller, and {TOKEN} the run's secret")
    deadline = time.monotonic() + CONNECT_WITHIN_S
    while True:
        try:
            connection: Connection = Client((host, int(port)), authkey=variables[TOKEN].encode())
        except AuthenticationError:
            raise NoControllerError(f"the controller at {host}:{port} has another {TOKEN}") from None
        except (OSError, EOFError) as error:
            if time.monotonic() > deadline:
                raise NoControllerError(f"no controller at {host}:{port}: {error}") from None
            time.sleep(AGAIN_S)
        else:
            return connection


def about(connection: Connection) -> dict[str, Any]:
    """What this host is and has, and how the others reach it."""
    with socket.socket(fileno=os.dup(connection.fileno())) as same:
        address = same.getsockname()[0]
        keep_alive(same)
    interface = os.environ.get(INTERFACE, "")
    address = address_of(interface) if interface else address
    with socket.socket() as probe:
        probe.bind(("", 0))
        port = probe.getsockname()[1]
    return {
        "rank": int(rank_variables()[RANK]),
        "host": socket.gethostname(),
        "address": address,
        "interface": interface or interface_of(address),
        "port": port,
        "cores": own_cores(),
        "usable_cores": usable_cores(),
        "gpu": has_gpu(),
        "devices": visible_devices(),
    }


def address_of(interface: str) -> str:
    """The IPv4 address of a network interface of this host. Raises `NoControllerError`, which names those there are."""
    found = _addresses()
    if interface not in found:
        raise NoControllerError(f"{INTERFACE} is {interface!r}; this host has {', '.join(sorted(found))}")
    return found[interface]


def interface_of(address: str) -> str:
    """The network interface that has this address; empty if none has it."""
    return next((name for name, theirs in _addresses().items() if theirs == address), "")


def _addresses() -> dict[str, str]:
    every = psutil.net_if_addrs().items()
    return {name: each.address for name, addresses in every for each in addresses if each.family == socket.AF_INET}


def keep_alive(connection: socket.socket) -> None:
    """Let the kernel notice within about ten seconds that the other host is gone."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _data(job: Job, kind: str) -> str:
    """The folder of the job's data on this host: fetched, verified and cached unless it is there."""
    if job.workload_folder:
        register(job.workload_folder)
    workload = job.cell.workload
    name = specification(workload).data
    # The first process of a host prepares it, the others wait for its lock.
    return str(prepare_own(workload, kind, None, _say) if name == OWN else prepare(name, kind, say=_say))


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def _run(connection: Connection, job: Job, variables: dict[str, str], kind: str) -> None:
    """Start the worker, pass on what it says and prints, and how it ended; returns when it has, or raises EOFError."""
    job = replace(job, data=_data(job, kind))
    with scratch_folder() as scratch:
        job = replace(job, programs=scratch)
        log = Path(scratch, "log")
        read_end, write_end = os.pipe()
        with contextlib.ExitStack() as opened:
            opened.callback(os.close, read_end)
            try:
                job = replace(job, spawned_ns=time.perf_counter_ns())
                command = [interpreter(job.cell.framework), "-m", "suite.worker.process", str(write_end), job.dumps()]
                process = opened.enter_context(started(command, job, scratch, log, (write_end,), own=variables))
            finally:
                os.close(write_end)
            spawned = {"pid": process.pid, "spawned_ns": job.spawned_ns}
            connection.send_bytes(SPAWNED + json.dumps(spawned).encode())
            with log.open(encoding="utf-8", errors="replace") as printed:
                code = _Passing(connection, process, read_end, printed).on()
            connection.send_bytes(ENDED + json.dumps({"code": code}).encode())
            with contextlib.suppress(EOFError, OSError):
                connection.recv_bytes()  # the controller closes, once it has heard all ranks


@dataclass
class _Passing:
    """Passes on what a worker says and prints, in the order in which it comes."""

    connection: Connection
    process: subprocess.Popen[bytes]
    pipe: int
    printed: TextIO
    is_stopped: bool = False

    def on(self) -> int:
        """Returns the worker's exit status, once all it said is passed on. Raises EOFError if the controller leaves."""
        with _watched(self.process) as ended:
            sources = [self.pipe, ended, self.connection.fileno()]
            while True:
                ready, _, _ = select.select(sources, [], [], LOOK_S)
                if self.connection.fileno() in ready:
                    self.connection.recv_bytes()  # nothing comes but the end
                    raise EOFError
                if self.pipe in ready:
                    if said := os.read(self.pipe, CHUNK):
                        self.connection.send_bytes(SAID + said)
                    else:
                        sources.remove(self.pipe)
                elif ended in ready:
                    self._rest()
                    return self.process.wait()
                self._rest()
                self._state()

    def _rest(self) -> None:
        """What was printed since the last time."""
        while text := self.printed.read(CHUNK // 4):
            self.connection.send_bytes(PRINTED + text.encode())
        if self.printed.tell() > logs.MOST_BYTES:  # all of it is with the controller, which bounds its own
            os.truncate(self.printed.fileno(), 0)
            self.printed.seek(0)

    def _state(self) -> None:
        if (now := is_stopped(self.process.pid)) != self.is_stopped:
            self.is_stopped = now
            self.connection.send_bytes(STOPPED + json.dumps(now).encode())


@contextlib.contextmanager
def _watched(process: subprocess.Popen[bytes]) -> Iterator[int]:
    """A descriptor that is ready when the process has ended."""
    descriptor = os.pidfd_open(process.pid)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except LaunchError as error:
        sys.exit(str(error))
