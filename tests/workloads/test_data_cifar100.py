"""CIFAR-100's pickles: the right pixels in the right place, and nothing is unpickled."""

from __future__ import annotations

import os
import pickle
from dataclasses import replace

import numpy as np
import pytest
from data_makers import cifar_archive, cifar_files, cifar_source, put, python2_pickle, tar_gz, unpacked

from workloads.data.dataset import DataError

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


def test_the_same_pickle_as_python_reads_it():
    labels = [n % 100 for n in range(2345)]  # in three runs
    rows = np.random.Generator(np.random.Philox(key=1)).integers(0, 256, (2345, 3072), dtype=np.uint8)
    content = python2_pickle(rows, labels)
    read = pickle.loads(content, encoding="bytes")
    split, _ = cifar_source(FILES).parse(FILES | {"train": content})
    assert split.labels.tolist() == read[b"fine_labels"] == labels
    assert np.array_equal(split.inputs, read[b"data"].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))


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
