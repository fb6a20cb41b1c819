"""The free switches of a CPU as a setting: in ids, sweeps, variables and conditions."""

from __future__ import annotations

from pathlib import Path

import pytest

from suite.plan.cell import TUNINGS, Cell
from suite.plan.matrix import matrix
from suite.plan.settings import tunings
from suite.plan.settings.tunings import flushes, host_memory, lacking
from suite.plan.sweeps.sweep import parse_values, swept, usual
from suite.profile.chosen import parse_cell

LSTM = Cell("imdb_lstm", "pytorch", batch=64)
ASKED = "glibc.malloc.hugetlb=1"


def test_the_usual_tuning_changes_no_id_and_no_record() -> None:
    assert LSTM.tuning == "known"
    assert LSTM.id == "imdb_lstm-pytorch-fp32-b64-eager-tuned"
    assert "tuning" not in LSTM.to_json()
    for name in {*TUNINGS} - {"known"}:
        cell = LSTM.but(tuning=name)
        assert cell.id == f"{LSTM.id}-{name}"
        assert Cell.from_json(cell.to_json()) == cell == parse_cell(cell.id)


def test_each_tuning_sets_its_own_switches_and_installed_none() -> None:
    found = {name: (set(host_memory(LSTM.but(tuning=name))), flushes(LSTM.but(tuning=name))) for name in TUNINGS}
    kept, arenas = {"MALLOC_MMAP_MAX_", "MALLOC_TRIM_THRESHOLD_"}, {"MALLOC_ARENA_MAX"}
    assert found == {
        "installed": (set(), False),
        "memory": (kept, False),
        "arenas": (arenas, False),
        "denormals": (set(), True),
        "tcmalloc": ({"LD_PRELOAD"}, True),
        "hugepages": (kept | arenas | {"GLIBC_TUNABLES"}, True),
        "known": (kept | arenas, True),
    }


def test_a_sweep_crosses_tunings_and_the_matrix_cpu_has_one_batch_as_installed() -> None:
    axes = {"workload": ("imdb_lstm",), "framework": ("jax",), "tuning": parse_values("tuning", "installed,known")}
    assert [cell.tuning for cell in swept(usual(gpu=False), axes).cells] == ["installed", "known"]
    cells = matrix("cpu").cells
    assert {cell.batch for cell in cells if cell.tuning == "installed"} == {64}
    assert {cell.but(tuning="known") for cell in cells} == {cell for cell in cells if cell.tuning == "known"}


def test_what_cannot_be_had_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
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
