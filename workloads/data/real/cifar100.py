"""CIFAR-100 (Krizhevsky 2009, *Learning Multiple Layers of Features from Tiny Images*): 50,000 + 10,000 images.

The official files are pickles of Python 2, and a pickle can run code. These are not unpickled: they are verified, and
then their bytes are known, so labels and pixels are taken from where they stand.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from workloads.data.dataset import Split
from workloads.data.real.archive import Archive
from workloads.data.real.sources import Source

SIDE, CHANNELS = 32, 3
#: The fine labels: their key, the list's names in the pickle, and runs of one-byte numbers.
LABELS = re.compile(rb"fine_labelsr.{4}\]r.{4}((?:\((?:K.)+e)+)", re.DOTALL)
END = b"tbu."  # after the pixels

ARCHIVE = Archive(
    url="https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
    bytes=169_001_437,
    md5="eb9058c3a382ffc7106e4002c42a8d85",
)


@dataclass(frozen=True)
class Cifar100(Source):
    """The official archive, or its folder ``cifar-100-python`` with the files ``train`` and ``test``.

    Both are described at https://www.cs.toronto.edu/~kriz/cifar.html. The MD5 of ``train`` is
    16019d7e3df5f24257cddd939b257f8d, and that of ``test`` f0ef6b0ae62326f3e7ffdfab6717acfc.
    """

    name: ClassVar[str] = "cifar100"
    folder: ClassVar[str] = "cifar-100-python"
    patterns: ClassVar[tuple[str, ...]] = ("train", "test")
    largest_bytes: ClassVar[int] = 2**29  # the largest official one has 155,249,918

    archive: Archive = ARCHIVE
    digest: str = "2a692ece3508eaa2f7a14b37424b7241b020cb402ecb757430ab3caeb920987c"
    content: str = "848ff181aa59d372c96ffcd82550940e97828acdba6886d6b727c6b3353c28b4"

    def parse(self, files: dict[str, bytes]) -> tuple[Split, Split]:
        """Images uint8 ``(n, 32, 32, 3)`` in the order of the files, fine labels int32 ``(n,)``."""
        return _split(files["train"]), _split(files["test"])


def _split(pickled: bytes) -> Split:
    """One verified pickle as a split; its rows of 3,072 bytes are a red, a green and a blue plane of 32x32."""
    runs = LABELS.search(pickled)
    if not runs:
        raise ValueError("a file is not the pickle that it should be: it has no list of labels")
    labels = np.frombuffer(runs[1].replace(b"e(", b""), np.uint8)[2::2].astype(np.int32)
    size = len(labels) * CHANNELS * SIDE * SIDE
    begin = len(pickled) - len(END) - size
    if not pickled.endswith(END) or pickled[max(begin - 5, 0) : max(begin, 0)] != b"T" + struct.pack("<i", size):
        raise ValueError(f"a file is not the pickle that it should be: it has no pixels of {len(labels)} images")
    planes = np.frombuffer(pickled, np.uint8, size, begin).reshape(-1, CHANNELS, SIDE, SIDE)
    return Split(np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), labels)
