"""A cache is taken for what its name says only if its digest is the known one, whatever its meta.json says."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from test_data_cache import change_meta
from test_data_prepare import SOURCE, cache, data, no_network, real  # noqa: F401 - fixtures

from suite.data.__main__ import main
from workloads.data import prepare as module
from workloads.data import synthetic
from workloads.data.cache import digest, open_cached, write
from workloads.data.dataset import DataError
from workloads.data.prepare import prepare

# ruff: noqa: F811 - arguments named after imported fixtures

REAL_SIZES = {"cifar100": (50_000, 10_000), "imdb": (25_000, 25_000)}


def forge(folder: Path) -> None:
    """Change a byte, and the digest in meta.json with it."""
    path = folder / "train_inputs.npy"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    change_meta(digest=digest(open_cached(folder)))(folder)


def forbid_generation(monkeypatch):
    def fail(*_):
        raise AssertionError("a twin is generated")

    monkeypatch.setattr(synthetic, "TWINS", {name: (fail, sizes) for name, sizes in REAL_SIZES.items()})


# IMDB's shows it in every run, and CIFAR-100's takes ten times as long.
@pytest.mark.parametrize("name", [pytest.param("cifar100", marks=pytest.mark.slow), "imdb"])
def test_the_twins_of_real_size_are_the_known_ones(name):
    assert synthetic.generate(name).digest == synthetic.DIGESTS[name, *REAL_SIZES[name]]
    assert len(synthetic.DIGESTS) == len(REAL_SIZES)


def test_an_altered_twin_with_a_digest_of_its_own_is_found_and_replaced(cache, capsys):
    said: list[str] = []
    folder = prepare("imdb", "synthetic", cache=cache, say=said.append)
    forge(folder)
    assert main(["verify", "--cache-dir", str(cache)]) == 1
    assert "is not the synthetic twin of imdb" in capsys.readouterr().err
    prepare("imdb", "synthetic", cache=cache, say=said.append)
    assert "is not the synthetic twin of imdb" in said[1]
    assert open_cached(folder).digest == synthetic.DIGESTS["imdb", 25_000, 25_000]


def test_a_twin_of_real_size_is_not_generated_again(cache, monkeypatch):
    prepare("imdb", "synthetic", cache=cache)
    forbid_generation(monkeypatch)
    said: list[str] = []
    prepare("imdb", "synthetic", cache=cache, say=said.append)
    assert main(["verify", "--cache-dir", str(cache)]) == 0
    assert said == []


@pytest.mark.parametrize("name", REAL_SIZES)
def test_a_small_twin_is_taken_and_an_altered_one_is_not(cache, capsys, name):
    said: list[str] = []
    folder = write(synthetic.generate(name, train=256, test=16), cache)
    assert prepare(name, "synthetic", cache=cache, say=said.append) == folder
    assert said == []
    assert len(open_cached(folder).train) == 256
    forge(folder)
    assert main(["verify", "--cache-dir", str(cache)]) == 1
    assert f"is not the synthetic twin of {name}" in capsys.readouterr().err


def test_no_twin_is_larger_than_the_real_data(monkeypatch):
    forbid_generation(monkeypatch)
    assert synthetic.expected_digest("imdb", 25_001, 16) is None
    assert synthetic.expected_digest("cifar100", 256, 10**12) is None


def test_a_machine_that_draws_otherwise_says_so(monkeypatch):
    monkeypatch.setattr(synthetic, "DIGESTS", {("imdb", 20, 10): 64 * "0"}, raising=False)
    with pytest.raises(DataError, match=rf"twin of imdb comes out with .* NumPy {np.__version__} draws differently"):
        synthetic.generate("imdb", 20, 10)


@pytest.mark.parametrize("change", [{"kind": "synthetic"}, {"name": "imdb"}])
def test_a_cache_under_another_name_is_refused(real, cache, capsys, monkeypatch, change):
    monkeypatch.setitem(module.SOURCES, "cifar100", SOURCE)
    folder = real()
    change_meta(**change)(folder)
    assert main(["verify", "--cache-dir", str(cache)]) == 1
    assert f"cache {folder} holds" in capsys.readouterr().err


def test_a_cache_without_samples_is_no_twin(cache, capsys):
    folder = write(synthetic.generate("imdb", 0, 0), cache)
    assert json.loads((folder / "meta.json").read_text())["arrays"]["train_inputs"]["shape"] == [0, 500]
    assert main(["verify", "--cache-dir", str(cache)]) == 1
