"""The kinds of devices that the suite measures."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from suite.catalog import installed


@dataclass(frozen=True)
class Device:
    """One kind of device: its name in options and records, what it is called, and whether this machine has one."""

    name: str
    title: str
    is_here: Callable[[], bool]
    is_accelerator: bool = True


def has_gpu() -> bool:
    """Whether this machine shows an NVIDIA GPU and `CUDA_VISIBLE_DEVICES` does not hide all of them."""
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES", "0") in ("", "-1")
    # Linux under Windows has the second instead of the first.
    return not hidden and (Path("/dev/nvidiactl").exists() or Path("/usr/lib/wsl/lib/libcuda.so.1").exists())


_ALL = (
    Device("cpu", "CPU", lambda: True, is_accelerator=False),
    Device("cuda", "GPU", has_gpu),
)

#: By name.
DEVICES: dict[str, Device] = {each.name: each for each in (*_ALL, *installed("devices"))}

#: The values of ``--device``.
CHOICES = ("auto", *DEVICES)
HELP = f"{', '.join(DEVICES)}, or auto: a GPU if there is one (default: auto)"
