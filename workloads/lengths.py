"""How long the texts of a batch are: the workload's length, their bucket, or as long as the longest of them."""

from __future__ import annotations

FIXED, BUCKETS, FREE = LENGTHS = ("fixed", "buckets", "free")
#: Buckets are so many equal parts of the workload's length.
BUCKET_COUNT = 4
#: The samples of an epoch are divided by length into so many equal parts. A round has a batch of each, in this order,
#: whose first is of middle length.
ROUND = (4, 0, 6, 2, 5, 1, 7, 3)


def buckets(length: int) -> tuple[int, ...]:
    """The lengths of a workload's buckets."""
    return tuple(-(-length * part // BUCKET_COUNT) for part in range(1, BUCKET_COUNT + 1))
