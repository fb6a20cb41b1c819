"""What held a row back: every verdict from phases that mean it, and advice with the gains that the run measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from suite.analysis.bottlenecks.bottleneck import Bottleneck, advice, bottleneck, symptoms
from suite.analysis.rows.metrics import Prices, metrics
from suite.catalog.metrics import METRICS
from suite.plan.cell import AUTO, Cell, Loader
from suite.record.parts.profile import Gaps
from suite.record.record import Outcome, Phase, Record, Window
from suite.report.tables.frame import table
from tests import records
from tests.profiles import profile, profiled, with_gaps
from tests.records import replace
from tests.shown import grouped, terminal

CELL = Cell("imdb_lstm", "pytorch", batch=32)


def ran(cell: Cell, train: float, compute: float, given: float, launch: int = 0) -> Record:
    """A launch whose steps took so many milliseconds in the three phases."""
    times = {"train": train, "compute": compute, "input": given}
    phases = {name: Phase((Window(10, 0.01 * ms),)) for name, ms in times.items()}
    made = records.record(cell.framework, launch, workload=cell.workload)
    return replace(made, cell=cell, phases=phases, settings={"effective_batch": cell.effective_batch or 96})


def repeated(*found: Record, n: int = 3) -> list[Record]:
    """So many launches of each, alike to the last digit."""
    return [replace(record, launch=launch) for record in found for launch in range(n)]


def verdict(*found: Record, n: int = 3) -> Any:
    """Of the first one's row and what is advised against it, from ``n`` launches of each that are alike."""
    return judged(*repeated(*found, n=n))


def judged(*found: Record) -> Any:
    one = grouped(found)
    row = next(row for row in one.rows if row.cell == found[0].cell)
    held = bottleneck(row, one)
    return held, advice(row, one, held)


@pytest.mark.parametrize(
    ("train", "compute", "given", "kind", "detail"),
    [
        (10.0, 10.0, 1.0, "compute-bound", ""),
        (10.4, 10.0, 9.0, "compute-bound", ""),
        (16.0, 10.0, 15.0, "input-bound", "loading costs 38 %"),
        (16.0, 10.0, 7.0, "poor overlap", "loading costs 38 %"),
    ],
)
def test_the_three_phases_tell_what_held_training_back(
    train: float, compute: float, given: float, kind: str, detail: str
) -> None:
    held, _ = verdict(ran(CELL, train, compute, given))
    assert (held.kind, held.detail) == (kind, detail)


@pytest.mark.parametrize(
    ("shares", "words"),
    [
        ([0.88], "undecided (one launch, in which loading took 12% of a step)"),
        # Two launches in which the machine drifted between the phases, and four later ones of the same cell.
        ([0.86, 0.90], "undecided (loading costs 12 %, 0 to 34 %)"),
        ([0.86, 0.90, 1.01, 1.00, 1.01, 1.02], "undecided (loading costs 4 %, 0 to 11 %)"),
        ([1.01, 1.00, 1.01, 1.02], "compute-bound"),
        ([0.86, 0.88, 0.90, 0.89], "poor overlap (loading costs 12 %, 9 to 14 %)"),
    ],
)
def test_a_bottleneck_is_named_where_its_interval_decides(shares: list[float], words: str) -> None:
    held, _ = judged(*[ran(CELL, 10, 10 * share, 1, launch) for launch, share in enumerate(shares)])
    assert str(held) == words


def test_input_bound_or_poor_overlap_is_decided_too() -> None:
    close = [ran(CELL, 16, 10, given, launch) for launch, given in enumerate((9, 11, 10.5, 9.5))]
    assert str(judged(*close)[0]) == "undecided (loading costs 38 %)", (
        "the loader is neither slower nor faster than the steps"
    )


def test_a_larger_batch_whose_blocks_do_not_decide_leaves_the_row_undecided() -> None:
    small = [ran(CELL.but(batch=8), 10, 10, 1, launch) for launch in range(3)]
    large = [ran(CELL.but(batch=16), ms, ms, 1, launch) for launch, ms in enumerate((11, 12, 13))]
    held, _ = judged(*small, *large)
    assert str(held) == "undecided (twice the batch takes 1.20 times as long, 0.97 to 1.47)"


def test_a_doubled_batch_that_takes_as_long_shows_a_device_that_waits() -> None:
    small, large = ran(CELL.but(batch=8), 10, 10, 1), ran(CELL.but(batch=16), 11, 11, 1)
    held, advised = verdict(small, large)
    assert str(held) == "launch-bound (twice the batch takes 1.10 times as long, 1.10 to 1.10)"
    assert advised[0] == "batch 16 gave 1.82x (1.82 to 1.82, n = 3)"
    held, _ = verdict(ran(CELL.but(batch=8), 10, 10, 1), ran(CELL.but(batch=16), 19, 19, 1))
    assert held.kind == "compute-bound"
    held, _ = verdict(ran(CELL.but(batch=8), 10, 10, 1), ran(CELL.but(batch=32), 13, 13, 1))
    assert str(held) == "launch-bound (4 times the batch takes 1.30 times as long, 1.30 to 1.30)", (
        "under 1.2 times per doubling"
    )
    assert verdict(ran(CELL.but(batch=8), 10, 10, 1), ran(CELL.but(batch=32), 15, 15, 1))[0].kind == "compute-bound"


def test_the_largest_batch_that_fits_is_limited_by_memory() -> None:
    searched = ran(CELL.but(batch=AUTO), 10, 10, 1)
    assert verdict(searched)[0].kind == "compute-bound", "a search that memory did not end"
    tries = [{"batch": 96, "status": "ok"}, {"batch": 104, "status": "out-of-memory"}]
    found = replace(searched, settings=searched.settings | {"batch_search": tries})
    assert str(verdict(found)[0]) == "memory-limited (the largest batch that fits)"
    full = replace(ran(CELL.but(batch=64), 10, 10, 1), outcome=Outcome("out-of-memory", "too large"), phases={})
    held, advised = verdict(ran(CELL, 10, 10, 1), full)
    assert str(held) == "memory-limited (the largest batch that fits of those tried: 64 does not)"
    assert advised == ["untried: bf16, compile"]


def test_advice_names_what_the_run_measured_and_what_it_did_not_try() -> None:
    slow = ran(CELL.but(loader=Loader("naive")), 20, 10, 19)
    held, advised = verdict(slow, ran(CELL, 11, 10, 2), ran(CELL.but(loader=Loader("resident")), 10, 10, 1))
    assert held.kind == "input-bound"
    assert advised == [
        "loader resident gave 2.00x (2.00 to 2.00, n = 3)",
        "loader tuned gave 1.82x (1.82 to 1.82, n = 3)",
    ]
    _, advised = verdict(slow)
    assert advised == ["untried: more workers, resident loader"]


def test_what_failed_is_neither_a_gain_nor_untried() -> None:
    compiled = replace(ran(CELL.but(compile="compile"), 1, 1, 1), outcome=Outcome("unsupported", "no graph"), phases={})
    _, advised = verdict(ran(CELL, 10, 10, 1), compiled, ran(CELL.but(precision="bf16"), 10, 10, 1))
    assert advised == ["untried: larger batch"], "bf16 was tried and gained nothing"
    modes = [verdict(ran(CELL.but(compile=mode), 10, 10, 1))[1][0].split(", ")[-1] for mode in ("compile", "max")]
    assert modes == ["compile mode max", "compile mode compile"], "a row is not advised to do what it does"


def test_gains_are_formed_within_blocks() -> None:
    here = [ran(CELL, 10 * slow, 10 * slow, 1, launch) for launch, slow in enumerate((1, 3))]
    there = [ran(CELL.but(precision="bf16"), 5 * slow, 5 * slow, 1, launch) for launch, slow in enumerate((1, 3))]
    assert judged(*here, *there)[1][0] == "bf16 gave 2.00x (2.00 to 2.00, n = 2)"


@pytest.mark.parametrize("ms", [(8, 8, 10), (8,), (8, 9.4)])
def test_a_gain_that_the_blocks_do_not_decide_is_no_gain_and_not_untried(ms: tuple[float, ...]) -> None:
    here = [ran(CELL, 10, 10, 1, launch) for launch in range(3)]
    there = [ran(CELL.but(precision="bf16"), each, each, 1, launch) for launch, each in enumerate(ms)]
    assert judged(*here, *there)[1] == ["untried: larger batch, compile"]


def test_a_row_without_its_phases_has_no_verdict() -> None:
    record = ran(CELL, 10, 10, 1)
    held, advised = verdict(replace(record, phases={"train": record.phases["train"]}))
    assert (str(held), advised) == ("", [])


def gpu_seen(busy: float, cores: float, peak: float) -> Record:
    """A launch during which a GPU was so busy, so many of 8 cores were, and so much of 80 GB was allocated."""
    metrics = {
        "host": {"phases": {"train": {"cpu_cores": {"median": cores}}}},
        "gpus": [
            {
                "memory_bytes": 80e9,
                "energy_j_per_sample": 0.5,
                "phases": {"train": {"gpu_utilisation_percent": {"median": busy}, "power_w": {"median": 350.0}}},
            }
        ],
    }
    return replace(ran(CELL, 10, 10, 1), metrics=metrics, memory={"allocator_peak_bytes": int(peak * 80e9)})


@pytest.mark.parametrize(
    ("busy", "cores", "peak", "words"),
    [
        (95, 1, 0.5, ""),
        (40, 7.5, 0.5, "the GPU is busy 40 % of the time, while the CPU is full (94% of its cores)"),
        (40, 0.8, 0.5, "the GPU is busy 40 % of the time and the CPU 10%: both wait"),
        (65, 4, 0.5, "the GPU is busy 65 % of the time"),
        (95, 1, 0.12, "the allocator's peak is 12% of the device's memory: there is room for a larger batch"),
    ],
)
def test_the_classic_symptoms_are_named(busy: float, cores: float, peak: float, words: str) -> None:
    found = symptoms((row := grouped([gpu_seen(busy, cores, peak)]).rows[0]), metrics(row))
    assert "; ".join(found).startswith(words)
    assert bool(found) == bool(words)


@pytest.mark.parametrize("machine", [None, "x", {"cores": "eight"}])
def test_without_a_number_of_cores_the_gpu_s_is_named_alone(machine: object) -> None:
    record = replace(gpu_seen(40, 7.5, 0.5), environment={"machine": machine})
    row = grouped([record]).rows[0]
    assert symptoms(row, metrics(row)) == ["the GPU is busy 40 % of the time"]


def test_a_million_samples_have_a_price_where_all_that_it_takes_is_known() -> None:
    made = table(grouped([gpu_seen(95, 1, 0.5)]), "pytorch", Prices(hour=3.6, kwh=0.36)).frame.iloc[0]
    assert made["cost_per_million_samples"] == pytest.approx(1e6 / 3200 / 1000 + 0.05)
    assert made["cost_per_epoch"] == pytest.approx(made["cost_per_million_samples"] * 25_000 / 1e6)
    assert Prices(kwh=0.36).of_a_million(100.0, None) is None
    assert Prices().of_a_million(100.0, 1.0) is None


def test_utilisation_is_of_the_best_peak_that_any_framework_measured() -> None:
    found = [
        replace(
            ran(Cell("imdb_lstm", framework, batch=32), 10, 10, 1),
            settings={"peak_flops_per_s": peak}, workload={"training_flops_per_sample": 10**7, "digest": "a"},
        )
        for framework, peak in (("pytorch", 1e11), ("jax", 4e10))
    ]  # fmt: skip
    made = table(grouped(found), "pytorch").frame
    assert made["model_flops_utilisation"].tolist() == pytest.approx([3200 * 1e7 / 1e11] * 2)
    assert table(grouped([ran(CELL, 10, 10, 1)]), "pytorch").frame["model_flops_utilisation"].isna().all()


@pytest.mark.parametrize(
    ("gpu", "precision", "device", "share"),
    [
        ("NVIDIA H200", "bf16", "cuda", 3200 * 1e10 / 989e12), ("NVIDIA A100-SXM4-40GB", "tf32", "cuda", 32 / 156),
        ("NVIDIA T4", "bf16", "cuda", None), ("no such card", "fp32", "cuda", None),
        ("NVIDIA H200", "fp32", "cpu", None),
    ],
)  # fmt: skip
def test_utilisation_by_the_data_sheet_is_of_the_same_precision(
    gpu: str, precision: str, device: str, share: float | None
) -> None:
    record = replace(
        ran(Cell("imdb_lstm", "pytorch", batch=32, precision=precision), 10, 10, 1),
        settings={"device": device}, workload={"training_flops_per_sample": 10**10, "digest": "a"},
        environment={"machine": {"gpus": [gpu]}},
    )  # fmt: skip
    assert METRICS["datasheet_flops_utilisation"].value(record) == (share and pytest.approx(share))


def limit_of(held: Sequence[Record]) -> Bottleneck:
    one = grouped(held)
    return bottleneck(one.rows[0], one)


def launches(batch: int, step_s: float, idle: float | None, n: int = 4) -> list[Record]:
    made = [
        records.timed(step_s, "pytorch", launch, batch=batch, compute_s=step_s, input_s=step_s / 100)
        for launch in range(n)
    ]
    return made if idle is None else [with_gaps(profiled(each), idle) for each in made]


@pytest.mark.parametrize(
    ("idle", "words"),
    [(0.6, "the profile agrees"), (0.02, "the profile does not"), (0.2, "by the profile")],
)
def test_gaps_back_or_refute_a_launch_bound_row(idle: float, words: str) -> None:
    found = limit_of([*launches(32, 0.1, idle), *launches(64, 0.105, idle)])
    assert found.kind == "launch-bound"
    assert f"; {words}: the device had nothing to do for {idle:.0%} of the step, 20 µs between kernels" in found.detail


@pytest.mark.parametrize(("idle", "words"), [(0.6, "the profile does not"), (0.02, "the profile agrees")])
def test_gaps_back_or_refute_a_compute_bound_row(idle: float, words: str) -> None:
    found = limit_of(launches(32, 0.1, idle))
    assert found.kind == "compute-bound"
    assert found.detail.startswith(f"{words}: ")


def test_one_launch_is_told_too() -> None:
    assert "; by the profile: " in limit_of(launches(32, 0.1, 0.5, n=1)).detail


def test_the_share_is_that_of_the_timed_step_not_of_the_longer_profiled_one() -> None:
    held = [
        replace(each, profile=replace(each.profile, step_s=0.15)) for each in launches(32, 0.1, 0.33) if each.profile
    ]
    assert "the profile agrees: the device had nothing to do for 0% of the step" in limit_of(held).detail


def test_kernels_keep_their_times_and_the_host_gets_the_rest_of_the_step() -> None:
    seconds = {"matrix product": 0.06, "element-wise": 0.02, "host and launch overhead": 0.05, "idle": 0.01}
    on_gpu = profile(seconds, timed_s=0.1, gaps=Gaps(0.4, 2e-5))
    shares = {name: each.seconds / on_gpu.slowdown_of(name) for name, each in on_gpu.categories.items()}
    assert shares == pytest.approx(
        {"matrix product": 0.06, "element-wise": 0.02, "host and launch overhead": 0.02 * 5 / 6, "idle": 0.02 / 6}
    )
    assert sum(shares.values()) == pytest.approx(on_gpu.timed_s)


@pytest.mark.parametrize("gaps", [None, Gaps(0.0, 0.0)])
def test_on_a_cpu_and_where_kernels_alone_take_longer_all_have_slowed_alike(gaps: Gaps | None) -> None:
    seconds = {"matrix product": 0.09, "element-wise": 0.03, "host and launch overhead": 0.0}
    assert [*map(profile(seconds, timed_s=0.1, gaps=gaps).slowdown_of, seconds)] == pytest.approx([1.2] * 3)


def test_the_second_table_has_the_columns_that_were_read_and_no_others() -> None:
    held = (gpu_seen(40, 7.5, 0.12), ran(CELL, 10, 10, 1))
    seen, bare = (" ".join(terminal(table(grouped([each]), "pytorch")).split()) for each in held)
    assert ("busy %" in seen, "mJ per" in seen, "occu-" in seen, "busy %" in bare) == (True, True, False, False)
    assert "Underused: pytorch: the GPU is busy 40 % of the time, while the CPU is full" in seen
