"""The checks of the doctor. Each yields findings, which say how to fix what is wrong. Imports no framework."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from framework_training_suite import typed
from suite.catalog.defects import UNSOUND, find_defects
from suite.doctor.probes import FAILED, NO_ANSWER
from suite.monitor.background import measure
from suite.monitor.gpu import Driver, Gpu, NvmlError, open_nvml
from suite.monitor.host import share_stolen
from suite.monitor.links import links, losses
from suite.record.disturbance import TAKEN_MOST
from suite.record.parts.environment import SHARED_MEMORY, core_limit, machine, shared_memory
from suite.session.engines import engines
from workloads.data.cache import folder_of
from workloads.data.prepare import NAMES, cache_directory, data_directory

OK, NOTE, WARNING, BAD = "ok", "note", "warning", "bad"
MARKS = {OK: "   ", NOTE: " . ", WARNING: " ! ", BAD: "!! "}

#: Disk space for both data sets: the archives and what is parsed from them.
ROOM_BYTES = 2 * 10**9
#: Free shared memory for batches: of eight processes with four batches of 16 MB each.
SHARED_LEAST = 2**29
#: A host that took more than this share of a virtual machine's time since it started is named.
STOLEN_MOST = 0.05


@dataclass(frozen=True)
class Finding:
    """The result of a check. ``status`` is `ok`, `note`, `warning` or `bad`; ``mend`` says how to fix it."""

    area: str
    status: str
    text: str
    mend: str = ""

    def __str__(self) -> str:
        return f"{MARKS[self.status]}{self.area:12} {self.text}" + (f"\n{'':16}-> {self.mend}" if self.mend else "")


def frameworks(installed: Mapping[str, dict[str, Any]], driver: Driver | None) -> Iterator[Finding]:
    """Check that each framework is installed, sees the GPUs, and has a CUDA version that the driver supports.

    A framework that cannot be measured has ``lack`` and ``error`` instead (see `suite.doctor.probes`).
    """
    for name, installation in installed.items():
        if "lack" in installation:
            mend = installation.get("mend") or _mend(name, installation["lack"])
            yield Finding(name, WARNING, installation["error"], mend)
            continue
        cards = ", ".join(f"{card['name']} ({card['compute_capability']})" for card in installation["devices"]) or "CPU"
        other = installation.get("other")
        if other:
            cards = "CPU"
        precisions = " ".join(precision for precision, lack in installation["precisions"].items() if not lack)
        versions = f", CUDA {installation['cuda']}" if installation["cuda"] else ""
        versions += f", cuDNN {installation['cudnn']}" if installation["cudnn"] else ""
        versions += f", in {place}" if (place := installation.get("environment")) else ""
        yield Finding(name, OK, f"{installation['version']}{versions}; on {cards}; {precisions}")
        if not installation.get("bytecode", True):
            text = "has no bytecode, so that each launch compiles what it imports, which takes seconds"
            mend = "unset PYTHONDONTWRITEBYTECODE, or compile its packages (`python -m compileall`)"
            yield Finding(name, NOTE, text, mend)
        yield from _known_defects(name, installation)
        if other:
            text = f"finds {other}, which the suite does not support yet"
            yield Finding(name, WARNING, text, "--device cpu measures the CPU")
        else:
            yield from _driver_runs(name, installation, driver)
    reasons = {installation.get("lack") for installation in installed.values()}
    if NO_ANSWER in reasons and None not in reasons:
        mend = next(installation["mend"] for installation in installed.values() if installation["lack"] == NO_ANSWER)
        yield Finding("frameworks", BAD, "none was found, and not all answered in time", mend)
    elif None not in reasons:
        mend = f"`{typed('tox run -m bench')}` builds an environment for each"
        yield Finding("frameworks", BAD, "none is installed, so there is nothing to measure", mend)


def _known_defects(name: str, installation: Mapping[str, Any]) -> Iterator[Finding]:
    devices = ("cuda",) if installation["devices"] and not installation.get("other") else ("cpu",)
    for defect in find_defects(name, installation["version"], devices):
        status = WARNING if defect.kind in UNSOUND else NOTE
        text = f"{installation['version']} {defect}"
        yield Finding(name, status, text, f"pip install -e '.[{name}-{devices[0]}]' has the release that is pinned")


def _mend(name: str, lack: str) -> str:
    reinstall = "--force-reinstall " if lack == FAILED else ""
    command = typed(f"pip install {reinstall}-e '.[{name}-cpu]' (or -cuda)")
    return f"{command}, or name its interpreter in SUITE_PYTHON_{name.upper()}"


def _driver_runs(name: str, installation: dict[str, Any], driver: Driver | None) -> Iterator[Finding]:
    if driver is None:
        return
    if not installation["cuda"]:
        mend = typed(f"pip install -e '.[{name}-cuda]'")
        yield Finding(name, BAD, "was built without CUDA, and there is a GPU", mend)
    elif int(str(installation["cuda"]).split(".", 1)[0]) > int(driver.cuda.split(".", 1)[0]):
        text = f"was built for CUDA {installation['cuda']}; driver {driver.version} runs up to CUDA {driver.cuda}"
        yield Finding(name, BAD, text, "update the driver, or install a build for an older CUDA")
    elif not installation["devices"]:
        text = "sees no GPU, though the driver shows one"
        mend = "check CUDA_VISIBLE_DEVICES; use one environment per framework, since they overwrite each other's cuDNN"
        yield Finding(name, BAD, text, mend)
    elif not installation["cudnn"]:
        text = f"cuDNN for CUDA {installation['cuda']} was not found; convolutions and LSTMs need it"
        mend = f"{typed('pip install')} --force-reinstall -e '.[{name}-cuda]', in an environment of its own"
        yield Finding(name, WARNING, text, mend)


def gpus() -> tuple[Driver | None, list[Finding], list[dict[str, Any]]]:
    """Returns the driver (None without a GPU), the findings for each device, and the devices' descriptions."""
    try:
        with open_nvml() as (driver, cards):
            findings = [Finding("GPU", OK, f"driver {driver.version}, CUDA up to {driver.cuda}")]
            if not cards:
                visible = os.environ.get("CUDA_VISIBLE_DEVICES")
                text = f"CUDA_VISIBLE_DEVICES={visible!r} shows no whole device (a MIG slice has no readings here)"
                findings.append(Finding("GPU", WARNING, text, "unset it, or name a GPU by its number or UUID"))
            findings += [finding for gpu in cards for finding in card(gpu)]
            findings += placement(cards)
            return (driver if cards else None), findings, [gpu.describe() for gpu in cards]
    except NvmlError as error:
        mend = "only a CPU can be measured here; its figures say nothing about a GPU"
        return None, [Finding("GPU", NOTE, f"none: {error}", mend)], []


def card(gpu: Gpu) -> Iterator[Finding]:
    """Check what affects measurements on one GPU."""
    description = gpu.describe()
    size = f"{description['memory_bytes'] / 2**30:.0f} GiB" if description["memory_bytes"] else "memory unknown"
    absent = gpu.absent | ({} if gpu.read() else {"readings": "the driver returned none"})
    yield Finding("GPU", OK, f"{gpu.name}, {size}, compute capability {description['compute_capability'] or 'unknown'}")
    modes = [f"persistence mode {_switch(description['persistence_mode'])}", f"MIG {_switch(description['mig'])}"]
    yield Finding("GPU", OK, ", ".join([*modes, f"GPM {'answers' if description['gpm'] else 'absent'}"]))
    if description["mig"]:
        mend = "measure on a whole GPU, or treat the figures as those of a slice"
        yield Finding("GPU", WARNING, "MIG is on: a slice shares clocks and power with its neighbours", mend)
    if description["persistence_mode"] is False:
        yield Finding("GPU", NOTE, "persistence mode is off: the first launch waits for the driver", "nvidia-smi -pm 1")
    try:
        processes = gpu.processes()
    except Exception as error:  # the driver does not document which
        processes = []
        absent["processes"] = str(error)
    if processes:
        text = "1 other process uses it" if len(processes) == 1 else f"{len(processes)} other processes use it"
        yield Finding("GPU", WARNING, text, "end them, or choose another GPU in CUDA_VISIBLE_DEVICES")
    for name, reason in absent.items():
        yield Finding("GPU", NOTE, f"no {name}: {reason}")


def placement(cards: Sequence[Gpu]) -> Iterator[Finding]:
    """Check how the GPUs are linked with their host and with each other, and what of it costs bandwidth."""
    for line in links(cards):
        yield Finding("links", OK, line)
    for loss in losses(cards):
        yield Finding("links", WARNING if loss.certain else NOTE, loss.words, loss.mend)


def host() -> Iterator[Finding]:
    """Check processor, background load, frequency scaling, and the limits of a container."""
    hardware = machine()
    memory = f"{hardware['memory_bytes'] / 2**30:.0f} GiB"
    yield Finding("machine", OK, f"{hardware['cpu']}, {hardware['cores']} cores, {memory}")
    load = measure()
    if load.busy:
        mend = f"{load.mend}; above {100 * TAKEN_MOST:.0f} % of the cores, launches are flagged disturbed"
        yield Finding("machine", WARNING, str(load), mend)
    if (stolen := share_stolen()) > STOLEN_MOST:
        text = f"its host gave others {100 * stolen:.0f} % of the CPU time that it needed since it started (steal)"
        yield Finding("machine", WARNING, text, "measure at another time, or on a machine with cores of its own")
    governor = _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    if governor == "performance":
        yield Finding("machine", OK, "the CPU governor is performance")
    elif governor:
        mend = "cpupower frequency-set -g performance"
        yield Finding("machine", WARNING, f"the CPU governor is {governor}: clock speed changes with the load", mend)
    cores = core_limit()
    if cores is not None:
        status = WARNING if cores < hardware["cores"] else NOTE
        mend = "limit threads to that, for example with OMP_NUM_THREADS"
        yield Finding("machine", status, f"a control group limits it to {cores:g} cores", mend)
    limit = _read("/sys/fs/cgroup/memory.max")
    if limit.isdecimal() and int(limit) < hardware["memory_bytes"]:
        yield Finding("machine", NOTE, f"a control group limits memory to {int(limit) / 2**30:.1f} GiB")
    if "read_limit" in hardware:
        yield Finding("machine", NOTE, f"a control group limits reading to {hardware['read_limit'] / 1e6:.1f} MB/s")
    room = shared_memory()  # by which a loader's processes hand over batches; containers have 64 MB as they are
    if room is None or room[1] < SHARED_LEAST:
        left = f"has {room[1] / 1e6:.0f} of {room[0] / 1e6:.0f} MB left" if room else "is missing"
        text = f"{SHARED_MEMORY} {left}: a loader with processes may find no room there for its batches"
        yield Finding("machine", WARNING, text, "docker run --shm-size=1g, or in Kubernetes an emptyDir in memory")


def launching() -> Iterator[Finding]:
    """List where launches can start from here, and why not on the other engines."""
    lacks = {engine.name: engine.lack() for engine in engines()}
    yield Finding("engines", OK, ", ".join(f"{name} ({lack})" if lack else name for name, lack in lacks.items()))


def data(directory: str | None) -> Iterator[Finding]:
    """Check whether each data set is cached, and whether there is disk space for those that are not."""
    cache = cache_directory(None)
    given = data_directory(directory)  # also where all is cached, since it may be none
    missing = [name for name in NAMES if not folder_of(cache, name, "real").exists()]
    for name in NAMES:
        if name not in missing:
            yield Finding("data", OK, f"{name} is cached")
        elif given:
            text = f"{name} is not cached yet; it will be read from the data directory if it is there"
            yield Finding("data", OK, text)
        else:
            mend = typed("training-suite data fetch")
            yield Finding("data", NOTE, f"{name} is not cached: it will be downloaded", mend)
    existing = next(folder for folder in (cache, *cache.parents) if folder.exists())
    free = shutil.disk_usage(existing).free
    if missing and not os.access(existing, os.W_OK):
        yield Finding("data", BAD, "the cache directory cannot be written to", "set SUITE_CACHE_DIR to another one")
    elif missing and free < ROOM_BYTES:
        mend = f"free {ROOM_BYTES / 1e9:g} GB, or set SUITE_CACHE_DIR"
        yield Finding("data", BAD, f"only {free / 1e9:.1f} GB are free for the cache", mend)
    else:
        yield Finding("data", OK, f"{free / 1e9:.0f} GB are free for the cache")


def _switch(value: bool | None) -> str:
    return "unknown" if value is None else "on" if value else "off"


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
