"""Where sources are looked for."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from data_makers import cifar_files, cifar_source, put

from workloads.data.dataset import DataError

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


def test_two_folders_down_is_not_searched(tmp_path):
    source = cifar_source(cifar_files())
    (tmp_path / "two" / "down" / source.folder).mkdir(parents=True)
    assert source.find(tmp_path) is None


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
