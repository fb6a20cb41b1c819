"""A store of samples is whole or not taken, nobody else can change it, and nothing of others is written over."""

from __future__ import annotations

import os
from itertools import chain

import numpy as np
import pytest
from data_makers import files_up_to

from workloads.data import cache, formats, synthetic
from workloads.data.dataset import DataError, DataSet

SAMPLES = 40


@pytest.fixture
def data(tmp_path):
    return cache.open_cached(cache.write(synthetic.generate("imdb", SAMPLES, 10), tmp_path))


def store(data):
    return formats.prepare_store(data, source(data), formats.FILES, print)


def source(data):
    return data.train.files[0].parent


def kill_while_storing(data, monkeypatch):
    contents = chain([b"half"] * (SAMPLES // 2), interrupted())
    with monkeypatch.context() as patch:
        patch.setattr(formats, "encode", lambda _: next(contents))
        with pytest.raises(KeyboardInterrupt):
            store(data)
    assert not formats.folder_of(source(data), formats.FILES).exists()


def interrupted():
    raise KeyboardInterrupt
    yield


def is_whole(data):
    stored = formats.open_stored(data, source(data), formats.FILES)
    inputs, labels = stored.take(range(SAMPLES))
    return np.array_equal(inputs, data.train.inputs) and np.array_equal(labels, data.train.labels)


def test_a_killed_writer_s_rest_is_written_over(data, monkeypatch):
    kill_while_storing(data, monkeypatch)
    store(data)
    assert is_whole(data)


def test_a_killed_writer_s_rest_of_other_data_is_no_part_of_a_store(data, tmp_path, monkeypatch):
    labels = 1 - data.train.labels  # so that the same indices lie in other folders
    other = DataSet(data.name, data.kind, "0" * 64, type(data.train)(data.train.inputs, labels), data.test)
    kill_while_storing(data, monkeypatch)
    folder = formats.prepare_store(other, source(data), formats.FILES, print)
    assert len(formats.list_files(folder)) == SAMPLES
    assert [place.name for place in tmp_path.glob("*.part")] == [f"{folder.name}-{data.digest[:16]}.part"]


def test_a_store_that_is_there_is_read_where_nothing_can_be_written(data, monkeypatch):
    """As on a read-only mount."""
    store(data)

    def refuse(*_):
        raise DataError("Read-only file system")

    monkeypatch.setattr(formats, "writing", refuse)
    assert store(data) == formats.folder_of(source(data), formats.FILES)
    assert is_whole(data)


def twice(folder):
    """One sample under two labels, in place of another."""
    one, other = formats.list_files(folder)[:2]
    other.rename(folder / "1" / one.name)


def strange(folder):
    (folder / "0" / "notes.txt").write_text("mine")


def lost(folder):
    formats.list_files(folder)[0].unlink()


@pytest.mark.parametrize("change", [twice, strange, lost])
def test_files_that_are_not_one_for_each_sample_are_an_error(change, data):
    folder = store(data)
    change(folder)
    with pytest.raises(DataError):
        formats.list_labelled(folder, SAMPLES)


@pytest.mark.parametrize("mask", [0o002, 0o000, 0o077])
def test_whatever_the_umask_others_can_read_a_store_and_not_change_it(mask, data):
    before = os.umask(mask)
    try:
        folder = store(data)
    finally:
        os.umask(before)
    modes = {path.is_dir(): path.stat().st_mode & 0o777 for path in (folder, *folder.rglob("*"))}
    assert modes == {True: 0o755, False: 0o644}


def test_a_file_that_others_can_change_is_refused(data):
    formats.list_files(store(data))[3].chmod(0o666)
    with pytest.raises(DataError, match="others can change it"):
        store(data)


def test_what_is_no_regular_file_is_refused(data):
    first = formats.list_files(store(data))[0]
    first.unlink()
    os.mkfifo(first, 0o644)
    with pytest.raises(DataError, match="a FIFO"):
        store(data)


def test_what_somebody_else_put_there_is_an_error_and_stays(data):
    theirs = formats.folder_of(source(data), formats.FILES) / "theirs"
    theirs.parent.mkdir()
    theirs.write_text("mine")
    with pytest.raises(DataError, match="cannot be read"):
        store(data)
    assert theirs.read_text() == "mine"


@pytest.mark.parametrize("kind", ["a link", "open to others"])
def test_no_store_is_made_in_what_others_can_change(kind, data, tmp_path):
    folder, theirs = formats.folder_of(source(data), formats.FILES), tmp_path / "theirs"
    part = folder.with_name(f"{folder.name}-{data.digest[:16]}.part")
    theirs.mkdir()
    if kind == "a link":
        part.symlink_to(theirs)
    else:
        theirs.rename(part).chmod(0o777)
    with pytest.raises(DataError):
        store(data)
    assert not [*part.iterdir()]
    assert not folder.exists()


def test_a_full_disk_leaves_no_store(data):
    with files_up_to(100), pytest.raises(DataError, match=r"cannot be written: File too large; .* SUITE_CACHE_DIR"):
        store(data)
    assert not formats.folder_of(source(data), formats.FILES).exists()
    store(data)
    assert is_whole(data)
