"""Checks that a cached data set is what its folder's name says, for `prepare` and ``verify``."""

from __future__ import annotations

from pathlib import Path

from workloads.data import cache as caches
from workloads.data import synthetic
from workloads.data.dataset import DataError, DataSet
from workloads.data.sources import Source


def identified(folder: Path, kind: str, source: Source) -> DataSet:
    """The data set in a cache folder, every byte of it hashed and the digest compared with the expected one.

    Without the comparison, data that was changed together with the digest in its meta.json would pass. Raises
    `DataError` in one line.
    """
    data = caches.verify(folder)
    if (data.name, data.kind) != (source.name, kind):
        raise DataError(f"cache {folder} holds {data.name} {data.kind}, not {source.name} {kind}; {caches.REBUILD}")
    expected: str | None
    if kind == "real":
        expected, what = source.digest or data.digest, f"the official {source.name}"
        if source.vouched(data):
            return data
    else:
        expected = synthetic.expected_digest(source.name, len(data.train), len(data.test))
        what = f"the synthetic twin of {source.name}"
    if data.digest != expected:
        instead = f"{expected[:16]}..." if expected else "that of any twin"
        raise DataError(
            f"cache {folder} is not {what}: it has the digest {data.digest[:16]}..., not {instead}; {caches.REBUILD}"
        )
    return data
