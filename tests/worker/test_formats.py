"""Samples from files and shards reach a framework bit for bit as from mapped arrays, and what is wrong is noticed."""

from __future__ import annotations

import json
import os
from contextlib import closing
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from suite.plan.cell import Cell, Loader
from suite.worker.evidence.collector import Evidence
from suite.worker.frameworks import UnsupportedError, import_framework
from suite.worker.launch import pages
from suite.worker.loaders import CountingLoader, container_of, start, storing
from tests.data_makers import files_up_to
from tests.frameworks import batches, each_framework, needs_frameworks, training
from workloads.data import cache as caches
from workloads.data import formats, synthetic
from workloads.data.augment import Batches
from workloads.data.dataset import DataError, DataSet
from workloads.spec import specification

SAMPLES, BATCH, PART = 96, 10, 40  # the last six of an epoch are dropped, as is the rest of the last of three shards

each_workload = pytest.mark.parametrize("workload", ["cifar100_cnn", "imdb_lstm"])
pytestmark = [
    pytest.mark.usefixtures("small_shards"),
    # Not imported here, since it imports PyTorch.
    pytest.mark.skipif(find_spec("webdataset") is None, reason="needs webdataset"),
]


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "SHARD_SAMPLES", PART)


@pytest.fixture
def data(tmp_path: Path, workload: str) -> DataSet:
    """A tiny twin as workers open it."""
    return caches.open_cached(caches.write(synthetic.generate(specification(workload).data, SAMPLES, 20), tmp_path))


def source_of(data: DataSet) -> Path:
    return data.train.files[0].parent


def container(framework: str, form: str = "shards") -> formats.Container:
    import_framework(framework)
    return container_of(form, import_module(f"suite.worker.loaders.{framework}").SHARDS)


def stored(framework: str, form: str, data: DataSet) -> Path:
    """The folder of the store, made as before a run."""
    return formats.prepare_store(data, source_of(data), container(framework, form), print)


def reference(workload: str, data: DataSet) -> Batches:
    return batches(specification(workload, "small"), BATCH, 5, data)


def deliver(cell: Cell, data: DataSet, count: int) -> tuple[list[Any], dict[str, Any]]:
    """What the cell's loader delivers, as host batches, and its settings."""
    loaders = import_module(f"suite.worker.loaders.{cell.framework}")
    with (
        training(cell.workload, cell.framework, "fp32") as running,
        closing(loaders.batches(cell, reference(cell.workload, data), "cpu", running.put)) as loader,
    ):
        return [running.get(next(loader)) for _ in range(count)], loader.settings


def cell_of(workload: str, framework: str, **settings: Any) -> Cell:
    return Cell(workload, framework, **({"batch": BATCH, "size": "small"} | settings))


@needs_frameworks
@pytest.mark.long
@each_framework
@each_workload
@pytest.mark.parametrize("form", ["files", "shards"])
@pytest.mark.parametrize("loader", [Loader(), Loader("naive")], ids=lambda loader: loader.id)
def test_batches_are_the_reference_over_the_ends_of_epochs(framework, workload, form, loader, data):
    folder, expected = stored(framework, form, data), reference(workload, data)
    cell = cell_of(workload, framework, format=form, loader=loader)
    got, settings = deliver(cell, data, 3 * expected.per_epoch + 2)
    for number, batch in enumerate(got):
        for ours, theirs in zip(batch, expected[number], strict=True):
            assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
            assert ours.tobytes() == theirs.tobytes(), f"batch {number}"
    assert settings["format"] == form
    assert settings["digest"] == formats.digest(folder)


@needs_frameworks("pytorch")
@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # JAX's, where another test has imported it
@pytest.mark.parametrize("workload", ["cifar100_cnn"])
@pytest.mark.parametrize("form", ["files", "shards"])
def test_worker_processes_read_stores_of_their_own(workload, form, data):
    stored("pytorch", form, data)
    cell = cell_of(workload, "pytorch", format=form, loader=Loader("workers", 2))
    got, _ = deliver(cell, data, 24)
    expected = reference(workload, data)
    assert all(np.array_equal(batch[0], expected[number][0]) for number, batch in enumerate(got))


def claim(folder: Path) -> None:
    """Let a changed store say that it is whole, as somebody could who changes it."""
    meta = json.loads((folder / formats.META).read_text())
    (folder / formats.META).write_text(json.dumps(meta | {"digest": formats.digest(folder)}))


def checked(cell: Cell, data: DataSet) -> bool:
    """Whether the record finds that the loader delivers the reference's batches."""
    got, _ = deliver(cell, data, 30)
    loader = CountingLoader(SimpleNamespace(settings={}, close=None), 0)
    loader.loader = iter(got)
    for _ in range(20):
        next(loader)
    idle = SimpleNamespace(
        step=lambda _: 1.0, weights=dict, read=list, get=lambda batch: batch, fence=lambda _: None, checkpoint=dict
    )
    subject: Any = SimpleNamespace(cell=cell, team=None, spec=specification(cell.workload))
    evidence = Evidence(subject, lambda **_: None, whole=False, replays=False)
    evidence.last(idle, loader, reference(cell.workload, data))
    return evidence.parts["last"].equal


def change_order(data: DataSet) -> DataSet:
    """Two samples in each other's place, in a data set that says it is the same."""
    order = np.arange(SAMPLES)
    order[[0, 1]] = order[[1, 0]]
    train = type(data.train)(data.train.inputs[order], data.train.labels[order])
    return DataSet(data.name, data.kind, data.digest, train, data.test)


@needs_frameworks
@pytest.mark.long
@each_framework
@pytest.mark.parametrize("workload", ["imdb_lstm"])
def test_another_order_in_a_shard_is_noticed_by_the_record(framework, workload, data):
    cell = cell_of(workload, framework, format="shards")
    formats.prepare_store(change_order(data), source_of(data), container(framework), print)
    assert not checked(cell, data)
    assert checked(cell.but(format="memmap"), data)


@needs_frameworks
@pytest.mark.long
@each_framework
@pytest.mark.parametrize("workload", ["imdb_lstm"])
def test_a_missing_shard_ends_a_launch(framework, workload, data):
    folder = stored(framework, "shards", data)
    formats.list_files(folder)[1].unlink()
    claim(folder)
    with pytest.raises((DataError, ValueError, RuntimeError), match="samples"):
        deliver(cell_of(workload, framework, format="shards"), data, 1)


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="this system drops no pages")
def test_pages_are_dropped_and_their_share_is_read(tmp_path):
    file = tmp_path / "samples"
    file.write_bytes(os.urandom(2**20))
    assert file.read_bytes()
    assert pages.resident([file]) == 1
    assert pages.drop([file]) == 0
    assert file.read_bytes()
    assert pages.resident([file]) == 1
    mapped = np.memmap(file, np.uint8, "r")
    assert mapped.sum()
    assert pages.drop([file]) == 0, "pages that this process maps"


def test_a_system_that_hides_its_page_cache_is_unsupported(tmp_path, monkeypatch):
    file = tmp_path / "samples"
    file.write_bytes(b"some")
    refusing = SimpleNamespace(mincore=lambda *_: -1)
    monkeypatch.setattr(pages.ctypes, "CDLL", lambda _: refusing)
    with pytest.raises(UnsupportedError, match="mincore"):
        pages.resident([file])


@needs_frameworks
@pytest.mark.long
@each_framework
@pytest.mark.parametrize("workload", ["imdb_lstm"])
@pytest.mark.parametrize("form", ["files", "shards"])
def test_a_loader_s_files_are_dropped_while_it_runs(framework, workload, form, data):
    stored(framework, form, data)
    cell = cell_of(workload, framework, format=form, pages="cold", loader=Loader("naive"))
    loaders = import_module(f"suite.worker.loaders.{framework}")
    with (
        training(workload, framework, "fp32") as running,
        closing(loaders.batches(cell, reference(workload, data), "cpu", running.put)) as loader,
    ):
        next(loader)
        assert pages.resident(loader.files) > 0
        assert pages.drop_for(loader, "steady") <= pages.RESIDENT_MOST
        for _ in range(20):
            next(loader)
        assert pages.resident(loader.files) > 0, "read again"


@needs_frameworks("pytorch")
@pytest.mark.parametrize("workload", ["imdb_lstm"])
@pytest.mark.parametrize("form", ["files", "shards"])
def test_a_damaged_store_is_refused_and_stays(workload, form, data):
    folder = stored("pytorch", form, data)
    assert stored("pytorch", form, data) == folder
    damaged = formats.list_files(folder)[1]
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)
    with pytest.raises(DataError, match="is damaged"):
        stored("pytorch", form, data)
    assert damaged.read_bytes() == content


@needs_frameworks
@pytest.mark.long
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # what a library left in its buffers
@each_framework
@pytest.mark.parametrize("workload", ["imdb_lstm"])
def test_a_full_disk_leaves_no_store_that_is_taken_as_whole(framework, workload, data):
    made = container(framework)
    with files_up_to(20_000), pytest.raises(Exception, match=r"(?i)too large|write|exhausted"):
        formats.prepare_store(data, source_of(data), made, print)
    assert not formats.folder_of(source_of(data), made).exists()


@pytest.mark.parametrize("workload", ["imdb_lstm"])
@pytest.mark.parametrize(
    "settings",
    [
        {"format": "files", "loader": Loader("resident")},
        {"format": "shards", "loader": Loader(cache=True)},
        {"pages": "cold", "loader": Loader("resident")},
        {"pages": "cold", "format": "memmap"},
        {"format": "files"},
    ],
    ids=str,
)
def test_what_has_no_meaning_is_unsupported(settings, workload, data, monkeypatch):
    monkeypatch.setattr(formats, "find_spec", lambda _: None)
    cell = cell_of(workload, "jax", **settings)
    with pytest.raises(UnsupportedError, match=r"memory|pip install"):
        start({}, cell, reference(workload, data), "cpu", None, shards=formats.FILES, in_memory=("memmap",))


def answer_of_storing(data: DataSet) -> str:
    """What the process that stores says is wrong with the data."""
    answer = source_of(data).with_name("answer")
    told = ["--framework", "pytorch", "--folder", str(source_of(data)), "--format", "files", "--answer", str(answer)]
    storing.main(told)
    return json.loads(answer.read_text())


@needs_frameworks("pytorch")
@pytest.mark.parametrize("workload", ["imdb_lstm"])
def test_the_process_that_stores_says_what_is_wrong_with_the_data(workload, data):
    assert answer_of_storing(data) == ""
    formats.list_files(formats.folder_of(source_of(data), formats.FILES))[0].write_bytes(b"")
    assert "is damaged" in answer_of_storing(data)


@needs_frameworks("pytorch")
@pytest.mark.parametrize("workload", ["imdb_lstm"])
def test_what_a_framework_lacks_is_no_fault_of_the_data(workload, data, monkeypatch):
    """So it ends its own launches alone, as unsupported, and not a run in which others have the library."""
    monkeypatch.setattr(formats, "find_spec", lambda _: None)
    assert answer_of_storing(data) == ""
    assert not formats.folder_of(source_of(data), formats.FILES).exists()
