"""CIFAR-100's pickles: the right pixels in the right place, and nothing unverified or unexpected is unpickled."""

from __future__ import annotations

import os
import pickle
from dataclasses import replace

import numpy as np
import pytest
from data_makers import cifar_archive, cifar_files, cifar_source, md5, put, python2_pickle, tar_gz

from workloads.data.dataset import DataError
from workloads.data.real.cifar100 import parse


def test_channels_rows_and_columns_come_out_in_place():
    row, column = np.mgrid[:32, :32]
    planes = [np.full((32, 32), 200), 8 * row, 8 * column]  # red constant, green by row, blue by column
    rows = np.stack([np.concatenate([plane.ravel() for plane in planes])] * 2).astype(np.uint8)
    split = parse(python2_pickle(rows, [3, 99]), "train")
    assert split.inputs.shape == (2, 32, 32, 3)
    assert split.inputs.dtype == np.uint8
    assert split.inputs.flags.c_contiguous
    assert split.inputs[1, 5, 9].tolist() == [200, 40, 72]
    assert (split.inputs[..., 0] == 200).all()
    assert split.labels.tolist() == [3, 99]
    assert split.labels.dtype == np.int32


def test_archive_and_folder_give_the_same(tmp_path):
    files = cifar_files()
    source = cifar_source(files)
    archive = put(tmp_path / "a" / source.archive.file, cifar_archive(files))
    for name, content in files.items():
        put(tmp_path / "b" / source.folder / name, content)
    from_archive, from_folder = source.read(archive), source.read(tmp_path / "b" / source.folder)
    assert from_archive.digest == from_folder.digest
    assert (from_archive.name, from_archive.kind) == ("cifar100", "real")
    assert (len(from_archive.train), len(from_archive.test)) == (6, 4)


class Touch:
    """Unpickled without restrictions, it makes a file."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_hostile_pickle_does_nothing_even_where_its_checksum_holds(tmp_path, protocol):
    harm = tmp_path / "harm"
    files = cifar_files() | {"train": pickle.dumps({"data": Touch(harm)}, protocol)}
    path = put(tmp_path / "cifar.tar.gz", cifar_archive(files))
    with pytest.raises(DataError, match=r"names (posix|nt)\.mkdir"):
        cifar_source(files).read(path)
    assert not harm.exists()
    pickle.loads(files["train"])
    assert harm.exists()  # so it would have done harm


@pytest.mark.parametrize("name", ["builtins eval", "numpy frombuffer", "numpy.core.multiarray scalar"])
def test_no_other_name_is_known_to_the_unpickler(name):
    content = python2_pickle(np.zeros((1, 3072), np.uint8), [0], reconstruct=name)
    with pytest.raises(DataError, match=name.replace(" ", r"\.")):
        parse(content, "train")


def test_an_unverified_pickle_is_not_unpickled(tmp_path):
    files = cifar_files()
    changed = files | {"test": pickle.dumps(Touch(tmp_path / "harm"))}
    path = put(tmp_path / "cifar.tar.gz", cifar_archive(changed))
    with pytest.raises(DataError, match=f"test has MD5 .*, the official one has {md5(files['test'])}"):
        cifar_source(files).read(path)
    assert not (tmp_path / "harm").exists()


def test_a_missing_file_is_named(tmp_path):
    files = cifar_files()
    archive = put(tmp_path / "cifar.tar.gz", tar_gz({"cifar-100-python/train": files["train"]}))
    with pytest.raises(DataError, match="no file cifar-100-python/test"):
        cifar_source(files).read(archive)
    put(tmp_path / "cifar-100-python" / "train", files["train"])
    with pytest.raises(DataError, match=r"cifar-100-python/test cannot be read: No such file"):
        cifar_source(files).read(tmp_path / "cifar-100-python")


@pytest.mark.parametrize(
    ("rows", "labels", "complaint"),
    [((2, 3072), [1], "2 images but 1 labels"), ((2, 3071), [1, 2], "rows of 3072 bytes")],
)
def test_wrong_shapes_are_refused(rows, labels, complaint):
    with pytest.raises(DataError, match=complaint):
        parse(python2_pickle(np.zeros(rows, np.uint8), labels), "train")


def test_a_truncated_pickle_is_refused():
    content = cifar_files()["train"]
    with pytest.raises(DataError, match="is not the pickle"):
        parse(content[: len(content) // 2], "train")


def test_an_unexpected_digest_is_refused(tmp_path):
    files = cifar_files()
    source = replace(cifar_source(files), digest="0" * 64)
    for name, content in files.items():
        put(tmp_path / source.folder / name, content)
    with pytest.raises(DataError, match=r"parsed to digest .* expected 0000"):
        source.read(tmp_path / source.folder)
