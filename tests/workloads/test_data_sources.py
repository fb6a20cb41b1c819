"""Sources: where they are looked for, and what their archives and folders give, or are refused for."""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from data_makers import (
    REVIEWS,
    archive,
    cifar_archive,
    cifar_files,
    cifar_source,
    imdb_archive,
    imdb_source,
    put,
    python2_pickle,
    tar_gz,
    unpacked,
)

from workloads.data.cache import open_cached
from workloads.data.dataset import DataError, arrays
from workloads.data.prepare import SOURCES, data_directory, prepare
from workloads.data.real.archive import read_archive
from workloads.data.real.sources import content_digest
from workloads.data.tokenizer import FIRST_WORD, PADDING, UNKNOWN

NOBODY = 65534


@contextmanager
def unprivileged() -> Iterator[None]:
    """Permissions bind, even where the tests run as root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def open_path():
    """A folder that others can reach too, which pytest's own is not."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        yield Path(name)


def test_the_archive_or_the_folder_at_the_top_or_one_below(tmp_path):
    source = cifar_source(cifar_files())
    assert source.find(tmp_path) is None
    below = tmp_path / "sets" / source.folder
    below.mkdir(parents=True)
    assert source.find(tmp_path) == below
    assert source.find(below) == below
    archive_below = put(tmp_path / "archives" / source.archive.file, b"")
    assert source.find(tmp_path) == archive_below  # the folders below go by name
    archive = put(tmp_path / source.archive.file, b"")
    assert source.find(tmp_path) == archive
    (tmp_path / "two" / "down" / source.folder).mkdir(parents=True)
    assert source.find(tmp_path / "two" / "down") == tmp_path / "two" / "down" / source.folder


@pytest.mark.parametrize(("make", "reason"), [(None, "No such file"), (Path.touch, "Not a directory")])
def test_a_directory_that_is_none_is_an_error(tmp_path, make, reason):
    place = tmp_path / "data"
    if make:
        make(place)
    with pytest.raises(DataError, match=f"data directory .*data cannot be read: {reason}"):
        cifar_source(cifar_files()).find(place)


def test_a_closed_directory_is_an_error_and_a_closed_one_below_is_passed_over(open_path):
    source = cifar_source(cifar_files())
    closed = open_path / "closed"
    closed.mkdir(mode=0)
    with unprivileged():
        assert source.find(open_path) is None
        with pytest.raises(DataError, match="closed cannot be read: Permission denied"):
            source.find(closed)


def test_an_archive_that_may_not_be_read_is_an_error(open_path):
    source = cifar_source(cifar_files())
    put(open_path / source.archive.file, b"secret").chmod(0)
    with unprivileged(), pytest.raises(DataError, match="cannot be used: Permission denied"):
        source.read(source.find(open_path) or Path())


FILES = cifar_files()


def test_channels_rows_and_columns_come_out_in_place():
    row, column = np.mgrid[:32, :32]
    planes = [np.full((32, 32), 200), 8 * row, 8 * column]  # red constant, green by row, blue by column
    rows = np.stack([np.concatenate([plane.ravel() for plane in planes])] * 2).astype(np.uint8)
    split, _ = cifar_source(FILES).parse(FILES | {"train": python2_pickle(rows, [40, 99])})
    assert split.inputs.shape == (2, 32, 32, 3)
    assert split.inputs.dtype == np.uint8
    assert split.inputs.flags.c_contiguous
    assert split.inputs[1, 5, 9].tolist() == [200, 40, 72]
    assert (split.inputs[..., 0] == 200).all()
    assert split.labels.tolist() == [40, 99]
    assert split.labels.dtype == np.int32


def test_archive_and_folder_give_the_same(tmp_path):
    source = cifar_source(FILES)
    from_archive = source.read(put(tmp_path / source.archive.file, cifar_archive(FILES)))
    assert from_archive.digest == source.read(unpacked(tmp_path, source.folder, FILES)).digest
    assert (from_archive.name, from_archive.kind) == ("cifar100", "real")
    assert (len(from_archive.train), len(from_archive.test)) == (6, 4)


class Touch:
    """Unpickled, it makes a folder."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_a_hostile_pickle_does_nothing_even_where_its_digest_holds(tmp_path):
    harm = tmp_path / "harm"
    files = FILES | {"train": pickle.dumps({"fine_labels": Touch(harm)})}
    for source in (cifar_source(files), cifar_source(FILES)):
        with pytest.raises(DataError, match=r"is not the pickle|digest"):
            source.read(put(tmp_path / "cifar.tar.gz", cifar_archive(files)))
    assert not harm.exists()
    pickle.loads(files["train"])
    assert harm.exists()  # so it would have done harm


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (FILES["train"][: len(FILES["train"]) // 2], "no pixels of 6 images"),
        (FILES["train"][:-1], "no pixels of 6 images"),
        (python2_pickle(np.zeros((2, 3072), np.uint8), [1]), "no pixels of 1 images"),
        (python2_pickle(np.zeros((2, 3071), np.uint8), [1, 2]), "no pixels of 2 images"),
        (b"x", "no list of labels"),
    ],
    ids=["truncated", "cut by one", "labels", "width", "none"],
)
def test_what_is_not_the_pickle_is_refused_even_where_its_digest_holds(tmp_path, content, complaint):
    files = FILES | {"train": content}
    with pytest.raises(DataError, match=complaint):
        cifar_source(files).read(unpacked(tmp_path, "cifar-100-python", files))


def test_a_missing_or_another_file_is_refused(tmp_path):
    for files in ({"train": FILES["train"]}, FILES | {"test": FILES["train"]}):
        archive = put(tmp_path / "a.tar.gz", tar_gz({f"cifar-100-python/{name}": files[name] for name in files}))
        for path in (archive, unpacked(tmp_path / "x", "cifar-100-python", files)):
            with pytest.raises(DataError, match=r"files have the digest .*; replace it by the official one"):
                cifar_source(FILES).read(path)


def test_an_unexpected_digest_is_refused(tmp_path):
    source = replace(cifar_source(FILES), digest="0" * 64)
    with pytest.raises(DataError, match=r"parsed to digest .* expected 0000"):
        source.read(unpacked(tmp_path, source.folder, FILES))


def folder(place, reviews=REVIEWS):
    return unpacked(place, "aclImdb", reviews)


def test_reviews_of_archive_and_folder_are_the_same(tmp_path):
    source = imdb_source()
    archive = put(tmp_path / "a.tar.gz", imdb_archive())
    data = source.read(archive)
    assert data.digest == source.read(folder(tmp_path)).digest
    assert (data.name, data.kind) == ("imdb", "real")
    assert data.train.inputs.shape == (4, 500)
    assert data.train.inputs.dtype == np.uint16
    assert data.train.labels.tolist() == data.test.labels.tolist() == [0, 0, 1, 1]
    assert data.train.labels.dtype == np.int32


def test_the_order_in_the_archive_does_not_matter_nor_does_what_else_is_in_it(tmp_path):
    members = {f"aclImdb/{name}": content for name, content in reversed(REVIEWS.items())}
    others = {"aclImdb/train/unsup/0_0.txt": b"x", "aclImdb/README": b"y", "aclImdb/train/pos/urls.dat": b"z"}
    shuffled = put(tmp_path / "a.tar.gz", tar_gz(others | members))
    plain = put(tmp_path / "b.tar.gz", imdb_archive())
    assert imdb_source().read(shuffled).digest == imdb_source().read(plain).digest


def test_the_vocabulary_knows_the_training_split_only(tmp_path):
    data = imdb_source().read(put(tmp_path / "a.tar.gz", imdb_archive()))
    bad = FIRST_WORD  # the training split's most frequent word: "bad" 4, then "a", "film", "good" 2 each
    assert data.train.inputs[1, -3:].tolist() == [PADDING, bad, bad]
    assert data.test.inputs[0, -3:].tolist() == [PADDING, UNKNOWN, bad]  # "unseen" is the test split's most frequent
    assert data.test.inputs[2, -1] == FIRST_WORD + 3  # "good"
    assert data.test.inputs[3, -2:].tolist() == [FIRST_WORD + 1, FIRST_WORD + 2]  # "a film"


@pytest.mark.parametrize(
    "change",
    [
        {"train/pos/0_9.txt": b"A good filM"},
        {"train/pos/0_9.txt": None, "train/pos/0_8.txt": b"A good film"},
        {"train/neg/0_1.txt": None},
        {"test/neg/2_1.txt": b"one more"},
    ],
    ids=["changed", "renamed", "missing", "added"],
)
def test_reviews_that_are_not_the_official_ones_are_refused(tmp_path, change):
    reviews = {key: content for key, content in (REVIEWS | change).items() if content is not None}
    for path in (put(tmp_path / "a.tar.gz", imdb_archive(reviews)), folder(tmp_path, reviews)):
        with pytest.raises(DataError, match=r"files have the digest .* the official"):
            imdb_source().read(path)


UNREADABLE = {
    "not UTF-8": ("imdb", imdb_archive(REVIEWS | {"test/pos/0_7.txt": b"\xff"}), "codec"),
    "a part missing": ("imdb", imdb_archive({"train/pos/0_9.txt": b"x"}), "a split has no samples"),
    "a file missing": ("cifar100", tar_gz({"cifar-100-python/train": b"x"}), "no list of labels"),
    "no pickle": ("cifar100", cifar_archive({"train": b"x", "test": b"y"}), "is not the pickle"),
    "no archive": ("imdb", b"<html>", "Not a gzipped file"),
}


@pytest.mark.parametrize(("name", "content", "complaint"), UNREADABLE.values(), ids=UNREADABLE)
def test_if_it_cannot_be_read_nobody_is_told_to_replace_it(tmp_path, name, content, complaint):
    known = imdb_source() if name == "imdb" else cifar_source(cifar_files())
    files = read_archive(put(tmp_path / "a.tar.gz", content), known._wants, 2**20) if content[:1] == b"\x1f" else {}
    source = replace(known, archive=archive(content, known.archive.url), content=content_digest(files))
    with pytest.raises(DataError, match=rf"{complaint}.*; its MD5 is that of the official archive, .*report it"):
        source.read(put(tmp_path / "a.tar.gz", content))
    with pytest.raises(DataError, match="; replace it by the official one"):
        known.read(tmp_path / "a.tar.gz")


# By name: shapes of the training inputs and labels, samples of the test split, and the sum of the training inputs.
FACTS = {
    "cifar100": ((50_000, 32, 32, 3), 10_000, 18_729_378_732),
    "imdb": ((25_000, 500), 25_000, 2_396_163_085),
}


@pytest.mark.parametrize("name", ["cifar100", pytest.param("imdb", marks=pytest.mark.slow)])
def test_real_data(name, tmp_path):
    directory = data_directory()
    if directory is None:
        pytest.skip("SUITE_DATA_DIR is not set")
    if SOURCES[name].find(directory) is None:
        pytest.skip(f"{directory} has no {name}")
    before = sorted(directory.iterdir())
    folder = prepare(name, "real", cache=tmp_path, fetch=False)
    data = open_cached(folder)
    shape, tests, total = FACTS[name]
    assert data.kind == "real"
    assert data.digest == SOURCES[name].digest
    assert data.train.inputs.shape == shape
    assert len(data.test) == tests
    assert int(data.train.inputs.sum(dtype=np.int64)) == total
    assert all(array.dtype == kind for array, kind in zip(arrays(data).values(), types(name), strict=True))
    classes = 100 if name == "cifar100" else 2
    for split in (data.train, data.test):
        assert set(np.bincount(split.labels)) == {len(split) // classes}
    assert sorted(directory.iterdir()) == before


def types(name):
    inputs = np.uint8 if name == "cifar100" else np.uint16
    return inputs, np.int32, inputs, np.int32
