"""Tiny sources in the official formats, and the values that verify them, for the tests of `workloads.data`."""

from __future__ import annotations

import gzip
import hashlib
import io
import pickle
import struct
import tarfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from workloads.data.real.archive import Archive
from workloads.data.real.cifar100 import Cifar100
from workloads.data.real.imdb import Imdb, content_digest

REVIEWS = {
    ("train", "neg", "0_1.txt"): b"A bad, bad film.<br /><br />Don't watch.",
    ("train", "neg", "10_2.txt"): b"bad bad",
    ("train", "pos", "0_9.txt"): b"A good film",
    ("train", "pos", "1_10.txt"): "café good".encode(),
    ("test", "neg", "0_3.txt"): b"unseen bad",
    ("test", "neg", "1_1.txt"): b"bad unseen unseen unseen unseen",
    ("test", "pos", "0_7.txt"): b"good",
    ("test", "pos", "1_8.txt"): b"A film",
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


def python2_pickle(
    rows: np.ndarray, labels: list[int], reconstruct: str = "numpy.core.multiarray _reconstruct"
) -> bytes:
    """Opcode by opcode what Python 2 wrote for CIFAR-100; Python 3 cannot be made to write it."""

    def text(value: str) -> bytes:
        return pickle.SHORT_BINSTRING + bytes([len(value)]) + value.encode()

    def name(value: str) -> bytes:
        return pickle.GLOBAL + value.replace(" ", "\n").encode() + b"\n"

    def number(value: int) -> bytes:
        return pickle.BININT + struct.pack("<i", value)

    empty = name(reconstruct) + name("numpy ndarray") + number(0) + pickle.TUPLE1 + text("b") + pickle.TUPLE3
    dtype = name("numpy dtype") + text("u1") + number(0) + number(1) + pickle.TUPLE3 + pickle.REDUCE
    dtype += pickle.MARK + number(3) + text("|") + 3 * pickle.NONE + number(-1) + number(-1) + number(0)
    dtype += pickle.TUPLE + pickle.BUILD
    shape = number(rows.shape[0]) + number(rows.shape[1]) + pickle.TUPLE2
    content = pickle.BINSTRING + struct.pack("<i", rows.nbytes) + rows.tobytes()
    data = empty + pickle.REDUCE + pickle.MARK + number(1) + shape + dtype + pickle.NEWFALSE + content
    data += pickle.TUPLE + pickle.BUILD
    listed = pickle.EMPTY_LIST + pickle.MARK + b"".join(number(label) for label in labels) + pickle.APPENDS
    items = text("data") + data + text("fine_labels") + listed
    return pickle.PROTO + b"\2" + pickle.EMPTY_DICT + pickle.MARK + items + pickle.SETITEMS + pickle.STOP


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
    return Cifar100(archive(cifar_archive(files), url), "", {name: md5(content) for name, content in files.items()})


def cifar_archive(files: Mapping[str, bytes]) -> bytes:
    return tar_gz({f"cifar-100-python/{name}": content for name, content in files.items()})


def imdb_source(reviews: Mapping[tuple[str, str, str], bytes] = REVIEWS) -> Imdb:
    """What verifies these reviews, which must stand in the order of the digest."""
    return Imdb(
        archive(b"none", "http://127.0.0.1:1/aclImdb_v1.tar.gz"), "", content_digest(dict(reviews), list(reviews))
    )


def imdb_archive(reviews: Mapping[tuple[str, str, str], bytes] = REVIEWS) -> bytes:
    return tar_gz({"/".join(("aclImdb", *key)): content for key, content in reviews.items()})


def put(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path
