"""The environment of a measurement: processor, machine, system, library versions. Standard library only.

A record can be published as it is: no host name, user name, path or serial number, and of the environment variables
only those that change what is computed or how fast (`select_variables`).
"""

from __future__ import annotations

import getpass
import hashlib
import os
import platform
import re
import socket
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from suite.catalog.frameworks import FRAMEWORKS, READ_BY_ALL

CPUINFO = Path("/proc/cpuinfo")
#: Of the first core, as the others share its kind.
CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
XEN, VENDOR = Path("/sys/hypervisor/type"), Path("/sys/class/dmi/id/sys_vendor")

#: What each fact is called for x86 and for Arm (Linux: arch/x86/kernel/cpu/proc.c, arch/arm64/kernel/cpuinfo.c).
NAMES = {
    "vendor": ("vendor_id", "CPU implementer"),
    "family": ("cpu family", "CPU architecture"),
    "model": ("model", "CPU part"),
    "stepping": ("stepping", "CPU revision"),
}
#: Flags of x86 that programs compute with. Others come and go with the kernel, and the machine is the same.
COMPUTE = re.compile(
    r"mmx|pni|ssse3|sse\w*|avx\w*|amx_\w+|fma4?|f16c|xop|bmi[12]|abm|popcnt|adx|movbe|v?aes|v?pclmulqdq|gfni|sha_ni"
)
#: Families of vector instructions by the beginning of their flags, the widest first.
SIMD = {"amx": "amx_", "avx512": "avx512f", "avx2": "avx2", "avx": "avx", "sse4": "sse4_2", "sse2": "sse2",
        "sme": "sme", "sve": "sve", "neon": "asimd"}  # fmt: skip
UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}


@cache
def describe_processor() -> dict[str, Any]:
    """The model's name (``cpu``), and what else the system says of it.

    ``vendor``, ``family``, ``model`` and ``stepping`` are as the processor reports them; ``simd`` is its widest vector
    instructions, and ``instructions`` a digest of all that programs compute with. ``caches`` are sizes in bytes by
    level, ``threads_per_core`` the hardware threads of a core, and ``hypervisor`` who made the virtual machine, empty
    on a real one.
    """
    info = _read_first_core()
    described: dict[str, Any] = {"cpu": info.get("model name") or platform.processor() or platform.machine()}
    for name, keys in NAMES.items():
        if text := next((info[key] for key in keys if info.get(key)), ""):
            described[name] = int(text) if text.isdecimal() else text
    flags = (info.get("flags") or info.get("Features") or "").split()
    if flags:
        words = f" {' '.join(flags)}"
        described["simd"] = next((name for name, begin in SIMD.items() if f" {begin}" in words), "none")
        compute = [flag for flag in flags if "flags" not in info or COMPUTE.fullmatch(flag)]
        described["instructions"] = hashlib.sha256(" ".join(sorted(compute)).encode()).hexdigest()[:12]
    if caches := _caches():
        described["caches"] = caches
    siblings, cores = info.get("siblings", ""), info.get("cpu cores", "")
    if siblings.isdecimal() and cores.isdecimal() and int(cores):
        described["threads_per_core"] = int(siblings) // int(cores)
    if flags:
        virtual = "hypervisor" in flags or XEN.exists()
        described["hypervisor"] = (_read(XEN) or _read(VENDOR) or "unknown")[:40] if virtual else ""
    return described


def _read_first_core() -> dict[str, str]:
    info: dict[str, str] = {}
    try:
        with CPUINFO.open(errors="replace") as lines:
            for line in lines:
                name, _, value = line.partition(":")
                if not name.strip() and info:
                    break
                info[name.strip()] = value.strip()
    except OSError:
        return {}
    return info


def _caches() -> dict[str, int]:
    """Sizes in bytes: ``{"L1d": 32768, "L1i": 32768, "L2": 1048576, "L3": 33554432}``."""
    sizes = {}
    for folder in sorted(CACHES.glob("index*")):
        level, kind, size = (_read(folder / name) for name in ("level", "type", "size"))
        if level and re.fullmatch(r"\d+[KMG]?", size):
            letter = {"Data": "d", "Instruction": "i"}.get(kind, "")
            sizes[f"L{level}{letter}"] = int(size.rstrip("KMG")) * UNITS.get(size[-1], 1)
    return sizes


#: Beginnings of the environment variables that a record holds: all that a framework or its libraries read.
PREFIXES = tuple(dict.fromkeys((*READ_BY_ALL, *(prefix for each in FRAMEWORKS.values() for prefix in each.reads))))

#: Exceptions: variables that name a place or a device, or that are set for one launch alone. The network interface of
#: several devices is in the record's part `ranks`.
NOT_RECORDED = re.compile(
    r"TF_CONFIG|NCCL_SOCKET_IFNAME|CUDA_(VISIBLE_DEVICES|HOME|PATH|CACHE_PATH|VERSION.*)|NCCL_(VERSION|HOME).*"
    r"|NVIDIA_(VISIBLE_DEVICES|REQUIRE_.*)"
    r"|.*_(DIR|HOME|ROOT|PATH|FILE|IFNAME)"
)
#: Variables that may hold a secret or a host: the record says only that they are set.
PRIVATE = re.compile(r".*(TOKEN|SECRET|PASSWORD|CREDENTIAL|_KEY$|ADDR|HOST|URL)")

#: In the environment of a release: what it was built from (`suite.releases.environments`).
LOCK_FILE = "suite-lock.txt"

#: Memory that processes share, which a container has little of.
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - nothing is written there

#: Where Linux shows its control groups, and which of them this process is in.
GROUPS, OWN_GROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
#: What limits bytes read from a device in a second: a line of ``io.max``, or of version 1's file.
_READ_LIMIT = re.compile(r"^[\d:]+ (?:.*\brbps=)?(\d+)\b", re.MULTILINE)

# The directories of an absolute path, in running text, in a list (PATH), after an option (-I/usr/include) or in a
# file's address; not those of a relative path or of a web address.
_DIRECTORIES = re.compile(r"(?:(?<=file://)|(?<=-[IL])|(?<![\w./~-]))~?/(?:[^\s/:'\"<>()]+/)+")


def describe(distributions: Iterable[str], variables: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """The environment of the calling process, with the versions of those distributions that are installed.

    ``variables`` are those that the process started with, to which a framework's import may have added others.
    ``digest`` covers every installed distribution, so that two records with the same one ran the same software.
    ``lock`` is that of the lock file that a release's environment was built from.
    """
    everything = list_distributions()
    lock = Path(sys.prefix, LOCK_FILE)
    # Backwards, since the first on the path is imported.
    installed = (line.partition("==") for line in reversed(everything))
    versions = {_normal(name): version for name, _, version in installed}
    return {
        "machine": machine(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "packages": {name: versions[_normal(name)] for name in (*distributions, "numpy") if _normal(name) in versions},
        "variables": select_variables(variables),
        "digest": digest_of(everything),
        **({"lock": hashlib.sha256(lock.read_bytes()).hexdigest()} if lock.is_file() else {}),
    }


def digest_of(distributions: Iterable[str]) -> str:
    """SHA-256 over all installed distributions, each with its version as `list_distributions` writes it."""
    return hashlib.sha256("\n".join(sorted(distributions)).encode()).hexdigest()


@cache
def list_distributions() -> tuple[str, ...]:
    """Every installed distribution with its version, in lower case, in the path's order; each is a file to read."""
    headers = [distribution.metadata for distribution in metadata.distributions()]  # each access reads the file anew
    return tuple(dict.fromkeys(f"{header['Name']}=={header['Version']}".lower() for header in headers))


def select_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """The environment variables that change what is computed or how fast, without places, hosts and secrets."""
    names = sorted(name for name in variables if name.startswith(PREFIXES) and not NOT_RECORDED.fullmatch(name))
    return {name: "<set>" if PRIVATE.match(name) else redact(variables[name]) for name in names}


def _normal(distribution: str) -> str:
    """The normalised name: a wheel of ``tensorflow-cpu`` calls itself ``tensorflow_cpu``."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def machine() -> dict[str, Any]:
    """The processor (`describe_processor`), cores that this process may use, memory of the machine in bytes.

    Where a control group limits how fast it reads from a disk, ``read_limit`` is that in bytes per second.
    """
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = {"read_limit": rate} if (rate := read_limit()) else {}
    return {**describe_processor(), "cores": len(own_cores()), "memory_bytes": memory_bytes, **limits}


def shared_memory() -> tuple[int, int] | None:
    """Size and free bytes of the memory that processes share; None where the system has none."""
    try:
        room = os.statvfs(SHARED_MEMORY)
    except OSError:
        return None
    return room.f_frsize * room.f_blocks, room.f_frsize * room.f_bavail


def own_cores() -> list[int]:
    """The numbers of the cores that this process, and what it starts, may use."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))


def usable_cores() -> int:
    """Whole cores that this process may keep busy, at least one: those of its affinity, or fewer by a quota."""
    cores = len(own_cores())
    limit = core_limit()
    return cores if limit is None else max(1, min(cores, int(limit)))


def core_limit() -> float | None:
    """The tightest quota of this process's control groups in cores, for example 1.5; None if there is none.

    Groups are nested, and a quota applies to all groups below. Files: Linux kernel documentation,
    admin-guide/cgroup-v2 (``cpu.max``) and scheduler/sched-bwc (version 1).
    """
    quotas = (quota_of(folder) for folder in find_groups())
    return min((quota for quota in quotas if quota is not None), default=None)


def read_limit() -> int | None:
    """The lowest rate at which this process's control groups let it read from any one disk, in bytes per second.

    Files: Linux kernel documentation, admin-guide/cgroup-v2 (``io.max``) and cgroup-v1/blkio-controller.
    """
    files = ("io.max", "blkio.throttle.read_bps_device")
    texts = (_read(folder / name) for folder in find_groups("blkio") for name in files)
    return min((int(rate) for text in texts for rate in _READ_LIMIT.findall(text)), default=None)


def find_groups(kind: str = "cpu") -> Iterator[Path]:
    """The folders of the control groups that may limit this process, down from where they are mounted.

    ``kind`` is the controller of version 1 that is asked for.
    """
    yield GROUPS
    for line in _read(OWN_GROUPS).splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if path.startswith("/") and (not controllers or kind in controllers.split(",")):
            # In a container the mount may show its own group, while the kernel gives the host's path to it.
            for folder in (GROUPS / (controllers or "unified"), GROUPS / (kind if controllers else "")):
                below = Path() if ".." in path.split("/") else Path(path.strip("/"))
                yield from (folder / part for part in (below, *below.parents))


def quota_of(group: Path) -> float | None:
    """The quota of one control group, version 2 or 1, in cores; None if there is no limit."""
    words = _read(group / "cpu.max").split()
    words = words or [word for name in ("quota", "period") for word in _read(group / f"cpu.cfs_{name}_us").split()]
    if len(words) != 2 or not all(word.isdecimal() and int(word) for word in words):  # `max`, or -1
        return None
    return int(words[0]) / int(words[1])


def _read(file: Path) -> str:
    try:
        return file.read_text(errors="replace").strip()
    except OSError:
        return ""


def redact(text: str) -> str:
    """The text without the directories of absolute paths, the user's name and the host's."""
    host = socket.gethostname()
    text = re.sub(rf"(?<![\w.]){re.escape(_home())}(?![\w.-])", "~", text) if _home() else text
    text = _DIRECTORIES.sub(".../", text)
    for private, public in ((_user(), "<user>"), (host, "<host>"), (host.partition(".")[0], "<host>")):
        if private:
            text = re.sub(rf"(?<!\w){re.escape(private)}(?!\w)", public, text)
    return text


def _home() -> str:
    try:
        return str(Path.home()).rstrip("/")
    except RuntimeError:  # a user id without a home, as containers have it
        return ""


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user id without a name, as containers have it
        return ""
