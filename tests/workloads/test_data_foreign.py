"""Nothing that this program did not write is ever removed or replaced, whatever name it has."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from data_makers import put
from test_data_cache import change_a_byte, change_meta
from test_data_fetch import CONTENT, get, host  # noqa: F401 - a fixture
from test_data_prepare import SOURCE, cache, data, no_network, real, small_twins  # noqa: F401 - fixtures
from test_data_sources import open_path, unprivileged  # noqa: F401 - a fixture

from suite.data.__main__ import main
from workloads.data.cache import FILES, verify, write
from workloads.data.dataset import DataError
from workloads.data.prepare import prepare
from workloads.data.real.fetch import part_name
from workloads.data.synthetic import generate

# ruff: noqa: F811 - arguments named after imported fixtures

NAME = "cifar100-real-v1"
META = {"name": "cifar100", "kind": "real", "version": 1}


def snapshot(place):
    """All that lies there, but locks: links by their targets, files by their content."""
    return {
        str(path.relative_to(place)): str(path.readlink())
        if path.is_symlink()
        else path.is_file() and path.read_bytes()
        for path in sorted(place.rglob("*"))
        if path.suffix != ".lock"
    }


def notes(cache):
    put(cache / NAME / "thesis.txt", b"years of work")


def same_names_and_no_meta(cache):
    for name in FILES[:-1]:
        put(cache / NAME / name, b"own arrays")


def a_meta_of_another_program(cache):
    put(cache / NAME / "meta.json", b'{"title": "my thesis"}')


def a_meta_of_something_else(cache):
    put(cache / NAME / "meta.json", json.dumps(META | {"name": "imdb"}).encode())


def a_broken_meta(cache):
    put(cache / NAME / "meta.json", b"{")


def a_cache_with_more_in_it(cache):
    put(cache / NAME / "meta.json", json.dumps(META).encode())
    put(cache / NAME / "train_labels.npy" / "inside", b"years of work")


def a_file(cache):
    put(cache / NAME, b"years of work")


def a_link_to_a_folder(cache):
    put(cache / "elsewhere" / "meta.json", json.dumps(META).encode())
    (cache / NAME).symlink_to("elsewhere")


def a_link_to_nowhere(cache):
    cache.mkdir()
    (cache / NAME).symlink_to("elsewhere")


FOREIGN = (
    notes,
    same_names_and_no_meta,
    a_meta_of_another_program,
    a_meta_of_something_else,
    a_broken_meta,
    a_cache_with_more_in_it,
    a_file,
    a_link_to_a_folder,
    a_link_to_nowhere,
)
each_foreign = pytest.mark.parametrize("make", FOREIGN)


@each_foreign
@pytest.mark.parametrize("source", ["real", "auto"])
def test_what_lies_under_the_name_of_a_cache_stays(real, cache, make, source):
    make(cache)
    before = snapshot(cache)
    with pytest.raises(DataError, match=rf"{NAME} .* stays as it is; move it away, or .* SUITE_CACHE_DIR") as caught:
        real(source=source)
    assert "\n" not in str(caught.value)
    assert real.said == []  # so that nobody waits for the parsing first
    assert snapshot(cache) == before


@each_foreign
def test_the_one_who_writes_looks_too(tmp_path, make):
    """Something may come to lie there between the first look and the writing."""
    make(tmp_path / "cache")
    before = snapshot(tmp_path / "cache")
    with pytest.raises(DataError, match="stays as it is"):
        write(real_data(), tmp_path / "cache")
    assert snapshot(tmp_path / "cache") == before


def real_data():
    return replace(generate("cifar100", 4, 2), kind="real")


def test_a_damaged_cache_of_ours_is_replaced(tmp_path):
    for harm in (change_a_byte, change_meta(version=7), lambda folder: (folder / "test_labels.npy").unlink()):
        folder = write(real_data(), tmp_path)
        harm(folder)
        assert verify(write(real_data(), tmp_path))
        assert [path.name for path in tmp_path.iterdir()] == [NAME]


def test_a_valid_cache_may_be_a_link_or_hold_more(real, cache):
    folder = real()
    put(folder / ".DS_Store", b"")
    (cache / "elsewhere").mkdir()
    folder.rename(cache / "elsewhere" / NAME)
    folder.symlink_to(cache / "elsewhere" / NAME)
    assert real() == folder
    assert len(real.said) == 1


def test_only_what_killed_writers_left_is_swept(real, cache):
    ours = f"{NAME}.tmp-abc_1234"
    put(cache / ours / "train_inputs.npy", b"half")
    kept = [
        put(cache / f"{NAME}.tmp-backup" / "train_inputs.npy", b"ours by its files, but not by its name"),
        put(cache / f"{NAME}.tmp-abcdefgh" / "thesis.txt", b"ours by its name, but not by its files"),
        put(cache / f"{NAME}.tmp-12345678" / "meta.json" / "inside", b"a folder named as a file"),
        put(cache / f"{NAME}.tmp-file1234", b"no folder"),
        put(cache / f"x{NAME}.tmp-abcdefgh" / "meta.json", b"another name"),
        put(cache / "elsewhere" / "meta.json", b"behind a link"),
    ]
    (cache / f"{NAME}.tmp-link1234").symlink_to("elsewhere")
    (cache / f"{NAME}.tmp-linked12").mkdir()
    (cache / f"{NAME}.tmp-linked12" / "meta.json").symlink_to(kept[0])
    before = snapshot(cache)
    real()
    after = snapshot(cache)
    assert {path for path in before if path not in after} == {ours, f"{ours}/train_inputs.npy"}
    assert {path for path in after if path not in before} == {NAME, *(f"{NAME}/{name}" for name in FILES)}
    assert all(path.exists() for path in kept)


def test_a_part_of_another_program_is_left_alone(host, tmp_path):
    path = put(tmp_path / "data.tar.gz.part", b"a browser's own")
    assert get(host, tmp_path).read_bytes() == CONTENT
    assert host.ranges == [None]
    assert path.read_bytes() == b"a browser's own"
    assert host.archive.md5[:12] in part_name(host.archive)


def test_a_closed_cache_directory_is_one_line(real, open_path, capsys):
    (open_path / "cache").mkdir(mode=0)
    with unprivileged():
        with pytest.raises(DataError, match=r"cache directory .* cannot be written: Permission denied"):
            real(cache=open_path / "cache", directory=None, fetch=False)
        for command in ("verify", "where"):
            assert main([command, "--cache-dir", str(open_path / "cache")]) == 1
            assert capsys.readouterr().err.startswith("error: cache directory ")


def test_a_home_that_is_none_is_one_line(monkeypatch):
    with pytest.raises(DataError, match=r"~nobody-of-this-name/x: .*; name a directory in full"):
        prepare("imdb", "synthetic", cache="~nobody-of-this-name/x")
