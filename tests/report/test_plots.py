"""What plots show of records whose answers are known, as traces, and how they are written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from suite.record.record import Record, Window
from suite.report.plots import draw, find_charts, save
from suite.report.plots.kinds.bars import step_times, throughput
from suite.report.plots.kinds.learning import accuracy_epochs, accuracy_time, agreement, first_epoch_loss
from suite.report.plots.kinds.shares import first_step, phases
from suite.report.plots.kinds.timeline import timeline
from tests import records
from tests.drawn import panels, said, traces
from tests.records import mixed, only, tables, timed, watched
from tests.report.test_plot_rules import trained

pytestmark = pytest.mark.drawing


def written(held: Sequence[Record], folder: Path, suffixes: Sequence[str] = ()) -> list[str]:
    """The names of all plots of tables."""
    return [each.name for each in draw(tables(held), [], folder, suffixes) if not each.leads]


def test_each_plot_is_written_as_png_and_svg(tmp_path: Path) -> None:
    names = written(records.launches(n=1), tmp_path, ("png", "svg"))
    kinds = ("throughput", "phases", "step-times", "first-step")
    assert names == [f"{kind}-cifar100_cnn-full" for kind in kinds]
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert sizes.keys() == {f"{name}.{suffix}" for name in ("hero", *names) for suffix in ("png", "svg")}
    assert min(sizes.values()) > 3_000


@pytest.mark.parametrize("suffix", ["svg", "pdf"])
def test_a_style_of_one_s_own_is_that_of_the_plot(suffix: str, tmp_path: Path) -> None:
    style = tmp_path / "paper.mplstyle"
    style.write_text("font.family: DejaVu Serif\naxes.grid: True\n")
    (chart,) = (chart for kind, _, chart in find_charts(tables(mixed()), []) if kind.name == "throughput")
    files = [tmp_path / f"{name}.{suffix}" for name in ("usual", "own", "again")]
    for path, of in zip(files, (None, style, style), strict=True):
        save(chart, path, of)
    usual, own, again = (path.read_bytes() for path in files)
    assert usual != own == again, "the same input gives the same bytes"


def test_tables_of_the_same_workload_get_files_of_their_own(tmp_path: Path) -> None:
    other = [replace(r, data={**r.data, "digest": "0"}) for r in records.launches(["jax"], n=1)]
    synthetic = records.launches(["jax"], n=1, kind="synthetic")
    names = written([*records.launches(n=1), *other, *synthetic], tmp_path)
    assert len(set(names)) == 3 * 4
    assert {"throughput-cifar100_cnn-full-v2", "throughput-cifar100_cnn-full-synthetic"} <= set(names)


def test_nothing_is_drawn_where_nothing_ended_well_and_much_where_times_lack(tmp_path: Path) -> None:
    assert written([records.failed(r) for r in records.launches()], tmp_path) == []
    bare = {"startup": {}, "compile_s": None, "first_step_s": None, "started": "", "environment": {}}
    assert written([replace(r, **bare) for r in records.launches()], tmp_path)


@pytest.mark.parametrize("make", [throughput, first_step, step_times])
def test_failed_flagged_and_differing_rows_are_marked(make: object) -> None:
    assert callable(make)
    chart = make(only(mixed()))
    assert "out-of-memory" in panels(chart)[0].beside.values(), "a failed cell has no bar but its outcome"
    assert {"TensorFlow \u00b7 compile !", "PyTorch \u00b7 eager"} <= {*chart.labels}, "what is flagged is marked"
    assert "SYNTHETIC DATA" in said(make(only(records.launches(kind="synthetic", n=1))))
    held = records.launches(n=1)
    assert held[2].identity
    held[2] = replace(held[2], identity=replace(held[2].identity, weights="other"))
    assert panels(make(only(held)))[0].rows.names == ["PyTorch", "TensorFlow", "JAX !"]


def test_bars_are_medians_with_an_interval_and_a_dot_per_launch() -> None:
    held = records.launches(["jax"], n=3)
    low, middle, high = sorted(r.samples_per_s or 0 for r in held)
    (bar,), (dots, _) = traces(throughput(only(held)), "bars"), traces(throughput(only(held)), "points")
    assert (*bar.x, *bar.low, *bar.high) == pytest.approx((middle, low, high))
    assert sorted(dots.x) == pytest.approx([low, middle, high])


def test_the_parts_of_a_start_add_up() -> None:
    held = records.launches(["jax"], n=1)
    parts = traces(first_step(only(held)), "bars")
    assert all(after.base == before.x for before, after in pairwise(parts))
    assert parts[-1].x[0] == pytest.approx(sum(held[0].startup.values()) + (held[0].first_step_s or 0))


def test_loading_adds_what_training_takes_beyond_its_steps_and_never_less_than_nothing() -> None:
    def shares(**seconds: float) -> tuple[float, float]:
        compute, added = traces(phases(only([timed(0.10, **seconds)])), "bars")
        return compute.x[0], added.x[0] - added.base[0]

    assert shares(compute_s=0.08, input_s=0.05) == pytest.approx((80, 20))
    assert shares(compute_s=0.11) == pytest.approx((110, 0))
    assert traces(phases(only([timed(0.10, compute_s=0.08, input_s=0.05)])), "points")[0].x == pytest.approx((50,))
    assert phases(only([timed(0.1), records.failed(records.record("jax"))])) is None


def test_each_seed_is_a_thin_line_of_its_own() -> None:
    chart = accuracy_epochs(trained(seeds=4))
    assert len([each for each in traces(chart, "lines") if each.look.get("linewidth") == 0.7]) == 3 * 4
    assert accuracy_epochs(trained(epochs=1)) is None, "one epoch is no course of epochs"
    assert accuracy_time(trained(epochs=1)) is not None


def test_losses_are_compared_in_words_only_without_dropout() -> None:
    assert agreement(trained(1, recipe="no-dropout")) == pytest.approx(1e-4)
    assert "0.01 %" in said(first_epoch_loss(trained(1, recipe="no-dropout")))
    assert agreement(trained(1)) is None
    assert "Largest difference" not in said(first_epoch_loss(trained(1)))


def test_a_disturbed_launch_is_a_cross_and_in_no_bar() -> None:
    held = records.launches(["jax"], n=4)
    chart = throughput(only([*held[:3], replace(held[3], flags=("throttled",))]))
    (bar,), (dots, crosses) = traces(chart, "bars"), traces(chart, "points")
    assert crosses.look["marker"] == "x"
    assert crosses.x == (held[3].samples_per_s,)
    assert held[3].samples_per_s not in (*dots.x, *bar.low, *bar.high)
    assert "Cross: a disturbed launch" in said(chart)
    assert "Cross" not in said(throughput(only(held)))


def test_a_timeline_ends_with_the_last_window_and_has_a_scale_with_its_unit() -> None:
    def idle(record: Record, seconds: float) -> Record:
        """The same launch whose process lives on without work for so long after its last window."""
        host = record.metrics["host"]["timeline"]
        more = [host["at_s"][-1] + 0.5 * tick for tick in range(1, int(2 * seconds))]
        values = {name: [*line, *([0.0] * len(more))] for name, line in host["values"].items()}
        line = {"at_s": [*host["at_s"], *more], "values": values}
        return replace(record, metrics={**record.metrics, "host": {"timeline": line}})

    chart = timeline(only([idle(watched(each, gpu=False), 17.0) for each in records.launches(n=1)]))
    cpu, _ = panels(chart)
    assert cpu.x.high is not None
    assert cpu.x.high <= 27
    assert "the process only exits after it" in said(chart)
    assert (cpu.title, cpu.head) == ("CPU of the worker", "0 to 2 cores")
    assert all(0 <= line.y[1] - row < 0.36 for row, line in enumerate(traces(chart, "lines")[:3]))


def test_one_stalled_window_is_named_and_does_not_set_the_scale() -> None:
    held = records.launches(n=2)
    train = held[0].phases["train"]
    held[0] = replace(held[0], phases={"train": replace(train, windows=(*train.windows[1:], Window(20, 100.0)))})
    (panel,) = panels(step_times(only(held)))
    assert any("ms, up to 15," in text for text in panel.beside.values())
    assert panel.x.high is not None
    assert panel.x.high < 200


def test_unsupported_cells_are_named_below_and_take_no_row() -> None:
    no = [*records.launches(precision="bf16"), *records.launches(["pytorch"], compile="graph")]
    held = [*records.launches(), *(records.failed(each, "unsupported") for each in no)]
    for make in (throughput, first_step, step_times):
        chart = make(only(held))
        assert len(panels(chart)[0].rows.places) == 3
        assert "not drawn: graph (PyTorch); bf16 (PyTorch, TensorFlow and JAX)." in said(chart)
