"""The cache is whole or not there, opens without reading, and says so when it is damaged."""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
import threading
from dataclasses import replace

import numpy as np
import pytest
from data_makers import files_up_to
from test_data_broken import mutated, one_line

from workloads.data import synthetic
from workloads.data.cache import VERSION, digest, folder_of, open_cached, verify, write
from workloads.data.dataset import DataError, Split, arrays


@pytest.fixture
def data():
    return synthetic.generate("cifar100", 20, 10)


def test_what_is_written_is_what_is_opened(tmp_path, data):
    folder = write(data, tmp_path / "new" / "cache")
    assert folder == folder_of(tmp_path / "new" / "cache", "cifar100", "synthetic")
    assert folder.name == f"cifar100-synthetic-v{VERSION}"
    opened = open_cached(folder)
    assert (opened.name, opened.kind, opened.digest) == (data.name, data.kind, data.digest)
    for name, array in arrays(opened).items():
        assert isinstance(array, np.memmap)
        assert not array.flags.writeable
        np.testing.assert_array_equal(array, arrays(data)[name], strict=True)
        np.testing.assert_array_equal(np.load(folder / f"{name}.npy"), arrays(data)[name], strict=True)
    assert verify(folder).digest == digest(opened) == data.digest
    assert sorted(path.name for path in folder.iterdir()) == sorted(["meta.json", *(f"{n}.npy" for n in arrays(data))])
    assert folder.stat().st_mode & 0o777 == 0o755


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("name", [".", "meta.json", "train_inputs.npy"])
def test_what_others_can_change_is_no_cache(tmp_path, data, name):
    folder = write(data, tmp_path)
    place = folder / name
    mode = place.stat().st_mode
    for more in (0o002, 0o020):
        place.chmod(mode | more)
        if more == 0o020:
            os.chown(place, -1, 65534)  # a group that is not the user's own
        with pytest.raises(DataError, match="others can change it"):
            open_cached(folder)
    place.chmod(mode)
    assert open_cached(folder)
    os.chown(place, 65534, -1)
    with pytest.raises(DataError, match="it belongs to user 65534"):
        open_cached(folder)
    assert verify(write(data, tmp_path)), "it is built anew"


def test_a_cache_is_closed_to_others_whatever_the_umask(tmp_path, data):
    before = os.umask(0)
    try:
        folder = write(data, tmp_path / "cache")
    finally:
        os.umask(before)
    assert not [path for path in (tmp_path / "cache", folder, *folder.iterdir()) if path.stat().st_mode & 0o022]


def test_the_digest_depends_on_bytes_types_and_shapes_but_not_on_layout(data):
    def with_train(inputs, labels):
        return digest(replace(data, train=Split(inputs, labels)))

    inputs, labels = data.train.inputs, data.train.labels
    same = with_train(np.asfortranarray(inputs), labels.astype(">i4"))
    assert same == data.digest
    changed = inputs.copy()
    changed[-1, -1, -1, -1] ^= 1
    others = [
        with_train(changed, labels),
        with_train(inputs, labels.astype(np.int64)),
        with_train(inputs.view(np.int8), labels),
        with_train(inputs.reshape(20, -1), labels),
        digest(replace(data, train=data.test, test=data.train)),
    ]
    assert len({data.digest, *others}) == 6


def change_a_byte(folder):
    with (folder / "test_labels.npy").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x7f")


def change_meta(**values):
    def change(folder):
        meta = json.loads((folder / "meta.json").read_text())
        (folder / "meta.json").write_text(json.dumps(meta | values))

    return change


def test_a_changed_byte_is_found_by_verify(tmp_path, data):
    folder = write(data, tmp_path)
    change_a_byte(folder)
    open_cached(folder)
    with pytest.raises(DataError, match=r"is damaged: digest .*fetch` builds it anew"):
        verify(folder)


def cut(folder):
    content = (folder / "train_inputs.npy").read_bytes()
    (folder / "train_inputs.npy").write_bytes(content[:-1])


def empty(folder):
    (folder / "train_inputs.npy").write_bytes(b"")


def another_type(folder):
    np.save(folder / "train_labels.npy", np.zeros(20, np.int64))


def another_number(folder):
    np.save(folder / "train_labels.npy", np.zeros(19, np.int32))
    meta = json.loads((folder / "meta.json").read_text())
    meta["arrays"]["train_labels"]["shape"] = [19]
    (folder / "meta.json").write_text(json.dumps(meta))


def pickled(folder):
    np.save(folder / "train_labels.npy", np.array([{}] * 20), allow_pickle=True)


@pytest.mark.parametrize(
    ("harm", "complaint"),
    [
        (cut, "train_inputs.npy has 61567 bytes, not 61568"),
        (empty, "is damaged"),
        (another_type, "train_labels.npy is int64"),
        (another_number, "inputs and labels differ in number"),
        (pickled, "train_labels.npy is object"),
        (lambda folder: (folder / "test_inputs.npy").unlink(), "has no file test_inputs.npy"),
        (lambda folder: (folder / "meta.json").unlink(), "has no file meta.json"),
        (lambda folder: (folder / "meta.json").write_text("{"), "is damaged"),
        (lambda folder: (folder / "meta.json").write_text("[]"), "is damaged"),
        (change_meta(version=VERSION + 1), f"has format {VERSION + 1}"),
        (change_meta(kind="other"), "kind other"),
        (change_meta(arrays={}), "is damaged"),
        (shutil.rmtree, "has no file meta.json"),
    ],
)
def test_other_damage_is_found_on_opening(tmp_path, data, harm, complaint):
    folder = write(data, tmp_path)
    harm(folder)
    with pytest.raises(DataError, match=complaint) as caught:
        open_cached(folder)
    assert "\n" not in str(caught.value)
    assert "builds it anew" in str(caught.value)


def test_a_full_disk_leaves_nothing_behind(tmp_path, data):
    with files_up_to(20_000), pytest.raises(OSError, match="File too large"):
        write(data, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_writers_at_once_all_end_well(tmp_path, data):
    failures = []

    def work():
        try:
            for _ in range(5):
                write(data, tmp_path)
        except OSError as error:
            failures.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert failures == []
    assert verify(folder_of(tmp_path, "cifar100", "synthetic")).digest == data.digest
    assert len(list(tmp_path.iterdir())) == 1


def test_mutated_caches_are_opened_or_refused(tmp_path):
    folder = write(synthetic.generate("imdb", 3, 2), tmp_path)
    dice = random.Random(20211)
    for _ in range(150):
        name = dice.choice(("meta.json", "train_inputs.npy", "test_labels.npy"))
        before = (folder / name).read_bytes()
        (folder / name).write_bytes(mutated(before[:120], dice) + before[120:])
        one_line(lambda: open_cached(folder))
        (folder / name).write_bytes(before)
    assert verify(folder)
