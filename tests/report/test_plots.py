from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from PIL import Image

from suite.plan.cell import FRAMEWORKS
from suite.record.record import Record, Window
from suite.report.plots import draw
from suite.report.plots.kinds.bars import ADDED, PARTS, first_step, throughput
from suite.report.plots.kinds.categories import LOOKS
from suite.report.plots.kinds.scatter import step_times
from suite.report.plots.style import image
from suite.report.plots.style.bars import whiskers
from suite.report.plots.style.look import FACE, HATCH, MARKER
from tests import records
from tests.records import mixed, only, tables

pytestmark = pytest.mark.drawing


def texts(plot: Figure) -> list[str]:
    """All that is written on a figure."""
    (axes,) = plot.axes
    keys = axes.get_legend().get_texts() if axes.get_legend() else []
    shown = [*plot.texts, *axes.texts, *axes.get_yticklabels(), *keys]
    return [text.get_text() for text in shown]


def written(held: Sequence[Record], folder: Path) -> list[str]:
    """The names of all plots of tables."""
    return [each.name for each in draw(tables(held), [], folder, ("png", "svg")) if not each.leads]


def test_each_plot_is_written_as_png_and_svg(tmp_path: Path) -> None:
    names = written(mixed(), tmp_path)
    kinds = ("throughput", "speed-up", "batch", "phases", "step-times", "first-step", "break-even")
    assert names == [f"{kind}-cifar100_cnn-full" for kind in kinds]
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert sizes.keys() == {f"{name}.{suffix}" for name in ("hero", *names) for suffix in ("png", "svg")}
    assert min(sizes.values()) > 5_000


def test_tables_of_the_same_workload_get_files_of_their_own(tmp_path: Path) -> None:
    other = [replace(r, data={**r.data, "digest": "0"}) for r in records.launches(["jax"], n=1)]
    synthetic = records.launches(["jax"], n=1, kind="synthetic")
    names = written([*records.launches(n=1), *other, *synthetic], tmp_path)
    assert len(set(names)) == 3 * 4
    assert {"throughput-cifar100_cnn-full-v2", "throughput-cifar100_cnn-full-synthetic"} <= set(names)


def test_every_framework_has_a_colour_a_hatch_and_a_marker_of_its_own() -> None:
    assert set(FACE) == set(HATCH) == set(MARKER) == set(FRAMEWORKS)
    assert all(len(set(each.values())) == len(FRAMEWORKS) for each in (FACE, HATCH, MARKER))


@pytest.mark.parametrize("make", [throughput, first_step, step_times])
def test_a_plot_says_what_it_needs_to_travel_alone(make: object) -> None:
    assert callable(make)
    shown = "\n".join(texts(make(only(mixed()))))
    lines = " ".join(shown.split())
    for words in ("the CIFAR-100 CNN", "full size", "n = 2 to 3 launches", "CPU 3000", "2026-03-01", "real data"):
        assert words in lines
    assert "out-of-memory" in shown, "a failed cell has no bar but its outcome"
    assert "TensorFlow \u00b7 compile !" in shown, "what is flagged is marked"
    assert "PyTorch \u00b7 eager" in shown
    assert "batch 32" in shown
    assert "SYNTHETIC DATA" in "\n".join(texts(make(only(records.launches(kind="synthetic", n=1)))))


def test_a_row_whose_fingerprint_differs_is_marked() -> None:
    held = records.launches(n=1)
    assert held[2].identity
    held[2] = replace(held[2], identity=replace(held[2].identity, weights="other"))
    shown = texts(throughput(only(held)))
    assert "JAX !" in shown
    assert "PyTorch" in shown


def test_bars_are_medians_and_whiskers_reach_the_extremes() -> None:
    held = records.launches(["jax"], n=3)
    low, middle, high = sorted(r.samples_per_s or 0 for r in held)
    (axes,) = throughput(only(held)).axes
    assert axes.patches[0].get_width() == pytest.approx(middle)
    (dots,) = (line.get_xdata() for line in axes.lines if line.get_marker() == "o")
    assert sorted(dots) == pytest.approx([low, middle, high])
    ends = axes.collections[0].get_segments()[0][:, 0]
    assert ends.tolist() == pytest.approx([low, high])


def test_the_parts_of_a_start_add_up() -> None:
    held = records.launches(["jax"], n=1)
    (axes,) = first_step(only(held)).axes
    assert sum(bar.get_width() for bar in axes.patches) == pytest.approx(
        sum(held[0].startup.values()) + (held[0].first_step_s or 0)
    )


def test_nothing_is_drawn_where_nothing_ended_well(tmp_path: Path) -> None:
    assert written([records.failed(r) for r in records.launches()], tmp_path) == []


def test_records_without_startup_or_compile_times_can_be_drawn(tmp_path: Path) -> None:
    held = [
        replace(r, startup={}, compile_s=None, first_step_s=None, started="", environment={})
        for r in records.launches()
    ]
    assert written(held, tmp_path)


def test_a_figure_grows_with_its_cells_and_labels_do_not_overlap() -> None:
    held = [
        each
        for batch in (16, 32, 64, 128, 256, 512)
        for mode in ("eager", "graph", "compile")
        for each in records.launches(n=1, batch=batch, compile=mode)
    ]
    plot = throughput(only(held))
    plot.canvas.draw()
    (axes,) = plot.axes
    boxes = [label.get_window_extent() for label in axes.get_yticklabels()]
    assert len(boxes) == 54
    assert all(above.y0 >= below.y1 for above, below in pairwise(boxes))
    assert min(box.x0 for box in boxes) >= 0


def test_the_longest_labels_stay_inside_the_figure() -> None:
    held = [each for run in ("a", "W" * 70) for each in records.launches(n=1, run=run)]
    plot = throughput(only(held))
    plot.canvas.draw()
    (axes,) = plot.axes
    assert min(label.get_window_extent().x0 for label in axes.get_yticklabels()) >= 0
    assert axes.get_window_extent().width > 100


def test_a_very_tall_figure_keeps_within_what_can_be_drawn() -> None:
    assert image.dpi(5) == image.DPI
    assert image.dpi(1000) * 1000 < 2**16


def test_the_palette_keeps_every_framework_s_colour_and_keeps_pale_lines_apart(tmp_path: Path) -> None:
    plot = first_step(only(mixed()))  # with all the colours that parts of a start have
    looks = [(face, alpha) for face in FACE.values() for alpha in (1.0, 0.45, 0.3)]
    for place, (face, alpha) in enumerate(looks):
        plot.add_artist(Rectangle((0.1 * place, 0), 0.1, 0.05, facecolor=face, alpha=alpha, edgecolor="none", zorder=9))
    image.save(plot, tmp_path / "a.png")
    drawn = Image.open(tmp_path / "a.png").convert("RGBA").convert("RGB")
    across, up = drawn.size
    shown = {}
    for place, (face, alpha) in enumerate(looks):
        meant = [255 * (1 - alpha) + alpha * int(face[at : at + 2], 16) for at in (1, 3, 5)]
        shown[face, alpha] = drawn.getpixel((int((0.1 * place + 0.05) * across), int(0.98 * up)))
        assert shown[face, alpha] == pytest.approx(meant, abs=2 if alpha == 1 else 40)
    assert all(len({shown[face, alpha] for face in FACE.values()}) == 3 for alpha in (1.0, 0.45, 0.3))


def test_greys_stay_grey() -> None:
    for grey in range(0x22, 256):
        nearest = min(image.palette(), key=lambda colour: sum((part - grey) ** 2 for part in colour))
        assert max(nearest) - min(nearest) < 3, grey


def test_one_stalled_window_is_named_and_does_not_set_the_scale() -> None:
    held = records.launches(n=2)
    train = held[0].phases["train"]
    held[0] = replace(held[0], phases={"train": replace(train, windows=(*train.windows[1:], Window(20, 100.0)))})
    plot = step_times(only(held))
    assert any("ms, up to 15," in text for text in texts(plot))
    assert plot.axes[0].get_xlim()[1] < 200


def test_figures_that_are_equal_but_for_a_rounding_have_whiskers() -> None:
    axes = Figure().add_subplot()
    whiskers(axes, {0.0: (100.0, 100.00000000000001, 99.99999999999999), 1.0: (100.0, 90.0, 120.0)})
    assert axes.containers


def test_no_category_and_no_part_of_a_step_has_a_framework_s_colour() -> None:
    drawn = {colour for colour, _ in LOOKS.values()} | {colour for _, _, colour, _ in PARTS} | {ADDED["facecolor"]}
    assert not drawn & set(FACE.values())
