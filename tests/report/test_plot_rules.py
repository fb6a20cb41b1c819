"""Rules that every plot keeps: size of letters, width, round ticks, words, and what is drawn of what."""

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

from suite.analysis.accuracy.comparison import AccuracyComparison, compare_accuracies
from suite.analysis.records.load import Launch
from suite.analysis.rows.groups import group
from suite.record.parts.history import Epoch, TrainingHistory
from suite.record.record import Record
from suite.report.plots import use_style
from suite.report.plots.kinds import TIMED, TRAINED, find_kinds
from suite.report.plots.kinds.bars import first_step, throughput
from suite.report.plots.kinds.hero import hero
from suite.report.plots.kinds.learning import agreement, by_epoch, by_time, first_epoch
from suite.report.plots.kinds.lines import batch
from suite.report.plots.kinds.scatter import step_times
from suite.report.plots.kinds.timeline import timeline
from suite.report.plots.style import image
from suite.report.plots.style.look import LINE_LEAST, WIDTH_IN
from tests import records
from tests.drawn import said
from tests.records import complete, only, watched

pytestmark = pytest.mark.drawing

#: Dots across a plot in a README on a page as wide as GitHub's, and the height of letters that can be read there.
README, READABLE = 880, 11.0
#: Letters of a row's name beyond which a plot gets wider: a run that varies everything.
LONG = 60
ROUND = {1.0, 2.0, 5.0}


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


def every_plot() -> Iterator[tuple[str, Figure]]:
    """Every kind of plot, and the overviews of timed, of trained, and of both."""
    with use_style():
        for kind in find_kinds(TIMED):
            if plot := kind.draw(only(complete())):
                yield kind.name, plot
        several = trained(precisions=("fp32", "bf16"))
        for kind in find_kinds(TRAINED):
            if plot := kind.draw(several if kind.name != "accuracy-devices" else trained(devices=(1, 2))):
                yield kind.name, plot
        timed = [only(complete()), *(only(records.launches(workload="imdb_lstm")),)]
        for name, tables, courses in (
            ("timed", timed, []),
            ("trained", [], [trained()]),
            ("both", timed, [trained(1)]),
        ):
            if plot := hero(tables, courses):
                yield f"hero of {name}", plot


@pytest.fixture(scope="module")
def drawn() -> list[tuple[str, Figure]]:
    """Every plot, drawn once: only then all ticks and texts have their places."""
    plots_by_name = list(every_plot())
    for _, plot in plots_by_name:
        plot.canvas.draw()
    return plots_by_name


def texts(plot: Figure) -> list[Text]:
    return [each for each in plot.findobj(Text) if each.get_visible() and each.get_text().strip()]


def test_every_kind_is_looked_at(drawn: list[tuple[str, Figure]]) -> None:
    names = [name for name, _ in drawn]
    assert names == [
        *(kind.name for of in (TIMED, TRAINED) for kind in find_kinds(of)),
        "hero of timed", "hero of trained", "hero of both",
    ]  # fmt: skip


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
        for each in plot.texts:
            box = each.get_window_extent()
            assert box.x0 >= 0, (name, each.get_text())
            assert box.x1 <= plot.bbox.x1, (name, each.get_text())


def test_every_plot_says_which_way_is_better(drawn: list[tuple[str, Figure]]) -> None:
    for name, plot in drawn:
        words = " ".join(each.get_text() for each in texts(plot))
        assert "is better" in words or "is\nbetter" in words, name


def test_titles_are_words_and_the_subtitle_has_machine_size_data_and_n(drawn: list[tuple[str, Figure]]) -> None:
    for name, plot in drawn:
        words = " ".join(said(plot).split())
        assert "CIFAR-100 CNN" in words, name
        assert "cifar100_cnn" not in words, name
        assert "n = " in words, name
        for expected in ("full size", "Example CPU 3000, 8 cores", "2026-03-01"):
            assert expected in words, (name, expected)
        assert "real data" in words or name.startswith("hero"), name


def rounded(at: float) -> bool:
    return at == 0 or round(abs(at) / 10 ** np.floor(np.log10(abs(at)) + 1e-9), 6) in ROUND


def test_ticks_are_at_round_numbers_and_logarithmic_axes_have_plain_labels(drawn: list[tuple[str, Figure]]) -> None:
    for name, plot in drawn:
        for axes in plot.axes:
            for axis, ends in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
                assert not [text for text in axis.get_ticklabels(minor=True) if text.get_text()], name
                labels = [text.get_text() for text in axis.get_ticklabels()]
                assert not [words for words in labels if "10^" in words or "\u00d7" in words], name
                if axis.get_scale() == "linear" and name not in ("timeline", "batch", "scaling"):
                    at = [x for x in axis.get_ticklocs() if min(ends) <= x <= max(ends)]
                    if axis.get_label().get_text():
                        assert all(rounded(round(b - a, 9)) for a, b in pairwise(at)), (name, at)


def test_batches_are_ticked_at_powers_of_two() -> None:
    plot = batch(only([each for size in (32, 48, 128) for each in records.launches(n=1, batch=size)]))
    assert plot is not None
    _, rates, memory = plot.axes
    assert rates.get_xticks().tolist() == [32, 64, 128]
    assert "batch size" in memory.get_xlabel()


def test_two_points_are_not_joined_and_three_are() -> None:
    def styles(plot: Figure | None) -> set[str]:
        assert plot is not None
        lines = [line for axes in plot.axes for line in axes.lines if line.get_marker() in ("o", "s", "^")]
        return {str(line.get_linestyle()) for line in lines}

    two = [each for size in (32, 64) for each in records.launches(n=2, batch=size)]
    three = [*two, *records.launches(n=2, batch=128)]
    assert styles(batch(only(two))) == {"None"}
    assert "not joined" in said(batch(only(two)))
    assert styles(batch(only(three))) == {"-"}
    assert styles(by_epoch(trained(seeds=1, epochs=2))) == {"None"}
    assert styles(by_epoch(trained(seeds=1, epochs=LINE_LEAST))) == {"-"}


def test_marks_of_one_batch_stand_side_by_side() -> None:
    plot = batch(only([each for size in (32, 64, 128) for each in records.launches(n=1, batch=size)]))
    assert plot is not None
    places = [line.get_xdata()[0] for line in plot.axes[1].lines if line.get_marker() in ("o", "s", "^")]
    assert len(set(places)) == 3
    assert all(abs(np.log2(place / 32)) < 0.1 for place in places)


def test_each_seed_is_a_thin_line_and_no_band_is_drawn() -> None:
    plot = by_epoch(trained(seeds=4))
    assert plot is not None
    (axes,) = plot.axes
    assert not axes.collections
    thin = [line for line in axes.lines if line.get_linewidth() < 1 and len(line.get_xdata()) == 4]
    assert len(thin) == 3 * 4


def test_markers_and_dashes_of_lines_on_each_other_take_turns_at_one_width() -> None:
    plot = first_epoch(trained(seeds=1))
    assert plot is not None
    marked = [line for line in plot.axes[0].lines if line.get_marker() in ("o", "s", "^")]
    starts = [line.get_markevery() for line in marked]
    assert len({start for start, _ in starts}) == len({step for _, step in starts}) * 3
    assert len({line.get_linewidth() for line in marked}) == 1


def test_losses_are_compared_in_words_only_without_dropout() -> None:
    assert agreement(trained(1, recipe="no-dropout")) == pytest.approx(1e-4)
    assert "0.01 %" in said(first_epoch(trained(1, recipe="no-dropout")))
    assert agreement(trained(1)) is None
    assert "Largest difference" not in said(first_epoch(trained(1)))


def test_unsupported_cells_are_named_below_and_take_no_row() -> None:
    no = [*records.launches(precision="bf16"), *records.launches(["pytorch"], compile="graph")]
    held = [*records.launches(), *(records.failed(each, "unsupported") for each in no)]
    for make in (throughput, first_step, step_times):
        plot = make(only(held))
        (axes,) = plot.axes
        assert len(axes.get_yticks()) == 3
        words = " ".join(said(plot).split())
        assert "Not supported here, so not drawn: graph (PyTorch); bf16 (all frameworks)." in words


def idle(record: Record, seconds: float) -> Record:
    """The same launch whose process lives on without work for so long after its last window."""
    host = record.metrics["host"]["timeline"]
    end = host["at_s"][-1]
    more = [end + 0.5 * tick for tick in range(1, int(2 * seconds))]
    values = {name: [*line, *([0.0] * len(more))] for name, line in host["values"].items()}
    timeline = {"at_s": [*host["at_s"], *more], "values": values}
    return replace(record, metrics={**record.metrics, "host": {"timeline": timeline}})


def test_a_timeline_ends_with_the_last_window_and_has_a_scale_with_its_unit() -> None:
    held = [idle(watched(each, gpu=False), 17.0) for each in records.launches(n=1)]
    plot = timeline(only(held))
    assert plot is not None
    assert plot.axes[0].get_xlim()[1] <= 27
    words = " ".join(said(plot).split())
    assert "the process only exits after it" in words
    assert "CPU of the worker in cores" in words
    assert [label.get_text() for label in plot.axes[0].get_yticklabels()] == ["2", "0"] * 3


def test_one_epoch_is_no_course_of_epochs() -> None:
    assert by_epoch(trained(epochs=1)) is None
    assert by_time(trained(epochs=1)) is not None


def test_a_png_is_a_white_card_with_round_corners(tmp_path: Path) -> None:
    image.save(throughput(only(records.launches())), tmp_path / "a.png")
    card: Any = Image.open(tmp_path / "a.png").convert("RGBA")
    across, up = card.size
    assert {card.getpixel(place)[3] for place in ((0, 0), (across - 1, 0), (0, up - 1), (across - 1, up - 1))} == {0}
    assert card.getpixel((across // 2, 2)) == (255, 255, 255, 255)
    assert card.getpixel((2, up // 2)) == (255, 255, 255, 255)
