"""Serves Prometheus metrics while a run goes on, in the controller: ``training-suite run --metrics-port 9464``.

The values are what the controller has anyway (progress messages, the monitor's samples, the journal). They are put
together when somebody asks, so that nothing happens between two scrapes.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from suite import __version__
from suite.export.contents import CELL, LIVE, settings
from suite.export.target import HOST, ExportError, target
from suite.plan.cell import Cell
from suite.record.record import ALL_PHASES, STATUSES, Outcome, Record
from suite.record.text import clean

#: How many connections are open at a time; the oldest gives way, so that slow clients keep no scrape out.
CONNECTIONS_MOST = 16
#: How long one connection may last, from its first byte to its last; how long to wait where none can be accepted, as
#: where the process has no file left.
LASTS_S, AGAIN_S = 5.0, 0.2

#: Seconds after which a sample is no longer the present: none is served between two workers.
RECENT_S = 5.0

#: What a worker may say that it does; anything else is `other`, so that labels stay few.
PHASES = (
    "starting", "loading", "evidence", "first step", "precision", "peak", *ALL_PHASES, "ranks", "epoch", "profile",
)  # fmt: skip

#: Of the GPU's readings, the metric and its unit in terms of the reading's.
READINGS = {
    "gpu_utilisation_percent": ("gpu_utilization_ratio", 0.01),
    "power_w": ("gpu_power_watts", 1.0),
    "memory_used_bytes": ("gpu_memory_used_bytes", 1.0),
    "temperature_c": ("gpu_temperature_celsius", 1.0),
    "sm_clock_mhz": ("gpu_sm_clock_hertz", 1e6),
}


@dataclass(eq=False)
class Live:
    """An observer of a run that serves what it sees over HTTP, in a thread of its own."""

    port: int
    host: str = HOST
    run: Mapping[str, Any] = field(default_factory=dict)
    planned: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    last: dict[tuple[str, ...], float] = field(default_factory=dict)  # throughput of each cell's last launch
    left_s: float | None = None
    cell: Cell | None = None
    launch: int = 0
    begin_s: float = 0.0
    phase: str = ""
    rates: dict[str, float] = field(default_factory=dict)
    monitor: Any = None  # a `suite.monitor.sampler.Monitor`
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _server: Any = None

    def open(self) -> int:
        """Serve from now on, and return the port. Raises `ExportError` if the library or the port is not to be had."""
        target("prometheus")
        client = import_module("prometheus_client")
        registry = client.CollectorRegistry()
        registry.register(self)
        try:
            self._server = Server(self.host, self.port, client.make_wsgi_app(registry))
        except (OSError, OverflowError) as error:
            raise ExportError(
                f"--metrics-port {self.port}: cannot serve on {clean(self.host)}:{self.port}: {clean(error)}; "
                "choose another port"
            ) from None
        threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True).start()
        return int(self._server.server_port)

    def begin(self, journal: Path, run: Mapping[str, Any], planned: int, done: Sequence[Record]) -> None:
        """The run begins."""
        with self._lock:
            self.run, self.planned = run, planned
            for record in done:
                self._count(record)

    def start(self, cell: Cell, launch: int) -> None:
        """A launch begins; what was said of the one before is forgotten."""
        with self._lock:
            self.cell, self.launch, self.begin_s = cell, launch, time.monotonic()
            self.phase, self.rates, self.monitor = "starting", {}, None

    def watch(self, monitor: Any) -> None:
        """The launch has a monitor."""
        with self._lock:
            self.monitor = monitor

    def progress(self, message: Mapping[str, Any]) -> None:
        """The worker said what it does."""
        said = str(message["progress"])
        phase = next((phase for phase in PHASES if said.startswith(phase)), "other")
        with self._lock:
            self.phase = phase
            if (rate := message.get("samples_per_s")) is not None:
                self.rates[phase] = float(rate)

    def end(self, record: Record, left_s: float | None) -> None:
        """The launch has ended."""
        with self._lock:
            self._count(record)
            self.left_s, self.cell, self.monitor = left_s, None, None

    def close(self) -> list[str]:
        """Serve no more."""
        if self._server:
            self._server.shutdown()
            self._server.server_close()
            self._server = None
        return []

    def describe(self) -> list[Any]:
        """Nothing, so that registering reads no value."""
        return []

    def collect(self) -> Iterator[Any]:
        """All metrics that have a value now, for a scrape."""
        core = import_module("prometheus_client.core")
        with self._lock:
            values = list(self._values())
        families = {family.name: family.made(core) for family in LIVE}
        for name, labels, value in values:
            families[name].add_metric(labels, value)
        yield from (family for family in families.values() if family.samples)

    def _count(self, record: Record) -> None:
        self.outcomes[record.outcome.status] += 1
        if (rate := record.samples_per_s) is not None:
            self.last[_labels(record)] = rate

    def _values(self) -> Iterator[tuple[str, Sequence[str], float]]:
        run = [clean(self.run.get(name, ""), 120) for name in ("id", "matrix")]
        yield "run_info", [*run, __version__], 1.0
        yield "launches_planned", (), float(self.planned)
        for status in STATUSES:
            yield "launches", [status], float(self.outcomes[status])
        if self.left_s is not None:
            yield "time_left_seconds", (), self.left_s
        for labels, rate in self.last.items():
            yield "last_samples_per_second", labels, rate
        if self.cell is None:
            return
        labels = _labels(Record(self.cell, Outcome("ok"), self.launch))
        yield "cell_info", [*labels, str(self.launch)], 1.0
        yield "phase_info", [self.phase], 1.0
        yield "launch_elapsed_seconds", (), time.monotonic() - self.begin_s
        for phase, rate in self.rates.items():
            yield "samples_per_second", [phase], rate
        if self.monitor:
            yield from _readings(self.monitor)


def _labels(record: Record) -> tuple[str, ...]:
    held = settings(record)
    return (clean(record.cell.id, 200), *(str(held[name]) for name in CELL))


def _readings(monitor: Any) -> Iterator[tuple[str, Sequence[str], float]]:
    """The newest samples of the GPUs and of the host, if they are recent."""
    now_s = time.perf_counter()
    for number, gpu in enumerate(monitor.gpus):
        samples = monitor.samples.get(gpu.uuid, ())
        if samples and now_s - samples[-1].at_s < RECENT_S:
            for reading, (name, unit) in READINGS.items():
                if (value := samples[-1].values.get(reading)) is not None:
                    yield name, [str(number), clean(gpu.name, 120)], value * unit
    host = monitor.host[-2:]
    if not host or now_s - host[-1].at_s >= RECENT_S:
        return
    if (memory := host[-1].values.get("rss_bytes")) is not None:
        yield "host_memory_bytes", (), memory
    if len(host) == 2 and {"cpu_s"} <= host[0].values.keys() & host[1].values.keys():
        seconds = max(host[1].at_s - host[0].at_s, 1e-3)
        yield "host_cpu_cores", (), max(0.0, host[1].values["cpu_s"] - host[0].values["cpu_s"]) / seconds


class Server(ThreadingMixIn, WSGIServer):
    """Answers few connections, each in a thread of its own and for a few seconds, whatever its client does.

    It is in the controller, so that a client who opens many or never ends must not cost the run its files.
    """

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128  # clients beyond the five of `socketserver` try again after a second

    def __init__(self, host: str, port: int, application: Any) -> None:
        self._open: dict[Any, float] = {}  # until when each may last, the oldest first
        self._changing = threading.Lock()
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        self.address_family = family
        super().__init__((str(address[0]), int(address[1])), _Handler)
        self.set_app(application)

    def get_request(self) -> Any:
        """Accept a connection."""
        try:
            return super().get_request()
        except OSError:
            time.sleep(AGAIN_S)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a connection, which may take the place of the oldest."""
        with self._changing:
            for oldest in list(self._open)[: len(self._open) - CONNECTIONS_MOST + 1]:
                self._cut(oldest)
            self._open[request] = time.monotonic() + LASTS_S
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        with self._changing:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Cut the connections that have lasted too long; called at least twice a second."""
        with self._changing:
            for request in [each for each, until_s in self._open.items() if time.monotonic() > until_s]:
                self._cut(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that went away or was cut."""

    def _cut(self, request: Any) -> None:
        """Let the thread of a connection come to its end; it closes it."""
        del self._open[request]
        with contextlib.suppress(OSError):
            request.shutdown(socket.SHUT_RDWR)


class _Handler(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that the library gives
        """Say nothing."""
