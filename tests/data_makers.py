"""Tiny sources in the official formats, and the values that verify them, for the tests of `workloads.data`."""

from __future__ import annotations

import gzip
import hashlib
import io
import pickle
import resource
import struct
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from workloads.data.real.archive import Archive
from workloads.data.real.cifar100 import Cifar100
from workloads.data.real.imdb import Imdb
from workloads.data.real.sources import content_digest

REVIEWS = {
    "train/neg/0_1.txt": b"A bad, bad film.<br /><br />Don't watch.",
    "train/neg/10_2.txt": b"bad bad",
    "train/pos/0_9.txt": b"A good film",
    "train/pos/1_10.txt": "café good".encode(),
    "test/neg/0_3.txt": b"unseen bad",
    "test/neg/1_1.txt": b"bad unseen unseen unseen unseen",
    "test/pos/0_7.txt": b"good",
    "test/pos/1_8.txt": b"A film",
}


def md5(content: bytes) -> str:
    return hashlib.md5(content).hexdigest()


def archive(content: bytes, url: str) -> Archive:
    return Archive(url, len(content), md5(content))


def tar_gz(members: Mapping[str, bytes], *special: tarfile.TarInfo) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
        for info in special:
            tar.addfile(info)
    return gzip.compress(packed.getvalue(), compresslevel=1, mtime=0)


def python2_pickle(rows: np.ndarray, labels: list[int]) -> bytes:
    """What Python 2 wrote for CIFAR-100, but for the lists that nobody reads; Python 3 cannot be made to write it."""

    def named(number: int) -> bytes:
        return pickle.LONG_BINPUT + struct.pack("<i", number)

    def text(value: str) -> bytes:
        return pickle.SHORT_BINSTRING + bytes([len(value)]) + value.encode()

    runs = (labels[start : start + 1000] for start in range(0, len(labels), 1000))
    numbers = (b"".join(pickle.BININT1 + bytes([label]) for label in run) for run in runs)
    listed = b"".join(pickle.MARK + run + pickle.APPENDS for run in numbers)
    array = b"cnumpy.core.multiarray\n_reconstruct\n" + named(50004) + b"cnumpy\nndarray\n" + named(50005)
    array += b"K\x00\x85U\x01b\x87R" + named(50006) + b"(K\x01" + pickle.BININT + struct.pack("<i", len(rows))
    array += b"M\x00\x0c\x86cnumpy\ndtype\n" + named(50007) + b"U\x02u1K\x00K\x01\x87R" + named(50008)
    array += b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89"
    array += pickle.BINSTRING + struct.pack("<i", rows.nbytes) + rows.tobytes() + b"tb"
    items = text("fine_labels") + named(50001) + b"]" + named(50002) + listed + text("data") + named(50003) + array
    return pickle.PROTO + b"\2}q\1(" + items + pickle.SETITEMS + pickle.STOP


def cifar_files(train: int = 6, test: int = 4) -> dict[str, bytes]:
    generator = np.random.Generator(np.random.Philox(key=7))
    return {
        name: python2_pickle(
            generator.integers(0, 256, (count, 3072), dtype=np.uint8), [(37 * i + 5) % 100 for i in range(count)]
        )
        for name, count in (("train", train), ("test", test))
    }


def cifar_source(files: Mapping[str, bytes], url: str = "http://127.0.0.1:1/cifar-100-python.tar.gz") -> Cifar100:
    """What verifies these files and the archive of them that `cifar_archive` makes."""
    return Cifar100(archive(cifar_archive(files), url), "", content_digest(files))


def cifar_archive(files: Mapping[str, bytes]) -> bytes:
    return tar_gz({f"cifar-100-python/{name}": content for name, content in files.items()})


def imdb_source(reviews: Mapping[str, bytes] = REVIEWS) -> Imdb:
    """What verifies these reviews."""
    return Imdb(archive(b"none", "http://127.0.0.1:1/aclImdb_v1.tar.gz"), "", content_digest(reviews))


def imdb_archive(reviews: Mapping[str, bytes] = REVIEWS) -> bytes:
    return tar_gz({f"aclImdb/{name}": content for name, content in reviews.items()})


def put(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def unpacked(place: Path, folder: str, files: Mapping[str, bytes]) -> Path:
    """The folder that an archive of these files unpacks to."""
    for name, content in files.items():
        put(place / folder / name, content)
    return place / folder


@contextmanager
def files_up_to(size: int) -> Iterator[None]:
    """No file may grow beyond this many bytes: what a full disk does to a process, without one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
