"""Rules that every plot keeps: what it says, where its scales begin, intervals, size of letters, width and ticks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image

from suite.analysis.records.load import Launch
from suite.analysis.rows.groups import group
from suite.analysis.statistics.accuracy import AccuracyComparison, compare_accuracies
from suite.analysis.statistics.inference import Estimate
from suite.plan.cell import FRAMEWORKS
from suite.record.parts.history import Epoch, TrainingHistory
from suite.report import plots
from suite.report.plots import layout
from suite.report.plots.charts import describe_interval
from suite.report.plots.kinds import TIMED, TRAINED, find_kinds
from suite.report.plots.kinds.bars import throughput
from suite.report.plots.kinds.hero import hero
from suite.report.plots.kinds.shares import ADDED, LOOKS, PARTS
from suite.report.plots.pens import FACE, WIDTH_IN
from suite.report.plots.traces import Chart
from tests import records
from tests.drawn import panels, said
from tests.records import complete, only

pytestmark = pytest.mark.drawing

#: Dots across a plot in a README on a page as wide as GitHub's, and the height of letters that can be read there.
README, READABLE = 880, 11.0
#: Letters of a row's name beyond which a plot gets wider: a run that varies everything.
LONG = 60
#: What is no part of a whole, and so begins elsewhere than at zero: ratios, scatter, latencies, and what is learnt.
NOT_FROM_ZERO = {"speed-up", "step-times", "latencies", "roofline", "accuracy-devices"}


def trained(
    seeds: int = 3,
    epochs: int = 4,
    recipe: str = "modern",
    precisions: tuple[str, ...] = ("fp32",),
    devices: tuple[int, ...] = (1,),
) -> AccuracyComparison:
    """An accuracy table; losses of two frameworks differ by 1e-4 of them."""
    held = []
    for framework, apart in (("pytorch", 0.0), ("tensorflow", 1e-4), ("jax", 0.0)):
        for precision, count in product(precisions, devices):
            for seed in range(seeds):
                passes = tuple(Epoch(100, 2.0, 3.0, 2.0, 0.2 * n + 0.01 * seed, 0.5) for n in range(1, epochs + 1))
                curve = tuple(4.6 * 0.999**step * (1 + apart) for step in range(400))
                course = TrainingHistory(recipe, epochs, 0.5, passes, curve)
                made = records.record(framework, seed, recipe=recipe, precision=precision, course=course, devices=count)
                held.append(replace(made, run={"id": "run-a", "seed": seed}))
    (one,) = group([Launch(each, "run-a", "a.json") for each in held])
    return compare_accuracies(one, "pytorch")


def every_chart() -> Iterator[tuple[str, Chart]]:
    """Every kind of plot, and the overviews of timed, of trained, and of both."""
    whole = only(complete())
    for kind in find_kinds(TIMED):
        if chart := kind.chart(whole):
            yield kind.name, chart
    several = trained(precisions=("fp32", "bf16"))
    for kind in find_kinds(TRAINED):
        if chart := kind.chart(several if kind.name != "accuracy-devices" else trained(devices=(1, 2))):
            yield kind.name, chart
    timed = [whole, only(records.launches(workload="imdb_lstm"))]
    for name, tables, courses in (("timed", timed, []), ("trained", [], [trained()]), ("both", timed, [trained(1)])):
        if chart := hero(tables, courses):
            yield f"hero of {name}", chart


@pytest.fixture(scope="module")
def charts() -> dict[str, Chart]:
    return dict(every_chart())


@pytest.fixture(scope="module")
def drawn(charts: dict[str, Chart]) -> list[tuple[str, Figure]]:
    """Every plot, drawn once: only then all ticks and texts have their places."""
    return [(name, figure_of(chart)) for name, chart in charts.items()]


def figure_of(chart: Chart | None) -> Figure:
    assert chart
    with plots.use_style():
        plot = layout.draw(chart)
        plot.canvas.draw()
        return plot


def test_every_kind_is_looked_at(charts: dict[str, Chart]) -> None:
    kinds = [kind.name for of in (TIMED, TRAINED) for kind in find_kinds(of)]
    assert list(charts) == [*kinds, "hero of timed", "hero of trained", "hero of both"]


def test_every_plot_says_what_it_needs_to_travel_alone(charts: dict[str, Chart]) -> None:
    for name, chart in charts.items():
        words = said(chart)
        assert "is better" in words or "Better is" in words, name
        for expected in ("CIFAR-100 CNN", "n = ", "full size", "Example CPU 3000, 8 cores", "2026-03-01", "Run"):
            assert expected in words, (name, expected)
        assert "cifar100_cnn" not in words, name
        assert "real data" in words or name.startswith("hero"), name


def test_scales_begin_at_zero_but_for_what_is_no_part_of_a_whole(charts: dict[str, Chart]) -> None:
    for name, chart in charts.items():
        for panel in panels(chart):
            scale = panel.x if panel.rows else panel.y
            learnt = "accuracy" in panel.y.label or "loss" in panel.y.label
            assert scale.low == 0 or learnt or name in NOT_FROM_ZERO, name


def test_measured_bars_and_marks_have_intervals(charts: dict[str, Chart]) -> None:
    """Those of parts of a whole (with a base), of frameworks' shares, and of no measurement have none."""
    for name in ("throughput", "speed-up", "step-times", "scaling", "threads", "cores", "releases", "hero of timed"):
        for panel in panels(charts[name]):
            for each in panel.traces:
                if each.kind in ("bars", "lines") and each.group and each.look.get("linewidth") != 0.9:
                    assert len(each.low) == len(each.high) == len(each.x), name
                    assert all(low <= high for low, high in zip(each.low, each.high, strict=True))


def test_every_trace_of_a_framework_has_a_text_for_those_who_point_at_it(charts: dict[str, Chart]) -> None:
    for name in ("throughput", "speed-up", "batch", "timeline", "first-step", "accuracy-epochs", "weak-scaling"):
        for panel in panels(charts[name]):
            for each in panel.traces:
                if each.kind == "bars" or (each.kind == "lines" and each.low):
                    assert all(each.text), name
                    assert len(each.text) in (1, len(each.x)), name


def test_no_part_of_a_bar_has_a_framework_s_colour() -> None:
    parts = {colour for colour, _ in LOOKS.values()} | {colour for *_, colour, _ in PARTS} | {ADDED["facecolor"]}
    assert not parts & {*FACE.values()}
    assert set(FACE) == {*FRAMEWORKS}


def texts(plot: Figure) -> list[Text]:
    return [each for each in plot.findobj(Text) if each.get_visible() and each.get_text().strip()]


def test_all_letters_can_be_read_where_a_readme_shows_the_plot(drawn: list[tuple[str, Figure]]) -> None:
    for name, plot in drawn:
        dots_per_point = README / plot.get_figwidth() / 72
        small = {each.get_text() for each in texts(plot) if each.get_size() * dots_per_point < READABLE}
        assert not small, name


def test_plots_are_equally_wide_and_no_text_leaves_them(drawn: list[tuple[str, Figure]]) -> None:
    for name, plot in drawn:
        rows = [len(each.get_text()) for axes in plot.axes for each in axes.get_yticklabels()]
        if max(rows, default=0) <= LONG:
            assert plot.get_figwidth() == pytest.approx(WIDTH_IN), name
        for each in (*plot.texts, *(text for axes in plot.axes for text in axes.texts)):
            box = each.get_window_extent()
            assert box.x0 >= 0, (name, each.get_text())
            assert box.x1 <= plot.bbox.x1 + 1, (name, each.get_text())
            assert box.y0 >= 0, (name, each.get_text())


def test_ticks_are_at_round_numbers_and_logarithmic_axes_have_plain_labels(drawn: list[tuple[str, Figure]]) -> None:
    def rounded(at: float) -> bool:
        return at == 0 or round(abs(at) / 10 ** np.floor(np.log10(abs(at)) + 1e-9), 6) in {1.0, 2.0, 5.0}

    for name, plot in drawn:
        for axes in plot.axes:
            for axis, ends in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
                assert not [text for text in axis.get_ticklabels(minor=True) if text.get_text()], name
                labels = [text.get_text() for text in axis.get_ticklabels()]
                assert not [words for words in labels if "10^" in words or "\u00d7" in words], name
                if axis.get_scale() == "linear" and axis.get_label().get_text() and name != "scaling":
                    at = [x for x in axis.get_ticklocs() if min(ends) <= x <= max(ends)]
                    assert all(rounded(round(b - a, 9)) for a, b in pairwise(at)), (name, at)


def test_a_figure_grows_with_its_cells_and_labels_neither_overlap_nor_leave_it() -> None:
    modes = [{"batch": batch, "compile": mode} for batch in (16, 32, 64, 128, 256) for mode in ("eager", "graph")]
    held = [each for mode in modes for run in ("a", "W" * 70) for each in records.launches(n=1, run=run, **mode)]
    (axes,) = figure_of(throughput(only(held))).axes
    boxes = [label.get_window_extent() for label in axes.get_yticklabels()]
    assert len(boxes) == 60
    assert all(above.y0 >= below.y1 for above, below in pairwise(boxes))
    assert min(box.x0 for box in boxes) >= 0
    assert axes.get_window_extent().width > 100


def test_a_png_is_a_white_card_with_round_corners_in_the_frameworks_colours(
    charts: dict[str, Chart], tmp_path: Path
) -> None:
    plots.save(charts["throughput"], tmp_path / "a.png")
    card: Any = Image.open(tmp_path / "a.png").convert("RGBA")
    across, up = card.size
    corners = ((0, 0), (across - 1, 0), (0, up - 1), (across - 1, up - 1))
    assert max(card.getpixel(place)[3] for place in corners) < 3
    assert min(card.getpixel((across // 2, 2))) >= 254
    shown = {f"#{red:02X}{green:02X}{blue:02X}" for _, (red, green, blue, _) in card.getcolors(1 << 24)}
    assert {*FACE.values()} <= shown


def test_the_whisker_of_a_ratio_is_said_to_be_what_it_is() -> None:
    """A run that stops when it is decided is tested from four blocks on."""
    four = Estimate(1.1, 0.9, 1.3, 4)
    words = [describe_interval([each]) for each in (four, replace(four, verdict="slower"), replace(four, blocks=6))]
    assert ["corrected interval" in each for each in words] == [False, True, True]
