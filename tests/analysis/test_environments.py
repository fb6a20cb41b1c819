"""Rows that ran under unlike conditions say so, and get no ratio where the numbers are others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from suite.analysis.identity.tolerances import TOLERANCE
from suite.analysis.records.load import load
from suite.analysis.rows.conditions import facts
from suite.analysis.rows.groups import SETTINGS, group
from suite.plan.settings.tunings import ARENAS, KEPT_MEMORY, OTHER
from suite.record.parts.environment import select_variables
from suite.record.record import Record
from suite.report.screen.short import short
from suite.report.tables import footnotes
from suite.report.tables.frame import Table, table
from suite.report.tables.launches import launch_table
from suite.reproduce.verdicts import differences
from tests import records
from tests.published import numbered
from tests.records import replace
from tests.shown import grouped, terminal

PACKAGES = {"pytorch": {"torch": "2.13.0"}, "tensorflow": {"tensorflow": "2.21.0"}, "jax": {"jax": "0.10.2"}}


def under(record: Record, variables: dict[str, str] | None = None, **packages: str) -> Record:
    """The same launch with these variables and versions."""
    told = PACKAGES[record.cell.framework] | {"numpy": "2.4.1"} | packages
    own = {"KERAS_BACKEND": "tensorflow"} if record.cell.framework == "tensorflow" else {}
    environment = {**record.environment, "python": "3.11.7", "packages": told, "variables": own | (variables or {})}
    return replace(record, environment=environment)


def compared(held: Sequence[Record], by: str = "framework") -> Table:
    found = grouped(held, by)
    return table(found)


def rows(found: Table, column: str) -> dict[str, Any]:
    return dict(zip(found.frame["framework"], found.frame[column], strict=True))


def test_alike_rows_have_ratios_and_no_caveat() -> None:
    found = compared([under(record, {"OMP_NUM_THREADS": "2"}) for record in records.launches()])
    assert set(found.frame["ratio_reason"]) == set(found.frame["ratio_caveat"]) == {""}
    assert min(found.frame["ratio_blocks"]) == 3


def test_one_framework_with_other_threads_is_ranked_with_a_caveat_in_its_row() -> None:
    held = [
        under(record, {"OMP_NUM_THREADS": "1"} if record.cell.framework == "jax" else {})
        for record in records.launches()
    ]
    found = compared(held)
    caveats = rows(found, "ratio_caveat")
    assert "OMP_NUM_THREADS 1 against unset" in caveats.pop("jax")
    assert set(caveats.values()) == {""}
    assert rows(found, "ratio_blocks")["jax"] == 3
    assert "[1] ran under different conditions than cifar100_cnn-pytorch" in terminal(found)


THREADS = {"pytorch": 4, "tensorflow": 0, "jax": None}


def with_threads(device: str, **threads: int) -> list[Record]:
    """Launches whose frameworks say how many threads they took, TensorFlow one per core and JAX nothing."""
    told = {name: {"threads": n} for name, n in (THREADS | threads).items() if n is not None}
    return [replace(under(r), settings={"device": device} | told.get(r.cell.framework, {})) for r in records.launches()]


def test_on_a_cpu_other_threads_in_another_framework_are_a_caveat() -> None:
    cores = records.MACHINE["cores"]
    caveats = rows(compared(with_threads("cpu")), "ratio_caveat")
    assert f"threads {cores} against 4" in caveats["tensorflow"]
    assert caveats["jax"] == "", "which does not tell its threads, and so contradicts none"
    assert set(rows(compared(with_threads("cpu", pytorch=8)), "ratio_caveat").values()) == {""}, "0 is one per core"
    assert set(rows(compared(with_threads("cuda")), "ratio_caveat").values()) == {""}, "the GPU computes"


def as_applied(record: Record, threads: int, cores: int = 8, **variables: str) -> Record:
    """The same launch on a CPU of eight cores with its settings as applied."""
    applied = {"threads": threads, "cores": cores}
    return replace(under(record, variables), settings={"device": "cpu", "applied": applied})


def test_a_framework_that_alone_was_limited_to_fewer_threads_has_no_ratio_and_is_not_ranked() -> None:
    held = [
        as_applied(each, 1 if each.cell.framework == "pytorch" else 8, OMP_NUM_THREADS="1")
        for each in records.launches(n=6)
    ]
    found = compared(held)
    for reason in (rows(found, "ratio_reason")[name] for name in ("tensorflow", "jax")):
        assert "threads in use one a core against 1 for 8 cores, with OMP_NUM_THREADS set" in reason
    (contest,) = found.findings.contests
    assert {row.cell.framework for row in contest.rows} == {"tensorflow", "jax"}
    assert "threads in use 1 for 8 cores against one a core" in contest.unranked["pytorch"]
    screen = short(held, "run-a", 120)
    assert "PyTorch is not ranked" in " ".join(screen.split())
    assert "OMP_NUM_THREADS" in screen.split("samples/s")[1], "a note below the table"
    both = compared([each for each in held if each.cell.framework != "tensorflow"]).findings.contests[0]
    assert both.rivals == []
    assert len(both.unranked) == 1


def test_a_limit_of_openmp_leaves_fewer_threads_than_a_framework_says() -> None:
    held = [as_applied(each, 8, OMP_THREAD_LIMIT="2") for each in records.launches()]
    reasons = rows(compared(held), "ratio_reason")
    assert all("2 for 8 cores" in reasons[name] for name in ("tensorflow", "jax"))


def test_threads_or_cores_that_were_asked_for_are_compared() -> None:
    for name in ("threads", "cores"):
        both = [
            as_applied(each, n, 8 if name == "threads" else n)
            for n in (1, 2)
            for each in records.launches(["pytorch"], **{name: n})
        ]
        assert set(compared(both, name).frame["ratio_reason"]) == {""}
    alone = [as_applied(each, 8, 1 if each.cell.framework == "jax" else 8) for each in records.launches()]
    assert "cores in use 1 against 8" in rows(compared(alone), "ratio_reason")["jax"]


def test_one_thread_a_core_where_others_take_each_hardware_thread_is_a_framework_s_own_choice() -> None:
    machine = {**records.MACHINE, "threads_per_core": 2}
    held = [as_applied(each, 4 if each.cell.framework == "pytorch" else 8) for each in records.launches()]
    held = [replace(each, environment=each.environment | {"machine": machine}) for each in held]
    found = compared(held)
    assert set(found.frame["ratio_reason"]) == {""}
    assert "threads 8 against 4" in rows(found, "ratio_caveat")["jax"]


def test_a_variable_that_one_framework_alone_reads_is_a_caveat() -> None:
    held = [as_applied(each, 8, TF_NUM_INTEROP_THREADS="1", OMP_DYNAMIC="1") for each in records.launches()]
    caveats = rows(compared(held), "ratio_caveat")
    assert caveats["tensorflow"].endswith("TF_NUM_INTEROP_THREADS 1, which pytorch does not read")
    assert caveats["jax"] == ""
    held = [as_applied(each, 8, MKL_CBWR="COMPATIBLE") for each in records.launches()]
    caveats = rows(compared(held), "ratio_caveat")
    assert caveats["jax"].endswith("MKL_CBWR COMPATIBLE, which jax does not read")


def test_records_without_settings_as_applied_keep_their_ratios() -> None:
    held = [as_applied(each, 8) if each.cell.framework == "jax" else under(each) for each in records.launches()]
    assert set(compared(held).frame["ratio_reason"]) == {""}


def test_cuda_graphs_on_one_side_are_a_caveat_between_frameworks() -> None:
    """JAX's usual mode on CUDA has them; between two modes of JAX the mode says it."""
    on = {"jax": True, "pytorch": False, "tensorflow": None}
    held = [
        replace(under(r), settings={"device": "cuda", "cuda_graphs": on[r.cell.framework]}) for r in records.launches()
    ]
    caveats = rows(compared(held), "ratio_caveat")
    assert "CUDA graphs on against off" in caveats["jax"]
    assert caveats["tensorflow"] == "", "which does not tell"
    modes = [each for each in held if each.cell.framework == "jax"]
    modes += [
        replace(each, cell=each.cell.but(compile="nographs"), settings=each.settings | {"cuda_graphs": False})
        for each in modes
    ]
    assert set(compared(modes, "compile").frame["ratio_caveat"]) == {""}


def test_launches_of_one_row_with_other_threads_forbid_its_ratios() -> None:
    held = with_threads("cpu", pytorch=8)
    held[3] = replace(held[3], settings=held[3].settings | {"threads": 1})
    assert held[3].cell.framework == "pytorch"
    assert all("threads 1 and 8" in reason for reason in rows(compared(held), "ratio_reason").values())


SPEED = ("MALLOC_ARENA_MAX", "LD_PRELOAD", "PYTORCH_CUDA_ALLOC_CONF", "TF_GPU_ALLOCATOR", "NPROC")
ARITHMETIC = (
    "NVIDIA_TF32_OVERRIDE", "JAX_ENABLE_X64", "JAX_DEFAULT_MATMUL_PRECISION", "XLA_FLAGS", "ONEDNN_DEFAULT_FPMATH_MODE",
)  # fmt: skip


@pytest.mark.parametrize("name", [*SPEED, *ARITHMETIC, "numpy"])
def test_what_differs_in_one_framework_is_a_caveat_or_forbids_its_ratio(name: str) -> None:
    """What changes the numbers forbids the ratio; versions of the frameworks' own packages are no condition."""
    words = "numpy 2.0.2 against 2.4.1" if name == "numpy" else f"{name} 1 against unset"
    changes: dict[str, Any] = {"numpy": "2.0.2"} if name == "numpy" else {"variables": {name: "1"}}
    found = compared([under(r, **(changes if r.cell.framework == "jax" else {})) for r in records.launches()])
    forbidden = name in ARITHMETIC
    assert (f"computed under different settings ({words})" in rows(found, "ratio_reason")["jax"]) == forbidden
    assert (words in rows(found, "ratio_caveat")["jax"]) != forbidden
    assert rows(found, "ratio_blocks") == {"pytorch": 3, "tensorflow": 3, "jax": 0 if forbidden else 3}
    assert rows(found, "ratio_caveat")["tensorflow"] == ""
    assert name == "numpy" or select_variables({name: "1"}) == {name: "1"}


@pytest.mark.parametrize("what", [{"torch": "2.12.0"}, {"variables": {"ATEN_CPU_CAPABILITY": "default"}}])
def test_launches_of_one_row_under_different_conditions_forbid_its_ratios(what: Any) -> None:
    held = [under(r, **(what if r.cell.framework == "pytorch" and r.launch % 2 else {})) for r in records.launches(n=4)]
    reasons = rows(compared(held), "ratio_reason")
    words = "torch 2.12.0 and 2.13.0" if "torch" in what else "ATEN_CPU_CAPABILITY default and unset"
    assert all(words in reason for reason in reasons.values())


def test_within_a_framework_another_version_is_a_caveat() -> None:
    held = [under(r) for r in records.launches()]
    held += [under(r, torch="2.12.0") for r in records.launches(["pytorch"], precision="bf16")]
    found = compared(held, by="precision")
    assert any("torch 2.12.0 against 2.13.0" in words for words in found.frame["ratio_caveat"])


def test_records_that_tell_no_variables_contradict_none() -> None:
    held = records.launches()
    held = [under(r, {"NVIDIA_TF32_OVERRIDE": "1"}) if r.cell.framework == "jax" else r for r in held]
    assert set(compared(held).frame["ratio_reason"]) == {""}
    assert facts(replace(held[0], environment={"packages": [1], "variables": "x"})) == {}


def test_rows_of_which_nobody_can_say_that_they_computed_the_same_have_no_ratio(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(TOLERANCE, ("cifar100_cnn", "fp16"))
    held = records.launches(precision="fp16")
    reasons = rows(compared(held), "ratio_reason")
    assert all("no evidence" in reason for reason in reasons.values())


def test_running_again_says_every_variable_and_version_that_differs() -> None:
    stored = [under(r, torch="2.12.0" if r.launch % 2 else "2.13.0") for r in records.launches(["pytorch"])]
    again = [under(r, {"ATEN_CPU_CAPABILITY": "default"}) for r in records.launches(["pytorch"])]
    assert differences(stored, again) == [
        "ATEN_CPU_CAPABILITY: unset, now default",
        "torch: 2.12.0 and 2.13.0, now 2.13.0",
    ]
    assert differences(again, again) == []
    other = [replace(r, environment={**r.environment, "digest": "other"}) for r in again]
    assert "installed packages: they differ" in differences(again, other)[0]


@pytest.mark.parametrize(("framework", "told"), [("jax", False), ("tensorflow", True)])
def test_a_variable_that_keras_sets_counts_where_tensorflow_reads_it(framework: str, told: bool) -> None:
    held = under(records.record(framework, interface="keras"), {"TF_FORCE_GPU_ALLOW_GROWTH": "true"})
    assert ("$TF_FORCE_GPU_ALLOW_GROWTH" in facts(held)) == told


@pytest.mark.parametrize(
    ("name", "told"), [("TORCH_CUDA_ARCH_LIST", False), ("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", True)]
)
def test_a_variable_that_changes_no_speed_is_no_condition(name: str, told: bool) -> None:
    assert (f"${name}" in facts(under(records.record("pytorch"), {name: "1"}))) == told


@pytest.mark.parametrize(("arenas", "told"), [("8", ""), ("1", ""), ("4", "MALLOC_ARENA_MAX 4 against 1")])
def test_arenas_that_the_suite_chose_for_a_cell_are_no_other_condition(arenas: str, told: str) -> None:
    held = [under(each, {"MALLOC_ARENA_MAX": "1"}) for each in records.launches(["pytorch"], workload="imdb_lstm")]
    held += [
        under(each, {"MALLOC_ARENA_MAX": arenas}) for each in records.launches(["tensorflow"], workload="imdb_lstm")
    ]
    caveat = rows(compared(held), "ratio_caveat")["tensorflow"]
    assert told in caveat if told else not caveat


def with_files(**files: str) -> list[Record]:
    """Launches of a workload from outside, which record a digest of its files."""
    return [
        replace(each := under(r), workload={**each.workload, "files": files.get(r.cell.framework, "a" * 64)})
        for r in records.launches()
    ]


def test_other_code_of_a_workload_in_one_row_is_a_caveat() -> None:
    assert set(rows(compared(with_files()), "ratio_caveat").values()) == {""}
    caveats = rows(compared(with_files(jax="b" * 64)), "ratio_caveat")
    assert f"the workload's files {12 * 'b'} against {12 * 'a'}" in caveats.pop("jax")
    assert set(caveats.values()) == {""}


def test_launches_of_one_row_of_other_code_forbid_its_ratios() -> None:
    held = with_files()
    held[0] = replace(held[0], workload={**held[0].workload, "files": "c" * 64})
    reasons = rows(compared(held), "ratio_reason")
    assert f"the workload's files {12 * 'a'} and {12 * 'c'}" in " ".join(reasons.values())


def test_launches_of_before_a_tuning_are_not_called_by_its_name() -> None:
    loaded = [load([numbered(number)]).launches for number in ("0005", "0011", "0032")]
    tunings = [{SETTINGS["tuning"](row) for one in group(launches) for row in one.rows} for launches in loaded]
    assert tunings == [{OTHER}, {"recommended"}, {"recommended", "default"}]
    (found, *_) = [table(one) for one in group(loaded[0])]
    assert {cell.settings["tuning"] for cell in found.cells} == {OTHER}
    assert set(launch_table(loaded[0])["tuning"]) == {OTHER}
    (note,) = footnotes.tunings(found.group)
    assert "MALLOC_MMAP_THRESHOLD_=33554432" in note
    started = under(records.record(), {**KEPT_MEMORY, ARENAS: "4"})
    assert SETTINGS["tuning"](grouped([started]).rows[0]) == "recommended", "the user's own number of heaps"
