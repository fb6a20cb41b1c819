"""Whether this machine has a GPU to plan for."""

from __future__ import annotations

import os
from pathlib import Path


def has_gpu() -> bool:
    """Whether this machine shows an NVIDIA GPU and `CUDA_VISIBLE_DEVICES` does not hide all of them."""
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES", "0") in ("", "-1")
    # Linux under Windows has the second instead of the first.
    return not hidden and (Path("/dev/nvidiactl").exists() or Path("/usr/lib/wsl/lib/libcuda.so.1").exists())
