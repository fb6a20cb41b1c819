"""IMDB: reviews are verified by content and come out in one order, whatever holds them."""

from __future__ import annotations

import numpy as np
import pytest
from data_makers import REVIEWS, imdb_archive, imdb_source, put, tar_gz, unpacked

from workloads.data.dataset import DataError
from workloads.data.tokenizer import FIRST_WORD, PADDING, UNKNOWN


def folder(place, reviews=REVIEWS):
    return unpacked(place, "aclImdb", reviews)


def test_archive_and_folder_give_the_same(tmp_path):
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
