"""Settings of a cell besides the first ones: in ids, records, sweeps, variables, and why some cannot be had."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from suite.analysis.rows.conditions import differences
from suite.catalog.settings import SETTINGS
from suite.plan.cell import ALLOCATORS, FRAMEWORKS, TUNINGS, Cell, CellError
from suite.plan.matrix import MatrixError
from suite.plan.settings import allocators, tunings
from suite.plan.settings.frameworks import VARIABLES, variables_of
from suite.plan.settings.tunings import flushes, host_memory, lacking
from suite.plan.sweeps.sweep import parse_values, swept, usual
from suite.profile.chosen import ChoiceError, parse_cell
from suite.record.job import Job
from suite.session.launches import launch
from suite.worker.frameworks import UnsupportedError, check
from tests import records

LSTM = Cell("imdb_lstm", "pytorch", batch=64)
ASKED = "glibc.malloc.hugetlb=1"
#: What a setting adds to an id where it is not as usual.
PARTS = {
    "threads": (2, "t2"), "checkpointing": ("on", "checkpointing"), "allocator": ("expandable", "expandable"),
    "interface": ("keras-fit", "keras-fit"), "release": ("0.9.2", "0.9.2"), "size": ("small", "small"),
    "tuning": ("default", "installed"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("setting", "value", "part"),
    [*((name, *each) for name, each in PARTS.items()), *(("tuning", x, x) for x in ("memory", "arenas", "hugepages"))],
)
def test_a_setting_changes_id_and_record_only_where_it_is_not_as_usual(setting: str, value: Any, part: str) -> None:
    assert getattr(LSTM, setting) == SETTINGS[setting].default
    assert LSTM.id == "imdb_lstm-pytorch-fp32-b64-eager-tuned"
    assert setting == "size" or setting not in LSTM.to_json(), "as before there were any"
    cell = LSTM.but(**{setting: value})
    assert cell.id == f"{LSTM.id}-{part}"
    assert Cell.from_json(json.loads(json.dumps(cell.to_json()))) == cell
    if setting != "interface":
        assert parse_cell(cell.id) == cell


def test_a_former_name_of_a_value_is_read_as_its_present_one() -> None:
    stored = LSTM.to_json()
    assert Cell.from_json(stored | {"tuning": "known"}) == LSTM
    assert Cell.from_json(stored | {"tuning": "installed"}) == LSTM.but(tuning="default")


@pytest.mark.parametrize("setting", ["checkpointing", "allocator", "interface", "tuning"])
def test_a_value_that_there_is_not_is_refused(setting: str) -> None:
    with pytest.raises(CellError, match=f"unknown {setting} 'fabric'"):
        LSTM.but(**{setting: "fabric"})


@pytest.mark.parametrize(
    ("setting", "text", "values"),
    [
        ("threads", "auto,1,2,4", [0, 1, 2, 4]), ("tuning", "default,recommended", ["default", "recommended"]),
        ("tuning", "installed,known", ["default", "recommended"]),
        ("interface", "native,keras", ["native", "keras"]),
    ],
)  # fmt: skip
def test_a_sweep_crosses_its_values(setting: str, text: str, values: list[Any]) -> None:
    axes = {"workload": ("imdb_lstm",), "framework": ("jax",), setting: parse_values(setting, text)}
    assert [getattr(cell, setting) for cell in swept(usual(gpu=False), axes).cells] == values


def test_no_number_of_threads_is_zero() -> None:
    with pytest.raises(MatrixError, match="threads is '0'; write a number of threads, or auto"):
        parse_values("threads", "0")


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_only_where_no_function_sets_them_variables_do(framework: str) -> None:
    cell = Cell("imdb_lstm", framework)
    assert variables_of(cell) == VARIABLES[framework]
    more = {"NPROC": "2", "PJRT_NPROC": "2"} if framework == "jax" else {}
    assert variables_of(cell.but(threads=2)) == {**VARIABLES[framework], **more}


def test_threads_are_a_setting_of_one_device_and_of_a_cpu() -> None:
    check(LSTM.but(threads=2), "cpu")
    with pytest.raises(UnsupportedError, match="a setting of a CPU"):
        check(LSTM.but(threads=2), "cuda")
    with pytest.raises(UnsupportedError, match="a setting of one device; --cores"):
        check(LSTM.but(threads=2, devices=2), "cpu")


def test_rows_with_other_threads_ran_under_no_other_conditions() -> None:
    def row(threads: int, found: int) -> Any:
        settings = {"device": "cpu", "threads": found}
        held = [replace(each, settings=settings) for each in records.launches(["pytorch"], n=2, threads=threads)]
        return records.only(held).group.rows[0]

    assert differences(row(1, 1), row(2, 2)) == ("", "")
    assert "threads 1 against 2" in differences(row(0, 1), row(0, 2))[1]


def test_each_tuning_sets_its_own_settings_and_default_none() -> None:
    found = {name: (set(host_memory(LSTM.but(tuning=name))), flushes(LSTM.but(tuning=name))) for name in TUNINGS}
    kept, arenas = {"MALLOC_MMAP_MAX_", "MALLOC_TRIM_THRESHOLD_"}, {"MALLOC_ARENA_MAX"}
    assert found == {
        "default": (set(), False),
        "memory": (kept, False),
        "arenas": (arenas, False),
        "denormals": (set(), True),
        "tcmalloc": ({"LD_PRELOAD"}, True),
        "hugepages": (kept | arenas | {"GLIBC_TUNABLES"}, True),
        "recommended": (kept | arenas, True),
    }


def test_a_tuning_that_cannot_be_had_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "only PyTorch" in lacking(Cell("imdb_lstm", "jax", tuning="denormals"))
    assert not lacking(LSTM.but(tuning="denormals"))
    monkeypatch.setattr(tunings, "TCMALLOC", "libnosuch.so.1")
    assert "libtcmalloc-minimal4" in lacking(LSTM.but(tuning="tcmalloc"))


@pytest.mark.parametrize(("kernel", "library", "variable", "words"), [
    ("always [madvise] never", ("glibc", "2.36"), ASKED, ""),
    ("always [madvise] never", ("glibc", "2.36"), f"glibc.malloc.check=0:{ASKED}", ""),
    ("always [madvise] never", ("glibc", "2.36"), "glibc.malloc.check=0", "GLIBC_TUNABLES has a value of your own"),
    ("always madvise [never]", ("glibc", "2.36"), ASKED, "says madvise; it says always madvise [never]"),
    ("[always] madvise never", ("glibc", "2.36"), ASKED, "says madvise; it says [always]"),
    ("", ("glibc", "2.36"), ASKED, "it says nothing"),
    ("always [madvise] never", ("glibc", "2.31"), ASKED, "need glibc 2.35 or newer; this is glibc 2.31"),
    ("always [madvise] never", ("", ""), ASKED, "this is another C library"),
])  # fmt: skip
def test_huge_pages_are_had_from_the_kernel_and_from_glibc(
    kernel: str, library: tuple[str, str], variable: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kernel:
        (tmp_path / "enabled").write_text(kernel)
    monkeypatch.setattr(tunings, "HUGE_PAGES_OF_KERNEL", tmp_path / "enabled")
    monkeypatch.setattr(tunings, "libc_ver", lambda: library)
    monkeypatch.setenv("GLIBC_TUNABLES", variable)
    said = lacking(LSTM.but(tuning="hugepages"))
    assert words in said
    assert bool(words) == bool(said)


@pytest.mark.parametrize(("framework", "backend"), [("pytorch", "torch"), ("tensorflow", "tensorflow"), ("jax", "jax")])
def test_keras_starts_with_its_backend_and_the_own_loop_as_before(framework: str, backend: str) -> None:
    cell = Cell("imdb_lstm", framework, interface="keras")
    assert variables_of(cell)["KERAS_BACKEND"] == backend
    assert variables_of(cell.but(interface="native")) == VARIABLES[framework]
    assert (
        variables_of(cell.but(interface="nnx")) == variables_of(cell.but(interface="lightning")) == VARIABLES[framework]
    )


def test_what_keras_trains_has_no_profile() -> None:
    with pytest.raises(ChoiceError, match="native loop"):
        parse_cell("imdb_lstm-jax-fp32-b32-compile-tuned-keras")


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_each_framework_has_an_allocator_or_a_reason_and_a_cpu_has_none(framework: str, allocator: str) -> None:
    cell = Cell("imdb_lstm", framework, allocator=allocator)
    assert (allocator in allocators.CHOSEN_BY[framework]) != ((framework, allocator) in allocators.LACKING)
    assert bool(allocators.lacking(cell, "cuda")) == (allocator not in allocators.CHOSEN_BY[framework])
    assert allocators.lacking(cell, "cpu") == ("" if allocator == "default" else allocators.ON_A_CPU)


def test_a_choice_replaces_the_user_s_variables_and_the_default_leaves_them() -> None:
    own = {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64", "PATH": "/bin"}
    cell = Cell("imdb_lstm", "pytorch", allocator="cudaMallocAsync")
    assert allocators.variables(cell, own) == {"PATH": "/bin", "PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync"}
    assert allocators.variables(cell.but(allocator="default"), own) == own
    assert "PYTORCH_ALLOC_CONF" in allocators.list_variables(cell)
    assert not allocators.list_variables(cell.but(allocator="default"))


def test_a_worker_starts_with_the_variables_of_its_allocator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_PYTHON_CLIENT_ALLOCATOR", "platform")
    cell = Cell("imdb_lstm", "jax", allocator="preallocated")
    found = launch.variables(Job(cell, ""), "")
    assert (found["XLA_PYTHON_CLIENT_PREALLOCATE"], found["XLA_PYTHON_CLIENT_ALLOCATOR"]) == ("true", "bfc")
    usual = launch.variables(Job(cell.but(allocator="default"), ""), "")
    assert (usual["XLA_PYTHON_CLIENT_PREALLOCATE"], usual["XLA_PYTHON_CLIENT_ALLOCATOR"]) == ("false", "platform")
