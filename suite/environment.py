"""What a measurement ran on: machine, system, library versions. Standard library only.

What lands in a record can be published as it is: no host name, user name or path, and of the environment variables
only those of `VARIABLES`, which change what is computed or how fast.
"""

from __future__ import annotations

import getpass
import hashlib
import os
import platform
import re
import socket
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

#: The environment variables that a record may hold. None of them names a person, a host or a place.
VARIABLES = (
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_DEVICE_ORDER",
    "CUDA_MODULE_LOADING",
    "JAX_PLATFORMS",
    "KERAS_BACKEND",
    "MALLOC_MMAP_THRESHOLD_",
    "MALLOC_TRIM_THRESHOLD_",
    "MKL_NUM_THREADS",
    "NVIDIA_TF32_OVERRIDE",
    "OMP_NUM_THREADS",
    "OMP_WAIT_POLICY",
    "TF_CUDNN_DETERMINISTIC",
    "TF_ENABLE_ONEDNN_OPTS",
    "TF_NUM_INTEROP_THREADS",
    "TF_NUM_INTRAOP_THREADS",
    "TF_XLA_FLAGS",
    "XLA_FLAGS",
    "XLA_PYTHON_CLIENT_MEM_FRACTION",
    "XLA_PYTHON_CLIENT_PREALLOCATE",
)

# The directories of an absolute path, in running text, in a list (PATH), after an option (-I/usr/include) or in a
# file's address; not those of a relative path or of a web address.
_DIRECTORIES = re.compile(r"(?:(?<=file://)|(?<=-[IL])|(?<![\w./~-]))~?/(?:[^\s/:'\"<>()]+/)+")


def describe(distributions: Iterable[str]) -> dict[str, Any]:
    """The environment of the calling process, with the versions of those distributions that are installed.

    ``digest`` covers every installed distribution, so that two records with the same one ran the same software.
    """
    installed = sorted({f"{d.metadata['Name']}=={d.version}".lower() for d in metadata.distributions()})
    versions = {_normal(name): version for name, _, version in (line.partition("==") for line in installed)}
    return {
        "machine": machine(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "packages": {name: versions[_normal(name)] for name in (*distributions, "numpy") if _normal(name) in versions},
        "variables": {name: redact(os.environ[name]) for name in VARIABLES if name in os.environ},
        "digest": hashlib.sha256("\n".join(installed).encode()).hexdigest(),
    }


def _normal(distribution: str) -> str:
    """The name that all spellings share: a wheel of ``tensorflow-cpu`` calls itself ``tensorflow_cpu``."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def machine() -> dict[str, Any]:
    """Processor model, cores that this process may use, and memory of the machine in bytes."""
    return {
        "cpu": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    }


def has_gpu() -> bool:
    """Whether this machine shows an NVIDIA GPU and `CUDA_VISIBLE_DEVICES` does not hide all of them."""
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES", "0") in ("", "-1")
    return not hidden and Path("/dev/nvidiactl").exists()


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
    """The home folder, unless it is the root of all."""
    try:
        return str(Path.home()).rstrip("/")
    except RuntimeError:  # a user id without a home, as containers have it
        return ""


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user id without a name, as containers have it
        return ""


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
