"""The initial weights of a workload, and the digest of any."""

from __future__ import annotations

import hashlib
import zlib
from typing import TYPE_CHECKING

import numpy as np

from workloads.data.dataset import Array

if TYPE_CHECKING:
    from workloads.spec import Tensor


def draw_weights(tensor: Tensor, seed: int) -> Array:
    """The initial value of a tensor, float32, from a random stream of its own."""
    generator = np.random.Generator(np.random.Philox(key=[seed, zlib.crc32(tensor.name.encode())]))
    draws = generator.random(tensor.shape)
    draws *= 2  # in place, as each new array of so many numbers takes as long as drawing them
    draws -= 1
    draws *= tensor.bound
    draws[..., tensor.offset_from : tensor.offset_to] += tensor.offset
    return draws.astype(np.float32)


def weights_digest(weights: dict[str, Array]) -> str:
    """SHA-256 over names, shapes and float32 bytes in the order of the names."""
    digest = hashlib.sha256()
    for name in sorted(weights):
        array = np.ascontiguousarray(weights[name], dtype="<f4")
        digest.update(f"{name}{array.shape}".encode() + array.tobytes())
    return digest.hexdigest()
