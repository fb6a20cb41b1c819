from __future__ import annotations

import numpy as np

from workloads.data.dataset import Split
from workloads.data.own import OwnSplits, pack

from .spec import CLASSES, LENGTH, NUMBERS, WORDS


def splits() -> OwnSplits:
    draw = np.random.default_rng(0)

    def split(count: int) -> Split:
        words = draw.integers(0, WORDS, (count, LENGTH)).astype(np.int32)
        numbers = draw.standard_normal((count, NUMBERS)).astype(np.float32)
        labels = np.stack([draw.integers(0, CLASSES, count), draw.integers(0, WORDS, count), numbers.sum(1)], 1)
        return Split(pack(words, numbers), labels.astype(np.float32))

    return OwnSplits(split(64), split(32), "synthetic")
