"""Turns the name of a data set into a verified cache folder that a worker can open.

Real data comes from, in this order: a valid cache, the data directory (argument, else ``SUITE_DATA_DIR``), a download.
The cache directory is the argument, else ``SUITE_CACHE_DIR``, else ``framework-training-suite`` in ``XDG_CACHE_HOME``
or ``~/.cache``. A data directory is only read; everything that is written goes to the cache directory.
"""

from __future__ import annotations

import fcntl
import os
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from workloads.data import cache as caches
from workloads.data import synthetic
from workloads.data.dataset import DataError, DataSet
from workloads.data.files import make_folder, regular
from workloads.data.progress import print_to_stderr, waiting
from workloads.data.real import fetch as downloads
from workloads.data.real.cifar100 import Cifar100
from workloads.data.real.imdb import Imdb
from workloads.data.real.sources import Source

SOURCES: dict[str, Source] = {source.name: source for source in (Cifar100(), Imdb())}
NAMES = tuple(SOURCES)

WAYS_OUT = (
    "get it with `training-suite data fetch`, or set SUITE_DATA_DIR to a directory with {archive} "
    "or {folder}/, or use the synthetic twin with `--data synthetic`"
)


class UnavailableError(DataError):
    """No real data in the cache or the data directory, and none could be downloaded."""


def cache_directory(cache: Path | str | None = None) -> Path:
    """The cache directory that an argument, the environment or the default names."""
    if cache or os.environ.get("SUITE_CACHE_DIR"):
        return _expand(cache or os.environ["SUITE_CACHE_DIR"])
    return _expand(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "framework-training-suite"


def data_directory(directory: Path | str | None = None) -> Path | None:
    """The data directory that an argument or the environment names, or None; it need not exist."""
    chosen = directory or os.environ.get("SUITE_DATA_DIR")
    return _expand(chosen) if chosen else None


def _expand(directory: Path | str) -> Path:
    try:
        return Path(directory).expanduser().absolute()
    except RuntimeError as error:  # no such user, or a container's user without a home
        raise DataError(f"{directory}: {error}; name a directory in full, the cache's in SUITE_CACHE_DIR") from error


def prepare(
    name: str,
    source: str = "auto",
    directory: Path | str | None = None,
    cache: Path | str | None = None,
    *,
    fetch: bool = True,
    say: Callable[[str], None] = print_to_stderr,
    official: Source | None = None,
) -> Path:
    """The cache folder of a data set, verified by its full digest, for `workloads.data.cache.open_cached`.

    ``source`` is ``real``, ``synthetic``, or ``auto``: real, else the synthetic twin with a notice through ``say``.
    ``fetch`` allows a download. ``official`` replaces the source that verifies the real data.

    Raises `DataError`, in one line: for ``real`` when there is none to be had; for ``real`` and ``auto`` when what the
    data directory holds is broken or is not the official data, or when the directory cannot be read; for all when the
    cache directory cannot be written, or holds something else under the name of the cache folder.
    """
    if name not in SOURCES:
        raise DataError(f"unknown data set {name!r}; there are: {', '.join(NAMES)}")
    if source not in ("auto", "real", "synthetic"):
        raise DataError(f"unknown source {source!r}; there are: auto, real, synthetic")
    cache_folder = cache_directory(cache)
    if source != "synthetic":
        try:
            return _real(official or SOURCES[name], data_directory(directory), cache_folder, fetch, say)
        except UnavailableError as error:
            if source == "real":
                raise
            say(_notice(name, str(error)))
    return _synthetic(name, cache_folder, say)


def _real(source: Source, directory: Path | None, cache: Path, fetch: bool, say: Callable[[str], None]) -> Path:
    def read() -> DataSet:
        local = source.find(directory) if directory else None
        path = local or _download(source, directory, cache / "downloads", fetch, say)
        say(f"{source.name}: reading {path}")
        return source.read(path)

    return _cached(source, "real", cache, say, read)


def _cached(source: Source, kind: str, cache: Path, say: Callable[[str], None], make: Callable[[], DataSet]) -> Path:
    """The cache folder of this data, which is made unless it is there and valid."""
    folder = caches.folder_of(cache, source.name, kind)
    if _valid(folder, kind, source, None):
        return folder
    with writing(cache, folder, say):
        if not _valid(folder, kind, source, say):  # another process may have built it while this one waited
            caches.verify(caches.write(make(), cache))
    return folder


def _download(source: Source, directory: Path | None, folder: Path, fetch: bool, say: Callable[[str], None]) -> Path:
    problem = f"no real {source.name} in the cache" + (f" or in {directory}" if directory else "")
    ways_out = WAYS_OUT.format(archive=source.archive.file, folder=source.folder)
    try:
        path = downloads.find_verified(source.archive, folder)
        if path:
            return path
        if not fetch:
            raise UnavailableError(f"{problem}; {ways_out}")
        say(f"{source.name}: downloading {source.archive.url} ({source.archive.bytes / 2**20:.0f} MiB)")
        return downloads.download(source.archive, folder)
    except downloads.DownloadError as error:
        raise UnavailableError(f"{problem}, and {error}; {ways_out}") from error


def _synthetic(name: str, cache: Path, say: Callable[[str], None]) -> Path:
    def generate() -> DataSet:
        say(f"{name}: generating the synthetic twin")
        return synthetic.generate(name)

    return _cached(SOURCES[name], "synthetic", cache, say, generate)


def _valid(folder: Path, kind: str, source: Source, say: Callable[[str], None] | None) -> bool:
    """Whether the folder holds what it should, all of it hashed; if it exists and does not, ``say`` gets the reason.

    Raises `DataError` if this program may not replace it.
    """
    try:
        if not folder.exists():
            caches.refuse_foreign(folder)  # it may be a link to nowhere
            return False
    except OSError:  # no access to the cache directory, which `writing` reports
        return False
    try:
        verify_identity(folder, kind, source)
    except DataError as error:
        caches.refuse_foreign(folder)
        if say:
            say(f"{error}; rebuilding it")
        return False
    return True


def verify_identity(folder: Path, kind: str, source: Source) -> DataSet:
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
    else:
        expected = synthetic.expected_digest(source.name, len(data.train), len(data.test))
        what = f"the synthetic twin of {source.name}"
    if data.digest != expected:
        instead = f"{expected[:16]}..." if expected else "that of any twin"
        raise DataError(
            f"cache {folder} is not {what}: it has the digest {data.digest[:16]}..., not {instead}; {caches.REBUILD}"
        )
    return data


@contextmanager
def writing(cache: Path, folder: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Write access to the cache: one process at a time for each folder; leftovers of killed ones are removed."""
    try:
        make_folder(cache)
        with open(str(cache / f"{folder.name}.lock"), "a", opener=regular) as lock:
            if _lock(lock, folder, say):
                caches.clear_leftovers(folder)
            yield
    except OSError as error:
        raise DataError(
            f"cache directory {cache} cannot be written: {error.strerror or error}; "
            f"fix that at {error.filename or cache}, or set SUITE_CACHE_DIR to another one"
        ) from error


def _lock(lock: IO[str], folder: Path, say: Callable[[str], None]) -> bool:
    """Wait for the lock. False where the file system has none: renames keep the folders whole there too."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say(f"waiting for another process that prepares {folder}")
        with waiting(f"waiting for {folder}"):
            fcntl.flock(lock, fcntl.LOCK_EX)
    except OSError:
        return False
    return True


def _notice(name: str, reason: str) -> str:
    """The notice that the twin is used: hard to overlook, since its accuracies mean nothing."""
    paragraphs = (
        f"{name}: SYNTHETIC data stands in for the real data.",
        "Shapes, types and label counts are the same, so throughput is valid. Accuracy and loss mean nothing.",
        f"Why: {reason}.",
    )
    lines = (line for text in paragraphs for line in textwrap.wrap(text, 76, break_long_words=False))
    return "\n".join(("*" * 78, *(f"* {line}" for line in lines), "*" * 78))
