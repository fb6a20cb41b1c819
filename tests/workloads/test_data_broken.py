"""Whatever an archive, a folder or a pickle holds: `DataError` in one line, in little memory, and nothing else."""

from __future__ import annotations

import gzip
import io
import sys
import tarfile

import numpy as np
import pytest
from data_makers import (
    REVIEWS,
    cifar_files,
    cifar_source,
    imdb_archive,
    imdb_source,
    put,
    python2_pickle,
    tar_gz,
)

from workloads.data.dataset import DataError
from workloads.data.real import archive as archives
from workloads.data.real import cifar100, imdb
from workloads.data.real.archive import Members
from workloads.data.real.cifar100 import parse


def packed(*contents: tuple[tarfile.TarInfo, bytes], form: int = tarfile.PAX_FORMAT) -> bytes:
    """A tar archive, not compressed."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=form) as tar:
        for info, content in contents:
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return file.getvalue()


def header(kind: bytes, content: bytes) -> tuple[tarfile.TarInfo, bytes]:
    """A header of its own kind, with this content, before the next member."""
    info = tarfile.TarInfo("header")
    info.type = kind
    return info, content


def record(keyword: bytes, value: bytes) -> bytes:
    """One line of a pax header: its own length, and what it says."""
    rest = b" " + keyword + b"=" + value + b"\n"
    length = len(rest) + 1
    while len(b"%d" % length) + len(rest) != length:
        length += 1
    return b"%d" % length + rest


def with_pax(content: bytes, kind: bytes = tarfile.XHDTYPE) -> bytes:
    return gzip.compress(packed(header(kind, content), (tarfile.TarInfo("a"), b"1")))


def sparse(**values: str) -> bytes:
    return b"".join(record(f"GNU.sparse.{name}".encode(), value.encode()) for name, value in values.items())


def one_line(read) -> bool:
    """Whether it could be read; any exception but `DataError`, and any second line, fails the test."""
    try:
        read()
    except DataError as error:
        message = str(error)
    else:
        return True
    assert len(message.splitlines()) == 1
    return False


PAX = {
    "a length that no int takes": b"9" * 5000 + b" size=1\n",
    "a size of -5": record(b"size", b"-5"),
    "a size that is no number": record(b"size", b"many"),
    "a size beyond all": record(b"size", b"9" * 400),
    "a sparse size that is no number": sparse(major="1", minor="0", realsize="x"),
    "a sparse map that is none": sparse(map="a,b"),
    "sparse fields that are none": sparse(size="x", offset="y", numbytes="z"),
    "a charset that is not UTF-8": record(b"hdrcharset", b"\xff\xfe"),
    "a time beyond all": record(b"mtime", b"1e999"),
    "a name with NUL": record(b"path", b"a\0b"),
    "a sparse map with a gap": sparse(map="2,1", size="3", numblocks="1"),
    "an empty name": record(b"path", b""),
    "one of 100 kB": record(b"comment", b"x" * 10**5),
}


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE], ids=["for one", "for all"])
@pytest.mark.parametrize("content", PAX.values(), ids=PAX)
def test_a_broken_pax_header_is_one_line_or_nothing(tmp_path, content, kind):
    path = put(tmp_path / "a.tar.gz", with_pax(content, kind))
    for read in (lambda: list(Members(path)), lambda: cifar_source(cifar_files()).read(path)):
        one_line(read)


@pytest.mark.parametrize(
    "content",
    [
        with_pax(PAX["a length that no int takes"]),
        pytest.param(
            with_pax(PAX["a charset that is not UTF-8"]),
            marks=pytest.mark.skipif(sys.version_info >= (3, 13), reason="tarfile of Python 3.13 reads over it"),
        ),
    ],
)
def test_a_header_that_tarfile_stumbles_over_is_refused(tmp_path, content):
    with pytest.raises(DataError, match=r"a\.tar\.gz cannot be read: .*; replace it"):
        list(Members(put(tmp_path / "a.tar.gz", content)))


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME], ids=["pax", "GNU"])
def test_headers_of_headers_are_refused(tmp_path, kind):
    content = packed(*[header(kind, b"") for _ in range(2000)], (tarfile.TarInfo("a"), b"1"))
    with pytest.raises(DataError, match=r"cannot be read: maximum recursion|header of more than"):
        list(Members(put(tmp_path / "a.tar.gz", gzip.compress(content))))


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME], ids=["pax", "GNU"])
def test_a_huge_header_is_refused_before_it_is_in_memory(tmp_path, kind, monkeypatch):
    taken: list[int] = []
    read = archives._Limited.read

    def counted(self, count=-1):
        taken.append(count)
        return read(self, count)

    monkeypatch.setattr(archives._Limited, "read", counted)
    path = put(tmp_path / "a.tar.gz", gzip.compress(packed(header(kind, bytes(10**7)), (tarfile.TarInfo("a"), b"1"))))
    with pytest.raises(DataError, match="has a header of more than 32768 bytes"):
        list(Members(path))
    assert sum(taken) < 10**5


def test_a_huge_member_is_refused_before_it_is_in_memory(tmp_path):
    reviews = REVIEWS | {("test", "neg", "0_3.txt"): bytes(imdb.LARGEST_BYTES + 1)}
    for path in (
        put(tmp_path / "a.tar.gz", imdb_archive(reviews)),
        put(tmp_path / "aclImdb" / "test" / "neg" / "0_3.txt", reviews["test", "neg", "0_3.txt"]).parents[2],
    ):
        for split, label in imdb.FOLDERS:
            (tmp_path / "aclImdb" / split / label).mkdir(parents=True, exist_ok=True)
        with pytest.raises(DataError, match=r"0_3\.txt.* has (more than )?6553\d bytes"):
            imdb_source(reviews).read(path)


def test_what_is_not_wanted_may_be_large(tmp_path):
    members = {"aclImdb/train/labeledBow.feat": bytes(10 * imdb.LARGEST_BYTES)}
    members |= {"/".join(("aclImdb", *key)): content for key, content in REVIEWS.items()}
    assert len(imdb_source().read(put(tmp_path / "a.tar.gz", tar_gz(members))).train) == 4


def test_a_pickle_of_any_size_is_refused(tmp_path, monkeypatch):
    files = cifar_files()
    monkeypatch.setattr(cifar100, "LARGEST_BYTES", len(files["train"]) - 1)
    source = cifar_source(files)
    for name, content in files.items():
        put(tmp_path / source.folder / name, content)
    archived = put(tmp_path / "a.tar.gz", tar_gz({f"{source.folder}/{name}": files[name] for name in files}))
    for path in (archived, tmp_path / source.folder):
        with pytest.raises(DataError, match=r"train.* bytes"):
            source.read(path)


def test_a_folder_that_would_fill_the_memory_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(imdb, "MAX_UNPACKED_BYTES", 50, raising=False)
    for key, content in REVIEWS.items():
        put(tmp_path.joinpath("aclImdb", *key), content)
    with pytest.raises(DataError, match=r"aclImdb has more than .* or 50 bytes"):
        imdb_source().read(tmp_path / "aclImdb")


def test_a_review_that_is_not_utf8_is_named(tmp_path):
    reviews = REVIEWS | {("test", "pos", "0_7.txt"): b"caf\xe9"}
    path = put(tmp_path / "a.tar.gz", imdb_archive(reviews))
    with pytest.raises(DataError, match=r"review 'test/pos/0_7\.txt' is not UTF-8"):
        imdb_source(reviews).read(path)


@pytest.mark.parametrize("labels", [[1, 2**31 - 1], [-1, 1], [100, 1]])
def test_labels_of_no_class_are_refused(labels):
    with pytest.raises(DataError, match="CIFAR-100 file train has labels from"):
        parse(python2_pickle(np.zeros((len(labels), 3072), np.uint8), labels), "train")


def test_too_little_memory_is_one_line(tmp_path, monkeypatch):
    def none_left(*_):
        raise MemoryError

    monkeypatch.setattr(imdb, "content_digest", none_left)
    with pytest.raises(DataError, match="too large for the memory that is free"):
        imdb_source().read(put(tmp_path / "a.tar.gz", imdb_archive()))
