"""Releases that are known to compute wrongly, to crash or to be far too slow, each with its sources."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from suite.catalog.versions import VERSION, version_key

#: What happens. The first two make a release unsound.
WRONG, CRASH, SLOW = "wrong", "crash", "slow"
UNSOUND = (WRONG, CRASH)
_HAPPENS = {WRONG: "computes wrongly", CRASH: "crashes", SLOW: "is far too slow"}
#: By device, where it happens.
PLACES = {"cpu": "on CPUs", "cuda": "on NVIDIA GPUs"}

_JAX, _XLA = "https://github.com/jax-ml/jax/issues", "https://github.com/openxla/xla/issues"


@dataclass(frozen=True)
class Defect:
    """What is wrong with the releases from ``first`` to ``last`` of a framework, on one device.

    ``kind`` is `WRONG`, `CRASH` or `SLOW`, and ``what`` the programs in question. ``sources`` are addresses: first
    where it is described, then who met it. ``tried`` is what the source's own program did when the project ran it;
    empty where it could not.
    """

    framework: str
    first: str
    last: str
    device: str
    kind: str
    what: str
    sources: tuple[str, ...]
    tried: str = ""

    def concerns(self, release: str) -> bool:
        """Whether it is in a release, such as ``2.13.0+cpu``; no version is in none."""
        version = re.match(VERSION, release)
        return version is not None and version_key(self.first) <= version_key(version[0]) <= version_key(self.last)

    @property
    def releases(self) -> str:
        return self.first if self.first == self.last else f"{self.first} to {self.last}"

    @property
    def happens(self) -> str:
        """What happens and where, such as ``crashes on CPUs``."""
        return f"{_HAPPENS[self.kind]} {PLACES[self.device]}"

    def __str__(self) -> str:
        return f"{self.happens}: {self.what} ({self.sources[0]})"


#: The oldest release first. Tried on 2026-11-27, on an Intel Xeon with AVX-512, two cores.
DEFECTS: tuple[Defect, ...] = (
    Defect(
        "jax", "0.5.3", "0.8.1", "cpu", WRONG,
        "gathers along a vmapped axis of an array that is a constant inside jit",
        (f"{_JAX}/33479", f"{_XLA}/34260"),
        tried="0.6.2 and 0.8.1 are wrong by up to 3.1, and 0.8.2 and later agree",
    ),
    Defect(
        "jax", "0.10.2", "0.10.2", "cpu", WRONG,
        "under jit, the last rows of a product with a small matrix that is reduced afterwards, from 16,385 rows in "
        "float64 and 32,769 in float32",
        (
            f"{_JAX}/39103",
            "https://github.com/jax-md/jax-md/pull/412",
            "https://github.com/LouisDesdoigts/dLux/issues/344",
        ),
        tried="one row is wrong by 0.8 % in both, and right in 0.6.2 to 0.10.1, 0.11.0 to 0.11.2 and 0.12.0.1",
    ),
    Defect(
        "jax", "0.10.2", "0.10.2", "cpu", WRONG, "arctan of 50 and more values, on some processors",
        (f"{_JAX}/39352",), tried="all values are right",
    ),
    Defect(
        "jax", "0.10.2", "0.11.0", "cpu", CRASH,
        "on x86-64, a broadcast product of seven and more axes that is reduced; on some processors it hangs",
        (f"{_JAX}/39257", "https://github.com/infer-actively/pymdp/pull/420"),
        tried="0.10.2 and 0.11.0 end by a segmentation fault, and 0.10.1, 0.11.1 and later do not",
    ),
    Defect(
        "jax", "0.10.2", "0.11.0", "cuda", SLOW,
        "float32 scatter-adds with repeated indices, as in the gradient of an embedding",
        (f"{_JAX}/38806", f"{_XLA}/46225"),
    ),
    Defect(
        "jax", "0.11.0", "0.11.1", "cuda", WRONG, "operations outside of jit and a jitted training, on an RTX A6000",
        (f"{_JAX}/40633",),
    ),
    Defect(
        "jax", "0.11.1", "0.11.1", "cpu", SLOW,
        "loops that write less than 256 bytes into a large array in each round",
        (f"{_JAX}/40101", "https://github.com/QuantEcon/lecture-python-programming/issues/622"),
        tried="100,000 rounds take 8.0 s, and less than 1 ms in 0.11.0 and 0.11.2",
    ),
)  # fmt: skip


def find_defects(framework: str, release: str, devices: Collection[str] = PLACES) -> list[Defect]:
    """The defects of a release on these devices."""
    of_framework = [each for each in DEFECTS if each.framework == framework and each.device in devices]
    return [each for each in of_framework if each.concerns(release)]
