"""What most files of a workload have alike, one file per framework; importing this package imports no framework.

* Gradient checkpointing of a block (`recompute`, `Recomputed`): the backward pass computes the activations inside a
  block again from its input, which alone is kept. The second pass must change nothing: it draws the dropout masks of
  the first, and leaves running statistics as they are. Then every gradient is equal to the last bit.
* Dropout that is a part of the state, not of the compiled program, where a framework compiles. So the very program that
  is timed can take a fingerprint, for which it draws its masks, those of the framework's own layer, and drops nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from workloads.spec import Numbers, WorkloadSpec

#: One of several inputs: the shape of a sample, and its type by NumPy's name, of up to four bytes.
Part = tuple[tuple[int, ...], str]


def cut(parts: tuple[Part, ...]) -> Iterator[tuple[slice, tuple[int, ...], tuple[int, ...], str]]:
    """Of each input: its place among the bytes of a packed sample, its shape without and with its bytes, its type."""
    start = 0
    for shape, dtype in parts:
        size = np.dtype(dtype).itemsize
        stop = start + math.prod(shape) * size
        yield slice(start, stop), shape, (*shape, size) if size > 1 else shape, dtype
        start = stop


def kernels(spec: WorkloadSpec, numbers: Numbers, device: str, kernel: str) -> dict[str, str]:
    """Which implementation of a layer runs, where there is a choice: none."""
    del spec, numbers, device, kernel
    return {}
