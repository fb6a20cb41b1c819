"""The process that an engine starts on a host: it takes orders on stdin, launches, and answers on stdout.

Every line in both directions is a JSON object. `begin` says what is measured and is answered by `about`; `prepare` gets
the data of a workload ready; `order` launches; `stop` ends the running launch; `port` asks for a free port. The process
ends with its parent or its stdin, and its launches end with it.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import queue
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO, Any

from suite.plan.schema import decode
from suite.record.job import HostRanks, Job
from suite.session.hosts.remote import StoppedError
from suite.session.launches import ranks
from suite.session.launches.launch import LaunchError, scratch_folder
from suite.session.launches.machine import LaunchCallbacks, Machine, code_digest
from workloads import registry
from workloads.data.cache import open_cached
from workloads.data.dataset import DataError
from workloads.registry import RegistryError

#: How often a host shows that it lives, in seconds.
ALIVE_EVERY_S = 2.0

#: Bytes of the files of a profile that are sent back.
FILES_MOST = 1 << 26


class Agent:
    """The far end of an engine: one launch at a time on this host. ``write`` sends one message."""

    def __init__(self, write: Callable[[dict[str, Any]], None], until: ExitStack) -> None:
        self.write, self.until = write, until
        self.stopped = threading.Event()
        self.machine: Machine | None = None

    def answer(self, message: dict[str, Any]) -> None:
        """Do what a message asks and send the answer, which may be an error."""
        try:
            for name, argument in message.items():
                getattr(self, f"_{name}")(argument)
        except DataError as error:
            self.write({"failed": "data", "reason": str(error)})
        except (LaunchError, RegistryError) as error:
            self.write({"failed": "launch", "reason": str(error)})
        except StoppedError:
            self.write({"stopped": True})

    def _begin(self, given: dict[str, Any]) -> None:
        def say(text: str) -> None:
            self.write({"say": text})

        machine = self.machine = Machine(given["device"], given["source"], given["directory"], say, self.until)
        machine.about = replace(machine.about, name=given["name"], suite=code_digest(), address=_address())
        if (nice := own_niceness()) > 0:
            say(f"launches run with niceness {nice}, behind whatever else runs there: start the cluster without it")
        self.write({"about": asdict(machine.about)})

    def _prepare(self, given: dict[str, str]) -> None:
        assert self.machine
        if given["folder"]:
            registry.register(given["folder"])
        self.write({"prepared": open_cached(self.machine.folder(given["workload"])).digest})

    def _port(self, _: Any) -> None:
        self.write({"port": ranks.free_port()})

    def _order(self, given: dict[str, Any]) -> None:
        assert self.machine
        job, part = decode(Job, given["job"]), given["part"] and decode(HostRanks, given["part"])

        def tick() -> None:
            if self.stopped.is_set():
                raise StoppedError

        def progress(message: dict[str, Any]) -> None:
            self.write({"progress": message})
            tick()

        with scratch_folder() as folder:
            place = Path(folder)
            job = replace(job, checkpoint=str(place / "launch.checkpoint") if job.checkpoint else "")
            job = replace(job, traces=str(place / "launch") if job.traces else "")
            told = LaunchCallbacks(progress, tick)
            record = self.machine.launch(job, place / "launch.log", float(given["deadline_s"]), told, part)
            self.write({"record": record.to_json(), "files": _files(place)})


def _address() -> str:
    """Where other hosts reach this one. Raises `LaunchError`."""
    try:
        return ranks.own_address()
    except ValueError as error:
        raise LaunchError(str(error)) from None
    except OSError:  # the engine knows its address, or its name leads nowhere
        return ""


def own_niceness() -> int:
    """The niceness of this process, after an attempt to take back what an engine gave it."""
    with contextlib.suppress(OSError):  # only a privileged process may
        os.setpriority(os.PRIO_PROCESS, 0, min(0, os.getpriority(os.PRIO_PROCESS, 0)))
    return os.getpriority(os.PRIO_PROCESS, 0)


def _files(folder: Path) -> dict[str, str]:
    files, room = {}, FILES_MOST
    names = sorted(folder.glob("launch.*"), key=lambda path: path.suffix != ".log")
    for path in names:
        if path.is_file() and ".checkpoint" not in path.name and (room := room - path.stat().st_size) >= 0:
            files[path.name.removeprefix("launch")] = base64.b64encode(path.read_bytes()).decode()
    return files


def main() -> int:
    # What libraries print must not get among the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    lock = threading.Lock()

    def write(message: dict[str, Any]) -> None:
        try:
            with lock:
                answers.write(json.dumps(message) + "\n")
                answers.flush()
        except OSError:  # nobody listens any more
            os._exit(1)

    orders: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
    with ExitStack() as until:
        agent = Agent(write, until)
        threading.Thread(target=_read, args=(sys.stdin, agent, orders), name="orders", daemon=True).start()
        threading.Thread(target=_live, args=(write,), name="alive", daemon=True).start()
        while (message := orders.get()) is not None:
            agent.answer(message)
    return 0


def _read(lines: IO[str], agent: Agent, orders: queue.SimpleQueue[dict[str, Any] | None]) -> None:
    for line in lines:
        message = json.loads(line)
        if "stop" in message:
            agent.stopped.set()
        else:
            if "order" in message:  # here, since a stop may follow at once
                agent.stopped.clear()
            orders.put(message)
    agent.stopped.set()
    orders.put(None)


def _live(write: Callable[[dict[str, Any]], None]) -> None:
    waiting = threading.Event()
    while not waiting.wait(ALIVE_EVERY_S):
        write({"alive": True})


if __name__ == "__main__":
    sys.exit(main())
