"""What tells one processor from another of the same name. Standard library only; Linux shows it, other systems little.

A virtual machine often names its processor "AMD EPYC", whichever generation it is. Nothing here is a serial number or a
name of a host: two machines of one kind have the same values.
"""

from __future__ import annotations

import hashlib
import platform
import re
from functools import cache
from pathlib import Path
from typing import Any

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
        described["simd"] = next((name for name, begin in SIMD.items() if _any_begins(flags, begin)), "none")
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
    """The lines of the first core; the others are not read, of which a server has hundreds."""
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


def _any_begins(flags: list[str], begin: str) -> bool:
    return any(flag.startswith(begin) for flag in flags)


def _caches() -> dict[str, int]:
    """Sizes in bytes: ``{"L1d": 32768, "L1i": 32768, "L2": 1048576, "L3": 33554432}``."""
    sizes = {}
    for folder in sorted(CACHES.glob("index*")):
        level, kind, size = (_read(folder / name) for name in ("level", "type", "size"))
        if level and re.fullmatch(r"\d+[KMG]?", size):
            letter = {"Data": "d", "Instruction": "i"}.get(kind, "")
            sizes[f"L{level}{letter}"] = int(size.rstrip("KMG")) * UNITS.get(size[-1], 1)
    return sizes


def _read(file: Path) -> str:
    try:
        return file.read_text(errors="replace").strip()
    except OSError:
        return ""
