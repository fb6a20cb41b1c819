"""The authors' own archive, known by size and MD5, is the data set, even if its content is not what is expected."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest
from data_makers import REVIEWS, archive, cifar_archive, cifar_files, imdb_archive, imdb_source, put, tar_gz, unpacked
from test_data_cache import change_meta
from test_data_identity import forge
from test_data_prepare import SOURCE, cache, no_network  # noqa: F401 - fixtures

from workloads.data import prepare as module
from workloads.data.__main__ import main
from workloads.data.cache import open_cached
from workloads.data.dataset import DataError
from workloads.data.prepare import prepare

# ruff: noqa: F811 - arguments named after imported fixtures

UNEXPECTED = 64 * "0"
PACKED = {"cifar100": cifar_archive(cifar_files()), "imdb": imdb_archive()}
# The archives are the authors' own; what this program expects of their content is wrong.
SOURCES = {
    "cifar100": replace(SOURCE, digest=UNEXPECTED, content=UNEXPECTED),
    "imdb": replace(
        imdb_source(),
        digest=UNEXPECTED,
        content=UNEXPECTED,
        archive=archive(PACKED["imdb"], imdb_source().archive.url),
    ),
}
each_set = pytest.mark.parametrize("name", SOURCES)


@pytest.fixture
def taken(tmp_path, cache, monkeypatch):
    """Calls `prepare` for official archives with unexpected content; what it says is in ``taken.said``."""

    def call(name, **options):
        put(tmp_path / "data" / SOURCES[name].archive.file, PACKED[name])
        monkeypatch.setitem(module.SOURCES, name, options.get("official", SOURCES[name]))
        options = {"directory": tmp_path / "data", "fetch": False, "say": call.said.append, **options}
        return prepare(name, "real", cache=cache, **options)

    call.said = []
    return call


@each_set
def test_it_is_taken_and_both_digests_are_recorded(taken, cache, capsys, tmp_path, name):
    folder = taken(name)
    found = open_cached(folder).digest
    meta = json.loads((folder / "meta.json").read_text())
    assert meta["digest"] == found != UNEXPECTED
    assert meta["official_archive"] == {
        "md5": SOURCES[name].archive.md5,
        "expected_digest": UNEXPECTED,
        "found_digest": found,
    }
    assert len(taken.said) == 2
    for part in ("authors' own archive", SOURCES[name].archive.md5, found[:16], UNEXPECTED[:16], "kept apart"):
        assert part in taken.said[1]
    assert "\n" not in taken.said[1]
    assert "replace" not in taken.said[1]

    shutil.rmtree(tmp_path / "data")
    assert prepare(name, "real", cache=cache, fetch=False, say=taken.said.append) == folder  # and again from the cache
    assert len(taken.said) == 2
    assert main(["verify", "--cache-dir", str(cache)]) == 0
    assert "verified by the MD5 of the authors' archive, not by the expected digest" in capsys.readouterr().out


@each_set
def test_expected_content_needs_no_voucher(taken, name):
    found = open_cached(taken(name)).digest
    folder = taken(name, official=replace(SOURCES[name], digest=found))
    assert open_cached(folder).digest == found
    assert len(taken.said) == 2


@each_set
@pytest.mark.parametrize("of", ["another archive", "a folder"])
def test_what_is_not_that_archive_is_refused_as_before(taken, tmp_path, name, of):
    source, path = SOURCES[name], tmp_path / "elsewhere"
    files = REVIEWS if name == "imdb" else cifar_files()
    if of == "a folder":
        unpacked(path, source.folder, files)
    else:
        members = {f"{source.folder}/{file}": content for file, content in files.items()}
        put(path / source.archive.file, tar_gz(members | {"one": b"more"}))
    with pytest.raises(DataError, match=r"digest .*, the official .* replace it by the official one"):
        taken(name, directory=path)


def change_voucher(**values):
    def change(folder):
        meta = json.loads((folder / "meta.json").read_text())
        change_meta(official_archive=meta["official_archive"] | values)(folder)

    return change


@each_set
@pytest.mark.parametrize(
    "harm",
    [
        forge,
        change_voucher(md5=32 * "1"),
        change_voucher(expected_digest=64 * "1"),
        change_voucher(found_digest="?"),
        change_meta(official_archive=None),
        change_meta(official_archive=[]),
        change_meta(official_archive={}),
    ],
    ids=["other data", "another archive", "an older expectation", "another digest", "none", "a list", "nothing in it"],
)
def test_a_voucher_for_something_else_does_not_count(taken, cache, capsys, name, harm):
    folder = taken(name)
    harm(folder)
    assert main(["verify", "--cache-dir", str(cache)]) == 1
    assert capsys.readouterr().err.startswith(f"error: cache {folder} is ")
    taken(name)
    assert taken.said[2].endswith("rebuilding it")


UNREADABLE = {
    "not UTF-8": ("imdb", imdb_archive(REVIEWS | {"test/pos/0_7.txt": b"\xff"}), "codec"),
    "a part missing": ("imdb", imdb_archive({"train/pos/0_9.txt": b"x"}), "a split has no samples"),
    "a file missing": ("cifar100", tar_gz({"cifar-100-python/train": b"x"}), "no list of labels"),
    "no pickle": ("cifar100", cifar_archive({"train": b"x", "test": b"y"}), "is not the pickle"),
    "no archive": ("imdb", b"<html>", "Not a gzipped file"),
}


@pytest.mark.parametrize(("name", "content", "complaint"), UNREADABLE.values(), ids=UNREADABLE)
def test_if_it_cannot_be_read_nobody_is_told_to_replace_it(tmp_path, name, content, complaint):
    source = replace(SOURCES[name], archive=archive(content, SOURCES[name].archive.url))
    with pytest.raises(DataError, match=rf"{complaint}.*; its MD5 is that of the official archive, .*report it"):
        source.read(put(tmp_path / "a.tar.gz", content))
    with pytest.raises(DataError, match="; replace it by the official one"):
        SOURCES[name].read(tmp_path / "a.tar.gz")


def test_the_archive_is_hashed_to_its_very_end(tmp_path):
    """What follows the tar's end mark is part of the archive and of its MD5."""
    source, content = SOURCES["cifar100"], PACKED["cifar100"]
    path = put(tmp_path / "a.tar.gz", content + bytes(10**6))
    with pytest.raises(DataError, match="files have the digest"):
        source.read(path)
    longer = replace(source, archive=archive(content + bytes(10**6), source.archive.url))
    assert longer.read(path).voucher
