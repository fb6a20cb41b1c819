"""What is looked at, each as findings with their mend. Imports no framework."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from suite.doctor.probes import FAILED, NO_ANSWER
from suite.monitor.gpu import Driver, Gpu, NvmlError, opened
from suite.record.environment import core_limit, machine
from workloads.data.cache import folder_of
from workloads.data.prepare import NAMES, cache_directory, data_directory

OK, NOTE, WARNING, BAD = "ok", "note", "warning", "bad"
MARKS = {OK: "   ", NOTE: " . ", WARNING: " ! ", BAD: "!! "}

#: Both data sets: archives, what is parsed of them, and room to write it.
ROOM_BYTES = 2 * 10**9
#: A neighbour that takes more than this share of the cores is seen in the figures.
LOAD_MOST = 0.25


@dataclass(frozen=True)
class Finding:
    """``status`` is `ok`, `note`, `warning` or `bad`; ``mend`` says what to do about it."""

    area: str
    status: str
    text: str
    mend: str = ""

    def __str__(self) -> str:
        return f"{MARKS[self.status]}{self.area:12} {self.text}" + (f"\n{'':16}-> {self.mend}" if self.mend else "")


def frameworks(installed: Mapping[str, dict[str, Any]], driver: Driver | None) -> Iterator[Finding]:
    """Is each there, does it see the GPUs that the driver shows, and does the driver run its CUDA.

    One that cannot be measured holds ``lack`` and ``error`` instead (see `suite.doctor.probes`).
    """
    for name, found in installed.items():
        if "lack" in found:
            yield Finding(name, WARNING, found["error"], found.get("mend") or _mend(name, found["lack"]))
            continue
        cards = ", ".join(f"{card['name']} ({card['compute_capability']})" for card in found["devices"]) or "CPU"
        here = " ".join(precision for precision, lack in found["precisions"].items() if not lack)
        built = f", CUDA {found['cuda']}" if found["cuda"] else ""
        built += f", cuDNN {found['cudnn']}" if found["cudnn"] else ""
        yield Finding(name, OK, f"{found['version']}{built}; on {cards}; {here}")
        yield from _driver_runs(name, found, driver)
    lacks = {found.get("lack") for found in installed.values()}
    if NO_ANSWER in lacks and None not in lacks:
        mend = next(found["mend"] for found in installed.values() if found["lack"] == NO_ANSWER)
        yield Finding("frameworks", BAD, "none is known to be there: not all answered in time", mend)
    elif None not in lacks:
        yield Finding(
            "frameworks", BAD, "there is none to be measured", "tox run -m bench builds an environment for each"
        )


def _mend(name: str, lack: str) -> str:
    again = "--force-reinstall " if lack == FAILED else ""
    extra = f"pip install {again}-e '.[{name}-cpu]' (or -cuda)"
    return f"{extra}, or name its interpreter in SUITE_PYTHON_{name.upper()}"


def _driver_runs(name: str, found: dict[str, Any], driver: Driver | None) -> Iterator[Finding]:
    if driver is None:
        return
    if not found["cuda"]:
        yield Finding(name, BAD, "was built without CUDA, and there is a GPU", f"pip install -e '.[{name}-cuda]'")
    elif int(str(found["cuda"]).split(".", 1)[0]) > int(driver.cuda.split(".", 1)[0]):
        text = f"was built for CUDA {found['cuda']}; driver {driver.version} runs up to CUDA {driver.cuda}"
        yield Finding(name, BAD, text, "update the driver, or install a build for an older CUDA")
    elif not found["devices"]:
        text = "sees no GPU, though the driver shows one"
        mend = "look at CUDA_VISIBLE_DEVICES, and whether another framework overwrote its cuDNN: one environment each"
        yield Finding(name, BAD, text, mend)
    elif not found["cudnn"]:
        text = f"no cuDNN for CUDA {found['cuda']} is found: without one there are no convolutions and no LSTM"
        yield Finding(
            name, WARNING, text, f"pip install --force-reinstall -e '.[{name}-cuda]', in an environment of its own"
        )


def gpus() -> tuple[Driver | None, list[Finding], list[dict[str, Any]]]:
    """The driver, where there is a GPU to drive; what is found of each device, and how it describes itself."""
    try:
        with opened() as (driver, cards):
            findings = [Finding("GPU", OK, f"driver {driver.version}, CUDA up to {driver.cuda}")]
            if not cards:
                chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
                text = f"CUDA_VISIBLE_DEVICES={chosen!r} shows no whole device (a MIG slice has no readings here)"
                findings.append(Finding("GPU", WARNING, text, "unset it, or name a GPU by its number or UUID"))
            findings += [finding for gpu in cards for finding in card(gpu)]
            return (driver if cards else None), findings, [gpu.describe() for gpu in cards]
    except NvmlError as error:
        return None, [Finding("GPU", NOTE, f"none: {error}", "CPU figures only; they say nothing about a GPU")], []


def card(gpu: Gpu) -> Iterator[Finding]:
    """What stands in the way of measuring on one GPU."""
    told = gpu.describe()
    size = f"{told['memory_bytes'] / 2**30:.0f} GiB" if told["memory_bytes"] else "memory unknown"
    absent = gpu.absent | ({} if gpu.read() else {"all": "no reading came back"})
    yield Finding("GPU", OK, f"{gpu.name}, {size}, compute capability {told['compute_capability'] or 'unknown'}")
    settled = [f"persistence mode {_switch(told['persistence_mode'])}", f"MIG {_switch(told['mig'])}"]
    yield Finding("GPU", OK, ", ".join([*settled, f"GPM {'answers' if told['gpm'] else 'absent'}"]))
    if told["mig"]:
        mend = "measure on a whole GPU, or read its figures as those of a slice"
        yield Finding("GPU", WARNING, "MIG is on: a slice shares clocks and power with its neighbours", mend)
    if told["persistence_mode"] is False:
        yield Finding("GPU", NOTE, "persistence mode is off: the first launch waits for the driver", "nvidia-smi -pm 1")
    try:
        others = gpu.processes()
    except Exception as error:  # in whatever words, the driver does not tell
        others = []
        absent["processes"] = str(error)
    if others:
        text = f"{len(others)} other process(es) compute on it"
        yield Finding("GPU", WARNING, text, "end them, or choose another GPU in CUDA_VISIBLE_DEVICES")
    for name, reason in absent.items():
        yield Finding("GPU", NOTE, f"no {name}: {reason}")


def host() -> Iterator[Finding]:
    """Processor, other load, frequency scaling, and the limits of a container."""
    here = machine()
    yield Finding("machine", OK, f"{here['cpu']}, {here['cores']} cores, {here['memory_bytes'] / 2**30:.0f} GiB")
    load = os.getloadavg()[0]
    if load > LOAD_MOST * here["cores"]:
        text = f"load {load:.1f} on {here['cores']} cores before anything is measured"
        yield Finding("machine", WARNING, text, "wait, or end what runs; launches under load are flagged contaminated")
    governor = _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    if governor == "performance":
        yield Finding("machine", OK, "the CPU governor is performance")
    elif governor:
        mend = "cpupower frequency-set -g performance"
        yield Finding("machine", WARNING, f"the CPU governor is {governor}: clocks follow the load", mend)
    cores = core_limit()
    if cores is not None:
        status = WARNING if cores < here["cores"] else NOTE
        yield Finding("machine", status, f"a control group limits it to {cores:g} cores", "size thread pools to that")
    limit = _read("/sys/fs/cgroup/memory.max")
    if limit.isdecimal() and int(limit) < here["memory_bytes"]:
        yield Finding("machine", NOTE, f"a control group limits memory to {int(limit) / 2**30:.1f} GiB")


def data(directory: str | None) -> Iterator[Finding]:
    """Each data set: cached, to be had from a folder, or to be downloaded; and room for it."""
    place = cache_directory(None)
    given = data_directory(directory)
    for name in NAMES:
        if folder_of(place, name, "real").exists():
            yield Finding("data", OK, f"{name} is cached")
        elif given:
            yield Finding("data", OK, f"{name} is not cached yet; the data directory is asked first")
        else:
            yield Finding(
                "data", NOTE, f"{name} is not cached: it will be downloaded", "python -m workloads.data fetch"
            )
    missing = [name for name in NAMES if not folder_of(place, name, "real").exists()]
    there = next(folder for folder in (place, *place.parents) if folder.exists())
    free = shutil.disk_usage(there).free
    if missing and not os.access(there, os.W_OK):
        yield Finding("data", BAD, "the cache directory cannot be written", "name another one in SUITE_CACHE_DIR")
    elif missing and free < ROOM_BYTES:
        yield Finding("data", BAD, f"{free / 1e9:.1f} GB are free for the cache", "make room: both data sets take 1 GB")
    else:
        yield Finding("data", OK, f"{free / 1e9:.0f} GB are free for the cache")


def _switch(value: bool | None) -> str:
    return "unknown" if value is None else "on" if value else "off"


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
