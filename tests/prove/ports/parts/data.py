from __future__ import annotations

from workloads.data.own import OwnSplits, synthetic


def splits() -> OwnSplits:
    return synthetic((8, 8, 3), "uint8", classes=3, train=64, test=32)
