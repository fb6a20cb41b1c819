"""From a name to a cache folder: what is taken first, what is refused, and what is said."""

from __future__ import annotations

import pickle
import shutil
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from data_makers import cifar_archive, cifar_files, cifar_source, files_up_to, imdb_source, put
from test_data_cache import change_a_byte
from test_data_sources import open_path, unprivileged  # noqa: F401 - a fixture

from workloads.data import prepare as module
from workloads.data import synthetic
from workloads.data.cache import folder_of, open_cached, verify
from workloads.data.dataset import DataError
from workloads.data.prepare import cache_directory, data_directory, prepare

ROOT = Path(__file__).parents[2]
FILES = cifar_files()
SOURCE = cifar_source(FILES)


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    """A download would fail at once; nor does the environment of whoever runs the tests matter."""
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("SUITE_DATA_DIR", "SUITE_CACHE_DIR", "no_proxy", "NO_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def data(tmp_path):
    put(tmp_path / "data" / SOURCE.archive.file, cifar_archive(FILES))
    return tmp_path / "data"


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


@pytest.fixture(autouse=True)
def small_twins(monkeypatch):
    sizes = {name: (make, (400, 100)) for name, (make, _) in synthetic.TWINS.items()}
    monkeypatch.setattr(synthetic, "TWINS", sizes)


@pytest.fixture
def real(data, cache):
    """`prepare` for the tiny official data, with all that it says in ``real.said``."""
    said: list[str] = []
    call = partial(prepare, "cifar100", source="real", directory=data, cache=cache, official=SOURCE, say=said.append)
    call.said = said  # type: ignore[attr-defined]
    return call


def names(folder):
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".lock")


def test_real_data_from_a_directory(real, data, cache):
    before = names(data)
    folder = real()
    assert folder == cache / "cifar100-real-v1"
    assert open_cached(folder).kind == "real"
    assert real.said == [f"cifar100: reading {data / SOURCE.archive.file}"]
    assert names(data) == before
    assert names(cache) == [folder.name]


def test_a_valid_cache_goes_before_the_directory(real, data):
    folder = real()
    shutil.rmtree(data)
    assert real() == real(directory=None) == real(source="auto") == folder
    assert len(real.said) == 1


def test_a_read_only_cache_is_enough(real, open_path):  # noqa: F811
    folder = real(cache=open_path)
    open_path.chmod(0o555)
    with unprivileged():
        assert real(cache=open_path) == folder


def test_a_damaged_cache_is_built_anew(real):
    folder = real()
    digest = open_cached(folder).digest
    change_a_byte(folder)
    assert real() == folder
    assert verify(folder).digest == digest
    assert "is damaged" in real.said[1]


def test_a_damaged_cache_without_a_source_is_an_error(real):
    change_a_byte(real())
    with pytest.raises(DataError, match="no real cifar100 in the cache"):
        real(directory=None, fetch=False)


def test_a_cache_of_other_data_is_not_taken_for_the_official(real):
    digest = open_cached(real()).digest
    mine = replace(SOURCE, digest="0" * 64, archive=replace(SOURCE.archive, md5="0" * 32))
    with pytest.raises(DataError, match="parsed to digest"):
        real(official=mine)
    assert "has the digest" in real.said[1]
    real(official=replace(SOURCE, digest=digest))


@pytest.mark.parametrize("source", ["real", "auto"])
@pytest.mark.parametrize("harm", ["truncated", "tampered", "empty folder"])
def test_a_broken_source_is_an_error_and_never_replaced(real, data, cache, source, harm):
    path = data / SOURCE.archive.file
    if harm == "truncated":
        path.write_bytes(path.read_bytes()[:1000])
    elif harm == "tampered":
        path.write_bytes(cifar_archive(cifar_files(5, 5)))
    else:
        path.unlink()
        (data / SOURCE.folder).mkdir()
    with pytest.raises(DataError, match="replace it by the official one"):
        real(source=source)
    assert names(cache) == []


def test_nothing_to_be_had_names_the_ways_out(tmp_path, cache):
    with pytest.raises(DataError) as caught:
        prepare("imdb", "real", tmp_path, cache, official=imdb_source())
    message = str(caught.value)
    for part in (
        "imdb",
        "refused",
        "training-suite data fetch",
        "SUITE_DATA_DIR",
        "aclImdb_v1.tar.gz",
        "--data synthetic",
    ):
        assert part in message
    assert "\n" not in message


def test_auto_takes_the_twin_loudly(cache):
    said: list[str] = []
    folder = prepare("imdb", cache=cache, say=said.append)
    assert folder == cache / "imdb-synthetic-v1"
    assert open_cached(folder).kind == "synthetic"
    assert said[0].startswith("imdb: downloading https://")
    assert "SYNTHETIC" in said[1]
    assert len(said[1].splitlines()) > 3
    said.clear()
    assert prepare("imdb", cache=cache, fetch=False, say=said.append) == folder
    assert len(said) == 1  # each run says it anew, but nothing is generated


def test_a_download_is_kept_and_used_without_asking_again(real, cache, data):
    downloads = cache / "downloads"
    shutil.copytree(data, downloads)
    folder = real(directory=None, fetch=False)
    assert open_cached(folder).kind == "real"
    shutil.rmtree(folder)
    put(downloads / SOURCE.archive.file, b"damaged")
    with pytest.raises(
        DataError, match=r"no real cifar100 .* has the MD5 .*; remove it to have the archive downloaded"
    ):
        real(directory=None)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"name": "mnist"}, "unknown data set 'mnist'; there are: cifar100, imdb"),
        ({"source": "x"}, "unknown source 'x'"),
    ],
)
def test_unknown_words_are_errors(cache, arguments, complaint):
    with pytest.raises(DataError, match=complaint):
        prepare(**{"name": "imdb", "cache": cache, **arguments})


def test_a_cache_that_cannot_be_written_is_an_error(open_path):  # noqa: F811
    open_path.chmod(0o555)
    with unprivileged(), pytest.raises(DataError, match=r"cannot be written: Permission denied; .*SUITE_CACHE_DIR"):
        prepare("imdb", "synthetic", cache=open_path)


def test_a_full_disk_is_an_error_and_leaves_nothing(real, cache):
    with files_up_to(10_000), pytest.raises(DataError, match=r"cannot be written: File too large; .*SUITE_CACHE_DIR"):
        real()
    assert names(cache) == []


def test_the_environment_names_the_directories(monkeypatch, tmp_path, data):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_directory() == tmp_path / "xdg" / "framework-training-suite"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_directory() == Path.home() / ".cache" / "framework-training-suite"
    assert data_directory() is None
    monkeypatch.setenv("SUITE_CACHE_DIR", str(tmp_path / "env"))
    monkeypatch.setenv("SUITE_DATA_DIR", str(data))
    assert prepare("cifar100", "real", official=SOURCE) == tmp_path / "env" / "cifar100-real-v1"
    assert cache_directory(tmp_path) == data_directory(tmp_path) == tmp_path


# What each of two processes runs: as `prepare` does it, with a pause between reading and writing, so that they overlap.
AT_ONCE = """
import os, pickle, sys, time
from pathlib import Path
from workloads.data import prepare
source = pickle.loads(bytes.fromhex(sys.argv[1]))
write = prepare.caches.write
def slowly(*arguments):
    time.sleep(0.5)
    print("built")
    return write(*arguments)
prepare.caches.write = slowly
ready = Path(sys.argv[4])
(ready / str(os.getpid())).touch()
while len([*ready.iterdir()]) < 2:
    time.sleep(0.01)
prepare.prepare("cifar100", "real", sys.argv[2], sys.argv[3], official=source)
"""


def test_two_processes_at_once_build_it_once(data, cache, tmp_path):
    (ready := tmp_path / "ready").mkdir()
    command = [sys.executable, "-W", "error", "-c", AT_ONCE, pickle.dumps(SOURCE).hex(), str(data), str(cache), ready]
    both = [subprocess.Popen(command, cwd=ROOT, stdout=-1, stderr=-1, text=True) for _ in range(2)]
    results = [process.communicate(timeout=30) for process in both]
    assert [process.returncode for process in both] == [0, 0], results
    assert sorted(output for output, _ in results) == ["", "built\n"]
    assert any("waiting for another process" in errors for _, errors in results)
    assert verify(folder_of(cache, "cifar100", "real"))


def test_without_locks_it_works_too(real, monkeypatch):
    def no_locks(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(module.fcntl, "flock", no_locks)
    assert verify(real())


def test_the_worker_needs_numpy_only(cache):
    folder = prepare("imdb", "synthetic", cache=cache)
    code = (
        "import sys; from pathlib import Path; from workloads.data.cache import open_cached; "
        f"data = open_cached(Path({str(folder)!r})); "
        "print(len(data.train), {'pooch', 'rich', 'requests', 'tarfile'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "400 set()\n"
