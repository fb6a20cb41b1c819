"""What is no regular file is refused in one line, wherever it lies, and nothing waits for it."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import pytest
from data_makers import cifar_files, cifar_source, put, unpacked
from test_data_fetch import get, host  # noqa: F401 - a fixture
from test_data_prepare import cache, no_network  # noqa: F401 - fixtures

from suite.data.__main__ import main
from workloads.data.cache import open_cached, write
from workloads.data.dataset import DataError
from workloads.data.files import read_regular, regular
from workloads.data.prepare import NAMES, SOURCES, prepare
from workloads.data.real.fetch import DownloadError, find_verified
from workloads.data.synthetic import generate

# ruff: noqa: F811 - arguments named after imported fixtures

EXPECTED = "and a regular file is expected"


@pytest.fixture(autouse=True)
def deadline():
    """What waits for a FIFO would wait for ever."""

    def give_up(*_):
        raise TimeoutError("it waits")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(10)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def make_socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # a socket's whole name must be short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


SPECIAL = {
    "a FIFO": os.mkfifo,
    "a socket": make_socket,
    "a device": lambda path: path.symlink_to("/dev/null"),
}
each_kind = pytest.mark.parametrize("kind", SPECIAL)


def special(path: Path, kind: str) -> Path:
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    SPECIAL[kind](path)
    return path


@each_kind
@pytest.mark.parametrize("name", NAMES)
def test_an_archive_in_the_data_directory(tmp_path, cache, capsys, name, kind):
    path = special(tmp_path / "data" / SOURCES[name].archive.file, kind)
    assert main(["fetch", name, "--data-dir", str(path.parent), "--cache-dir", str(cache)]) == 1
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert errors == [
        f"error: {path} cannot be used: it is {kind}, {EXPECTED}; "
        "replace it by the official one, or remove it to have it downloaded"
    ]


@each_kind
@pytest.mark.parametrize("name", ["train", "test", "."])
def test_a_file_of_cifar100_or_its_folder(tmp_path, kind, name):
    source = cifar_source(cifar_files())
    folder = tmp_path / "data" / source.folder
    if name == ".":
        special(folder, kind)
    else:
        unpacked(tmp_path / "data", source.folder, cifar_files())
        special(folder / name, kind)
    found = source.find(tmp_path / "data")
    assert found == folder
    with pytest.raises(DataError, match=rf"{kind}, {EXPECTED}; replace it"):
        source.read(found)


@each_kind
def test_an_archive_among_the_downloads(cache, kind):
    source = cifar_source(cifar_files())
    path = special(cache / "downloads" / source.archive.file, kind)
    with pytest.raises(DownloadError, match=f"{kind}, {EXPECTED}; remove it"):
        find_verified(source.archive, path.parent)
    with pytest.raises(DataError, match=f"no real cifar100 in the cache, and .*{kind}, {EXPECTED}"):
        prepare("cifar100", "real", cache=cache, official=source)
    assert path.exists()


@each_kind
def test_the_lock(cache, kind):
    path = special(cache / "imdb-synthetic-v1.lock", kind)
    with pytest.raises(DataError, match=rf"cannot be written: it is {kind}, {EXPECTED}; fix that at {path}"):
        prepare("imdb", "synthetic", cache=cache)


@each_kind
@pytest.mark.parametrize("name", ["meta.json", "test_labels.npy"])
def test_a_file_of_the_cache(cache, kind, name):
    folder = write(generate("imdb", 4, 2), cache)
    special(folder / name, kind)
    with pytest.raises(DataError, match=rf"{name}: it is {kind}, {EXPECTED}; move it away, and .* builds it anew"):
        open_cached(folder)
    with pytest.raises(DataError, match=f"holds '{name}', so it is not known as a cache"):
        prepare("imdb", "synthetic", cache=cache)


@pytest.mark.parametrize("mode", ["a", "ab", "wb"])
@pytest.mark.parametrize("there", [True, False])
def test_nothing_is_written_where_a_link_leads(tmp_path, mode, there):
    target, link = tmp_path / "mine", tmp_path / "set.lock"
    if there:
        target.write_bytes(b"mine")
    link.symlink_to(target)
    with pytest.raises(OSError, match="it is a link"):
        open(link, mode, opener=regular)  # noqa: SIM115 - it is not opened
    assert target.exists() == there
    assert not there or target.read_bytes() == b"mine"


def test_a_folder_is_no_regular_file_and_a_link_to_one_is(tmp_path):
    path = put(tmp_path / "a", b"content")
    (tmp_path / "link").symlink_to(path)
    assert read_regular(tmp_path / "link", 7) == b"content"
    with pytest.raises(OSError, match=f"it is a folder, {EXPECTED}"):
        read_regular(tmp_path, 7)
    with pytest.raises(OSError, match="it has more than 6 bytes"):
        read_regular(path, 6)


def test_what_takes_the_place_of_a_file_meanwhile_is_not_opened(tmp_path, monkeypatch):
    path, fifo = put(tmp_path / "a", b"content"), tmp_path / "fifo"
    os.mkfifo(fifo)
    stat = Path.stat

    # Only for this one file: pytest, too, asks for the state of files meanwhile.
    def swap(self, **options):
        found = stat(self, **options)
        if self == path and fifo.exists():
            fifo.replace(path)
        return found

    monkeypatch.setattr(Path, "stat", swap)
    with pytest.raises(OSError, match="it is a FIFO"):
        read_regular(path, 100)
